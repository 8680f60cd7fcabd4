//! TCP profiles between network namespaces: the packets that leave the socket, not only its options.

mod alone;
mod bed;
mod handshakes;
mod routes;

use crate::support::{HANG, wait_until};
use bed::{Bed, Host, acked_bytes, bed, pacing_rate};
use carrick_splice::tcp_tuning::{Moment, Profile, TcpTuning, measure};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const KB_64: u32 = 64 << 10;

/// More than any initial flight here.
const PLENTY: usize = 400_000;

fn profile(congestion_control: &str, initial_window_bytes: Option<u32>) -> Profile {
    Profile {
        initial_window_bytes,
        congestion_control: Some(congestion_control.into()),
        send_buffer_bytes: Some(2 * PLENTY as u32),
        ..Profile::default()
    }
}

/// Which side opens the connection between client and gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begins {
    Client,
    Gateway,
}

/// A connection: the client's end, and the gateway's.
fn connection(bed: &Bed, family: usize, begins: Begins) -> (TcpStream, TcpStream) {
    let (listens, connects) = match begins {
        Begins::Client => (Host::Middle, Host::Client),
        Begins::Gateway => (Host::Client, Host::Middle),
    };
    let listener = bed.listen(listens, family);
    let address = listener.local_addr().unwrap();
    let connecting = bed.at(connects, move || TcpStream::connect(address).unwrap());
    let (accepted, _) = listener.accept().unwrap();
    match begins {
        Begins::Client => (connecting, accepted),
        Begins::Gateway => (accepted, connecting),
    }
}

/// Sends plenty to a client whose acknowledgements are dropped; returns how many bytes arrive: the initial flight.
fn first_flight(bed: &Bed, family: usize, begins: Begins, profile: &Profile) -> FirstFlight {
    first_flight_after(Duration::ZERO, bed, family, begins, profile)
}

/// The same after an idle period.
fn first_flight_after(
    silence: Duration,
    bed: &Bed,
    family: usize,
    begins: Begins,
    profile: &Profile,
) -> FirstFlight {
    let (client, mut gateway) = connection(bed, family, begins);
    let service = TcpTuning::load();
    let applied = service.set(&gateway, profile, Moment::Connected);
    assert_eq!(applied.refused, []);
    bed.mute_client(family, true);
    std::thread::sleep(silence);
    let window_bytes = bed::send_window(&gateway);
    gateway.set_nonblocking(true).unwrap();
    let written = gateway.write(&vec![7; PLENTY]).unwrap();
    let measured = measure(&gateway).unwrap();
    let segment_bytes = u64::from(measured.segment_bytes);
    // Nothing more may be in flight, and everything sent has arrived.
    wait_until("the first flight has arrived", || {
        let under_way = bed::unacknowledged(&gateway);
        let may_be = u64::from(measure(&gateway).unwrap().congestion_window);
        (under_way >= may_be || (under_way + 1) * segment_bytes > window_bytes)
            && bed::received_bytes(&client) == under_way * segment_bytes
    });
    let arrived = bed::received_bytes(&client);
    // Only the SYN was acknowledged.
    assert!(acked_bytes(&gateway) <= 1, "an acknowledgement came");
    bed.mute_client(family, false);
    assert!(written as u64 > arrived, "{written} bytes were too few");
    FirstFlight {
        bytes: arrived,
        segments: applied.initial_window_segments,
        segment_bytes,
        window_bytes,
    }
}

#[derive(Debug)]
struct FirstFlight {
    bytes: u64,
    /// The initial window that was set, in segments.
    segments: Option<u32>,
    segment_bytes: u64,
    /// The client's window before any data.
    window_bytes: u64,
}

#[test]
fn the_first_flight_is_64_kb() {
    let Some(bed) = bed() else {
        return;
    };
    let congestion = bed.read(
        Host::Middle,
        "/proc/sys/net/ipv4/tcp_available_congestion_control",
    );
    for name in carrick_test::congestion_controls(&congestion) {
        for (family, begins) in [
            (0, Begins::Client),
            (0, Begins::Gateway),
            (1, Begins::Client),
            (1, Begins::Gateway),
        ] {
            let flight = first_flight(&bed, family, begins, &profile(name, Some(KB_64)));
            let segments = flight.segments.unwrap();
            assert_eq!(u64::from(segments), u64::from(KB_64) / flight.segment_bytes);
            // Linux's initial receive window is 64240 bytes, a little less than 64 KB.
            assert!(
                flight.window_bytes > 64_000,
                "{name}, {begins:?}: {flight:?}"
            );
            let whole = u64::from(segments).min(flight.window_bytes / flight.segment_bytes);
            let bytes = whole * flight.segment_bytes;
            assert_eq!(flight.bytes, bytes, "{name}, {begins:?}: {flight:?}");
        }
    }
}

#[test]
fn a_first_flight_is_whole_without_a_send_buffer_setting() {
    let Some(bed) = bed() else {
        return;
    };
    let profile = Profile {
        initial_window_bytes: Some(KB_64),
        ..Profile::default()
    };
    for begins in [Begins::Client, Begins::Gateway] {
        let flight = first_flight(&bed, 0, begins, &profile);
        let segments = u64::from(flight.segments.unwrap());
        let whole = segments.min(flight.window_bytes / flight.segment_bytes);
        assert_eq!(flight.bytes, whole * flight.segment_bytes, "{flight:?}");
    }
}

