//! The tables for machines that lack something.
use super::*;
use carrick_splice::probe::AttachMode;

fn sysctl(settings: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (key, value) in settings {
        let path = directory.path().join(key.replace('.', "/"));
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, value).expect("a file");
    }
    directory
}

fn fact<'f>(facts: &'f [Fact], name: &str) -> &'f Fact {
    facts
        .iter()
        .find(|fact| fact.name == name)
        .unwrap_or_else(|| panic!("{name} is missing"))
}

#[test]
fn features_are_usable_or_not_and_why() {
    let features = [
        Feature {
            name: "engine copy",
            usable: Ok("through the process".to_owned()),
        },
        Feature {
            name: "engine pipe",
            usable: Err("no pipes are left".to_owned()),
        },
    ];
    let text = render(&features, &[]);
    let line = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name} is missing in {text}"))
    };
    assert!(
        line("engine copy").contains(" yes ")
            && line("engine copy").ends_with("through the process")
    );
    assert!(
        line("engine pipe").contains(" no ") && line("engine pipe").ends_with("no pipes are left")
    );
    let column = |name: &str, word: &str| line(name).find(word);
    assert_eq!(
        column("engine copy", "yes"),
        column("engine pipe", "no "),
        "the columns are aligned"
    );
}

#[test]
fn interfaces_are_listed_with_reasons_and_obstacles_with_remedies() {
    let fact = |name: &str, usable: Result<_, &str>, notes: &[&str]| InterfaceFact {
        name: name.to_owned(),
        usable: usable.map_err(str::to_owned),
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    };
    let facts = vec![
        fact("lo", Err("loopback"), &[]),
        fact("eth0", Ok(AttachMode::Tcx), &["one", "two"]),
        fact("eth1", Ok(AttachMode::Clsact), &[]),
    ];
    let obstacle = Obstacle {
        name: "rp_filter",
        found: "strict (1) on eth0".to_owned(),
        effect: "It drops.".to_owned(),
        remedy: "Loosen it.".to_owned(),
        keeps_auto_off: Some(carrick_splice::Reason::PacketReversePath),
    };
    let text = render_packet(&Ok(facts), &[obstacle]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "",
            "interface  IP-level splices",
            "---------  ----------------",
            "lo         no                loopback",
            "eth0       yes, tcx          one; two",
            "eth1       yes, clsact",
            "",
            "in the way of IP-level splices, or not seen by them",
            "- rp_filter: strict (1) on eth0. It drops. Loosen it. `auto` does not use the engine here.",
        ]
    );
    let failed = render_packet(&Err(io::Error::other("no netlink")), &[]);
    assert!(
        failed.trim_end().ends_with("unknown           no netlink"),
        "{failed}"
    );
    assert!(!failed.contains("in the way"));
}

#[test]
fn poor_settings_are_called_poor() {
    let directory = sysctl(&[
        ("fs.pipe-max-size", "65536\n"),
        ("net.core.somaxconn", "128\n"),
        ("net.ipv4.ip_local_port_range", "40000\t41000\n"),
        ("net.ipv4.tcp_rmem", "4096\t131072\t6291456\n"),
    ]);
    let facts = machine::facts(directory.path());
    assert!(fact(&facts, "fs.pipe-max-size").meaning.contains("small"));
    assert!(fact(&facts, "net.core.somaxconn").meaning.contains("short"));
    assert!(
        fact(&facts, "net.ipv4.ip_local_port_range")
            .meaning
            .starts_with("few: 1001 ")
    );
    assert_eq!(
        fact(&facts, "net.ipv4.tcp_rmem").value,
        "4096 131072 6291456"
    );
}

#[test]
fn good_settings_are_left_alone() {
    let directory = sysctl(&[
        ("fs.pipe-max-size", "1048576\n"),
        ("net.core.somaxconn", "4096\n"),
    ]);
    let facts = machine::facts(directory.path());
    for name in ["fs.pipe-max-size", "net.core.somaxconn"] {
        assert_eq!(fact(&facts, name).meaning, "", "{name}");
    }
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let directory = sysctl(&[
        ("net.core.somaxconn", "many\n"),
        ("net.ipv4.ip_local_port_range", "1\n"),
    ]);
    for fact in machine::facts(directory.path()) {
        if !matches!(fact.name, "open files" | "user" | "capabilities") {
            assert_eq!(fact.value, "unknown", "{}", fact.name);
        }
    }
}

#[test]
fn capabilities_are_named_or_counted_with_what_they_are_good_for() {
    use rustix::thread::{CapabilitySet as Set, CapabilitySets};
    let fact = |permitted| {
        machine::capabilities(Some(CapabilitySets {
            effective: Set::empty(),
            permitted,
            inheritable: Set::empty(),
        }))
    };
    let none = fact(Set::empty());
    assert_eq!(none.value, "none");
    assert!(none.meaning.contains("CAP_BPF"), "{none:?}");
    assert!(!none.meaning.contains("dropped"), "{none:?}");
    let port = fact(Set::NET_BIND_SERVICE);
    assert_eq!(port.value, "CAP_NET_BIND_SERVICE");
    assert!(port.meaning.contains("too few") && port.meaning.contains("but CAP_NET_BIND_SERVICE"));
    let engine = fact(crate::privileges::ENGINE);
    assert_eq!(engine.value, "CAP_NET_ADMIN CAP_PERFMON CAP_BPF");
    assert!(
        engine
            .meaning
            .starts_with("enough for the engines `socket` and `packet`; dropped")
    );
    assert!(!engine.meaning.contains("BIND"), "{engine:?}");
    assert_eq!(fact(Set::from_bits_retain((1 << 41) - 1)).value, "41");
    assert_eq!(machine::capabilities(None).value, "unknown");
}

#[test]
fn this_machine_can_copy() {
    let features = carrick_splice::probe::probe();
    assert!(
        features
            .iter()
            .any(|feature| feature.name == LAST_RESORT && feature.usable.is_ok()),
        "{features:?}"
    );
}
