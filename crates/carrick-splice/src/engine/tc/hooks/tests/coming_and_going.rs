//! Interfaces that disappear, appear, change; and the kernel's notifications.

use super::support::*;
use crate::engine::tc::hooks::{AttachMode, Changed, Changes, Hooks, Settings};
use carrick_test::{PATIENCE, wait_until};
use std::time::Duration;

const NOT: Duration = Duration::from_millis(50);

#[test]
fn an_interface_that_is_deleted_and_made_again_is_taken_up_again() {
    inside(
        "coming_and_going::an_interface_that_is_deleted_and_made_again_is_taken_up_again",
        || {
            for &way in ways() {
                interfaces();
                let programs = Programs::load();
                let mut hooks = programs.attach(by(way));
                programs.seen_of(3, 3, 3, 0);
                remove_interfaces();
                let refreshed = hooks.refresh().expect("refreshed");
                assert_eq!((refreshed.attached.len(), refreshed.lost.len()), (0, 2));
                assert_eq!(hooks.attached().count(), 0);
                interfaces();
                let refreshed = hooks.refresh().expect("refreshed");
                assert_eq!((refreshed.attached.len(), refreshed.lost.len()), (2, 0));
                programs.seen_of(3, 3, 3, 0);
                let refreshed = hooks.refresh().expect("refreshed");
                assert_eq!((refreshed.attached.len(), refreshed.lost.len()), (0, 0));
                drop(hooks);
                remove_interfaces();
            }
        },
    );
}

#[test]
fn one_that_is_replaced_between_two_looks_is_noticed() {
    inside(
        "coming_and_going::one_that_is_replaced_between_two_looks_is_noticed",
        || {
            for &way in ways() {
                interfaces();
                let numbers = (index("v0"), index("v1"));
                let programs = Programs::load();
                let mut hooks = programs.attach(by(way));
                remove_interfaces();
                // With the same numbers.
                run(&format!(
                    "ip link add v0 index {} address 02:00:00:00:00:01 type veth peer name v1 index {} address 02:00:00:00:00:02",
                    numbers.0, numbers.1
                ));
                run("ip link set v0 up");
                run("ip link set v1 up");
                run("ip address add 10.9.0.1/24 dev v1");
                run("ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:01 dev v1");
                let refreshed = hooks.refresh().expect("refreshed");
                assert_eq!((refreshed.attached.len(), refreshed.lost.len()), (2, 2));
                programs.seen_of(3, 3, 3, 0);
                drop(hooks);
                remove_interfaces();
            }
        },
    );
}

#[test]
fn programs_that_were_detached_are_put_back() {
    inside(
        "coming_and_going::programs_that_were_detached_are_put_back",
        || {
            interfaces();
            let programs = Programs::load();
            let mut hooks = programs.attach(by(AttachMode::Clsact));
            run("tc filter del dev v0 ingress");
            programs.seen_of(3, 0, 3, 0);
            let refreshed = hooks.refresh().expect("refreshed");
            assert_eq!((refreshed.attached.len(), refreshed.lost.len()), (1, 1));
            programs.seen_of(3, 3, 3, 0);
        },
    );
}

