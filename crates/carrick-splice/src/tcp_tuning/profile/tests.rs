//! Valid and invalid profiles.

use super::*;
use crate::tcp_tuning::Setting;

type Change<'a> = &'a dyn Fn(&mut Profile);

#[test]
fn a_link_holds_its_rate_times_its_delay() {
    let ms = Duration::from_millis;
    // 20 Mbit/s over 600 ms.
    assert_eq!(bandwidth_delay_bytes(2_500_000, ms(600)), 1_500_000);
    assert_eq!(bandwidth_delay_bytes(0, ms(600)), 0);
    assert_eq!(bandwidth_delay_bytes(1_000_000, Duration::ZERO), 0);
    assert_eq!(
        bandwidth_delay_bytes(u64::MAX, Duration::MAX),
        BUFFER_BYTES_MAX
    );
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    let ms = Duration::from_millis;
    let keepalive = |idle, interval, probes| {
        let (idle, interval) = (ms(idle), ms(interval));
        Some(Keepalive {
            idle,
            interval,
            probes,
        })
    };
    let wrong = |change: Change<'_>| {
        let mut profile = Profile::default();
        change(&mut profile);
        profile.check().unwrap_err()
    };
    let refused: [(Setting, Change<'_>); 18] = [
        (Setting::InitialWindow, &|p| {
            p.initial_window_bytes = Some(0)
        }),
        (Setting::InitialWindow, &|p| {
            p.initial_window_bytes = Some(INITIAL_WINDOW_MAX + 1)
        }),
        (Setting::InitialReceiveWindow, &|p| {
            p.initial_receive_window_segments = Some(0)
        }),
        (Setting::PacingRate, &|p| p.pacing_rate = Some(0)),
        (Setting::SendBuffer, &|p| {
            p.send_buffer_bytes = Some(BUFFER_BYTES_MAX + 1)
        }),
        (Setting::ReceiveBuffer, &|p| {
            p.receive_buffer_bytes = Some(0)
        }),
        (Setting::WindowClamp, &|p| p.window_clamp_bytes = Some(0)),
        (Setting::UnsentLowWater, &|p| {
            p.unsent_low_water_bytes = Some(0)
        }),
        (Setting::SegmentLimit, &|p| p.segment_bytes_max = Some(87)),
        (Setting::UserTimeout, &|p| {
            p.user_timeout = Some(Duration::ZERO)
        }),
        (Setting::RtoMin, &|p| p.rto_min = Some(ms(201))),
        (Setting::RtoInitial, &|p| {
            p.rto_initial = Some(Duration::ZERO)
        }),
        (Setting::RtoMax, &|p| p.rto_max = Some(ms(999))),
        (Setting::DelayedAckMax, &|p| {
            p.delayed_ack_max = Some(ms(19))
        }),
        (Setting::Keepalive, &|p| {
            p.keepalive = keepalive(999, 1000, 1)
        }),
        (Setting::Keepalive, &|p| {
            p.keepalive = keepalive(1000, 1000, 0)
        }),
        (Setting::CongestionControl, &|p| {
            p.congestion_control = Some("".into())
        }),
        (Setting::CongestionControl, &|p| {
            p.congestion_control = Some("a\0b".into())
        }),
    ];
    for (setting, change) in refused {
        let error = wrong(change);
        assert_eq!(error.setting, setting, "{error}");
    }
    let error = wrong(&|p| p.rto_min = Some(ms(201)));
    let text = "least retransmission time-out: 201ms; it can be 20ms to 200ms";
    assert_eq!(error.to_string(), text);
    Profile::default().check().unwrap();
}
