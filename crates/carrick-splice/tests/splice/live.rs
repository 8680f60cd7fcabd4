//! The report on splices in the kernel is correct, needs no privileges, and does not disturb them.

use crate::socket::{is_here, order};
use crate::support::*;
use carrick_splice::{Choice, End, Ended, ExchangeEnd, ExchangeOrder, LiveSplice, Order, tcp};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};
use socket2::SockRef;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A label that no other test uses.
fn label() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Whether there is something to report here, and the kernel allows it.
fn can_look() -> bool {
    if !is_here() {
        return false;
    }
    let untold = socket_service().untold();
    if let Some(why) = untold {
        carrick_test::lacks!("the state of sockets in the kernel: {why}");
    }
    untold.is_none()
}

fn labelled<'a>(label: u64) -> ExchangeOrder<'a> {
    ExchangeOrder { label, ..order() }
}

fn seen(label: u64) -> Option<LiveSplice> {
    let splices = socket_service().live().unwrap();
    let mut with_label = splices.into_iter().filter(|splice| splice.label == label);
    let splice = with_label.next();
    assert!(with_label.next().is_none(), "twice in the list");
    splice
}

/// Waits for a splice's report to meet a condition.
async fn until_seen(label: u64, holds: impl Fn(&LiveSplice) -> bool) -> LiveSplice {
    let mut found = None;
    until(|| {
        found = seen(label).filter(&holds);
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// Both directions, both ends, and nothing in flight: the report is exact.
#[test]
fn byte_counts_are_exact() {
    if !can_look() {
        return;
    }
    on_worker(async {
        let mut sockets = Sockets::new().await;
        let (splicer, label) = (splicer(), label());
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, labelled(label));
        let talk = async {
            until_seen(label, |_| true).await;
            for (there, back) in [(5, 3), (1000, 70_000), (64, 1)] {
                let before = seen(label).unwrap();
                sockets.sender.write_all(&vec![1; there]).await.unwrap();
                receive(&mut sockets.receiver, there).await;
                sockets.receiver.write_all(&vec![2; back]).await.unwrap();
                receive(&mut sockets.sender, back).await;
                let now = until_seen(label, |now| {
                    (0..2).all(|way| now.directions[way].backlog_bytes == Some(0))
                })
                .await;
                let moved = |splice: &LiveSplice, way: usize| {
                    splice.directions[way].forwarded_bytes + splice.directions[way].relayed_bytes
                };
                assert_eq!(moved(&now, 0) - moved(&before, 0), there as u64, "{now:?}");
                assert_eq!(moved(&now, 1) - moved(&before, 1), back as u64, "{now:?}");
                for leg in now.legs.map(Option::unwrap) {
                    let rtt = leg.rtt.unwrap();
                    assert!(rtt > Duration::ZERO && rtt < Duration::from_secs(5));
                    assert!(leg.congestion_window > 0);
                    assert_eq!((leg.state, leg.unread_bytes), ("established", 0));
                }
            }
            drop((sockets.sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        let (up, down) = (exchange.a_to_b_bytes(), exchange.b_to_a_bytes());
        assert_eq!((up, down), (1069, 70_004));
        drop(exchange);
        assert!(seen(label).is_none());
        assert!(tcp::path_state(&sockets.from).unwrap().rtt.is_some());
    });
}

#[test]
fn a_transfer_that_stands_still_shows_where_its_bytes_are() {
    if !can_look() {
        return;
    }
    on_worker(async {
        /// Most bytes that the kernel holds for a receiver: the engine's limit, and one piece.
        const BACKLOG_MAX: u64 = (1 << 20) + (64 << 10);
        let mut sockets = Sockets::new().await;
        let (splicer, label) = (splicer(), label());
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, labelled(label));
        let talk = async {
            until_seen(label, |_| true).await;
            let mut sent = 0;
            let piece = sample(1, 64 << 10);
            loop {
                match tokio::time::timeout(SHORT, sockets.sender.write(&piece)).await {
                    Ok(written) => sent += written.unwrap() as u64,
                    Err(_) if is_window_shut(&sockets.sender) => break,
                    Err(_) => {}
                }
                if let Some(splice) = seen(label) {
                    let backlog = splice.directions[0].backlog_bytes.unwrap();
                    assert!(backlog <= BACKLOG_MAX, "{splice:?}");
                }
            }
            // The receiver does not read: nothing moves any more, and every byte is somewhere.
            let splice = seen(label).unwrap();
            let [there, back] = splice.directions;
            let [from, to] = splice.legs.map(Option::unwrap);
            let moved = there.forwarded_bytes + there.relayed_bytes;
            assert!(moved > 0 && moved < sent, "{sent}: {splice:?}");
            assert!(to.unsent_bytes > 0, "{splice:?}");
            assert!(to.send_memory_bytes >= to.unsent_bytes, "{splice:?}");
            assert!(
                there.waiting_bytes + u64::from(from.unread_bytes) > 0,
                "{splice:?}"
            );
            assert_eq!(
                (back.forwarded_bytes, back.relayed_bytes, back.waiting_bytes),
                (0, 0, 0)
            );
            assert!(from.rtt.is_some() && to.rtt.is_some());
            // While everything is read, the counts only grow.
            let mut arrived = 0;
            let mut buffer = vec![0; 256 << 10];
            let mut moved_before = moved;
            while arrived < sent {
                arrived += sockets.receiver.read(&mut buffer).await.unwrap() as u64;
                let splice = seen(label).unwrap();
                let moved =
                    splice.directions[0].forwarded_bytes + splice.directions[0].relayed_bytes;
                assert!(moved >= moved_before && moved <= sent, "{splice:?}");
                assert!(moved >= arrived, "{arrived} arrived: {splice:?}");
                moved_before = moved;
            }
            assert_eq!(arrived, sent);
            drop((sockets.sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        drop(exchange);
        assert!(seen(label).is_none());
    });
}

/// After a half-close one connection has left the kernel, and the other is still reported.
#[test]
fn a_leg_that_has_left_is_none() {
    if !can_look() {
        return;
    }
    on_worker(async {
        let mut sockets = Sockets::new().await;
        let (splicer, label) = (splicer(), label());
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, labelled(label));
        let talk = async {
            until_seen(label, |_| true).await;
            sockets.sender.write_all(b"question").await.unwrap();
            sockets.sender.shutdown().await.unwrap();
            receive_until_it_breaks(&mut sockets.receiver)
                .await
                .1
                .unwrap();
            let splice = until_seen(label, |splice| splice.legs[1].is_none()).await;
            assert_eq!(splice.legs[0].unwrap().state, "close-wait");
            assert_eq!(splice.directions[0].backlog_bytes, None);
            assert_eq!(splice.directions[0].forwarded_bytes, 8);
            drop((sockets.sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
    });
}

#[test]
fn a_transfer_one_way_is_reported_too() {
    if !can_look() {
        return;
    }
    on_worker(async {
        const BYTES: usize = 30_000;
        // In a slot that was used in both directions before.
        let service = carrick_splice::SocketService::default();
        service.load(1, None).unwrap();
        let splicer = carrick_splice::Splicer::with_socket(
            carrick_splice::PoolLimits::default(),
            Arc::default(),
            service.clone(),
        );
        let in_kernel = async || until(|| !service.live().unwrap().is_empty()).await;
        let mut sockets = Sockets::new().await;
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, labelled(1));
        let talk = async {
            in_kernel().await;
            sockets.receiver.write_all(&sample(1, 500)).await.unwrap();
            receive(&mut sockets.sender, 500).await;
            drop((sockets.sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        drop(exchange);

        let mut sockets = Sockets::new().await;
        let order = Order {
            choice: Choice::Socket,
            label: 2,
            ..Order::new(End::AfterBytes(2 * BYTES as u64))
        };
        let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
        let talk = async {
            in_kernel().await;
            sockets.sender.write_all(&sample(2, BYTES)).await.unwrap();
            receive(&mut sockets.receiver, BYTES).await;
            let splices = service.live().unwrap();
            let [splice] = &splices[..] else {
                panic!("{splices:?}");
            };
            let [there, back] = splice.directions;
            assert_eq!(splice.label, 2);
            assert_eq!(there.forwarded_bytes + there.relayed_bytes, BYTES as u64);
            assert!(there.backlog_bytes.is_some());
            assert_eq!((back.forwarded_bytes, back.relayed_bytes), (0, 0));
            assert!(splice.legs.iter().all(|leg| leg.unwrap().rtt.is_some()));
            sockets.sender.write_all(&sample(3, BYTES)).await.unwrap();
            receive(&mut sockets.receiver, BYTES).await;
        };
        let (end, ()) = tokio::join!(transfer.run(), talk);
        assert!(matches!(end, Ok(Ended::Bytes)), "{end:?}");
        drop(transfer);
        assert!(service.live().unwrap().is_empty());
    });
}

/// With `Auto`, an exchange repeatedly enters and leaves the kernel; no byte is forgotten or counted twice.
#[test]
fn stays_in_the_kernel_add_up() {
    if !can_look() {
        return;
    }
    on_worker(async {
        let mut sockets = Sockets::new().await;
        let (splicer, label) = (splicer(), label());
        let order = ExchangeOrder {
            choice: Choice::Auto,
            ..labelled(label)
        };
        let noted = Cell::new((0, None));
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order);
        let run = std::future::poll_fn(|cx| {
            let end = exchange.poll_run(cx);
            noted.set((exchange.a_to_b_bytes(), exchange.bytes_beside_live()));
            end
        });
        let talk = async {
            let (mut sent, mut times_in_kernel, mut was_in_kernel) = (0, 0, false);
            for round in 0..3 {
                for _ in 0..300 {
                    sockets.sender.write_all(b"question").await.unwrap();
                    receive(&mut sockets.receiver, 8).await;
                    sockets.receiver.write_all(b"answer").await.unwrap();
                    receive(&mut sockets.sender, 6).await;
                    sent += 8;
                }
                let bulk = sample(round, 8 << 20);
                let (written, arrived) = tokio::join!(
                    sockets.sender.write_all(&bulk),
                    receive(&mut sockets.receiver, bulk.len())
                );
                written.unwrap();
                assert_same(&arrived, &bulk, "bulk");
                sent += bulk.len() as u64;
                for _ in 0..300 {
                    sockets.sender.write_all(b"question").await.unwrap();
                    receive(&mut sockets.receiver, 8).await;
                    sockets.receiver.write_all(b"answer").await.unwrap();
                    receive(&mut sockets.sender, 6).await;
                    sent += 8;
                    let is_in_kernel = seen(label).is_some();
                    times_in_kernel += u32::from(is_in_kernel && !was_in_kernel);
                    was_in_kernel = is_in_kernel;
                }
                // Received bytes are noted a moment later.
                let mut known = 0;
                until(|| {
                    known = match (noted.get(), seen(label)) {
                        ((_, Some((beside_live, _))), Some(splice)) => {
                            beside_live + splice.directions[0].forwarded_bytes
                        }
                        ((moved, _), _) => moved,
                    };
                    known >= sent
                })
                .await;
                assert_eq!(known, sent, "round {round}");
            }
            drop((sockets.sender, sockets.receiver));
            times_in_kernel
        };
        let (end, times_in_kernel) = tokio::join!(run, talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        assert!(times_in_kernel > 1, "{times_in_kernel} times in the kernel");
    });
}

#[test]
fn reading_live_splices_needs_no_privileges() {
    if !can_look() {
        return;
    }
    on_worker(async {
        let sockets = Sockets::new().await;
        let (splicer, label) = (splicer(), label());
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, labelled(label));
        let talk = async {
            until_seen(label, |_| true).await;
            // Capabilities are per thread.
            let without = std::thread::spawn(move || {
                let none = CapabilitySets {
                    effective: CapabilitySet::empty(),
                    permitted: CapabilitySet::empty(),
                    inheritable: CapabilitySet::empty(),
                };
                rustix::thread::set_capabilities(None, none).unwrap();
                let refused = carrick_splice::SocketService::default().load(1, None);
                assert!(refused.is_err(), "it still has privileges");
                seen(label).is_some()
            });
            assert!(without.join().unwrap());
            drop((sockets.sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
    });
}

/// Slots are reused all the time: a splice's report is never another one's.
#[test]
fn a_live_splice_never_has_another_ones_label() {
    if !can_look() {
        return;
    }
    // Few slots, so that each is reused at once. The label is the number of bytes that the splice moves.
    let service = carrick_splice::SocketService::default();
    service.load(2, None).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let told = Arc::new(AtomicU64::new(0));
    let looker = {
        let (service, done, told) = (service.clone(), Arc::clone(&done), Arc::clone(&told));
        std::thread::spawn(move || {
            while !done.load(Relaxed) {
                for splice in service.live().unwrap() {
                    let [there, back] = splice.directions;
                    let sum = there.forwarded_bytes + there.relayed_bytes;
                    assert!(sum <= splice.label, "{splice:?}");
                    assert_eq!((back.forwarded_bytes, back.relayed_bytes), (0, 0));
                    assert!(there.backlog_bytes.unwrap_or(0) <= splice.label);
                    told.fetch_add(1, Relaxed);
                }
            }
        })
    };
    on_worker(async {
        let splicer = carrick_splice::Splicer::with_socket(
            carrick_splice::PoolLimits::default(),
            Arc::default(),
            service.clone(),
        );
        for round in 0_u64.. {
            if round >= 600 && told.load(Relaxed) > 50 {
                break;
            }
            let length = if round % 2 == 0 { 1 } else { 50_000 };
            let mut sockets = Sockets::new().await;
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, labelled(length));
            let talk = async {
                while service.splices().0 == 0 {
                    tokio::task::yield_now().await;
                }
                sockets
                    .sender
                    .write_all(&sample(round, length as usize))
                    .await
                    .unwrap();
                let arrived = receive(&mut sockets.receiver, length as usize).await;
                assert_same(&arrived, &sample(round, length as usize), "round");
                drop((sockets.sender, sockets.receiver));
            };
            let (end, ()) = tokio::join!(exchange.run(), talk);
            assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        }
    });
    done.store(true, Relaxed);
    looker.join().unwrap();
    assert!(service.live().unwrap().is_empty());
}

#[test]
fn thousands_are_reported_while_they_move_bytes() {
    if can_look() {
        in_a_process_of_its_own("live::thousands");
    }
}

#[test]
#[ignore = "uses 8,000 descriptors: run by thousands_are_reported_while_they_move_bytes"]
fn thousands() {
    const SPLICES: u64 = 2000;
    const ROUNDS: u64 = 5;
    const BYTES: usize = 3000;
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let limit = rustix::process::Rlimit {
        current: hard,
        maximum: hard,
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    assert!(can_look());
    let (done, most) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let looker = {
        let (done, most) = (Arc::clone(&done), Arc::clone(&most));
        std::thread::spawn(move || {
            while !done.load(Relaxed) {
                most.fetch_max(socket_service().live().unwrap().len(), Relaxed);
            }
        })
    };
    on_worker(async {
        let mut peers = Vec::new();
        for number in 1..=SPLICES {
            let Sockets {
                sender,
                from,
                to,
                receiver,
            } = Sockets::new().await;
            let splicer = splicer();
            let relay = tokio::task::spawn_local(async move {
                let mut exchange = splicer.exchange(&from, &to, labelled(number));
                let end = exchange.run().await;
                assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
                let bytes = ROUNDS * BYTES as u64;
                assert_eq!(exchange.a_to_b_bytes(), bytes);
                assert_eq!(exchange.b_to_a_bytes(), bytes);
            });
            peers.push((sender, receiver, relay));
        }
        until(|| socket_service().live().unwrap().len() >= SPLICES as usize).await;
        for round in 0..ROUNDS {
            let bytes = sample(round, BYTES);
            for (sender, receiver, _) in &mut peers {
                sender.write_all(&bytes).await.unwrap();
                receiver.write_all(&bytes).await.unwrap();
            }
            for (sender, receiver, _) in &mut peers {
                assert_same(&receive(receiver, BYTES).await, &bytes, "there");
                assert_same(&receive(sender, BYTES).await, &bytes, "back");
            }
        }
        let splices = socket_service().live().unwrap();
        let by_label: BTreeMap<u64, &LiveSplice> = splices
            .iter()
            .map(|splice| (splice.label, splice))
            .collect();
        assert_eq!(splices.len(), SPLICES as usize);
        assert!(by_label.keys().copied().eq(1..=SPLICES));
        for splice in by_label.values() {
            for way in splice.directions {
                assert_eq!(
                    way.forwarded_bytes + way.relayed_bytes,
                    ROUNDS * BYTES as u64,
                    "{splice:?}"
                );
            }
        }
        until(|| most.load(Relaxed) == SPLICES as usize).await;
        for (sender, receiver, relay) in peers {
            drop((sender, receiver));
            relay.await.unwrap();
        }
        assert!(socket_service().live().unwrap().is_empty());
    });
    done.store(true, Relaxed);
    looker.join().unwrap();
}

/// In a separate network namespace, in which one socket's packets can be dropped.
#[test]
#[expect(unsafe_code, reason = "unshare(2)")]
fn what_was_lost_and_sent_again_is_counted() {
    if !can_look() {
        return;
    }
    let play = || {
        // SAFETY: the namespace belongs to this thread and to what it starts; no descriptors change hands.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        tool("ip link set lo up");
        tool("tc qdisc add dev lo root handle 1: htb");
        tool("tc class add dev lo parent 1: classid 1:3 htb rate 1gbit quantum 1500");
        on_worker(async {
            let mut sockets = Sockets::new().await;
            SockRef::from(&sockets.to).set_priority(0x1_0003).unwrap();
            let (splicer, label) = (splicer(), label());
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, labelled(label));
            let talk = async {
                let retransmissions =
                    |splice: &LiveSplice| splice.legs.map(|leg| leg.unwrap().retransmissions);
                let splice = until_seen(label, |_| true).await;
                assert_eq!(retransmissions(&splice), [0, 0]);
                tool("tc qdisc add dev lo parent 1:3 handle 3: blackhole");
                sockets.sender.write_all(b"question").await.unwrap();
                let lost = until_seen(label, |splice| retransmissions(splice)[1] > 0).await;
                assert_eq!(lost.legs[1].unwrap().in_flight_bytes, 8, "{lost:?}");
                assert_eq!(lost.directions[0].backlog_bytes, Some(0), "{lost:?}");
                tool("tc qdisc del dev lo root");
                assert_eq!(receive(&mut sockets.receiver, 8).await, b"question");
                let told =
                    until_seen(label, |splice| splice.legs[1].unwrap().in_flight_bytes == 0).await;
                assert_eq!(retransmissions(&told)[0], 0);
                drop((sockets.sender, sockets.receiver));
            };
            let (end, ()) = tokio::join!(exchange.run(), talk);
            assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
            let after = tcp::path_state(&sockets.to).unwrap();
            assert!(
                after.retransmissions > 0 && after.rtt.is_some(),
                "{after:?}"
            );
            assert_eq!(tcp::path_state(&sockets.from).unwrap().retransmissions, 0);
        });
    };
    std::thread::spawn(play).join().unwrap();
}

fn tool(line: &str) {
    let mut words = line.split(' ');
    let status = Command::new(words.next().unwrap()).args(words).status();
    assert!(status.unwrap().success(), "{line}");
}
