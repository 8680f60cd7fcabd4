//! Connections that return from the kernel, and continue: by hand, by another engine, or by the kernel again.

use super::bed::*;
use crate::support::*;
use carrick_splice::{Choice, ExchangeEnd, ExchangeOrder, HandOver};
use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

fn is_clean(hand_over: &HandOver) -> bool {
    hand_over.unsent.is_empty() && hand_over.surplus.is_empty() && hand_over.prefix_unsent == 0
}

#[test]
fn at_rest_they_come_back_and_go_on() {
    const ENGINES: [Choice; 6] = [
        Choice::Packet,
        Choice::Copy,
        Choice::Packet,
        Choice::Packet,
        Choice::Pipe,
        Choice::Packet,
    ];
    for addresses in [V4, V6] {
        let Some(bed) = Bed::new() else {
            return;
        };
        let bed = Arc::new(bed);
        let hosts = Arc::clone(&bed);
        let next = Arc::new(Notify::new());
        let serving = bed.serve(addresses[1], 1, answer);
        let asked = Arc::clone(&next);
        let (taken_back, is_taken_back) = mpsc::channel();
        let proxying = bed.proxy(addresses, (1, 8), move |splicer, mut client, mut server| {
            let (next, taken_back) = (Arc::clone(&next), taken_back.clone());
            async move {
                let mut by_kernel = Vec::new();
                for choice in ENGINES {
                    let before = splicer.counters().packet_bytes.get();
                    let mut exchange = splicer.exchange(client, server, ExchangeOrder::new(choice));
                    tokio::select! {
                        end = exchange.run() => panic!("{choice:?}: {end:?}"),
                        () = next.notified() => {}
                    }
                    let (up, down, [a, b]) = exchange.unsplice_own().await;
                    assert!(is_clean(&up) && is_clean(&down), "{up:?} {down:?}");
                    (client, server) = (a.unwrap(), b.unwrap());
                    by_kernel.push(splicer.counters().packet_bytes.get() - before);
                    taken_back.send(()).unwrap();
                }
                let mut exchange =
                    splicer.exchange(client, server, ExchangeOrder::new(Choice::Copy));
                assert!(matches!(exchange.run().await, ExchangeEnd::Closed));
                by_kernel
            }
        });
        let asking = bed.on(Host::Client, move || {
            let mut stream = connect(addresses[0]);
            let mut given = 0;
            for (round, choice) in ENGINES.into_iter().enumerate() {
                for _ in 0..GREETING {
                    ask(&mut stream, 50 + round, 60);
                }
                given += u64::from(choice == Choice::Packet);
                until_given(given);
                ask(&mut stream, 20_000 + round, 700_000 + round);
                ask(&mut stream, 0, 1);
                // Until nothing is in flight.
                until_at_rest();
                hosts.on(Host::Server, until_at_rest).join().unwrap();
                asked.notify_one();
                is_taken_back.recv_timeout(HANG).unwrap();
            }
            ask(&mut stream, 1000, 2000);
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        });
        asking.join().unwrap();
        serving.join().unwrap();
        let by_kernel = proxying.join().unwrap().remove(0);
        for (choice, bytes) in ENGINES.iter().zip(by_kernel) {
            let wanted = if *choice == Choice::Packet {
                720_000
            } else {
                0
            };
            assert!(bytes >= wanted, "{choice:?}: {bytes}");
            assert_eq!(bytes == 0, wanted == 0, "{choice:?}: {bytes}");
        }
    }
}

/// Regression test: the thread slept in between, and delayed its other tasks.
#[test]
fn others_have_their_turn_while_a_connection_does_not_come_to_rest() {
    // The kernel ends a cork after 200 ms: again where the others' turns took as long.
    for _ in 0..5 {
        let Some((turns, time)) = turns_before_rest() else {
            return;
        };
        if turns > 8 {
            return;
        }
        assert!(time >= Duration::from_millis(200), "{turns} in {time:?}");
    }
    panic!("it came to rest before the others had their turn, five times");
}

