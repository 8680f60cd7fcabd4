//! The service on loopback, with and without privileges.

use super::*;
use crate::sys::sockopt;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::net::{TcpListener, TcpStream};

const MS_300: Duration = Duration::from_millis(300);

/// The service with its programs, or a message why there is none.
fn loaded() -> Option<TcpTuning> {
    let service = TcpTuning::load();
    if let Err(because) = service.option().and(service.handshake()) {
        carrick_test::skip!("{because}");
        return None;
    }
    Some(service)
}

/// The same, if it can do everything for listeners.
fn loaded_for_listeners() -> Option<TcpTuning> {
    let service = loaded()?;
    let refused = service.rehearse(&everything(&service)).unwrap();
    let why = refused.first().map(|one| one.why.to_string());
    let Some(why) = why else {
        return Some(service);
    };
    assert!(why.contains("needs Linux 6.2"), "{why}");
    carrick_test::lacks!("{why}");
    None
}

/// Runs `what` in a thread that has no privileges.
fn without_privileges<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    let run = || {
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none).unwrap();
        what()
    };
    std::thread::scope(|threads| threads.spawn(run).join().unwrap())
}

/// A connection: the connecting end, and the accepted end, whose listener was prepared by `prepare`.
fn connection(prepare: impl Fn(&TcpListener)) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    prepare(&listener);
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// All settings that this kernel has, with values other than Linux's defaults.
fn everything(service: &TcpTuning) -> Profile {
    let has_rto_max = service.0.options.rto_max;
    if !has_rto_max {
        carrick_test::lacks!("Linux before 6.15 has no TCP_RTO_MAX_MS");
    }
    Profile {
        initial_window_bytes: Some(64 << 10),
        congestion_control: Some("reno".into()),
        pacing_rate: Some(12_345_678),
        send_buffer_bytes: Some(100_000),
        receive_buffer_bytes: Some(200_000),
        window_clamp_bytes: Some(150_000),
        initial_receive_window_segments: Some(7),
        user_timeout: Some(Duration::from_millis(12_345)),
        keepalive: Some(Keepalive {
            idle: Duration::from_secs(77),
            interval: Duration::from_secs(7),
            probes: 5,
        }),
        rto_min: Some(Duration::from_millis(60)),
        rto_initial: Some(MS_300),
        rto_max: has_rto_max.then(|| Duration::from_secs(17)),
        delayed_ack_max: Some(Duration::from_millis(80)),
        quick_ack: true,
        unsent_low_water_bytes: Some(33_333),
        segment_bytes_max: Some(1000),
    }
}

#[test]
fn every_option_is_what_was_asked_for() {
    let Some(service) = loaded_for_listeners() else {
        return;
    };
    let profile = everything(&service);
    profile.check().unwrap();
    let (_near, far) = connection(|listener| {
        let applied = service.set(listener, &profile, Moment::Listening);
        assert_eq!(applied.refused, []);
    });
    let applied = service.set(&far, &profile, Moment::Connected);
    assert_eq!(applied.refused, []);
    assert_eq!(applied.send_buffer_bytes, Some(100_000));
    assert_eq!(applied.receive_buffer_bytes, Some(200_000));
    let far = far.as_fd();
    let of_tcp = |name| sockopt::get(far, libc::IPPROTO_TCP, name).unwrap();
    let of_socket = |name| sockopt::get(far, libc::SOL_SOCKET, name).unwrap();
    let mut plain = vec![
        (libc::TCP_WINDOW_CLAMP, 150_000),
        (libc::TCP_USER_TIMEOUT, 12_345),
        (libc::TCP_KEEPIDLE, 77),
        (libc::TCP_KEEPINTVL, 7),
        (libc::TCP_KEEPCNT, 5),
        (libc::TCP_NOTSENT_LOWAT, 33_333),
    ];
    if service.0.options.rto_max {
        plain.push((sockopt::TCP_RTO_MIN_US, 60_000));
        plain.push((sockopt::TCP_DELACK_MAX_US, 80_000));
        plain.push((sockopt::TCP_RTO_MAX_MS, 17_000));
    }
    for (name, value) in plain {
        assert_eq!(of_tcp(name), value, "option {name}");
    }
    assert_eq!(of_socket(libc::SO_KEEPALIVE), 1);
    assert_eq!(of_socket(libc::SO_MAX_PACING_RATE), 12_345_678);
    let congestion = socket2::SockRef::from(&far).tcp_congestion().unwrap();
    assert!(congestion.starts_with(b"reno"), "{congestion:?}");
    // Less twelve bytes for timestamps.
    let measured = measure(&far).unwrap();
    assert_eq!(measured.segment_bytes, 988);
    assert_eq!(measured.congestion_window, 65_536 / 988);
    assert_eq!(applied.initial_window_segments, Some(65_536 / 988));
}

