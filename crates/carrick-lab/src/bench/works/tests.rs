//! Tests of what words of the command line mean.

use super::*;

fn meant_by(word: &str) -> Vec<&'static str> {
    WORKS
        .iter()
        .filter(|work| work.is_meant_by(word))
        .map(|work| work.name)
        .collect()
}

#[test]
fn a_word_means_a_work_a_group_or_a_job() {
    assert_eq!(meant_by("ping-64"), ["ping-64"]);
    assert_eq!(meant_by("ping"), ["ping-64", "ping-1k"]);
    assert_eq!(meant_by("bulk"), ["bulk-1", "bulk-16"]);
    assert_eq!(meant_by("tunnel-256"), ["tunnel-256-1k", "tunnel-256-10k"]);
    assert_eq!(meant_by("tunnel-1"), Vec::<&str>::new());
    assert_eq!(
        meant_by("switch"),
        ["switch-1k", "switch-64k", "switch-1m", "switch-close-1k"]
    );
    let tunnels = meant_by("tunnel");
    assert!(tunnels.contains(&"tunnel-1k") && !tunnels.contains(&"ping-64"));
}

#[test]
fn the_packet_engine_is_measured_where_it_works() {
    let works_of = |peer: &str, job| -> Vec<&str> {
        let peer = crate::peers::by_name(peer).unwrap();
        let is_its = |work: &&Work| work.job == job && work.is_for(&peer);
        WORKS.iter().filter(is_its).map(|work| work.name).collect()
    };
    let kept = [
        "switch-1k",
        "switch-10k",
        "switch-64k",
        "switch-256k",
        "switch-1m",
        "switch-10m",
    ];
    assert_eq!(works_of("carrick-packet", Job::Switch), kept);
    assert_eq!(works_of("carrick-judged", Job::Switch), kept);
    assert_eq!(works_of("carrick-packet-body", Job::Switch), kept[3..]);
    assert_eq!(works_of("carrick-packet", Job::Forward), ["forward-1m"]);
    assert_eq!(works_of("carrick-packet", Job::Tunnel).len(), 12);
    for (peer, job) in [
        ("carrick-judged", Job::Tunnel),
        ("carrick-packet-body", Job::Tunnel),
    ] {
        assert_eq!(works_of(peer, job), Vec::<&str>::new(), "{peer}");
    }
}

#[test]
fn the_socket_engine_is_measured_where_it_works() {
    let socket = crate::peers::by_name("carrick-socket").unwrap();
    for work in WORKS {
        assert_eq!(
            work.is_for(&socket),
            work.job == Job::Tunnel,
            "{}",
            work.name
        );
    }
}
