//! Irregular ends: resets, silence, and dropped exchanges.

use super::bed::*;
use crate::support::*;
use carrick_splice::{Choice, ExchangeEnd, ExchangeOrder, Side};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer than a machine may pause, and than greetings take.
const IDLE: Duration = Duration::from_secs(4);

/// Closes by RST.
fn reset(stream: TcpStream) {
    let linger = Some(Duration::ZERO);
    socket2::SockRef::from(&stream).set_linger(linger).unwrap();
    drop(stream);
}

/// A client that exchanges greetings, and then runs this.
fn client<T: Send + 'static>(
    bed: &Bed,
    then: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> JoinHandle<T> {
    bed.on(Host::Client, move || {
        let mut stream = connect(V4[0]);
        greet(&mut stream);
        then(stream)
    })
}

#[test]
fn a_reset_reaches_the_other_side() {
    for client_resets in [true, false] {
        let Some(bed) = Bed::new() else {
            return;
        };
        let resting = Arc::new(AtomicUsize::new(0));
        let end = move |is_mine: bool, mut stream: TcpStream, resting: &AtomicUsize| {
            wait_until("everything is acknowledged", || {
                is_all_acknowledged(&stream)
            });
            resting.fetch_add(1, SeqCst);
            wait_until("both rest", || resting.load(SeqCst) == 2);
            if is_mine {
                reset(stream);
                return true;
            }
            read_to_any_end(&mut stream).1
        };
        let at_server = Arc::clone(&resting);
        let serving = bed.serve(V4[1], 1, move |mut stream| {
            greet_back(&mut stream);
            end(!client_resets, stream, &at_server)
        });
        let proxying = bed.tunnels(V4, 1);
        let client = client(&bed, move |stream| end(client_resets, stream, &resting));
        let seen = (client.join().unwrap(), serving.join().unwrap());
        let told = proxying.join().unwrap().remove(0);
        assert_eq!(seen, (true, vec![true]), "{told:?}");
        let ExchangeEnd::Fault { a_to_b, fault } = &told.end else {
            panic!("{told:?}");
        };
        // Of the sender of a direction, or of the other one's receiver.
        assert_eq!(
            *a_to_b == (fault.side == Side::From),
            client_resets,
            "{told:?}"
        );
        assert_eq!(told.bytes, (GREETING, GREETING));
    }
}

#[test]
fn a_reset_in_the_midst_of_bulk_reaches_the_other_side() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], 1, |mut stream| {
        greet_back(&mut stream);
        // Until the client no longer accepts.
        while stream.write_all(&[7; 50_000]).is_ok() {}
    });
    let proxying = bed.tunnels(V4, 1);
    let client = client(&bed, |mut stream| {
        stream.read_exact(&mut vec![0; 3_000_000]).unwrap();
        // Closing with unread bytes is a reset.
        drop(stream);
    });
    client.join().unwrap();
    serving.join().unwrap();
    let told = proxying.join().unwrap().remove(0);
    assert!(matches!(told.end, ExchangeEnd::Fault { .. }), "{told:?}");
}

#[test]
fn a_quiet_tunnel_ends_when_it_is_idle() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], 1, |mut stream| {
        greet_back(&mut stream);
        read_to_any_end(&mut stream).0
    });
    let proxying = bed.tunnels_of(V4, (1, 4), IDLE);
    let client = client(&bed, |mut stream| {
        // It is not idle while the kernel forwards.
        for _ in 0..12 {
            std::thread::sleep(IDLE / 10);
            stream.write_all(&[2]).unwrap();
        }
        read_to_any_end(&mut stream).0
    });
    assert!(client.join().unwrap().is_empty());
    assert_eq!(serving.join().unwrap(), [vec![2; 12]]);
    let told = proxying.join().unwrap().remove(0);
    assert!(matches!(told.end, ExchangeEnd::Idle), "{told:?}");
    assert!(told.is_quiet, "{told:?}");
    assert_eq!(told.bytes, (12 + GREETING, GREETING), "{told:?}");
    assert!(told.by_kernel >= 12, "{told:?}");
}

