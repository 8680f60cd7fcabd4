//! The cache is bounded, and keeps what is used.

use super::*;

#[test]
fn what_is_used_stays_and_the_rest_is_bounded() {
    let mut cache = Cache::new(100);
    cache.insert(7, 70);
    for number in 1_000..100_000 {
        cache.insert(number, number);
        if number % 50 == 0 {
            assert_eq!(cache.get(&7), Some(70), "after {number}");
        }
        assert!(cache.len() <= 200);
    }
    assert_eq!(cache.get(&1_000), None);
    cache.clear();
    assert_eq!(cache.get(&7), None);
}
