//! Reports on interfaces and obstacles.

use super::support::*;
use crate::engine::tc::hooks::doctor::{InterfaceFact, Obstacle, interface_facts, obstacles};
use crate::engine::tc::hooks::pins::mounted;
use crate::engine::tc::hooks::{AttachMode, Direction, HookPosition, tcx};
use std::process::Command;

fn fact(name: &str) -> InterfaceFact {
    let facts = interface_facts().expect("the interfaces");
    let fact = facts.into_iter().find(|fact| fact.name == name);
    fact.unwrap_or_else(|| panic!("{name} is missing"))
}

fn named<'o>(obstacles: &'o [Obstacle], name: &str) -> Vec<&'o Obstacle> {
    obstacles.iter().filter(|one| one.name == name).collect()
}

/// Removes everything that the namespace may have from the machine.
fn clean() {
    std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0").expect("written");
    for name in ["v0", "v1"] {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        std::fs::write(path, "0").expect("written");
    }
    if mounted().is_none() {
        run("mount -t bpf bpf /mnt");
    }
}

/// Whether a tool is installed; otherwise prints a message.
fn has(tool: &str) -> bool {
    let is_there = Command::new(tool).arg("--version").output().is_ok();
    if !is_there {
        carrick_test::lacks!("needs {tool}, which is not installed");
    }
    is_there
}

/// Adds a table.
fn nft(rules: &str) {
    let output = Command::new("nft")
        .arg(rules.replace("} }", "}\n}"))
        .output()
        .expect("nft");
    assert!(output.status.success(), "{rules}: {output:?}");
}

#[test]
fn each_interface_has_its_way_or_its_reason() {
    if !has_tcx() {
        return;
    }
    inside("doctor::each_interface_has_its_way_or_its_reason", || {
        interfaces();
        run("ip link set lo up");
        run("ip link add w0 type veth peer name w1");
        assert_eq!(fact("v0").usable, Ok(AttachMode::Tcx));
        assert_eq!(fact("v0").notes, [""; 0]);
        assert!(
            fact("lo")
                .usable
                .expect_err("a reason")
                .contains("loopback")
        );
        assert!(fact("w0").usable.expect_err("a reason").contains("down"));
        assert!(fact("lo").to_string().starts_with("lo: no, loopback"));
        assert_eq!(fact("v0").to_string(), "v0: by tcx");
    });
}

#[test]
fn programs_of_others_are_named_and_those_of_carrick_are_not() {
    if !has_tcx() {
        return;
    }
    inside(
        "doctor::programs_of_others_are_named_and_those_of_carrick_are_not",
        || {
            interfaces();
            let (programs, theirs) = (Programs::load(), Programs::load());
            let _hooks = [
                programs.attach(by(AttachMode::Tcx)),
                programs.attach(by(AttachMode::Clsact)),
            ];
            assert_eq!(fact("v0").notes, [""; 0]);
            let link = tcx::attach(
                theirs.fd("foreign_ok"),
                index("v0"),
                Direction::Egress,
                HookPosition::First,
            );
            let _link = link.expect("a link");
            run("tc filter add dev v1 ingress pref 7 protocol ip u32 match u32 0 0 flowid 1:1");
            let [note] = &fact("v0").notes[..] else {
                panic!("{:?}", fact("v0"));
            };
            assert!(
                note.contains("at egress (tcx)") && note.contains("`foreign_ok`"),
                "{note}"
            );
            assert!(note.contains("behind carrick"), "{note}");
            let notes = fact("v1").notes;
            assert!(
                notes.iter().any(|note| note.contains("u32, pref 7")),
                "{notes:?}"
            );
        },
    );
}

#[test]
fn a_program_that_sees_packets_first_is_reported() {
    inside(
        "doctor::a_program_that_sees_packets_first_is_reported",
        || {
            interfaces();
            let theirs = Programs::load();
            let xdp = libbpf_rs::Xdp::new(theirs.fd("foreign_xdp"));
            xdp.attach(index("v0").cast_signed(), libbpf_rs::XdpFlags::NONE)
                .expect("attached");
            let [note] = &fact("v0").notes[..] else {
                panic!("{:?}", fact("v0"));
            };
            assert!(
                note.starts_with("XDP program ") && !note.contains("program 0"),
                "{note}"
            );
            assert_eq!(fact("v1").notes, [""; 0]);
        },
    );
}

#[test]
fn without_obstacles_nothing_is_reported() {
    inside("doctor::without_obstacles_nothing_is_reported", || {
        interfaces();
        clean();
        assert_eq!(obstacles(), []);
    });
}

#[test]
fn a_missing_file_system_and_strict_reverse_paths_are_reported() {
    inside(
        "doctor::a_missing_file_system_and_strict_reverse_paths_are_reported",
        || {
            interfaces();
            clean();
            while let Some(at) = mounted() {
                run(&format!("umount {at}"));
            }
            std::fs::write("/proc/sys/net/ipv4/conf/v1/rp_filter", "1").expect("written");
            let told = obstacles();
            assert!(
                named(&told, "BPF file system")[0]
                    .remedy
                    .contains("mount -t bpf")
            );
            assert_eq!(named(&told, "rp_filter")[0].found, "strict (1) on v1");
            // The larger value applies.
            std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "2").expect("written");
            assert!(named(&obstacles(), "rp_filter").is_empty());
        },
    );
}