#[test]
fn a_tunnel_whose_client_takes_nothing_is_idle_but_not_quiet() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], 1, |mut stream| {
        greet_back(&mut stream);
        // More than fits anywhere.
        stream.write_all(&vec![3; 32 << 20]).is_err()
    });
    let proxying = bed.tunnels_of(V4, (1, 4), IDLE);
    let client = client(&bed, |stream| stream);
    let told = proxying.join().unwrap().remove(0);
    assert!(matches!(told.end, ExchangeEnd::Idle), "{told:?}");
    assert!(!told.is_quiet && told.by_kernel > 0, "{told:?}");
    drop(client.join().unwrap());
    assert_eq!(serving.join().unwrap(), [true]);
}

#[test]
fn a_client_that_vanishes_is_noticed_by_its_silence() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], 1, |mut stream| {
        greet_back(&mut stream);
        // This is never acknowledged.
        stream.write_all(&[3; 1000]).unwrap();
        read_to_any_end(&mut stream).0
    });
    let proxying = bed.tunnels_of(V4, (1, 4), IDLE);
    let client = bed.on(Host::Client, || {
        let mut stream = connect(V4[0]);
        greet(&mut stream);
        stream
    });
    let stream = client.join().unwrap();
    bed.ip(Host::Client, "link set c down");
    assert_eq!(serving.join().unwrap(), [vec![]]);
    let told = proxying.join().unwrap().remove(0);
    assert!(matches!(told.end, ExchangeEnd::Idle), "{told:?}");
    assert_eq!(told.is_quiet, told.bytes.1 == 1000 + GREETING, "{told:?}");
    drop(stream);
}

#[test]
fn a_dropped_exchange_leaves_no_peer_hanging() {
    for in_bulk in [false, true] {
        let Some(bed) = Bed::new() else {
            return;
        };
        let greeted = Arc::new(AtomicUsize::new(0));
        let by_peers = Arc::clone(&greeted);
        let talk = move |mut stream: TcpStream| {
            by_peers.fetch_add(1, SeqCst);
            if !in_bulk {
                return read_to_any_end(&mut stream).0.len();
            }
            let mut writer = stream.try_clone().unwrap();
            let writing =
                std::thread::spawn(move || while writer.write_all(&[7; 50_000]).is_ok() {});
            let read = read_to_any_end(&mut stream).0.len();
            writing.join().unwrap();
            read
        };
        let server_talk = talk.clone();
        let serving = bed.serve(V4[1], 1, move |mut stream| {
            greet_back(&mut stream);
            server_talk(stream)
        });
        let proxying = bed.proxy(V4, (1, 4), move |splicer, client, server| {
            let greeted = Arc::clone(&greeted);
            async move {
                let mut exchange =
                    splicer.exchange(client, server, ExchangeOrder::new(Choice::Packet));
                let counters = splicer.counters();
                let is_there = || {
                    greeted.load(SeqCst) == 2
                        && counters.packet_stays.get() > 0
                        && (!in_bulk || counters.packet_bytes.get() > 1_000_000)
                };
                tokio::select! {
                    end = exchange.run() => panic!("{end:?}"),
                    () = until(is_there) => {}
                }
                drop(exchange);
            }
        });
        let client = client(&bed, talk);
        client.join().unwrap();
        serving.join().unwrap();
        proxying.join().unwrap();
    }
}

#[test]
fn a_client_that_begins_anew_with_the_same_port_is_served() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], 2, |mut stream| {
        greet_back(&mut stream);
        read_to_any_end(&mut stream).1
    });
    let proxying = bed.tunnels(V4, 2);
    let client = bed.on(Host::Client, || {
        for round in 0..2 {
            let own = "10.78.1.2:33333".parse().unwrap();
            let mut stream = connect_from(own, SocketAddr::new(V4[0], PROXY_PORT));
            greet(&mut stream);
            if round == 0 {
                reset(stream);
            }
        }
    });
    client.join().unwrap();
    serving.join().unwrap();
    let told = proxying.join().unwrap();
    assert!(matches!(told[0].end, ExchangeEnd::Fault { .. }), "{told:?}");
    assert!(matches!(told[1].end, ExchangeEnd::Closed), "{told:?}");
}
