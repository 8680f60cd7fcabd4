//! The order of addresses, and races in virtual time.
use super::{ATTEMPT_DELAY, ATTEMPTS_MAX, Next, Race, order};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn families_alternate_and_ipv6_is_first() {
    let rows: [(&[&str], &[&str]); 8] = [
        (&[], &[]),
        (&["1.1.1.1"], &["1.1.1.1"]),
        (
            &["1.1.1.1", "1.1.1.2", "::1", "::2"],
            &["::1", "1.1.1.1", "::2", "1.1.1.2"],
        ),
        (
            &["1.1.1.1", "1.1.1.2", "1.1.1.3", "::9"],
            &["::9", "1.1.1.1", "1.1.1.2", "1.1.1.3"],
        ),
        (&["::2", "::1"], &["::2", "::1"]),
        (&["::2", "1.1.1.1", "::2", "1.1.1.1"], &["::2", "1.1.1.1"]),
        (&["::ffff:1.1.1.1", "1.1.1.1", "::1"], &["::1", "1.1.1.1"]),
        (
            &["::1", "::2", "::3", "::4", "::5", "::6", "::7", "1.1.1.1"],
            &["::1", "1.1.1.1", "::2", "::3", "::4", "::5"],
        ),
    ];
    for (given, expected) in rows {
        assert_eq!(order(&addresses(given)), addresses(expected), "{given:?}");
    }
}

#[test]
fn attempts_start_a_quarter_of_a_second_apart() {
    let now = Instant::now();
    let [first, second] = ["::1", "1.1.1.1"].map(|text| text.parse::<IpAddr>().unwrap());
    let mut race = Race::new(&[second, first]);
    assert_eq!(race.next_attempt(now), Next::Start(first));
    assert_eq!(race.next_attempt(now), Next::WaitUntil(now + ATTEMPT_DELAY));
    let just_before = now + ATTEMPT_DELAY - Duration::from_nanos(1);
    assert_eq!(
        race.next_attempt(just_before),
        Next::WaitUntil(now + ATTEMPT_DELAY)
    );
    assert_eq!(race.next_attempt(now + ATTEMPT_DELAY), Next::Start(second));
    assert_eq!(race.next_attempt(now + 9 * ATTEMPT_DELAY), Next::Wait);
    assert_eq!(race.under_way(), 2);
    race.failed(now, second);
    assert_eq!(race.next_attempt(now), Next::Wait);
    race.failed(now, first);
    assert_eq!(race.next_attempt(now), Next::AllFailed);
}

#[test]
fn a_failure_starts_the_next_at_once_and_the_delay_anew() {
    let now = Instant::now();
    let given = addresses(&["::1", "::2", "::3"]);
    let mut race = Race::new(&given);
    assert_eq!(race.next_attempt(now), Next::Start(given[0]));
    let later = now + Duration::from_millis(10);
    race.failed(later, given[0]);
    assert_eq!(race.next_attempt(later), Next::Start(given[1]));
    assert_eq!(
        race.next_attempt(later),
        Next::WaitUntil(later + ATTEMPT_DELAY)
    );
}

#[test]
fn reports_on_what_is_not_under_way_change_nothing() {
    let now = Instant::now();
    let given = addresses(&["::1", "::2", "::3"]);
    let mut race = Race::new(&given);
    race.failed(now, given[0]);
    assert_eq!(race.next_attempt(now), Next::Start(given[0]));
    race.failed(now, given[1]);
    race.failed(now, "9.9.9.9".parse().unwrap());
    assert_eq!(race.next_attempt(now), Next::WaitUntil(now + ATTEMPT_DELAY));
    race.failed(now, given[0]);
    assert_eq!(race.next_attempt(now), Next::Start(given[1]));
    race.failed(now, given[0]);
    assert_eq!(race.next_attempt(now), Next::WaitUntil(now + ATTEMPT_DELAY));
}

#[test]
fn without_addresses_all_have_failed() {
    assert_eq!(Race::new(&[]).next_attempt(Instant::now()), Next::AllFailed);
}

fn some_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0..6_u32).prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
        (0..6_u128).prop_map(|bits| IpAddr::V6(Ipv6Addr::from(bits << 64))),
        (0..6_u32).prop_map(|bits| IpAddr::V6(Ipv4Addr::from(bits).to_ipv6_mapped())),
    ]
}

proptest! {
    #[test]
    fn an_order_is_part_of_what_was_given(given in prop::collection::vec(some_address(), 0..16)) {
        let ordered = order(&given);
        let distinct: std::collections::HashSet<_> = given.iter().map(IpAddr::to_canonical).collect();
        prop_assert_eq!(ordered.len(), distinct.len().min(ATTEMPTS_MAX));
        let once: std::collections::HashSet<_> = ordered.iter().copied().collect();
        prop_assert_eq!(once.len(), ordered.len());
        prop_assert!(once.is_subset(&distinct));
        // Either family is tried by the second attempt.
        for is_v4 in [true, false] {
            if distinct.iter().any(|address| address.is_ipv4() == is_v4) {
                prop_assert!(ordered.iter().take(2).any(|address| address.is_ipv4() == is_v4));
            }
        }
    }

    /// Whatever fails at whatever time: every address is tried once, never too early, and the race ends.
    #[test]
    fn every_race_ends(given in prop::collection::vec(some_address(), 0..10), lifetimes_ms in prop::collection::vec(0..900_u64, ATTEMPTS_MAX)) {
        let begin = Instant::now();
        let mut now = begin;
        let mut race = Race::new(&given);
        let mut running: Vec<(Instant, IpAddr)> = Vec::new();
        let mut started = Vec::new();
        let mut last_start: Option<Instant> = None;
        let mut failed_since_start = true;
        for _ in 0..100 {
            match race.next_attempt(now) {
                Next::Start(address) => {
                    prop_assert!(failed_since_start || last_start.is_some_and(|last| now >= last + ATTEMPT_DELAY));
                    running.push((now + Duration::from_millis(lifetimes_ms[started.len()]), address));
                    started.push(address);
                    last_start = Some(now);
                    failed_since_start = false;
                    continue;
                }
                Next::WaitUntil(until) => {
                    prop_assert!(until > now && !running.is_empty());
                    now = running.iter().map(|(end, _)| *end).chain([until]).min().unwrap();
                }
                Next::Wait => now = running.iter().map(|(end, _)| *end).min().unwrap(),
                Next::AllFailed => {
                    prop_assert!(running.is_empty());
                    prop_assert_eq!(started, order(&given));
                    return Ok(());
                }
            }
            let (ended, still): (Vec<_>, Vec<_>) = running.into_iter().partition(|(end, _)| *end <= now);
            running = still;
            for (_, address) in ended {
                race.failed(now, address);
                failed_since_start = true;
            }
            prop_assert_eq!(race.under_way(), running.len());
        }
        prop_assert!(false, "the race never ended");
    }
}
