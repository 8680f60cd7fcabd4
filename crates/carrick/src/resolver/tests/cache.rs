//! The cache of names: expiry and limit.
use crate::resolver::cache::NameCache;
use std::time::{Duration, Instant};

#[test]
fn values_last_until_their_moment() {
    let (mut cache, now) = (NameCache::new(10), Instant::now());
    let second = Duration::from_secs(1);
    cache.insert("a", 1, now + second, now);
    assert_eq!(cache.get("a", now), Some(&1));
    assert_eq!(cache.get("b", now), None);
    assert_eq!(cache.get("a", now + second), None);
    assert_eq!(cache.len(), 0);
    cache.insert("a", 2, now + second, now);
    cache.insert("a", 3, now + second, now);
    assert_eq!(cache.get("a", now), Some(&3));
    assert_eq!(cache.len(), 1);
}

#[test]
fn a_flood_of_names_neither_fills_it_nor_drives_out_what_is_used() {
    let (mut cache, now) = (NameCache::new(100), Instant::now());
    let later = now + Duration::from_secs(60);
    cache.insert("used", 0, later, now);
    for number in 0..10_000 {
        cache.insert(&format!("name-{number}"), number, later, now);
        assert!(cache.len() <= 100, "{}", cache.len());
        assert_eq!(cache.get("used", now), Some(&0));
    }
    let evicted = cache.take_evicted();
    assert!((9_800..10_000).contains(&evicted), "{evicted}");
    assert_eq!(cache.take_evicted(), 0);
}

#[test]
fn entries_that_are_used_do_not_exceed_the_limit_either() {
    let (mut cache, now) = (NameCache::new(10), Instant::now());
    let later = now + Duration::from_secs(60);
    for number in 0..1000_usize {
        cache.insert(&number.to_string(), number, later, now);
        for recent in number.saturating_sub(9)..=number {
            cache.get(&recent.to_string(), now);
        }
        assert!(cache.len() <= 10, "{}", cache.len());
    }
}

#[test]
fn what_has_expired_goes_first_and_is_not_counted() {
    let (mut cache, now) = (NameCache::new(10), Instant::now());
    for number in 0..1000_u32 {
        let now = now + Duration::from_secs(u64::from(number));
        cache.insert(
            &number.to_string(),
            number,
            now + Duration::from_secs(1),
            now,
        );
        assert_eq!(cache.take_evicted(), 0);
        assert!(cache.len() <= 10);
    }
}