/// How often others have their turn while a connection does not come to rest, which it may from the ninth time on, and in what
/// time. `None`: skipped.
fn turns_before_rest() -> Option<(usize, Duration)> {
    let bed = Bed::new()?;
    let (by_kernel, is_quiet) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let serving = bed.serve(V4[1], 1, |mut stream| {
        let mut byte = [0];
        while matches!(stream.read(&mut byte), Ok(1)) && stream.write_all(&byte).is_ok() {}
    });
    let (forwarded, quiet) = (Arc::clone(&by_kernel), Arc::clone(&is_quiet));
    let proxying = bed.proxy(V4, (1, 8), move |splicer, client, server| {
        let (forwarded, quiet) = (Arc::clone(&forwarded), Arc::clone(&quiet));
        async move {
            let mut exchange =
                splicer.exchange(&client, &server, ExchangeOrder::new(Choice::Packet));
            while splicer.counters().packet_bytes.get() == 0 {
                let some = tokio::time::timeout(Duration::from_millis(20), exchange.run()).await;
                assert!(some.is_err(), "{some:?}");
            }
            forwarded.notify_one();
            tokio::select! {
                end = exchange.run() => panic!("{end:?}"),
                () = quiet.notified() => {}
            }
            // It becomes idle only after the others have had their turn.
            let cork = |is_corked| rustix::net::sockopt::set_tcp_cork(&client, is_corked).unwrap();
            let begun = Instant::now();
            cork(true);
            client.try_write(b"x").unwrap();
            let mut turns = 0;
            let others = poll_fn(|cx| {
                turns += 1;
                if turns == 9 {
                    cork(false);
                }
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            });
            tokio::select! {
                biased;
                _ = exchange.unsplice() => {}
                () = others => {}
            }
            (turns, begun.elapsed())
        }
    });
    let asking = bed.on(Host::Client, move || {
        let mut stream = connect(V4[0]);
        let mut forwarded = pin!(by_kernel.notified());
        let mut context = Context::from_waker(Waker::noop());
        while forwarded.as_mut().poll(&mut context).is_pending() {
            greet(&mut stream);
        }
        is_quiet.notify_one();
        read_to_any_end(&mut stream);
    });
    let outcome = proxying.join().unwrap().remove(0);
    asking.join().unwrap();
    serving.join().unwrap();
    Some(outcome)
}

/// The kernel has the packets; one side closes, or both do; then the connections return. The next reader finds the ends.
#[test]
fn forwarded_ends_are_seen_by_the_next_reader() {
    const BYTES: usize = 300_000;
    for both_end in [false, true] {
        let Some(bed) = Bed::new() else {
            return;
        };
        let ends = Arc::new(AtomicUsize::new(0));
        let [heard_by_server, heard_by_client] = [(); 2].map(|()| Arc::clone(&ends));
        let (taken_back, is_taken_back) = mpsc::channel();
        let is_taken_back = Mutex::new(is_taken_back);
        let (unseen, is_unseen) = mpsc::channel();
        let serving = bed.serve(V4[1], 1, move |mut stream| {
            greet_back(&mut stream);
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            heard_by_server.fetch_add(1, SeqCst);
            if both_end {
                return;
            }
            let is_taken_back = is_taken_back.lock().unwrap();
            is_taken_back.recv_timeout(HANG).unwrap();
            stream.write_all(&sample(4, BYTES)).unwrap();
        });
        let proxying = bed.proxy(V4, (1, 8), move |splicer, client, server| {
            let (ends, taken_back) = (Arc::clone(&ends), taken_back.clone());
            let unseen = unseen.clone();
            async move {
                let order = ExchangeOrder::new(Choice::Packet);
                let mut exchange = splicer.exchange(client, server, order);
                tokio::select! {
                    end = exchange.run() => panic!("{end:?}"),
                    () = until(|| splicer.counters().packet_stays.get() > 0) => {}
                }
                // The exchange is not polled while they end.
                unseen.send(()).unwrap();
                until(|| ends.load(SeqCst) == 1 + usize::from(both_end)).await;
                let (up, down, [a, b]) = exchange.unsplice_own().await;
                assert!(is_clean(&up) && is_clean(&down), "{up:?} {down:?}");
                let _ = taken_back.send(());
                let order = ExchangeOrder::new(Choice::Copy);
                let mut exchange = splicer.exchange(a.unwrap(), b.unwrap(), order);
                (exchange.run().await, exchange.b_to_a_bytes())
            }
        });
        let asking = bed.on(Host::Client, move || {
            let mut stream = connect(V4[0]);
            greet(&mut stream);
            is_unseen.recv_timeout(HANG).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).unwrap();
            heard_by_client.fetch_add(1, SeqCst);
            heard
        });
        let said = if both_end { 0 } else { BYTES };
        assert_same(
            &asking.join().unwrap(),
            &sample(4, said),
            "what the client heard",
        );
        serving.join().unwrap();
        let (end, bytes) = proxying.join().unwrap().remove(0);
        assert!(is_closed(&end), "{end:?}");
        assert_eq!(bytes, said as u64);
    }
}

