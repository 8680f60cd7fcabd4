//! Which ACKs pass, in virtual time.

use proptest::prelude::*;

use super::*;

const SETTINGS: FilterSettings = FilterSettings {
    one_in: 4,
    hold_ns: 100,
};

fn flow(port: u16) -> Flow {
    Flow {
        from: "10.0.1.2".parse().unwrap(),
        to: "10.0.2.2".parse().unwrap(),
        ports: Some([port, 80]),
    }
}

fn ack(acknowledged: u32) -> Segment {
    Segment {
        acknowledged,
        is_pure_ack: true,
        begins_or_aborts: false,
        ends: false,
    }
}

/// Passes packets of one flow, each one nanosecond after the one before; what came out, in order.
fn passed(segments: &[Segment]) -> Vec<u32> {
    let mut filter = AckFilter::default();
    let mut out = Vec::new();
    let mut now_ns = 0;
    for segment in segments {
        now_ns += 1;
        let number = segment.acknowledged;
        match filter.decide(&flow(1), segment, SETTINGS, now_ns, || number) {
            Verdict::Passes { before, .. } => {
                out.extend(before);
                out.push(number);
            }
            Verdict::Kept { .. } => {}
        }
    }
    out.extend(filter.pop_due(now_ns + SETTINGS.hold_ns));
    assert_eq!(filter.pop_due(u64::MAX), None, "one at most is kept");
    out
}

#[test]
fn one_in_four_passes_and_the_last_one() {
    let burst: Vec<Segment> = (0..=10).map(ack).collect();
    assert_eq!(passed(&burst), [0, 4, 8, 10]);
    assert_eq!(passed(&burst[..9]), [0, 4, 8], "nothing is left over");
}

#[test]
fn the_last_of_a_burst_passes_after_a_silence_and_not_before() {
    let mut filter = AckFilter::default();
    let mut give =
        |number, now_ns| filter.decide(&flow(1), &ack(number), SETTINGS, now_ns, || number);
    give(1, 0);
    assert_eq!(give(2, 10), Verdict::Kept { dropped: 0 });
    assert_eq!(give(3, 60), Verdict::Kept { dropped: 1 });
    assert_eq!(filter.next_ns(), Some(110));
    assert_eq!(filter.pop_due(110), None, "it was followed by another");
    assert_eq!(filter.next_ns(), Some(160));
    assert_eq!(filter.pop_due(159), None);
    assert_eq!(filter.pop_due(160), Some(3));
    assert_eq!(filter.next_ns(), None);
}

#[test]
fn duplicates_and_updates_of_windows_pass_behind_the_ack_that_they_repeat() {
    assert_eq!(
        passed(&[ack(1), ack(2), ack(2), ack(2), ack(3)]),
        [1, 2, 2, 2, 3]
    );
}

#[test]
fn data_takes_the_place_of_what_was_kept() {
    let data = Segment {
        is_pure_ack: false,
        ..ack(3)
    };
    assert_eq!(passed(&[ack(1), ack(2), data, ack(4)]), [1, 3, 4]);
    let old_data = Segment {
        is_pure_ack: false,
        ..ack(2)
    };
    assert_eq!(passed(&[ack(1), ack(2), old_data]), [1, 2]);
}

#[test]
fn a_fin_and_a_new_connection_leave_nothing_behind() {
    let fin = Segment {
        is_pure_ack: false,
        ends: true,
        ..ack(3)
    };
    let syn = Segment {
        begins_or_aborts: true,
        is_pure_ack: false,
        ..ack(0)
    };
    assert_eq!(passed(&[ack(1), ack(2), fin, syn, ack(7)]), [1, 3, 0, 7]);
    assert_eq!(passed(&[ack(1), ack(2), syn]), [1, 2, 0]);
}

#[test]
fn flows_are_filtered_each_by_itself_and_numbers_may_wrap() {
    let mut filter = AckFilter::default();
    for port in [1, 2] {
        let mut give = |number| filter.decide(&flow(port), &ack(number), SETTINGS, 0, || number);
        assert!(matches!(give(u32::MAX - 1), Verdict::Passes { .. }));
        assert_eq!(give(u32::MAX), Verdict::Kept { dropped: 0 });
        assert_eq!(give(4), Verdict::Kept { dropped: 1 });
    }
    assert_eq!(filter.pop_due(100), Some(4));
    assert_eq!(filter.pop_due(100), Some(4));
}

#[test]
fn too_many_flows_pass_unfiltered() {
    let mut filter = AckFilter::default();
    let address = |number: u32| Flow {
        from: std::net::Ipv4Addr::from_bits(number).into(),
        ..flow(1)
    };
    let most = u32::try_from(FLOWS_MAX).unwrap();
    for number in 0..most {
        filter.decide(&address(number), &ack(1), SETTINGS, 0, || 1);
    }
    for acknowledged in 1..9 {
        let verdict = filter.decide(&address(most), &ack(acknowledged), SETTINGS, 0, || 1);
        assert!(matches!(verdict, Verdict::Passes { .. }));
    }
}

proptest! {
    #[test]
    fn the_last_word_always_arrives_and_the_order_stays(steps in prop::collection::vec((0_u32..3, any::<bool>()), 1..60)) {
        let mut number = 100;
        let segments: Vec<Segment> = steps
            .iter()
            .map(|(step, is_pure_ack)| {
                number += step;
                Segment { is_pure_ack: *is_pure_ack, ..ack(number) }
            })
            .collect();
        let out = passed(&segments);
        prop_assert_eq!(out.last(), Some(&number));
        prop_assert!(out.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
