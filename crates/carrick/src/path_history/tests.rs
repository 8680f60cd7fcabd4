//! Workers share one history.
use super::PathHistory;
use carrick_logic::split::{FirstKnown, LegSeen, Outcome, Way};
use std::net::SocketAddr;
use std::time::Duration;

fn outcome(network: u8, port: u16, was: Way, kilobytes_a_second: u64) -> Outcome {
    let seen = LegSeen {
        rtt: Duration::from_millis(1),
        ..LegSeen::default()
    };
    Outcome {
        client: SocketAddr::new([10, 0, network, 1].into(), port),
        server: "198.51.100.1:80".parse().unwrap(),
        wanted: was,
        was: Some(was),
        legs: [seen; 2],
        bytes: 50_000,
        turns: 1,
        active: Duration::from_millis(50_000 / kilobytes_a_second),
        client_window_bytes: 0,
    }
}

#[test]
fn what_one_thread_learns_all_know() {
    let path_history = PathHistory::default();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let path_history = &path_history;
            scope.spawn(move || {
                for count in 0..50 {
                    for network in 0..8 {
                        let port = 1024 + thread * 100 + count;
                        // Splitting halves the rate.
                        let (way, rate) = if count % 2 == 0 {
                            (Way::Split, 500)
                        } else {
                            (Way::Join, 1000)
                        };
                        path_history.learn(&outcome(network, port, way, rate));
                    }
                }
            });
        }
    });
    let pairs = path_history.pairs();
    assert_eq!(pairs.len(), 8);
    assert_eq!(path_history.counts(), (8, 0));
    assert!(pairs.iter().all(|pair| pair.connections == 200));
    let gains = path_history.gains();
    let shown: Vec<_> = gains.iter().filter(|(_, gain)| gain.is_some()).collect();
    let [(class, Some(gain))] = shown[..] else {
        panic!("{gains:?}");
    };
    assert_eq!(class.name(), "10-60KB");
    assert!((gain.gos + 0.5).abs() < 0.01, "{gain:?}");
    let known = FirstKnown {
        can_join: true,
        ..FirstKnown::default()
    };
    let ways = (0..100).map(|port| {
        let one = outcome(3, 5000 + port, Way::Split, 1);
        path_history.decide(one.client, one.server, &known).way
    });
    let joined = ways.filter(|way| *way == Way::Join).count();
    assert!(joined > 85, "{joined}");
}