/// Regression test: the server has acknowledged the client's forwarded FIN, has closed, and has forgotten the connection. It answers by RST
/// whatever the local socket still sends: the acknowledgement of a repeated FIN, or what was forwarded before. This passed for a fault.
#[test]
fn a_server_that_has_forgotten_the_connection_does_not_undo_its_end() {
    const SAID: usize = 3000;
    // Its acknowledgements come only with its answer. Its FIN comes late and several times: while the socket is in use, answers are queued.
    const AT_SERVER: &str = "add table netdev late; \
        add chain netdev late out { type filter hook egress device s priority 0; }; \
        add rule netdev late out ip length < 100 tcp flags & (fin | syn | rst | psh | ack) == ack drop; \
        add rule netdev late out tcp flags & fin == fin numgen inc mod 1000 < 1 drop; \
        add rule netdev late out tcp flags & fin == fin dup to s";
    // It sends nothing again meanwhile.
    const AT_CLIENT: &str = "add table netdev late; \
        add chain netdev late out { type filter hook egress device c priority 0; }; \
        add rule netdev late out tcp flags & (fin | psh) != 0 drop";
    // (bytes before the client's FIN, whether the server closes by RST: that is a fault)
    for (last, is_reset) in [(0, false), (1000, false), (0, true)] {
        let Some(bed) = Bed::new() else {
            return;
        };
        let bed = Arc::new(bed);
        let hosts = Arc::clone(&bed);
        let (unseen, is_unseen) = mpsc::channel();
        let (heard, is_heard) = mpsc::channel();
        let (taken_back, is_taken_back) = mpsc::channel();
        let is_taken_back = Mutex::new(is_taken_back);
        let serving = bed.serve(V4[1], 1, move |mut stream| {
            greet_back(&mut stream);
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).unwrap();
            assert_same(&rest, &sample(5, last), "what the server heard");
            heard.send(()).unwrap();
            let is_taken_back = is_taken_back.lock().unwrap();
            is_taken_back.recv_timeout(HANG).unwrap();
            if is_reset {
                let linger = Some(Duration::ZERO);
                socket2::SockRef::from(&stream).set_linger(linger).unwrap();
            } else {
                stream.write_all(&sample(4, SAID)).unwrap();
            }
        });
        let has_ended = Arc::new(Notify::new());
        let is_ended = Arc::clone(&has_ended);
        let proxying = bed.proxy(V4, (1, 8), move |splicer, client, server| {
            let (unseen, taken_back) = (unseen.clone(), taken_back.clone());
            let is_ended = Arc::clone(&is_ended);
            async move {
                let order = ExchangeOrder::new(Choice::Packet);
                let mut exchange = splicer.exchange(client, server, order);
                tokio::select! {
                    end = exchange.run() => panic!("{end:?}"),
                    () = until(|| splicer.counters().packet_stays.get() > 0) => {}
                }
                unseen.send(()).unwrap();
                is_ended.notified().await;
                let (up, down, [a, b]) = exchange.unsplice_own().await;
                assert!(is_clean(&up) && is_clean(&down), "{up:?} {down:?}");
                taken_back.send(()).unwrap();
                let order = ExchangeOrder::new(Choice::Copy);
                let mut exchange = splicer.exchange(a.unwrap(), b.unwrap(), order);
                let end = exchange.run().await;
                (end, exchange.a_to_b_bytes(), exchange.b_to_a_bytes())
            }
        });
        let asking = bed.on(Host::Client, move || {
            let mut stream = connect(V4[0]);
            greet(&mut stream);
            is_unseen.recv_timeout(HANG).unwrap();
            hosts.nft(Host::Server, AT_SERVER);
            stream.write_all(&sample(5, last)).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            is_heard.recv_timeout(HANG).unwrap();
            hosts.nft(Host::Client, AT_CLIENT);
            has_ended.notify_one();
            let mut answer = Vec::new();
            if !is_reset {
                stream.read_to_end(&mut answer).unwrap();
                hosts
                    .on(Host::Server, until_connections_are_gone)
                    .join()
                    .unwrap();
            }
            hosts.nft(Host::Client, "delete table netdev late");
            if is_reset {
                answer = read_to_any_end(&mut stream).0;
            }
            answer
        });
        let answer = asking.join().unwrap();
        serving.join().unwrap();
        let (end, up, down) = proxying.join().unwrap().remove(0);
        if is_reset {
            assert!(matches!(end, ExchangeEnd::Fault { .. }), "{end:?}");
        } else {
            assert!(matches!(end, ExchangeEnd::Closed), "{last} {end:?}");
            assert_same(&answer, &sample(4, SAID), "what the client heard");
            assert_eq!((up, down), (last as u64, SAID as u64));
        }
    }
}

/// Waits until this host has no connection over IPv4.
fn until_connections_are_gone() {
    const LISTEN: &str = "0A";
    wait_until("the connection is gone", || {
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        let mut sockets = table.lines().skip(1);
        sockets.all(|socket| socket.split_whitespace().nth(3) == Some(LISTEN))
    });
}

