//! Advice for a router with a splitter.
use super::*;
use crate::config;

const SPLITTER: &str = "[limits]\nconnections = 10000\n[[listener]]\nlisten = \"0.0.0.0:3130\"\nmode = \"split\"\nintercept = { ports = \"all\", interfaces = [\"lo\"] }\ntcp_profiles = { profile = \"far\" }\n[tcp_profile.far]\nbandwidth = \"2 MB/s\"\nround_trip = \"1s\"\n";

fn told(text: &str, settings: &[(&str, &str)], descriptors: u64) -> Vec<Fact> {
    let directory = tempfile::tempdir().unwrap();
    for (key, value) in settings {
        let path = directory.path().join(key.replace('.', "/"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, value).unwrap();
    }
    let plan = config::parse(text, "test.toml", Path::new("/"))
        .unwrap()
        .plan;
    advice(&plan, directory.path(), Some(descriptors))
}

const SETTINGS: [&str; 9] = [
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.somaxconn",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.ip_forward",
    "net.ipv4.ip_early_demux",
    "net.netfilter.nf_conntrack_max",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.conf.all.rp_filter",
];

#[test]
fn a_machine_as_it_should_be_gets_no_advice() {
    let values = [
        "2097152", "2097152", "4096", "4096", "1", "1", "20000", "0", "2",
    ];
    let settings: Vec<_> = SETTINGS.into_iter().zip(values).collect();
    let facts = told(SPLITTER, &settings, 60_000);
    let names: Vec<_> = facts.iter().map(|fact| fact.name).collect();
    assert_eq!(names, SETTINGS);
    assert!(
        facts.iter().all(|fact| fact.meaning.is_empty()),
        "{facts:?}"
    );
}

#[test]
fn too_low_settings_are_reported_with_advice() {
    let values = [
        "212992", "2097151", "128", "512", "0", "0", "19999", "1", "1",
    ];
    let settings: Vec<_> = SETTINGS.into_iter().zip(values).collect();
    let facts = told(SPLITTER, &settings, 59_999);
    let right = [
        "2097152", "2097152", "4096", "4096", "1", "1", "20000", "0", "2",
    ];
    for ((fact, name), right) in facts.iter().zip(SETTINGS).zip(right) {
        let advice = format!("`sysctl -w {name}={right}`: ");
        assert!(fact.meaning.starts_with(&advice), "{fact:?}");
    }
    let last = facts.last().unwrap();
    assert!(
        last.meaning.contains("about 9999 split connections"),
        "{last:?}"
    );
    assert_eq!(facts.len(), SETTINGS.len() + 1);
}

#[test]
fn there_is_no_advice_without_a_splitter_and_unreadable_settings_are_reported() {
    let forward = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n";
    assert_eq!(told(forward, &[], 10), []);
    let facts = told(SPLITTER, &[], 60_000);
    let first = &facts[0];
    assert!(
        first.value == "unknown" && first.meaning.starts_with("cannot be read here; 2097152"),
        "{first:?}"
    );
    assert!(
        facts
            .iter()
            .all(|fact| fact.name != "net.netfilter.nf_conntrack_max")
    );
}