#[test]
fn the_first_flight_of_others_is_as_ever() {
    let Some(bed) = bed() else {
        return;
    };
    let flight = first_flight(&bed, 0, Begins::Client, &profile("reno", None));
    assert_eq!(flight.segments, None);
    // RFC 6928
    assert_eq!(flight.bytes, 10 * flight.segment_bytes);
}

/// The statement of `docs/internals/tcp-tuning.md` on slow start after idleness.
#[test]
fn silence_takes_a_first_flight_away_unless_the_namespace_or_the_congestion_control_says_otherwise()
{
    let Some(bed) = bed() else {
        return;
    };
    // Several time-outs.
    let silence = Duration::from_secs(2);
    let after = |name: &str, switch: &str| {
        bed.sysctl(Host::Middle, "tcp_slow_start_after_idle", switch);
        let flight = first_flight_after(
            silence,
            &bed,
            0,
            Begins::Gateway,
            &profile(name, Some(KB_64)),
        );
        flight.bytes / flight.segment_bytes
    };
    assert_eq!(after("reno", "1"), 10);
    assert_eq!(after("reno", "0"), 45);
    let congestion = bed.read(
        Host::Middle,
        "/proc/sys/net/ipv4/tcp_available_congestion_control",
    );
    if congestion.contains("bbr") {
        assert_eq!(after("bbr", "1"), 45);
    }
}

/// Pacing congestion controls compute their rate at the start. Later data must not be paced at ten segments per round trip.
#[test]
fn the_first_flight_leaves_within_a_round_trip() {
    let Some(bed) = bed() else {
        return;
    };
    let listener = bed.listen(Host::Middle, 0);
    let address = listener.local_addr().unwrap();
    let congestion = bed.read(
        Host::Middle,
        "/proc/sys/net/ipv4/tcp_available_congestion_control",
    );
    if !congestion.contains("bbr") {
        carrick_test::lacks!("this kernel has no congestion control bbr");
        return;
    }
    let service = TcpTuning::load();
    // From the initial congestion control, to the profile's.
    for (from, to) in [("bbr", "bbr"), ("bbr", "reno"), ("reno", "bbr")] {
        let applied = service.set(&listener, &profile(from, None), Moment::Listening);
        assert_eq!(applied.refused, []);
        let client = bed.at(Host::Client, move || TcpStream::connect(address).unwrap());
        let (gateway, _) = listener.accept().unwrap();
        let applied = service.set(&gateway, &profile(to, Some(KB_64)), Moment::Connected);
        assert_eq!(applied.refused, []);
        let measured = measure(&gateway).unwrap();
        let flight = f64::from(measured.congestion_window * measured.segment_bytes);
        let a_round_trip = pacing_rate(&gateway) as f64 * measured.rtt.unwrap().as_secs_f64();
        assert!(
            a_round_trip > flight,
            "{from}, {to}: {a_round_trip} of {flight} bytes"
        );
        drop(client);
    }
}

#[test]
fn a_smaller_least_time_out_is_used() {
    let Some(bed) = bed() else {
        return;
    };
    let listener = bed.listen(Host::Middle, 0);
    let address = listener.local_addr().unwrap();
    let service = TcpTuning::load();
    let quick = Profile {
        rto_min: Some(Duration::from_millis(20)),
        ..Profile::default()
    };
    // On top of the round trip; it also has four times its variation, which is large on a busy machine.
    let timeout = |profile: &Profile| {
        let applied = service.set(&listener, profile, Moment::Listening);
        assert_eq!(applied.refused, []);
        let client = bed.at(Host::Client, move || TcpStream::connect(address).unwrap());
        let (gateway, _) = listener.accept().unwrap();
        let rtt = measure(&gateway).unwrap().rtt.unwrap();
        let timeout = bed::retransmission_timeout(&gateway);
        drop(client);
        timeout.saturating_sub(rtt)
    };
    let usual = timeout(&Profile::default());
    assert!(usual >= Duration::from_millis(190), "{usual:?}");
    let began = Instant::now();
    while timeout(&quick) >= Duration::from_millis(150) {
        assert!(began.elapsed() < HANG, "none is smaller than {usual:?}");
    }
}

#[test]
fn a_pace_is_kept() {
    let Some(bed) = bed() else {
        return;
    };
    const RATE: u64 = 1_000_000;
    const BYTES: usize = 300_000;
    let listener = bed.listen(Host::Middle, 0);
    let address = listener.local_addr().unwrap();
    let paced = Profile {
        pacing_rate: Some(RATE),
        ..Profile::default()
    };
    let client = bed.at(Host::Client, move || TcpStream::connect(address).unwrap());
    client.set_read_timeout(Some(HANG)).unwrap();
    let (mut gateway, _) = listener.accept().unwrap();
    let applied = TcpTuning::without_programs().set(&gateway, &paced, Moment::Connected);
    assert_eq!(applied.refused, []);
    let began = Instant::now();
    std::thread::scope(|threads| {
        threads.spawn(|| gateway.write_all(&vec![7; BYTES]).unwrap());
        let mut client = &client;
        std::io::Read::read_exact(&mut client, &mut vec![0; BYTES]).unwrap();
    });
    // An initial burst is not paced.
    let least = Duration::from_secs_f64((BYTES as f64 - 100_000.0) / RATE as f64);
    let took = began.elapsed();
    assert!(took > least, "{took:?} instead of {least:?}");
}
