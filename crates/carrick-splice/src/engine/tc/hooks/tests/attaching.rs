//! Both programs see the packets; which interfaces they are attached to, and why not to others.

use super::support::*;
use crate::engine::tc::hooks::{
    AttachFailure, AttachMode, Hooks, Interfaces, Settings, Unsupported,
    interfaces as all_interfaces,
};

fn names(hooks: &Hooks) -> Vec<&str> {
    hooks
        .attached()
        .map(|attachment| attachment.interface().name.as_str())
        .collect()
}

fn reason<'h>(hooks: &'h Hooks, name: &str) -> &'h AttachFailure {
    &hooks
        .refused()
        .iter()
        .find(|refused| refused.interface == name)
        .unwrap_or_else(|| panic!("{name} is not among {:?}", hooks.refused()))
        .reason
}

#[test]
fn both_programs_see_each_packet_once_until_they_are_dropped() {
    inside(
        "attaching::both_programs_see_each_packet_once_until_they_are_dropped",
        || {
            for &way in ways() {
                interfaces();
                let programs = Programs::load();
                let hooks = programs.attach(by(way));
                for attachment in hooks.attached() {
                    assert_eq!(attachment.way(), way);
                    assert_eq!(attachment.foreign(), []);
                }
                programs.seen_of(10, 10, 10, 0);
                drop(hooks);
                programs.seen_of(5, 0, 0, 0);
                assert!(!filters("v0").contains("carrick"));
                remove_interfaces();
            }
        },
    );
}

#[test]
fn tcx_is_chosen_where_the_kernel_has_it() {
    inside("attaching::tcx_is_chosen_where_the_kernel_has_it", || {
        interfaces();
        let programs = Programs::load();
        let mut hooks = programs.attach(Settings::default());
        let expected = if ways().contains(&AttachMode::Tcx) {
            AttachMode::Tcx
        } else {
            AttachMode::Clsact
        };
        assert!(
            hooks
                .attached()
                .all(|attachment| attachment.way() == expected)
        );
        programs.seen_of(3, 3, 3, 0);
        hooks.detach().expect("detached");
        programs.seen_of(3, 0, 0, 0);
    });
}

#[test]
fn interfaces_that_cannot_are_left_out_with_the_reason() {
    inside(
        "attaching::interfaces_that_cannot_are_left_out_with_the_reason",
        || {
            interfaces();
            run("ip link set lo up");
            run("ip tuntap add tun0 mode tun");
            run("ip tuntap add tap0 mode tap");
            run("ip link set tun0 up");
            run("ip link set tap0 up");
            run("ip link add bridge0 type bridge");
            run("ip link set bridge0 up");
            run("ip link add p0 type veth peer name p1");
            run("ip link set p0 master bridge0 up");
            let programs = Programs::load();
            let hooks = programs.attach(Settings::default());
            let mut attached = names(&hooks);
            attached.sort_unstable();
            assert_eq!(attached, ["bridge0", "tap0", "v0", "v1"]);
            assert_eq!(
                *reason(&hooks, "lo"),
                AttachFailure::Unsupported(Unsupported::Loopback)
            );
            assert_eq!(
                *reason(&hooks, "p1"),
                AttachFailure::Unsupported(Unsupported::Down)
            );
            assert_eq!(
                *reason(&hooks, "tun0"),
                AttachFailure::Unsupported(Unsupported::NoEthernet(65_534))
            );
            let port = Unsupported::PortOf("bridge".into(), "bridge0".into());
            assert_eq!(*reason(&hooks, "p0"), AttachFailure::Unsupported(port));
            // A whole that a driver has made has no kind.
            let mut port = all_interfaces().unwrap();
            port.retain(|interface| interface.name == "p0");
            port[0].master_kind.clear();
            let reason = port[0].unsupported(&Interfaces::All).unwrap().to_string();
            assert!(
                reason.starts_with("it is a port of bridge0, where"),
                "{reason}"
            );
            let text: Vec<String> = hooks.refused().iter().map(ToString::to_string).collect();
            assert!(
                text.iter().any(|line| line.contains("interface tun0")
                    && line.contains("no Ethernet header")
                    && line.contains("WireGuard")),
                "{text:?}"
            );
        },
    );
}

#[test]
fn named_interfaces_are_the_only_ones_and_are_waited_for() {
    inside(
        "attaching::named_interfaces_are_the_only_ones_and_are_waited_for",
        || {
            interfaces();
            let programs = Programs::load();
            let mut hooks = programs.attach(Settings {
                interfaces: named(&["v0", "later0", "lo"]),
                ..Settings::default()
            });
            assert_eq!(names(&hooks), ["v0"]);
            assert_eq!(*reason(&hooks, "later0"), AttachFailure::NotThere);
            assert_eq!(
                *reason(&hooks, "lo"),
                AttachFailure::Unsupported(Unsupported::Loopback)
            );
            programs.seen_of(4, 4, 0, 0);
            // A port that is down, by name.
            run("ip link add bridge0 type bridge");
            run("ip link add later0 type veth peer name p1");
            run("ip link set later0 master bridge0");
            let refreshed = hooks.refresh().expect("refreshed");
            assert_eq!(refreshed.attached.len(), 1);
            assert_eq!(names(&hooks), ["v0", "later0"]);
        },
    );
}

#[test]
fn other_qdiscs_are_not_replaced() {
    inside("attaching::other_qdiscs_are_not_replaced", || {
        interfaces();
        run("tc qdisc add dev v0 ingress");
        let programs = Programs::load();
        let hooks = programs.attach(by(AttachMode::Clsact));
        assert_eq!(names(&hooks), ["v1"]);
        let AttachFailure::Failed(error) = reason(&hooks, "v0") else {
            panic!("{:?}", hooks.refused());
        };
        let text = error.to_string();
        assert!(
            text.contains("v0")
                && text.contains("`ingress`")
                && text.contains("tc qdisc add dev v0 clsact"),
            "{text}"
        );
        drop(hooks);
        assert!(run("tc qdisc show dev v0").contains("qdisc ingress"));
        // The qdisc that was created stays: another program may have attached a filter to it.
        assert!(run("tc qdisc show dev v1").contains("qdisc clsact"));
    });
}

#[test]
fn a_program_of_another_kind_is_refused_with_the_call_and_the_interface() {
    inside(
        "attaching::a_program_of_another_kind_is_refused_with_the_call_and_the_interface",
        || {
            interfaces();
            let programs = Programs::load();
            // Not a BPF program.
            let file = std::fs::File::open("/dev/null").expect("a file");
            for &way in ways() {
                let hooks = Hooks::attach(
                    programs.fd("carrick_in"),
                    std::os::fd::AsFd::as_fd(&file),
                    by(way),
                )
                .expect("the hooks");
                assert_eq!(names(&hooks), [""; 0]);
                let AttachFailure::Failed(error) = reason(&hooks, "v0") else {
                    panic!("{:?}", hooks.refused());
                };
                let text = error.to_string();
                assert!(text.contains("interface v0 (egress)"), "{text}");
                assert!(
                    text.contains("BPF_LINK_CREATE") || text.contains("bpf_tc_attach"),
                    "{text}"
                );
                // The program that could be attached is detached again.
                programs.seen_of(3, 0, 0, 0);
            }
        },
    );
}
