//! Tests of the proxy's CPU.

use super::*;

#[test]
fn dropped_packets_are_added_over_the_cores() {
    let text = "07c10aeb 0000000a 00000001 00000000\n0789ed92 00000001 00000001 00000000\n";
    assert_eq!(sum_dropped(text), Some(11));
    assert_eq!(sum_dropped("07c10aeb\n"), None);
    backlog_dropped().unwrap();
}

#[test]
fn figures_for_each_request_need_requests() {
    let cpu = ProxyCpu {
        wall_seconds: 2.0,
        busy_seconds: 0.5,
        core_busy_seconds: 0.52,
        taken_seconds: 0.0,
        background_share: 0.01,
        stolen_seconds: 0.0,
        process_seconds: 0.3,
        source: Source::TimerList,
        foreign_cores: 0.0,
        backlog_dropped: 0,
    };
    assert!((cpu.utilization_percent() - 25.0).abs() < 1e-9);
    let slow = ProxyCpu {
        core_busy_seconds: 1.52,
        taken_seconds: 1.0,
        ..cpu
    };
    assert!((slow.core_share() - 0.5).abs() < 1e-9);
    let percent = slow.utilization_percent();
    assert!((percent - 50.0).abs() < 1e-9, "of what it had: {percent}");
}
