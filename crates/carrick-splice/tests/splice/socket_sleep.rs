//! The socket engine with connections of its own: the process sleeps while the kernel works, and wakes for what the kernel does not do.

use crate::socket::{is_here, order, until_in_kernel};
use crate::support::*;
use carrick_splice::{ExchangeEnd, ExchangeOrder, Reason, SpliceState, Splicer, tcp};
use std::cell::Cell;
use std::future::poll_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Messages back and forth; a process that is woken for each piece is polled four times as often.
const ROUNDS: u64 = 500;

/// Small messages back and forth, from the second one on by the kernel, if this splicer gives it the connections.
async fn chat(
    client: &mut TcpStream,
    server: &mut TcpStream,
    rounds: u64,
    splicer: Option<&Splicer>,
) {
    for round in 0..rounds {
        let bytes = sample(round, 1 + round as usize % 100);
        client.write_all(&bytes).await.unwrap();
        assert_same(&receive(server, bytes.len()).await, &bytes, "there");
        server.write_all(&bytes).await.unwrap();
        assert_same(&receive(client, bytes.len()).await, &bytes, "back");
        if let Some(splicer) = splicer.filter(|_| round == 0) {
            until_in_kernel(splicer).await;
        }
    }
}

#[test]
fn chatter_does_not_wake_the_process() {
    if !is_here() {
        return;
    }
    on_worker(async {
        let mut sockets = Sockets::new().await;
        let splicer = splicer();
        let mut exchange = splicer.exchange(sockets.from, sockets.to, order());
        assert_eq!(exchange.state(), SpliceState::Attaching);
        // In a task of its own, so that other events do not poll it.
        let relay = tokio::task::spawn_local(async move {
            let (mut polls, mut was_parked) = (0, false);
            let end = poll_fn(|cx| {
                polls += 1;
                let end = exchange.poll_run(cx);
                was_parked |= exchange.state() == SpliceState::Parked;
                end
            });
            let end = end.await;
            assert!(was_parked);
            (end, polls, exchange)
        });
        chat(
            &mut sockets.sender,
            &mut sockets.receiver,
            ROUNDS,
            Some(&splicer),
        )
        .await;
        drop((sockets.sender, sockets.receiver));
        let (end, polls, exchange) = relay.await.unwrap();
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        assert_eq!(exchange.state(), SpliceState::Ended);
        assert!(
            exchange.connections().is_some(),
            "it sleeps on after its end"
        );
        assert!(polls < ROUNDS / 5, "{polls} polls for {ROUNDS} round trips");
        let (up, down) = (exchange.a_to_b_bytes(), exchange.b_to_a_bytes());
        assert_eq!(up, down);
    });
}

#[test]
fn bytes_that_find_no_room_wake_the_process() {
    if !is_here() {
        return;
    }
    on_worker(async {
        for seed in 0..8 {
            let mut sockets = if seed % 2 == 0 {
                Sockets::to_a_slow_receiver().await
            } else {
                Sockets::new().await
            };
            let splicer = splicer();
            let mut exchange = splicer.exchange(sockets.from, sockets.to, order());
            let talk = async {
                chat(
                    &mut sockets.sender,
                    &mut sockets.receiver,
                    30,
                    Some(&splicer),
                )
                .await;
                let bytes = sample(seed, 20 << 20);
                let (sender, mut write) = sockets.sender.split();
                let is_sent = Cell::new(false);
                let send = async {
                    write.write_all(&bytes).await.unwrap();
                    write.shutdown().await.unwrap();
                    is_sent.set(true);
                };
                let take = async {
                    // Or the buffers on the way have room for everything.
                    until(|| is_sent.get() || is_window_shut(sender.as_ref())).await;
                    let mut arrived = Vec::new();
                    sockets.receiver.read_to_end(&mut arrived).await.unwrap();
                    arrived
                };
                let ((), arrived) = tokio::join!(send, take);
                assert_same(&arrived, &bytes, "what found no room");
                sockets.receiver.write_all(b"thanks").await.unwrap();
                assert_eq!(receive(&mut sockets.sender, 6).await, b"thanks");
                drop(sockets.receiver);
            };
            let (end, ()) = tokio::join!(exchange.run(), talk);
            assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        }
    });
}

