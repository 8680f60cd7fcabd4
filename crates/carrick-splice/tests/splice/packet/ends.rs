//! Ends that nobody agreed on: resets, silence, and owners that let go.

use super::bed::*;
use crate::support::*;
use carrick_splice::{Choice, ExchangeEnd, ExchangeOrder};
use socket2::{Domain, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// Closes by RST.
fn reset(stream: TcpStream) {
    let linger = Some(Duration::ZERO);
    socket2::SockRef::from(&stream).set_linger(linger).unwrap();
    drop(stream);
}

/// A client that greets, and then does this.
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
        let end = move |is_mine: bool, mut stream: TcpStream| {
            if is_mine {
                std::thread::sleep(ARMED);
                reset(stream);
                return true;
            }
            read_to_any_end(&mut stream).1
        };
        let serving = bed.serve(V4[1], 1, move |mut stream| {
            greet_back(&mut stream);
            end(!client_resets, stream)
        });
        let proxying = bed.tunnels(V4, 1);
        let client = client(&bed, move |stream| end(client_resets, stream));
        let seen = (client.join().unwrap(), serving.join().unwrap());
        let told = proxying.join().unwrap().remove(0);
        assert_eq!(seen, (true, vec![true]), "{told:?}");
        assert!(matches!(told.end, ExchangeEnd::Fault { .. }), "{told:?}");
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
        // Until the client does not take any more.
        while stream.write_all(&[7; 50_000]).is_ok() {}
    });
    let proxying = bed.tunnels(V4, 1);
    let client = client(&bed, |mut stream| {
        stream.read_exact(&mut vec![0; 3_000_000]).unwrap();
        // With bytes that were not read: that is a reset.
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
    let proxying = bed.tunnels_of(V4, (1, 4), Duration::from_millis(600));
    let client = client(&bed, |mut stream| {
        // It is not quiet while the kernel forwards.
        for _ in 0..12 {
            std::thread::sleep(Duration::from_millis(100));
            stream.write_all(&[2]).unwrap();
        }
        read_to_any_end(&mut stream).0
    });
    assert!(client.join().unwrap().is_empty());
    assert_eq!(serving.join().unwrap(), [vec![2; 12]]);
    let told = proxying.join().unwrap().remove(0);
    assert!(matches!(told.end, ExchangeEnd::Idle), "{told:?}");
    assert_eq!(told.bytes, (12 + GREETING, GREETING), "{told:?}");
    assert!(told.by_kernel >= 12, "{told:?}");
}

#[test]
fn a_client_that_vanishes_is_noticed_by_its_silence() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], 1, |mut stream| {
        greet_back(&mut stream);
        // Nobody acknowledges this.
        stream.write_all(&[3; 1000]).unwrap();
        read_to_any_end(&mut stream).0
    });
    let proxying = bed.tunnels_of(V4, (1, 4), Duration::from_millis(700));
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
    drop(stream);
}

#[test]
fn an_exchange_that_is_dropped_leaves_nobody_hanging() {
    for in_bulk in [false, true] {
        let Some(bed) = Bed::new() else {
            return;
        };
        let talk = move |mut stream: TcpStream| {
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
        let serving = bed.serve(V4[1], 1, move |mut stream| {
            greet_back(&mut stream);
            talk(stream)
        });
        let proxying = bed.proxy(V4, (1, 4), |splicer, client, server| async move {
            let mut exchange = splicer.exchange(client, server, ExchangeOrder::new(Choice::Packet));
            let some = tokio::time::timeout(Duration::from_millis(500), exchange.run()).await;
            assert!(some.is_err(), "{some:?}");
            drop(exchange);
        });
        let client = client(&bed, talk);
        client.join().unwrap();
        serving.join().unwrap();
        proxying.join().unwrap();
    }
}

/// Connects from an address and port of its own, as soon as the kernel has forgotten who had them before.
fn connect_from(own: SocketAddr) -> TcpStream {
    let proxy = SocketAddr::new(V4[0], PROXY_PORT);
    let deadline = std::time::Instant::now() + HANG / 2;
    loop {
        let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&own.into()).unwrap();
        match socket.connect(&proxy.into()) {
            Ok(()) => return TcpStream::from(socket),
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                assert!(std::time::Instant::now() < deadline, "{error}");
                std::thread::sleep(SETTLE);
            }
            Err(error) => panic!("{error}"),
        }
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
            let mut stream = connect_from("10.78.1.2:33333".parse().unwrap());
            stream.set_read_timeout(Some(HANG)).unwrap();
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
