//! The kernel paces the responses that it forwards according to their route.
use super::*;
use std::time::{Duration, Instant};

const MB: usize = 1 << 20;

/// Eight megabytes per second in total.
const PACED: &str = "[pace]\ndefault = \"all\"\n[pace.classes.all]\nceiling = \"8 MB\"\n";

#[test]
fn responses_in_the_kernel_keep_to_the_rate() {
    let Some(play) = Play::begin(PACED) else {
        return;
    };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let mut client = play.connect();
    let bytes = 4 * MB;
    let begun = Instant::now();
    for round in 0..4 {
        let target = format!("/s/{round}/{bytes}");
        let response = client.ask(&get(&target));
        assert!(hash(&response.body) == hash(&content(&target)), "{target}");
    }
    let took = begun.elapsed();
    // Minus what the server has been allowed to send at once. A single response may have been allowed more, during the one before.
    let least = (4 * bytes - 1_000_000) as f64 / (8 * MB) as f64 * 0.98;
    assert!(took >= Duration::from_secs_f64(least), "{took:?}");
    drop(client);
    assert!(
        play.packet_lines(4).len() >= 2,
        "all but the first two, at least"
    );
    let kernel_bytes = play.carrick.metric(
        &play.bed,
        "carrick_pace_bytes_total{class=\"all\",by=\"kernel\"}",
    );
    assert!(kernel_bytes > (7 * MB) as f64, "{kernel_bytes}");
}

#[test]
fn many_clients_share_a_rate_and_get_what_is_theirs() {
    let Some(play) = Play::begin(PACED) else {
        return;
    };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let play = &play;
            scope.spawn(move || {
                let mut client = (client, play.connect());
                for round in 0..4 {
                    let target = format!("/s/{round}-{}/400000", client.0);
                    let response = client.1.ask(&get(&target));
                    assert!(hash(&response.body) == hash(&content(&target)), "{target}");
                }
            });
        }
    });
    let least = (8 * 4 * 400_000 - 2_000_000) as f64 / (8 * MB) as f64 * 0.98;
    assert!(
        begun.elapsed() >= Duration::from_secs_f64(least),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn policies_and_rates_change_under_load_and_every_byte_arrives() {
    let Some(play) = Play::begin(PACED) else {
        return;
    };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loads: Vec<_> = (0..6)
            .map(|client| {
                let play = &play;
                scope.spawn(move || {
                    let mut peer = play.connect();
                    for round in 0..10 {
                        let bytes = [1_000_000, 20_000, 400_000][(client + round) % 3];
                        let target = format!("/s/{client}-{round}/{bytes}");
                        let response = peer.ask(&get(&target));
                        assert!(hash(&response.body) == hash(&content(&target)), "{target}");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut random = Random::new(9);
            while !is_over.load(Ordering::Relaxed) {
                let policy: &[&str] = [
                    &["policy=conservative"][..],
                    &["policy=proportional"],
                    &["policy=deadline", "target=2ms"],
                    &["policy=immediate"],
                ][random.below(4)];
                let rate = ["ceiling=none", "ceiling=30MB", "ceiling=8MB"][random.below(3)];
                let words = [&["pace", "all", rate], policy].concat();
                let (status, said) = play.bed.command(&words);
                assert_eq!(status, Some(0), "{said}");
            }
        });
        for load in loads {
            load.join().expect("a client");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(!play.packet_lines(60).is_empty());
}
