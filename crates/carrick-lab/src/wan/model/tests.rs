//! The path against what was asked of it, in virtual time; chance within five standard deviations, with fixed seeds.

use super::*;

const MS: u64 = 1_000_000;

fn settings(toml: &str) -> Settings {
    Settings::from(&toml::from_str::<Path>(toml).unwrap())
}

/// Fates of `count` packets that come `gap_ns` apart; with the time each came.
fn run(settings: &Settings, seed: u64, count: u64, gap_ns: u64, bytes: usize) -> Vec<(u64, Fate)> {
    let mut path = PathState::new(seed);
    (0..count)
        .map(|number| {
            let now_ns = number * gap_ns;
            (now_ns, path.decide(settings, now_ns, bytes))
        })
        .collect()
}

fn sent(fates: &[(u64, Fate)]) -> Vec<(u64, u64)> {
    fates
        .iter()
        .filter_map(|(came, fate)| match fate {
            Fate::Sent { at_ns, .. } => Some((*came, *at_ns)),
            _ => None,
        })
        .collect()
}

/// `hits` of `trials` with probability `p` are within five standard deviations.
#[track_caller]
fn assert_binomial(hits: u64, trials: u64, p: f64) {
    let expected = trials as f64 * p;
    let deviation = (trials as f64 * p * (1.0 - p)).sqrt();
    assert!(
        (hits as f64 - expected).abs() <= 5.0 * deviation,
        "{hits} of {trials}, expected {expected:.0} within 5 x {deviation:.1}"
    );
}

#[test]
fn a_path_without_anything_passes_at_once() {
    let plain = settings("");
    assert!(plain.is_transparent());
    for (came, fate) in run(&plain, 1, 100, 7, 1_500) {
        assert_eq!(
            fate,
            Fate::Sent {
                at_ns: came,
                twice: false,
                overtakes: false
            }
        );
    }
}

#[test]
fn delay_is_exact() {
    for (came, at) in sent(&run(&settings("delay_ms = 90.25"), 1, 100, 12_345, 40)) {
        assert_eq!(at - came, 90_250_000);
    }
}

#[test]
fn jitter_stays_in_its_bounds_and_keeps_the_order() {
    let jittery = settings("delay_ms = 50\njitter_ms = 10");
    // Packets come 1 ms apart, much closer than the jitter.
    let times = sent(&run(&jittery, 5, 20_000, MS, 40));
    assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    assert!(
        times
            .iter()
            .all(|(came, at)| (40 * MS..=60 * MS).contains(&(at - came)))
    );
    // Alone, packets are delayed evenly: mean 50 ms, deviation 10/sqrt(3) ms.
    let alone: Vec<f64> = sent(&run(&jittery, 6, 20_000, 100 * MS, 40))
        .iter()
        .map(|(came, at)| (at - came) as f64 / MS as f64)
        .collect();
    let mean = alone.iter().sum::<f64>() / alone.len() as f64;
    let bound = 5.0 * 10.0 / 3_f64.sqrt() / (alone.len() as f64).sqrt();
    assert!((mean - 50.0).abs() < bound, "{mean}");
    assert!(alone.iter().any(|ms| *ms < 41.0) && alone.iter().any(|ms| *ms > 59.0));
}

#[test]
fn loss_has_two_states() {
    for (first, next) in [
        (0.001, 0.4),
        (0.01, 0.4),
        (0.02, 0.4),
        (0.3, 0.05),
        (0.1, 0.1),
    ] {
        let lossy = settings(&format!("loss = {first}\nloss_after_loss = {next}"));
        let fates = run(&lossy, 17, 400_000, 1_000, 1_500);
        let (mut lost_first, mut lost_next, mut after_loss, mut after_none) = (0, 0, 0, 0);
        let mut last_was_lost = false;
        for (_, fate) in fates {
            if last_was_lost {
                after_loss += 1;
            } else {
                after_none += 1;
            }
            match fate {
                Fate::Lost { after_loss } => {
                    assert_eq!(after_loss, last_was_lost);
                    lost_first += u64::from(!after_loss);
                    lost_next += u64::from(after_loss);
                    last_was_lost = true;
                }
                _ => last_was_lost = false,
            }
        }
        assert_binomial(lost_first, after_none, first);
        assert_binomial(lost_next, after_loss, next);
        // And in the long run: first / (1 + first - next) of all. Its variance is that of independent losses times
        // (1 + r) / (1 - r), with r = next - first.
        let r: f64 = next - first;
        let expected = first / (1.0 - r);
        let deviation = (400_000.0 * expected * (1.0 - expected) * (1.0 + r) / (1.0 - r)).sqrt();
        let lost = (lost_first + lost_next) as f64;
        assert!(
            (lost - 400_000.0 * expected).abs() < 5.0 * deviation,
            "{lost}"
        );
    }
}

#[test]
fn loss_after_loss_is_as_loss_unless_it_is_given() {
    assert_eq!(settings("loss = 0.2").loss_next, 0.2);
    let none_after = settings("loss = 1\nloss_after_loss = 0");
    let fates = run(&none_after, 1, 10, 1, 40);
    let lost = |fate: &Fate| matches!(fate, Fate::Lost { .. });
    assert!((0..10).all(|index| lost(&fates[index].1) == (index % 2 == 0)));
    assert!(
        run(&settings("loss = 1"), 1, 100, 1, 40)
            .iter()
            .all(|(_, fate)| lost(fate))
    );
}

