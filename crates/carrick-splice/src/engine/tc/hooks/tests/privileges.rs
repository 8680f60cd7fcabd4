//! What works without privileges, and the messages for the rest.

use super::support::*;
use crate::engine::tc::hooks::{AttachFailure, AttachMode, Changes, HookError, Hooks, interfaces};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// Runs a closure in a thread without any capabilities; other threads keep theirs.
pub fn without_privileges<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let none = CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            };
            set_capabilities(None, none).expect("given up");
            work()
        });
        thread.join().expect("the thread")
    })
}

#[test]
fn interfaces_and_changes_need_no_privileges() {
    inside(
        "privileges::interfaces_and_changes_need_no_privileges",
        || {
            super::support::interfaces();
            without_privileges(|| {
                assert!(interfaces().expect("the interfaces").len() > 2);
                Changes::open().expect("a socket").take().expect("changes");
            });
        },
    );
}

#[test]
fn attaching_without_privileges_says_which_are_missing() {
    inside(
        "privileges::attaching_without_privileges_says_which_are_missing",
        || {
            super::support::interfaces();
            let programs = Programs::load();
            let refused: Result<Hooks, HookError> =
                without_privileges(|| programs.try_attach(by(AttachMode::Clsact)));
            let error = refused.expect_err("a refusal");
            assert!(error.is_permission(), "{error:?}");
            let text = error.to_string();
            assert!(
                text.contains("CAP_NET_ADMIN") && text.contains("interface v"),
                "{text}"
            );
            assert!(filters("v0").is_empty());
        },
    );
}

#[test]
fn with_privileges_given_up_links_follow_the_interfaces_and_filters_do_not() {
    inside(
        "privileges::with_privileges_given_up_links_follow_the_interfaces_and_filters_do_not",
        || {
            for &way in ways() {
                super::support::interfaces();
                let programs = Programs::load();
                let mut hooks = programs.attach(by(way));
                run("ip link add w0 type veth peer name w1");
                run("ip link set w0 up");
                let (refreshed, mut hooks) = without_privileges(move || {
                    let refreshed = hooks.refresh().expect("refreshed");
                    (refreshed, hooks)
                });
                assert_eq!(refreshed.lost, []);
                programs.seen_of(3, 3, 3, 0);
                // Creating a link needs none, if the program was loaded with them; a filter does.
                assert_eq!(
                    hooks.has(index("w0")),
                    way == AttachMode::Tcx,
                    "{:?}",
                    hooks.refused()
                );
                if way == AttachMode::Clsact {
                    let told = hooks.refused().iter().find(|one| one.interface == "w0");
                    let Some(AttachFailure::Failed(error)) = told.map(|one| &one.reason) else {
                        panic!("{told:?}");
                    };
                    assert!(error.is_permission(), "{error}");
                }
                let outcome = without_privileges(move || hooks.detach());
                match way {
                    AttachMode::Tcx => outcome.expect("detached"),
                    AttachMode::Clsact => {
                        let error = outcome.expect_err("a refusal").to_string();
                        assert!(error.contains("tc filter del dev v"), "{error}");
                        // The next process with privileges does it.
                        drop(programs.attach(by(way)));
                    }
                }
                programs.seen_of(3, 0, 0, 0);
                run("ip link delete w0");
                remove_interfaces();
            }
        },
    );
}