#[test]
fn the_program_sets_timers_of_kernels_that_have_no_option_for_them() {
    let Some(service) = loaded() else {
        return;
    };
    let mut kernel = Kernel::load();
    kernel.options.rto_min = false;
    kernel.options.delayed_ack_max = false;
    let (near, _far) = connection(|_| ());
    let applied = apply::apply(
        &kernel,
        near.as_fd(),
        &everything(&service),
        Moment::Connected,
    );
    assert_eq!(applied.refused, []);
    if service.0.options.rto_min {
        let read = |name| sockopt::get(near.as_fd(), libc::IPPROTO_TCP, name).unwrap();
        assert_eq!(read(sockopt::TCP_RTO_MIN_US), 60_000);
        assert_eq!(read(sockopt::TCP_DELACK_MAX_US), 80_000);
    }
}

#[test]
fn without_programs_unprivileged_settings_apply_and_others_report_why_not() {
    let (service, applied, rehearsed) = without_privileges(|| {
        let service = TcpTuning::load();
        let (_near, far) = connection(|_| ());
        let applied = service.set(&far, &everything(&service), Moment::Connected);
        let rehearsed = service.rehearse(&everything(&service)).unwrap();
        (service, applied, rehearsed)
    });
    let because = service.option().unwrap_err().to_string();
    assert!(because.contains("CAP_BPF"), "{because}");
    service.handshake().unwrap_err();
    let mut missing = vec![Setting::InitialWindow];
    if !service.0.options.rto_min {
        missing.extend([Setting::RtoMin, Setting::DelayedAckMax]);
    }
    let refused: Vec<Setting> = applied.refused.iter().map(|one| one.setting).collect();
    for setting in &missing {
        let why = applied.refusal(*setting).unwrap();
        assert!(
            matches!(why, RefusalReason::Unavailable(_)),
            "{setting}: {why}"
        );
    }
    assert_eq!(refused.len(), missing.len(), "{refused:?}");
    // On a real leg, those of the handshake are missing, too.
    missing.extend([Setting::RtoInitial, Setting::InitialReceiveWindow]);
    let refused: Vec<Setting> = rehearsed.iter().map(|one| one.setting).collect();
    assert!(
        missing.iter().all(|one| refused.contains(one)),
        "{refused:?}"
    );
    assert_eq!(refused.len(), missing.len(), "{refused:?}");
}

#[test]
fn what_was_loaded_with_privileges_serves_without_them() {
    let Some(service) = loaded_for_listeners() else {
        return;
    };
    let profile = everything(&service);
    let applied = without_privileges(|| {
        let (_near, far) = connection(|listener| {
            let applied = service.set(listener, &profile, Moment::Listening);
            assert_eq!(applied.refused, []);
        });
        service.set(&far, &profile, Moment::Connected)
    });
    assert_eq!(applied.refused, []);
}

#[test]
fn a_congestion_control_that_is_not_there_is_refused_with_those_that_are() {
    let service = TcpTuning::without_programs();
    let profile = Profile {
        congestion_control: Some("nosuch".into()),
        user_timeout: Some(Duration::from_secs(5)),
        ..Profile::default()
    };
    let (near, _far) = connection(|_| ());
    let applied = service.set(&near, &profile, Moment::Connected);
    let why = applied
        .refusal(Setting::CongestionControl)
        .unwrap()
        .to_string();
    assert!(why.contains("\"nosuch\"") && why.contains("reno"), "{why}");
    // The other settings were applied.
    assert_eq!(applied.refused.len(), 1);
    let timeout = sockopt::get(near.as_fd(), libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT);
    assert_eq!(timeout.unwrap(), 5000);
    let rehearsed = service.rehearse(&profile).unwrap();
    assert_eq!(rehearsed.len(), 1);
    assert_eq!(
        rehearsed[0].to_string(),
        format!("congestion control: {why}")
    );
}

#[test]
fn a_restricted_congestion_control_needs_the_programs() {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
    let allowed = read("tcp_allowed_congestion_control");
    let available = read("tcp_available_congestion_control");
    let restricted = |name: &&str| !allowed.split_whitespace().any(|allowed| allowed == *name);
    let Some(name) = carrick_test::congestion_controls(&available).find(restricted) else {
        carrick_test::lacks!("any process may use every congestion control here");
        return;
    };
    let Some(service) = loaded() else {
        return;
    };
    let profile = Profile {
        congestion_control: Some(name.into()),
        ..Profile::default()
    };
    let (with, without) = without_privileges(|| {
        let set = |service: TcpTuning| {
            let (near, _far) = connection(|_| ());
            service.set(&near, &profile, Moment::Connected)
        };
        (set(service), set(TcpTuning::without_programs()))
    });
    assert_eq!(with.refused, []);
    let why = without.refusal(Setting::CongestionControl).unwrap();
    let expected = "needs CAP_NET_ADMIN; any process may use";
    assert!(why.to_string().contains(expected), "{why}");
    assert!(why.to_string().contains(allowed.trim()), "{why}");
}