#[test]
fn the_rate_is_kept_and_the_queue_has_an_end() {
    // 1,500 bytes at 56 kbit/s take 214.285714 ms on the line.
    let takes_ns = 1_500.0 * 8e6 / 56.0;
    let modem = settings("rate_kbit = 56\nqueue_packets = 5\ndelay_ms = 20");
    // All come at once: one is on the line, five wait, the others are dropped.
    let fates = run(&modem, 1, 10, 0, 1_500);
    for (place, (_, at)) in sent(&fates).into_iter().enumerate() {
        let expected = takes_ns * (place + 1) as f64 + 20e6;
        assert!((at as f64 - expected).abs() < 10.0, "{at}, {expected}");
    }
    assert_eq!(sent(&fates).len(), 6);
    assert!(fates[6..].iter().all(|(_, fate)| *fate == Fate::Dropped));

    // A place is free as soon as a packet has left the line, not before.
    let mut path = PathState::new(1);
    for _ in 0..6 {
        assert_ne!(path.decide(&modem, 0, 1_500), Fate::Dropped);
    }
    let left = takes_ns.ceil() as u64;
    assert_eq!(path.decide(&modem, left - 1, 1_500), Fate::Dropped);
    assert_ne!(path.decide(&modem, left, 1_500), Fate::Dropped);
    assert_eq!(path.decide(&modem, left, 1_500), Fate::Dropped);
}

#[test]
fn the_rate_is_reached_and_never_exceeded() {
    for (rate_kbit, bytes) in [
        (28.0, 40),
        (56.0, 576),
        (10_000.0, 1_500),
        (950_000.0, 1_500),
    ] {
        let limited = settings(&format!("rate_kbit = {rate_kbit}"));
        // Twice what the line takes.
        let gap_ns = (bytes as f64 * 8e6 / rate_kbit / 2.0) as u64;
        let times = sent(&run(&limited, 1, 20_000, gap_ns, bytes));
        let (begin, end) = (times[0].1, times.last().unwrap().1);
        let carried = (times.len() - 1) as f64 * bytes as f64 * 8e6 / (end - begin) as f64;
        assert!(carried <= rate_kbit, "{carried} of {rate_kbit}");
        assert!(carried > 0.999 * rate_kbit, "{carried} of {rate_kbit}");
    }
}

#[test]
fn an_idle_line_has_saved_nothing_up() {
    let mut path = PathState::new(1);
    let limited = settings("rate_kbit = 8000");
    for now_ns in [0, 1_000 * MS] {
        for place in 1..=3 {
            let Fate::Sent { at_ns, .. } = path.decide(&limited, now_ns, 1_000) else {
                panic!("dropped");
            };
            assert_eq!(at_ns, now_ns + place * MS);
        }
    }
}

#[test]
fn some_packets_overtake_and_the_others_keep_their_order() {
    let mixed = settings("delay_ms = 10\nreorder = 0.05");
    let fates = run(&mixed, 9, 100_000, 100_000, 40);
    let (mut early, mut last) = (0, 0);
    for (came, fate) in &fates {
        let Fate::Sent {
            at_ns, overtakes, ..
        } = fate
        else {
            panic!("nothing is lost here");
        };
        if at_ns == came {
            // The first packets may have nobody to overtake.
            assert!(*overtakes || last <= *came);
            early += 1;
        } else {
            assert_eq!(at_ns - came, 10 * MS);
            assert!(!overtakes && *at_ns >= last);
            last = *at_ns;
        }
    }
    assert_binomial(early, 100_000, 0.05);
    // Without delay there is nobody to overtake.
    let at_once = run(&settings("reorder = 1"), 9, 100, 1_000, 40);
    assert!(at_once.iter().all(|(_, fate)| matches!(
        fate,
        Fate::Sent {
            overtakes: false,
            ..
        }
    )));
}

#[test]
fn copies_are_as_many_as_asked() {
    let fates = run(&settings("duplicate = 0.03"), 2, 200_000, 1_000, 40);
    let copies = fates
        .iter()
        .filter(|(_, fate)| matches!(fate, Fate::Sent { twice: true, .. }))
        .count();
    assert_binomial(copies as u64, 200_000, 0.03);
}

#[test]
fn a_seed_repeats_a_run_and_timing_does_not_change_what_chance_does() {
    let all = "delay_ms = 5\njitter_ms = 5\nloss = 0.05\nloss_after_loss = 0.4\nreorder = 0.1\nduplicate = 0.1\nrate_kbit = 1000\nqueue_packets = 3";
    let all = settings(all);
    let once = run(&all, 42, 5_000, MS, 500);
    assert_eq!(once, run(&all, 42, 5_000, MS, 500));
    assert_ne!(once, run(&all, 43, 5_000, MS, 500));
    // At another pace other packets are dropped at the tail, but the same are lost.
    let slower = run(&all, 42, 5_000, 20 * MS, 500);
    let lost = |fates: &[(u64, Fate)]| -> Vec<bool> {
        fates
            .iter()
            .map(|(_, fate)| matches!(fate, Fate::Lost { .. }))
            .collect()
    };
    let dropped = |fates: &[(u64, Fate)]| {
        fates
            .iter()
            .filter(|(_, fate)| *fate == Fate::Dropped)
            .count()
    };
    assert_eq!(lost(&once), lost(&slower));
    assert!(dropped(&once) > 0 && dropped(&slower) == 0);
}