#[test]
fn one_that_goes_down_or_becomes_a_port_keeps_them() {
    inside(
        "coming_and_going::one_that_goes_down_or_becomes_a_port_keeps_them",
        || {
            interfaces();
            let programs = Programs::load();
            let mut hooks = programs.attach(Settings::default());
            run("ip link set v0 down");
            hooks.refresh().expect("refreshed");
            assert!(hooks.has(index("v0")));
            let names = |hooks: &Hooks| {
                let attached = hooks.attached();
                let mut names: Vec<_> = attached.map(|at| at.interface().name.clone()).collect();
                names.sort_unstable();
                names
            };
            // Before Linux 6.2 only while it is down.
            run("ip link set v1 down");
            run("ip link set v1 name other1");
            run("ip link add bridge0 type bridge");
            run("ip link set bridge0 up");
            hooks.refresh().expect("refreshed");
            assert_eq!(
                names(&hooks),
                ["bridge0", "other1", "v0"],
                "a new name is taken over"
            );
            // Connections over it may be spliced. Its packets are not translated again at the bridge.
            run("ip link set v0 master bridge0");
            for _ in 0..2 {
                hooks.refresh().expect("refreshed");
                assert_eq!(names(&hooks), ["other1", "v0"]);
                assert!(hooks.is_layered());
                let above = hooks
                    .refused()
                    .iter()
                    .find(|one| one.interface == "bridge0");
                let above = above.expect("it has none").to_string();
                assert!(above.contains("its packets pass v0"), "{above}");
            }
            run("ip link set v0 nomaster");
            hooks.refresh().expect("refreshed");
            assert_eq!(names(&hooks), ["bridge0", "other1", "v0"]);
            assert!(!hooks.is_layered());
            // A port that has come later has no connections yet.
            run("ip link add late0 up type veth peer name late1");
            hooks.refresh().expect("refreshed");
            assert!(hooks.has(index("late0")));
            run("ip link set late0 master bridge0");
            hooks.refresh().expect("refreshed");
            assert_eq!(names(&hooks), ["bridge0", "other1", "v0"]);
        },
    );
}

#[test]
fn changes_of_links_addresses_routes_and_filters_are_reported() {
    inside(
        "coming_and_going::changes_of_links_addresses_routes_and_filters_are_reported",
        || {
            // Otherwise interfaces get IPv6 addresses, which are confirmed a second later.
            run("sysctl -qw net.ipv6.conf.default.addr_gen_mode=1");
            let changes = Changes::open().expect("a socket");
            assert!(!changes.wait(NOT).expect("nothing").is_any());
            let heard = |line: &str| {
                run(line);
                // One change may arrive in several messages.
                let mut heard = changes.wait(PATIENCE).expect("a change");
                loop {
                    let more = changes.wait(NOT).expect("more");
                    if !more.is_any() {
                        return heard;
                    }
                    heard = Changed {
                        links: heard.links | more.links,
                        addresses: heard.addresses | more.addresses,
                        routes: heard.routes | more.routes,
                        filters: heard.filters | more.filters,
                    };
                }
            };
            assert!(heard("ip link add v0 type veth peer name v1").links);
            assert!(heard("ip link set v0 up").links);
            assert!(heard("ip link set v1 up").links);
            assert!(heard("ip address add 10.9.0.1/24 dev v1").addresses);
            let only_routes = Changed {
                routes: true,
                ..Changed::default()
            };
            // The kernel may tell only now that the interfaces are up (linkwatch): then again.
            for (of, one) in [
                ("ip route", "10.10.0.0/16 dev v1"),
                ("ip -6 route", "fd00::/64 dev v1"),
                ("ip rule", "fwmark 7 table 100"),
                ("ip -6 rule", "fwmark 7 table 100"),
            ] {
                wait_until("news of routes alone", || {
                    let changed = ["add", "del"].map(|what| heard(&format!("{of} {what} {one}")));
                    changed == [only_routes; 2]
                });
            }
            assert!(heard("tc qdisc add dev v0 clsact").filters);
            assert!(heard("ip link delete v0").links);
        },
    );
}

#[test]
fn when_too_much_changes_at_once_everything_may_have_changed() {
    inside(
        "coming_and_going::when_too_much_changes_at_once_everything_may_have_changed",
        || {
            interfaces();
            let changes = Changes::open().expect("a socket");
            rustix::net::sockopt::set_socket_recv_buffer_size(&changes, 4096).expect("small");
            for third in 0..200 {
                run(&format!("ip route add 10.10.{third}.0/24 dev v1"));
            }
            assert_eq!(changes.take().expect("changes"), Changed::ALL);
            assert!(!changes.take().expect("nothing").is_any());
            run("ip route del 10.10.0.0/24 dev v1");
            assert!(
                changes.wait(PATIENCE).expect("a change").routes,
                "it continues"
            );
        },
    );
}