/// Sends all bytes in pieces, while it reads to the end.
fn talk(stream: TcpStream, bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = stream;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = Random::new(seed);
            let mut rest = bytes;
            while !rest.is_empty() {
                let piece = 1 + random.magnitude(rest.len());
                writer.write_all(&rest[..piece]).unwrap();
                rest = &rest[piece..];
                if random.below(8) == 0 {
                    std::thread::sleep(Duration::from_millis(random.below(8) as u64));
                }
            }
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut arrived = Vec::new();
        reader.read_to_end(&mut arrived).unwrap();
        arrived
    })
}

/// An end that an earlier splice has already passed on cannot be passed on again when both sides have closed.
fn is_closed(end: &ExchangeEnd) -> bool {
    match end {
        ExchangeEnd::Closed => true,
        ExchangeEnd::Idle | ExchangeEnd::Stalled => false,
        ExchangeEnd::Fault { fault, .. } => {
            fault.call == "shutdown" && fault.source.kind() == std::io::ErrorKind::NotConnected
        }
    }
}

/// One seed: what both sides send, while the proxy takes the connections back at random moments and continues with any engine.
async fn join_and_take_back(
    splicer: carrick_splice::Splicer,
    mut client: tokio::net::TcpStream,
    mut server: tokio::net::TcpStream,
    seed: u64,
) -> u64 {
    let mut random = Random::new(seed ^ 0x5ea1);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut rounds = 1 + random.below(5);
    loop {
        let choice = if random.below(3) == 0 {
            Choice::Copy
        } else {
            Choice::Packet
        };
        let mut exchange = splicer.exchange(
            client,
            server,
            ExchangeOrder {
                choice,
                a_prefix: &up,
                b_prefix: &down,
                ..ExchangeOrder::default()
            },
        );
        let patience = Duration::from_micros(random.magnitude(60_000) as u64);
        let end = if rounds == 0 {
            Some(exchange.run().await)
        } else {
            tokio::time::timeout(patience, exchange.run()).await.ok()
        };
        if let Some(end) = end {
            assert!(is_closed(&end), "{end:?}, seed {seed}");
            return splicer.counters().packet_bytes.get();
        }
        rounds -= 1;
        let (up_left, down_left, [a, b]) = exchange.unsplice_own().await;
        up = [&up[up.len() - up_left.prefix_unsent..], &up_left.unsent].concat();
        down = [
            &down[down.len() - down_left.prefix_unsent..],
            &down_left.unsent,
        ]
        .concat();
        (client, server) = (a.unwrap(), b.unwrap());
    }
}

#[test]
fn in_the_midst_of_everything_they_come_back_whole() {
    const AT_ONCE: u64 = 8;
    let seeds = seeds("CARRICK_TORTURE_SEEDS", 24);
    let (mut first, mut by_kernel) = (0, 0);
    // On a busy machine, all may be taken back before the kernel has them: then more follow.
    while first < seeds || (by_kernel == 0 && first < 10 * seeds) {
        let Some(bed) = Bed::new() else {
            return;
        };
        let said = |seed: u64, side: u64| {
            let mut random = Random::new(seed * 2 + side);
            let bytes = 1 + random.magnitude(2_000_000);
            sample(seed * 2 + side, bytes)
        };
        let serving = bed.serve(V4[1], AT_ONCE as usize, move |mut stream| {
            // The proxy connects in the order in which clients arrive; this identifies the client.
            let mut name = [0; 8];
            stream.read_exact(&mut name).unwrap();
            let seed = u64::from_le_bytes(name);
            let arrived = talk(stream, &said(seed, 1), seed + 1);
            assert_same(&arrived, &said(seed, 0), &format!("seed {seed}, up"));
        });
        let proxying = bed.proxy(
            V4,
            (AT_ONCE as usize, 64),
            move |splicer, client, server| async move {
                let mut name = [0; 8];
                client.peek(&mut name).await.unwrap();
                join_and_take_back(splicer, client, server, u64::from_le_bytes(name)).await
            },
        );
        let clients: Vec<_> = (first..first + AT_ONCE)
            .map(|seed| {
                bed.on(Host::Client, move || {
                    let mut stream = connect(V4[0]);
                    stream.write_all(&seed.to_le_bytes()).unwrap();
                    let arrived = talk(stream, &said(seed, 0), seed);
                    assert_same(&arrived, &said(seed, 1), &format!("seed {seed}, down"));
                })
            })
            .collect();
        clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
        serving.join().unwrap();
        by_kernel += proxying.join().unwrap().into_iter().sum::<u64>();
        first += AT_ONCE;
    }
    assert!(by_kernel > 0);
}
