//! Connections that break at any moment, on either side: detected at once and attributed to the right side.

use crate::support::*;
use carrick_splice::{Choice, End, Ended, Order, Side};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

#[test]
fn a_sender_that_resets_is_the_senders_fault_and_what_it_sent_arrives() {
    on_worker(async {
        for seed in 0..60 {
            let choice = CHOICES[seed as usize % CHOICES.len()];
            let mut random = Random::new(seed);
            let mut sockets = Sockets::of(seed).await;
            let sent = sample(seed, 300_000);
            let cut = random.magnitude(300_000);
            let (mut sender, all) = (sockets.sender, sent.clone());
            let splicer = splicer();
            let order = Order {
                choice,
                pass_end: true,
                ..Order::new(End::AfterBytes(300_000))
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let send = async {
                send_in_pieces(&mut sender, &all[..cut], &mut Random::new(seed)).await;
                if seed % 4 == 0 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                reset(sender);
            };
            let mut arrived = Vec::new();
            let receive = receive_in_pieces_into(&mut arrived, &mut sockets.receiver, &mut random);
            let (outcome, ()) = tokio::select! {
                () = receive => panic!("the receiver saw an end of the stream"),
                both = async { tokio::join!(transfer.run(), send) } => both,
            };
            let fault = outcome.expect_err("a reset is not an end");
            assert_eq!(fault.side, Side::From, "{fault:?}");
            assert_eq!(fault.source.kind(), std::io::ErrorKind::ConnectionReset);
            let hand_over = transfer.unsplice().await;
            assert!(hand_over.unsent.is_empty());
            reset(sockets.to);
            let (rest, _) = receive_until_it_breaks(&mut sockets.receiver).await;
            arrived.extend_from_slice(&rest);
            assert!(arrived.len() <= cut && hand_over.bytes as usize <= cut);
            assert_same(
                &arrived,
                &sent[..arrived.len()],
                &format!("{choice:?}, seed {seed}"),
            );
        }
    });
}

#[test]
fn a_receiver_that_resets_is_the_receivers_fault() {
    on_worker(async {
        let sent = sample(1, 6_000_000);
        for seed in 0..60 {
            let choice = CHOICES[seed as usize % CHOICES.len()];
            let mut random = Random::new(seed);
            let mut sockets = Sockets::of(seed).await;
            let cut = random.magnitude(200_000);
            let splicer = splicer();
            let order = Order {
                choice,
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let receive_and_reset = async {
                let arrived = receive(&mut sockets.receiver, cut).await;
                reset(sockets.receiver);
                arrived
            };
            let both = async { tokio::join!(transfer.run(), receive_and_reset) };
            let flood = async {
                let _ = sockets.sender.write_all(&sent).await;
                std::future::pending::<()>().await;
            };
            let (outcome, arrived) = tokio::select! {
                both = both => both,
                () = flood => unreachable!(),
            };
            let fault = outcome.expect_err("a reset is not an end");
            assert_eq!(fault.side, Side::To, "{fault:?}");
            assert!(fault.to_string().contains("receiver"), "{fault}");
            assert_eq!(splicer.counters().faults_to.get(), 1);
            assert_same(&arrived, &sent[..cut], &format!("{choice:?}, seed {seed}"));
            assert_eq!(
                transfer.unsplice().await.unsent.len(),
                0,
                "what a dead receiver did not take is forgotten"
            );
        }
    });
}

#[test]
fn a_receiver_that_resets_while_the_sender_is_silent_is_noticed_at_once() {
    on_worker(async {
        for choice in CHOICES {
            for (stop_on_input, half_closed, sends) in [
                (false, false, false),
                (true, false, false),
                (false, true, false),
                (true, true, false),
                (false, false, true),
            ] {
                let mut sockets = Sockets::new().await;
                let splicer = splicer();
                let idle = Duration::from_secs(3600);
                let order = Order {
                    choice,
                    stop_on_input,
                    idle,
                    ..Order::new(End::EndOfStream)
                };
                let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                let talk = async {
                    sockets.sender.write_all(b"hello").await.unwrap();
                    assert_eq!(receive(&mut sockets.receiver, 5).await, b"hello");
                    if half_closed {
                        sockets.receiver.shutdown().await.unwrap();
                    }
                    if sends {
                        // A pipelined request makes the connection readable, and is not read here.
                        sockets
                            .receiver
                            .write_all(b"GET / HTTP/1.1\r\n")
                            .await
                            .unwrap();
                    }
                    until(|| is_all_acknowledged(&sockets.receiver)).await;
                    // The runtime sees the event.
                    tokio::task::yield_now().await;
                    reset(sockets.receiver);
                };
                let (outcome, ()) = tokio::join!(transfer.run(), talk);
                let fault = outcome.expect_err("a reset is not an end");
                assert_eq!(fault.side, Side::To, "{fault:?}");
            }
        }
    });
}

#[test]
fn a_receiver_that_takes_nothing_holds_little_and_loses_nothing() {
    on_worker(async {
        for choice in CHOICES {
            let mut sockets = Sockets::tiny().await;
            let splicer = splicer();
            let order = Order {
                choice,
                pass_end: true,
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let sent = sample(5, 4_000_000);
            let taken = tokio::select! {
                ended = transfer.run() => panic!("{ended:?}"),
                taken = fill(&mut sockets.sender, &sockets.from, &sent) => taken,
            };
            let send = async {
                sockets.sender.write_all(&sent[taken..]).await.unwrap();
                sockets.sender.shutdown().await.unwrap();
            };
            let (ended, (arrived, _), ()) = tokio::join!(
                transfer.run(),
                receive_until_it_breaks(&mut sockets.receiver),
                send
            );
            assert_eq!(ended.unwrap(), Ended::EndOfStream);
            assert_same(&arrived, &sent, &format!("{choice:?}"));
        }
    });
}

#[test]
fn a_prefix_is_delivered_although_the_sender_has_reset() {
    on_worker(async {
        for choice in [Choice::Copy, Choice::Pipe] {
            let mut sockets = Sockets::new().await;
            reset(sockets.sender);
            until(|| tcp_state(&sockets.from) == CLOSED).await;
            let splicer = splicer();
            let order = Order {
                choice,
                prefix: b"head",
                ..Order::new(End::AfterBytes(10))
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            assert_eq!(transfer.run().await.expect_err("reset").side, Side::From);
            assert_eq!(transfer.unsplice().await.prefix_unsent, 0);
            assert_eq!(receive(&mut sockets.receiver, 4).await, b"head");
        }
    });
}