#[test]
fn rules_that_route_by_marks_are_reported() {
    inside("doctor::rules_that_route_by_marks_are_reported", || {
        interfaces();
        clean();
        run("ip rule add priority 77 fwmark 0x7/0xff table 100");
        run("ip -6 rule add priority 78 fwmark 0x8 table 100");
        run("ip rule add priority 79 from 10.0.0.0/8 table 100");
        let told = obstacles();
        let [marks] = &named(&told, "firewall marks")[..] else {
            panic!("{told:?}");
        };
        assert_eq!(
            marks.found,
            "routes are chosen by them: ip rule 77: fwmark 0x7/0xff; ip -6 rule 78: fwmark 0x8/0xffffffff"
        );
    });
}

#[test]
fn rules_of_nftables_are_reported_by_their_effect() {
    inside(
        "doctor::rules_of_nftables_are_reported_by_their_effect",
        || {
            if !has("nft") {
                return;
            }
            interfaces();
            clean();
            nft(
                "table inet carrick-3128 { chain c { type filter hook prerouting priority 0; meta mark set 1; ct state new accept; } }",
            );
            assert_eq!(obstacles(), [], "carrick's own are no obstacle");
            nft(
                "table ip plain { chain c { type filter hook input priority 0; tcp dport 25 drop; meta mark 7 accept; } }",
            );
            let told = obstacles();
            let names: Vec<&str> = told.iter().map(|one| one.name).collect();
            assert_eq!(names, ["packet filter"], "{told:?}");
            assert_eq!(told[0].found, "rules in ip plain c");
            nft(
                "table inet tracked { chain c { type filter hook input priority 0; ct state invalid drop; } }",
            );
            let told = obstacles();
            let tracking = named(&told, "connection tracking");
            assert!(
                tracking[0].found.ends_with("asked for in inet tracked c"),
                "{told:?}"
            );
            assert!(
                tracking[0].effect.contains("established = 432000 s"),
                "{told:?}"
            );
            assert!(
                told.iter().all(|one| one.keeps_auto_off.is_none()),
                "{told:?}"
            );
            nft(
                "table inet counted { chain c { type filter hook input priority 0; ct bytes > 1000000 drop; }; chain d { quota over 1000 mbytes drop; }; chain e { ct mark set 1; }; counter mail { }; quota much { over 1000 mbytes; }; chain f { counter name tcp dport map { 25 : \"mail\" }; }; chain g { quota name tcp dport map { 25 : \"much\" }; } }",
            );
            let told = obstacles();
            let each = named(&told, "rules for each packet");
            assert_eq!(
                each[0].found,
                "in inet counted c, inet counted d, inet counted e, inet counted g"
            );
            assert_eq!(each[0].keeps_auto_off, Some(crate::Reason::PacketNetfilter));
            nft(
                "table ip6 marked { chain c { type filter hook output priority 0; meta mark set 7; } }",
            );
            nft(
                "table ip translated { chain c { type nat hook postrouting priority 0; masquerade; } }",
            );
            let told = obstacles();
            assert_eq!(
                named(&told, "firewall marks")[0].found,
                "set in ip6 marked c"
            );
            assert_eq!(
                named(&told, "address translation")[0].found,
                "in ip translated c"
            );
            let text = named(&told, "address translation")[0].to_string();
            assert!(
                text.starts_with("address translation: in ip translated c. "),
                "{text}"
            );
            for third in 0..6 {
                nft(&format!(
                    "table ip more{third} {{ chain c {{ type filter hook input priority 0; accept; }} }}"
                ));
            }
            let found = named(&obstacles(), "packet filter")[0].found.clone();
            assert!(found.ends_with(", 11 more"), "{found}");
        },
    );
}

#[test]
fn rules_of_iptables_are_reported_by_their_effect() {
    inside(
        "doctor::rules_of_iptables_are_reported_by_their_effect",
        || {
            if !has("iptables") {
                return;
            }
            interfaces();
            clean();
            run("iptables -A INPUT -m conntrack --ctstate INVALID -j DROP");
            run("iptables -t mangle -A PREROUTING -j CONNMARK --restore-mark");
            run("iptables -t nat -A POSTROUTING -j MASQUERADE");
            let told = obstacles();
            for name in [
                "packet filter",
                "connection tracking",
                "firewall marks",
                "address translation",
            ] {
                assert_eq!(named(&told, name).len(), 1, "{name}: {told:?}");
            }
        },
    );
}

#[test]
fn without_privileges_the_unseen_is_reported() {
    inside("doctor::without_privileges_the_unseen_is_reported", || {
        interfaces();
        clean();
        let (facts, told) = super::privileges::without_privileges(|| {
            (interface_facts().expect("facts"), obstacles())
        });
        let v0 = facts.iter().find(|fact| fact.name == "v0").expect("v0");
        assert!(v0.usable.is_ok());
        assert_eq!(
            v0.notes,
            ["programs of others cannot be seen without CAP_NET_ADMIN"]
        );
        let names: Vec<&str> = told.iter().map(|one| one.name).collect();
        assert_eq!(names, ["packet filter"], "{told:?}");
        assert!(told[0].remedy.contains("root"), "{told:?}");
    });
}