#[test]
fn ends_resets_and_silence_wake_the_process() {
    if !is_here() {
        return;
    }
    on_worker(async {
        for kind in [
            "half-close",
            "reset",
            "silence",
            "half-close by b",
            "reset by b",
        ] {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let order = ExchangeOrder {
                idle: HANG / 4,
                ..order()
            };
            let mut exchange = splicer.exchange(sockets.from, sockets.to, order);
            let is_silent = Notify::new();
            let run = async {
                let silence = async {
                    is_silent.notified().await;
                    // Again and again: the end of `one` may be noticed meanwhile.
                    loop {
                        pass(HANG / 4).await;
                        tokio::task::yield_now().await;
                    }
                };
                tokio::select! {
                    end = exchange.run() => end,
                    () = silence => unreachable!(),
                }
            };
            let talk = async {
                chat(
                    &mut sockets.sender,
                    &mut sockets.receiver,
                    20,
                    Some(&splicer),
                )
                .await;
                let (mut one, mut other) = (sockets.sender, sockets.receiver);
                if kind.ends_with("by b") {
                    (one, other) = (other, one);
                }
                let kind = kind.trim_end_matches(" by b");
                if kind == "half-close" {
                    one.write_all(b"last").await.unwrap();
                    one.shutdown().await.unwrap();
                    let mut last = Vec::new();
                    other.read_to_end(&mut last).await.unwrap();
                    assert_eq!(last, b"last");
                    // The other direction continues.
                    other.write_all(b"answer").await.unwrap();
                    other.shutdown().await.unwrap();
                    let mut answer = Vec::new();
                    one.read_to_end(&mut answer).await.unwrap();
                    assert_eq!(answer, b"answer");
                    return None;
                }
                if kind == "reset" {
                    reset(one);
                } else {
                    drop(one);
                    // Its end has been passed on; from now on nothing moves.
                    assert_eq!(other.read(&mut [0]).await.unwrap(), 0);
                    is_silent.notify_one();
                }
                Some(other)
            };
            let (end, _other) = tokio::join!(run, talk);
            let is_right = match kind.trim_end_matches(" by b") {
                "half-close" => matches!(end, ExchangeEnd::Closed),
                "reset" => matches!(end, ExchangeEnd::Fault { .. }),
                _ => matches!(end, ExchangeEnd::Idle),
            };
            assert!(is_right, "{kind}: {end:?}");
        }
    });
}

#[test]
fn taken_back_from_its_sleep_both_connections_are_whole() {
    if !is_here() {
        return;
    }
    on_worker(async {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let mut exchange = splicer.exchange(sockets.from, sockets.to, order());
            let rounds = 1 + random.below(40) as u64;
            tokio::select! {
                end = exchange.run() => panic!("{end:?}"),
                () = chat(&mut sockets.sender, &mut sockets.receiver, rounds, Some(&splicer)) => {}
            }
            // Data is in flight.
            sockets.sender.write_all(b"and so on").await.unwrap();
            let (a_to_b, _, connections) = exchange.unsplice_own().await;
            let [mut a, mut b] = connections.map(Option::unwrap);
            b.write_all(&a_to_b.unsent).await.unwrap();
            let told = a_to_b.bytes + a_to_b.unsent.len() as u64;
            let sent: u64 = (0..rounds).map(|round| 1 + round % 100).sum::<u64>() + 9;
            let left = receive(&mut a, (sent - told) as usize).await;
            b.write_all(&left).await.unwrap();
            assert_eq!(receive(&mut sockets.receiver, 9).await, b"and so on");
            assert_eq!(tcp::pending_input(&a).unwrap(), 0);
            // They work as before.
            b.write_all(b"x").await.unwrap();
            assert_eq!(receive(&mut sockets.receiver, 1).await, b"x");
        }
    });
}

#[test]
fn chatter_goes_to_the_kernel_and_bulk_comes_back() {
    if !is_here() {
        return;
    }
    on_worker(async {
        let mut sockets = Sockets::new().await;
        let splicer = splicer();
        let counted = |reason| splicer.counters().reason(reason).get();
        let mut exchange = splicer.exchange(sockets.from, sockets.to, ExchangeOrder::default());
        let talk = async {
            for part in 0..3 {
                chat(&mut sockets.sender, &mut sockets.receiver, 500, None).await;
                let counts = (counted(Reason::Chatter), counted(Reason::Bulk));
                assert_eq!(counts, (part + 1, part));
                let bytes = sample(part, 8 << 20);
                let (sender, receiver) = if part == 1 {
                    (&mut sockets.receiver, &mut sockets.sender)
                } else {
                    (&mut sockets.sender, &mut sockets.receiver)
                };
                let (sent, arrived) =
                    tokio::join!(sender.write_all(&bytes), receive(receiver, bytes.len()));
                sent.unwrap();
                assert_same(&arrived, &bytes, "bulk");
                assert_eq!(counted(Reason::Bulk), part + 1);
            }
            drop((sockets.sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        let counters = splicer.counters();
        assert!(counters.socket_bytes.get() > 40_000, "{counters:?}");
        assert!(counters.pipe_bytes.get() > 1 << 20, "{counters:?}");
        assert_eq!(counters.socket_broken.get(), 0);
    });
}
