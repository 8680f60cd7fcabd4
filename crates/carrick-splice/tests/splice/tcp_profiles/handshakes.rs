//! Effects that only handshakes show: initial time-outs and windows.

use super::bed::{self, Bed, Host, bed, retransmission_timeout, send_window};
use crate::support::wait_until;
use carrick_splice::tcp_tuning::{Moment, Profile, TcpTuning};
use socket2::Socket;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Unused addresses of the client's and of the server's network.
const NO_CLIENT: [&str; 2] = ["10.83.1.77", "fd83:1::77"];
const NO_SERVER: [&str; 2] = ["10.83.2.77", "fd83:2::77"];

/// Linux's default (RFC 6298).
const USUAL: Duration = Duration::from_secs(1);

/// Longer than any default time-out after a few attempts.
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(60);

fn initial(timeout: Duration) -> Profile {
    Profile {
        rto_initial: Some(timeout),
        ..Profile::default()
    }
}

/// Listeners have them from Linux 6.2 on.
fn listeners_can(service: &TcpTuning) -> bool {
    let refused = service.rehearse(&initial(LONG)).unwrap();
    let Some(refused) = refused.first() else {
        return true;
    };
    let why = refused.why.to_string();
    assert!(why.contains("for listeners it needs Linux 6.2"), "{why}");
    carrick_test::lacks!("{why}");
    false
}

/// Begins to connect from the gateway to a server that does not answer.
fn begin(bed: &Bed, family: usize, service: &TcpTuning, profile: &Profile) -> Socket {
    let server = SocketAddr::new(NO_SERVER[family].parse().unwrap(), 9);
    let (service, profile) = (service.clone(), profile.clone());
    bed.at(Host::Middle, move || {
        let socket = bed::socket(family);
        let applied = service.set(&socket, &profile, Moment::Connecting);
        assert_eq!(applied.refused, []);
        socket.set_nonblocking(true).unwrap();
        socket.connect(&server.into()).unwrap_err();
        socket
    })
}

/// Waits until a host has retransmitted this many segments.
fn wait_for_retries(bed: &Bed, host: Host, count: u64) {
    wait_until("retransmissions", || bed.sent_again(host) >= count);
}

#[test]
fn a_syn_is_sent_again_when_the_profile_says() {
    let Some(bed) = bed() else {
        return;
    };
    let service = TcpTuning::load();
    for family in [0, 1] {
        bed.lead_nowhere("ground", NO_SERVER[family]);
        let long = begin(&bed, family, &service, &initial(LONG));
        assert_eq!(retransmission_timeout(&long), LONG);
        let usual = begin(&bed, family, &service, &Profile::default());
        assert!(retransmission_timeout(&usual) >= USUAL);
        assert!(retransmission_timeout(&usual) < LONG);
        drop(usual);
        // The long one has not retransmitted anything when the short one has done so several times.
        let before = bed.sent_again(Host::Middle);
        let short = begin(&bed, family, &service, &initial(SHORT));
        wait_for_retries(&bed, Host::Middle, before + 3);
        drop(short);
        assert_eq!(retransmission_timeout(&long), LONG);
    }
}

#[test]
fn a_syn_ack_is_sent_again_when_the_listeners_profile_says() {
    let Some(bed) = bed() else {
        return;
    };
    let service = TcpTuning::load();
    if !listeners_can(&service) {
        return;
    }
    for family in [0, 1] {
        bed.lead_nowhere("sat", NO_CLIENT[family]);
        let listen = |profile: &Profile| {
            let listener = bed.listen(Host::Middle, family);
            let applied = service.set(&listener, profile, Moment::Listening);
            assert_eq!(applied.refused, []);
            listener
        };
        let long = listen(&initial(LONG));
        let usual = listen(&Profile::default());
        let short = listen(&initial(SHORT));
        let (_one, left) = knock(&bed, family, &long);
        assert!(left > LONG / 2 && left <= LONG, "{left:?}");
        let (_two, left) = knock(&bed, family, &usual);
        assert!(left < LONG / 2, "{left:?}");
        let before = bed.sent_again(Host::Middle);
        let (_three, left) = knock(&bed, family, &short);
        assert!(left < LONG / 2, "{left:?}");
        wait_for_retries(&bed, Host::Middle, before + 3);
    }
}

/// Begins to connect to a gateway's listener from an address that no answer reaches. Returns the remaining time-out of
/// the gateway's answer.
fn knock(bed: &Bed, family: usize, listener: &TcpListener) -> (Socket, Duration) {
    let address = listener.local_addr().unwrap();
    let own = SocketAddr::new(NO_CLIENT[family].parse().unwrap(), 0);
    let socket = bed.at(Host::Client, move || {
        let socket = bed::socket(family);
        if family == 0 {
            socket.set_ip_transparent_v4(true).unwrap();
        } else {
            socket.set_freebind_v6(true).unwrap();
        }
        socket.bind(&own.into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.connect(&address.into()).unwrap_err();
        socket
    });
    let left = carrick_test::wait_for("a handshake", || {
        waiting_handshake(bed, family, address.port())
    });
    (socket, left)
}

/// The remaining time-out of the SYN-ACK of a handshake with a port of the gateway: state 03 (SYN_RECV) of
/// /proc/net/tcp, the second number of `tr tm->when`, in hundredths of a second.
fn waiting_handshake(bed: &Bed, family: usize, port: u16) -> Option<Duration> {
    let table = bed.read(Host::Middle, ["/proc/net/tcp", "/proc/net/tcp6"][family]);
    let suffix = format!(":{port:04X}");
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if !fields[1].ends_with(&suffix) || fields[3] != "03" {
            return None;
        }
        let (_, left) = fields[5].split_once(':').unwrap();
        Some(Duration::from_millis(
            10 * u64::from_str_radix(left, 16).unwrap(),
        ))
    })
}

#[test]
fn a_first_receive_window_is_as_small_as_the_profile_says() {
    let Some(bed) = bed() else {
        return;
    };
    let service = TcpTuning::load();
    if !listeners_can(&service) {
        return;
    }
    let small = Profile {
        initial_receive_window_segments: Some(4),
        ..Profile::default()
    };
    for family in [0, 1] {
        let mut windows = Vec::new();
        for profile in [&small, &Profile::default()] {
            // The gateway's window as the client sees it: as the gateway accepts, and as it connects.
            let listener = bed.listen(Host::Middle, family);
            let applied = service.set(&listener, profile, Moment::Listening);
            assert_eq!(applied.refused, []);
            let address = listener.local_addr().unwrap();
            let client = bed.at(Host::Client, move || TcpStream::connect(address).unwrap());
            let accepted = listener.accept().unwrap();
            let theirs = bed.listen(Host::Client, family);
            let address = theirs.local_addr().unwrap();
            let (service, profile) = (service.clone(), profile.clone());
            let connected = bed.at(Host::Middle, move || {
                let socket = bed::socket(family);
                let applied = service.set(&socket, &profile, Moment::Connecting);
                assert_eq!(applied.refused, []);
                socket.connect(&address.into()).unwrap();
                socket
            });
            let (other, _) = theirs.accept().unwrap();
            windows.push((send_window(&client), send_window(&other)));
            drop((accepted, connected));
        }
        let [small, usual] = windows[..] else {
            unreachable!()
        };
        // A scaled window is rounded up.
        let segments = 4 * 1460 + 16_384;
        assert!(small.0 <= segments && small.1 <= segments, "{windows:?}");
        assert!(usual.0 > segments && usual.1 > segments, "{windows:?}");
    }
}
