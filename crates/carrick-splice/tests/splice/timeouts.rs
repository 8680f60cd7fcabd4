//! Time-outs for slow and silent peers. Most of the time passes at once ([`pass`]), and a pause of the machine of less
//! than a minute does not count as silence.

use crate::support::*;
use carrick_splice::{End, Ended, Order, RateMin};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

#[test]
fn a_silent_sender_ends_idle_and_not_before() {
    for choice in CHOICES {
        on_worker(async {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let idle = HANG / 6;
            let order = Order {
                choice,
                idle,
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let last = std::cell::Cell::new(Instant::now());
            let talk = async {
                for _ in 0..5 {
                    pass(idle / 4).await;
                    last.set(Instant::now());
                    sockets.sender.write_all(b"still here").await.unwrap();
                    receive(&mut sockets.receiver, 10).await;
                }
                // An idle end is detected up to a quarter of the time-out late.
                for _ in 0..6 {
                    pass(idle / 4).await;
                }
            };
            let (ended, ()) = tokio::join!(transfer.run(), talk);
            assert_eq!(ended.unwrap(), Ended::Idle);
            assert!(last.get().elapsed() >= idle, "{:?}", last.get().elapsed());
            assert_eq!(transfer.bytes(), 50);
        });
    }
}

#[test]
fn a_receiver_that_takes_nothing_ends_idle() {
    on_worker(async {
        for choice in CHOICES {
            let mut sockets = Sockets::tiny().await;
            let splicer = splicer();
            let order = Order {
                choice,
                idle: Duration::from_millis(100),
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let flood = sample(1, 1_000_000);
            let ended = tokio::select! {
                ended = transfer.run() => ended,
                _ = sockets.sender.write_all(&flood) => panic!("1 MB fits nowhere"),
            };
            assert_eq!(ended.unwrap(), Ended::Idle);
            let hand_over = transfer.unsplice().await;
            let taken = hand_over.bytes as usize + hand_over.unsent.len();
            assert_same(
                &hand_over.unsent,
                &flood[hand_over.bytes as usize..taken],
                "handed back",
            );
        }
    });
}

#[test]
fn a_trickle_is_too_slow_and_a_stream_is_not() {
    on_worker(async {
        for (bytes_per_second, grace, too_slow) in [
            (100_000, Duration::from_millis(100), true),
            (1, HANG / 6, false),
        ] {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let rate_min = Some(RateMin {
                bytes_per_second,
                grace,
            });
            let order = Order {
                rate_min,
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let talk = async {
                for _ in 0..10 {
                    sockets.sender.write_all(&[b'.'; 100]).await.unwrap();
                    receive(&mut sockets.receiver, 100).await;
                    pass(HANG / 24).await;
                }
                sockets.sender.shutdown().await.unwrap();
                std::future::pending::<()>().await;
            };
            let started = Instant::now();
            let ended = tokio::select! {
                ended = transfer.run() => ended.unwrap(),
                () = talk => unreachable!(),
            };
            assert_eq!(
                ended,
                if too_slow {
                    Ended::TooSlow
                } else {
                    Ended::EndOfStream
                }
            );
            if too_slow {
                assert!(started.elapsed() >= grace, "there is a grace period");
                assert_eq!(splicer.counters().slow_ends.get(), 1);
            }
        }
    });
}

#[test]
fn the_longest_times_are_just_never() {
    on_worker(async {
        let mut sockets = Sockets::new().await;
        let splicer = splicer();
        let rate_min = Some(RateMin {
            bytes_per_second: u64::MAX,
            grace: Duration::MAX,
        });
        let order = Order {
            idle: Duration::MAX,
            rate_min,
            ..Order::new(End::AfterBytes(5))
        };
        let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
        let talk = async {
            pass(HANG / 2).await;
            sockets.sender.write_all(b"hello").await.unwrap();
        };
        let (ended, ()) = tokio::join!(transfer.run(), talk);
        assert_eq!(ended.unwrap(), Ended::Bytes);
        assert_eq!(sockets.receiver.read(&mut [0; 9]).await.unwrap(), 5);
    });
}
