//! The order of the queue.

use super::super::queue::{Queue, VirtualTime};

/// Lets all wait repeatedly, and counts bytes: each has a priority, a weight, and a burst size.
fn serve(kinds: &[(u8, u32, u64)], turns: usize) -> Vec<u64> {
    let mut queue = Queue::default();
    let mut virtual_time = vec![VirtualTime::default(); kinds.len()];
    let mut bytes = vec![0; kinds.len()];
    let mut places: Vec<_> = (0..kinds.len())
        .map(|who| queue.push(kinds[who].0, virtual_time[who], who))
        .collect();
    for _ in 0..turns {
        let who = queue.pop().unwrap();
        let (priority, weight, burst) = kinds[who];
        bytes[who] += burst;
        virtual_time[who].add(places[who], burst, weight);
        places[who] = queue.push(priority, virtual_time[who], who);
    }
    bytes
}

#[test]
fn equals_get_the_same_whatever_their_bursts() {
    let bytes = serve(&[(1, 1, 1000), (1, 1, 64_000), (1, 1, 7)], 100_000);
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    assert!(most - least <= 2 * 64_000, "{bytes:?}");
}

#[test]
fn a_larger_weight_gets_more() {
    let bytes = serve(&[(1, 1, 1000), (1, 5, 1000), (1, 10, 1000)], 16_000);
    assert!((bytes[1] / bytes[0]).abs_diff(5) <= 1, "{bytes:?}");
    assert!((bytes[2] / bytes[0]).abs_diff(10) <= 1, "{bytes:?}");
}

#[test]
fn a_lower_number_goes_first() {
    let bytes = serve(&[(2, 1, 1000), (1, 1, 1000)], 100);
    assert_eq!(bytes, [0, 100_000]);
}

#[test]
fn a_late_arrival_has_no_claim_to_the_past() {
    let mut queue = Queue::default();
    let mut old = VirtualTime::default();
    for _ in 0..1000 {
        let place = queue.push(1, old, "old");
        queue.pop();
        old.add(place, 1000, 1);
    }
    let mut virtual_time = [old, VirtualTime::default()];
    let mut bytes = [0, 0];
    let mut places = [
        queue.push(1, virtual_time[0], "old"),
        queue.push(1, virtual_time[1], "new"),
    ];
    for _ in 0..100 {
        let who = usize::from(queue.pop() == Some("new"));
        bytes[who] += 1000;
        virtual_time[who].add(places[who], 1000, 1);
        places[who] = queue.push(1, virtual_time[who], if who == 1 { "new" } else { "old" });
    }
    assert!(bytes[0] >= 45_000, "{bytes:?}");
}

#[test]
fn the_oldest_go_first_if_asked_for() {
    let mut queue = Queue::default();
    let first = queue.push(9, VirtualTime::default(), 1);
    queue.push(1, VirtualTime::default(), 2);
    let before = queue.next_arrival();
    queue.push(1, VirtualTime::default(), 3);
    assert_eq!(queue.oldest(), Some(&1));
    assert_eq!(queue.remove(first), Some(1));
    assert_eq!(queue.remove(first), None);
    assert_eq!(queue.pop_oldest(before), Some(2));
    assert_eq!(queue.pop_oldest(before), None);
    assert!(!queue.is_empty());
    assert_eq!(queue.pop(), Some(3));
    assert!(queue.is_empty() && queue.pop().is_none());
}

#[test]
fn those_that_do_not_fit_are_passed_by_and_keep_their_places() {
    let mut queue = Queue::default();
    for who in 0..4 {
        queue.push(0, VirtualTime::default(), who);
    }
    assert_eq!(queue.pop_first(|who| *who >= 2), Some(2));
    assert_eq!(queue.pop_first(|who| *who > 3), None);
    let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
    assert_eq!(rest, [0, 1, 3]);
}
