//! Foreign programs and filters: they stay, they work, and they are reported.

use super::support::*;
use crate::engine::tc::hooks::{
    AttachMode, Attachment, Direction, HookPosition, Hooks, Settings, clsact, tcx,
};
use std::os::fd::OwnedFd;

fn attachment<'h>(hooks: &'h Hooks, name: &str) -> &'h Attachment {
    hooks
        .attached()
        .find(|attachment| attachment.interface().name == name)
        .expect("an attachment")
}

fn put(programs: &Programs, name: &str, place: HookPosition) -> OwnedFd {
    let interface = index("v0");
    tcx::attach(programs.fd(name), interface, Direction::Ingress, place).expect("a link")
}

#[test]
fn a_program_that_was_there_goes_on_behind_ours_or_before_it() {
    if !has_tcx() {
        return;
    }
    inside(
        "foreign::a_program_that_was_there_goes_on_behind_ours_or_before_it",
        || {
            interfaces();
            let (programs, theirs) = (Programs::load(), Programs::load());
            let _link = put(&theirs, "foreign_next", HookPosition::First);
            for (place, is_before) in [(HookPosition::First, false), (HookPosition::Last, true)] {
                let hooks = programs.attach(Settings {
                    ingress: place,
                    way: Some(AttachMode::Tcx),
                    ..Settings::default()
                });
                let [foreign] = attachment(&hooks, "v0").foreign() else {
                    panic!("{:?}", attachment(&hooks, "v0"));
                };
                assert_eq!(foreign.name, "foreign_next");
                assert_eq!(
                    (foreign.direction, foreign.way),
                    (Direction::Ingress, AttachMode::Tcx)
                );
                assert_eq!(foreign.is_before, is_before);
                let text = foreign.to_string();
                let id = foreign.program.expect("a number").to_string();
                assert!(
                    text.contains("`foreign_next`") && text.contains(&id),
                    "{text}"
                );
                let before = theirs.seen().foreign;
                programs.seen_of(10, 10, 10, 0);
                assert_eq!(theirs.seen().foreign, before + 10);
                drop(hooks);
            }
            theirs.seen_of(5, 0, 0, 5);
        },
    );
}

#[test]
fn a_program_that_ends_the_hook_does_not_hide_packets_from_ours() {
    if !has_tcx() {
        return;
    }
    inside(
        "foreign::a_program_that_ends_the_hook_does_not_hide_packets_from_ours",
        || {
            interfaces();
            let (programs, theirs) = (Programs::load(), Programs::load());
            let link = put(&theirs, "foreign_ok", HookPosition::First);
            let mut hooks = programs.attach(by(AttachMode::Tcx));
            programs.seen_of(10, 10, 10, 0);
            assert_eq!(theirs.seen().foreign, 10);
            // A later program that attaches first hides them, and this is reported.
            drop(link);
            let _link = put(&theirs, "foreign_ok", HookPosition::First);
            hooks.refresh().expect("refreshed");
            let [foreign] = attachment(&hooks, "v0").foreign() else {
                panic!("{:?}", attachment(&hooks, "v0"));
            };
            assert!(
                foreign.is_before && foreign.to_string().contains("TC_ACT_OK"),
                "{foreign}"
            );
            programs.seen_of(10, 0, 10, 0);
            assert_eq!(theirs.seen().foreign, 20);
        },
    );
}

#[test]
fn filters_that_were_there_go_on_with_both_ways() {
    inside(
        "foreign::filters_that_were_there_go_on_with_both_ways",
        || {
            for &way in ways() {
                interfaces();
                let (programs, theirs) = (Programs::load(), Programs::load());
                // With priority 1 and handle 1, as is common.
                run("tc qdisc add dev v0 clsact");
                let mut hook = libbpf_rs::TcHook::new(theirs.fd("foreign_ok"));
                hook.ifindex(index("v0").cast_signed())
                    .attach_point(libbpf_rs::TC_INGRESS)
                    .priority(1)
                    .handle(1)
                    .attach()
                    .expect("a filter");
                let hooks = programs.attach(by(way));
                let [foreign] = attachment(&hooks, "v0").foreign() else {
                    panic!("{:?}", attachment(&hooks, "v0"));
                };
                assert!(foreign.name.starts_with("foreign_ok"), "{foreign}");
                assert_eq!(foreign.way, AttachMode::Clsact);
                assert!(!foreign.is_before, "{foreign}");
                programs.seen_of(10, 10, 10, 0);
                assert_eq!(theirs.seen().foreign, 10);
                drop(hooks);
                theirs.seen_of(5, 0, 0, 5);
                assert!(run("tc qdisc show dev v0").contains("clsact"));
                remove_interfaces();
            }
        },
    );
}

#[test]
fn a_priority_that_another_kind_of_filter_has_is_left_to_it() {
    inside(
        "foreign::a_priority_that_another_kind_of_filter_has_is_left_to_it",
        || {
            interfaces();
            run("tc qdisc add dev v0 clsact");
            run("tc filter add dev v0 ingress pref 1 protocol ip u32 match u32 0 0 flowid 1:1");
            let programs = Programs::load();
            let hooks = programs.attach(by(AttachMode::Clsact));
            let shown = filters("v0");
            assert!(
                shown.contains("pref 1 u32") && shown.contains("pref 2 bpf"),
                "{shown}"
            );
            let foreign = attachment(&hooks, "v0").foreign();
            assert!(
                foreign
                    .iter()
                    .any(|one| one.is_before && one.name.contains("u32")),
                "{foreign:?}"
            );
            drop(hooks);
            assert!(filters("v0").contains("pref 1 u32"));
        },
    );
}

#[test]
fn a_foreign_filter_with_a_handle_of_ours_is_not_replaced_or_removed() {
    inside(
        "foreign::a_foreign_filter_with_a_handle_of_ours_is_not_replaced_or_removed",
        || {
            interfaces();
            let (programs, theirs) = (Programs::load(), Programs::load());
            run("tc qdisc add dev v0 clsact");
            let slot = clsact::Slot::take(false).expect("a slot");
            let handle = slot.handle;
            drop(slot);
            let mut hook = libbpf_rs::TcHook::new(theirs.fd("foreign_next"));
            hook.ifindex(index("v0").cast_signed())
                .attach_point(libbpf_rs::TC_INGRESS)
                .priority(1)
                .handle(handle)
                .attach()
                .expect("a filter");
            let hooks = programs.attach(by(AttachMode::Clsact));
            programs.seen_of(10, 10, 10, 0);
            assert_eq!(theirs.seen().foreign, 10);
            drop(hooks);
            theirs.seen_of(5, 0, 0, 5);
        },
    );
}

#[test]
fn two_carricks_do_not_touch_each_other() {
    inside("foreign::two_carricks_do_not_touch_each_other", || {
        for &way in ways() {
            interfaces();
            let (one, other) = (Programs::load(), Programs::load());
            let first = one.attach(by(way));
            let second = other.attach(by(way));
            assert_eq!(attachment(&second, "v0").foreign().len(), 2);
            one.seen_of(10, 10, 10, 0);
            assert_eq!(other.seen().ingress, 10);
            drop(first);
            other.seen_of(10, 10, 10, 0);
            assert_eq!(one.seen().ingress, 10);
            drop(second);
            remove_interfaces();
        }
    });
}
