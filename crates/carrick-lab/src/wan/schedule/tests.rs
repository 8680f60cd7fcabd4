//! The schedule against a sorted list.

use super::*;

#[test]
fn things_come_when_due_and_equal_times_keep_their_order() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut schedule = Schedule::default();
    let mut expected = Vec::new();
    for number in 0..10_000_u64 {
        let at_ns = random.u64(0..500);
        schedule.push(at_ns, (at_ns, number));
        expected.push((at_ns, number));
    }
    expected.sort_unstable();
    assert_eq!(schedule.len(), 10_000);
    let mut came = Vec::new();
    for now_ns in 0..500 {
        while let Some((at_ns, number)) = schedule.pop_due(now_ns) {
            assert_eq!(at_ns, now_ns, "neither early nor late");
            came.push((at_ns, number));
        }
        assert!(schedule.next_ns().is_none_or(|next| next > now_ns));
    }
    assert_eq!(came, expected);
    assert!(schedule.is_empty());
}