#[test]
fn buffers_are_cut_for_those_without_privileges_and_told() {
    let limit = |name: &str| -> u32 {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap();
        text.trim().parse().unwrap()
    };
    let (send, receive) = (limit("wmem_max"), limit("rmem_max"));
    let profile = Profile {
        send_buffer_bytes: Some(send + 4096),
        receive_buffer_bytes: Some(receive + 4096),
        ..Profile::default()
    };
    let service = TcpTuning::without_programs();
    let set = || {
        let (near, _far) = connection(|_| ());
        service.set(&near, &profile, Moment::Connected)
    };
    let applied = without_privileges(set);
    assert_eq!(applied.send_buffer_bytes, Some(send));
    assert_eq!(applied.receive_buffer_bytes, Some(receive));
    let why = applied.refusal(Setting::SendBuffer).unwrap().to_string();
    assert!(why.contains("net.core.wmem_max"), "{why}");
    let why = applied.refusal(Setting::ReceiveBuffer).unwrap();
    let expected = RefusalReason::Reduced {
        asked: receive + 4096,
        got: receive,
        limit: "net.core.rmem_max",
    };
    assert_eq!(why, &expected);
    if !carrick_test::is_root() {
        return;
    }
    let applied = set();
    assert_eq!(applied.refused, []);
    assert_eq!(applied.send_buffer_bytes, Some(send + 4096));
    assert_eq!(applied.receive_buffer_bytes, Some(receive + 4096));
}

#[test]
fn a_listener_that_was_privileged_gives_whole_buffers_to_its_connections() {
    if !carrick_test::is_root() {
        return;
    }
    let limit = std::fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap();
    let asked = limit.trim().parse::<u32>().unwrap() + 4096;
    let profile = Profile {
        send_buffer_bytes: Some(asked),
        ..Profile::default()
    };
    let service = TcpTuning::without_programs();
    let (_near, far) = connection(|listener| {
        let applied = service.set(listener, &profile, Moment::Listening);
        assert_eq!(applied.refused, []);
    });
    let applied = without_privileges(|| service.set(&far, &profile, Moment::Connected));
    assert_eq!(applied.refused, []);
    assert_eq!(applied.send_buffer_bytes, Some(asked));
    let has = sockopt::get(far.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap();
    assert_eq!(has, 2 * asked);
}

#[test]
fn an_initial_window_has_room_and_linux_goes_on_finding_the_size() {
    let Some(service) = loaded() else {
        return;
    };
    let (near, _far) = connection(|_| ());
    let get = |option| sockopt::get(near.as_fd(), libc::SOL_SOCKET, option).unwrap();
    let profile = Profile {
        initial_window_bytes: Some(128 << 10),
        ..Profile::default()
    };
    let applied = service.set(&near, &profile, Moment::Connected);
    assert_eq!(applied.refused, []);
    assert!(get(libc::SO_SNDBUF) / 2 >= 128 << 10);
    assert_eq!(get(sockopt::SO_BUF_LOCK), 0);
}

#[test]
fn an_initial_window_comes_too_late_after_data() {
    use std::io::{Read, Write};
    let Some(service) = loaded() else {
        return;
    };
    let (mut near, mut far) = connection(|_| ());
    near.write_all(b"data").unwrap();
    far.read_exact(&mut [0; 4]).unwrap();
    let applied = service.set(&near, &everything(&service), Moment::Connected);
    assert_eq!(
        applied.refusal(Setting::InitialWindow),
        Some(&RefusalReason::TooLate)
    );
    assert_eq!(applied.refused.len(), 1);
    assert_eq!(applied.initial_window_segments, None);
    // Received data does not matter.
    let applied = service.set(&far, &everything(&service), Moment::Connected);
    assert_eq!(applied.refused, []);
}

#[test]
fn facts_are_those_that_are_wanted() {
    let (near, _far) = connection(|_| ());
    let found = facts(&near, ProfileSide::Client, NeededFacts::default()).unwrap();
    assert_eq!((found.interface, found.rtt), (None, None));
    assert_eq!(found.peer, near.peer_addr().unwrap().ip());
    let all = NeededFacts {
        interface: true,
        rtt: true,
    };
    let found = facts(&near, ProfileSide::Client, all).unwrap();
    assert_eq!(found.interface.as_deref(), Some("lo"));
    assert!(found.rtt.unwrap() > Duration::ZERO);
}
