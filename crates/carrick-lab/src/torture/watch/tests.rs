//! What is read from proc(5), ss(8), bpftool(8) and carrick's metrics.

use super::*;

#[test]
fn free_places_of_a_sockmap_are_no_entries() {
    let dump = r#"[{"key":["0x00"],"value":{"error":"No such file or directory"}},
                   {"key":["0x01"],"value":["0x2a","0x00"]}]"#;
    assert_eq!(entries_of(dump), Some(1));
    let with_types = r#"[{"key":["0x07"],"value":["0x2a"],"formatted":{"key":7,"value":42}}]"#;
    assert_eq!(entries_of(with_types), Some(1));
    assert_eq!(entries_of("[]"), Some(0));
    assert_eq!(entries_of("Error: no such map"), None);
}

#[test]
fn only_maps_whose_entries_come_and_go_are_counted() {
    let about =
        |kind| format!("pos:\t0\nflags:\t02\nmap_type:\t{kind}\nkey_size:\t4\nmap_id:\t77\n");
    assert_eq!(map_with_entries(&about(15)), Some(77));
    assert_eq!(map_with_entries(&about(1)), Some(77));
    assert_eq!(map_with_entries(&about(2)), None, "an array");
    assert_eq!(map_with_entries("pos:\t0\n"), None);
}

#[test]
fn carricks_metrics_are_understood() {
    let metrics = "# TYPE carrick_tunnels_open gauge\n\
        carrick_tunnels_open{mode=\"forward\"} 1\n\
        carrick_tunnels_open{mode=\"tunnel\"} 2\n\
        carrick_pipes_open 7\n\
        carrick_pipes_pooled 4\n\
        carrick_splice_bytes_total{engine=\"copy\"} 10\n\
        carrick_splice_bytes_total{engine=\"pipe\"} 20\n\
        carrick_splice_bytes_total{engine=\"socket\"} 40\n";
    let expected = Carrick {
        tunnels: 3,
        pipes_in_use: 3,
        packet_splices_over: 0,
        kernel_bytes: 40,
        other_engines_bytes: 30,
    };
    assert_eq!(Carrick::parse(metrics), Some(expected));
    assert_eq!(Carrick::parse("carrick_pipes_open 7\n"), None);
}

#[test]
fn what_is_left_is_told() {
    let start = Holdings {
        sockets: 3,
        map_entries: Some(0),
        carrick: Some(Carrick::default()),
        ..Holdings::default()
    };
    let later = Holdings {
        sockets: 5,
        pipes: 8,
        map_entries: Some(2),
        ..start
    };
    assert!(start.is_back_to(&start));
    assert_eq!(
        later.left_since(&start),
        ["2 sockets left", "2 entries of BPF maps left"]
    );
}

#[test]
fn this_process_has_memory_and_descriptors() {
    assert!(rss_bytes(std::process::id()).unwrap() > 100_000);
    let mut holdings = Holdings::default();
    let _socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    holdings.count_descriptors(std::process::id(), &mut BTreeSet::new());
    assert!(holdings.sockets > 0);
}
