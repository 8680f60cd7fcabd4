//! Both directions at once: half-closes, resets, idle ends, and hundreds in parallel.

use crate::support::*;
use carrick_splice::{Choice, Engine, ExchangeEnd, ExchangeOrder, Reason, Side, tcp};
use socket2::SockRef;
use std::cell::Cell;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn order<'a>(choice: Choice) -> ExchangeOrder<'a> {
    ExchangeOrder {
        choice,
        ..ExchangeOrder::default()
    }
}

#[test]
fn each_side_may_close_first_and_still_receives() {
    on_worker(async {
        for choice in EXCHANGE_CHOICES {
            for a_first in [true, false] {
                for tiny in [true, false] {
                    let sockets = if tiny {
                        Sockets::tiny().await
                    } else {
                        Sockets::new().await
                    };
                    let (mut first, mut second) = if a_first {
                        (sockets.sender, sockets.receiver)
                    } else {
                        (sockets.receiver, sockets.sender)
                    };
                    let (question, answer) = (sample(1, 150_000), sample(2, 400_000));
                    let splicer = splicer();
                    let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order(choice));
                    let ask = async {
                        first.write_all(&question).await.unwrap();
                        first.shutdown().await.unwrap();
                        receive_until_it_breaks(&mut first).await
                    };
                    let reply = async {
                        let asked = receive_until_it_breaks(&mut second).await;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        second.write_all(&answer).await.unwrap();
                        second.shutdown().await.unwrap();
                        asked
                    };
                    let (end, replied, asked) = tokio::join!(exchange.run(), ask, reply);
                    assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
                    assert_same(&asked.0, &question, "question");
                    assert_same(&replied.0, &answer, "answer");
                    let counts = (exchange.a_to_b_bytes(), exchange.b_to_a_bytes());
                    let (up, down) = (question.len() as u64, answer.len() as u64);
                    assert_eq!(counts, if a_first { (up, down) } else { (down, up) });
                }
            }
        }
    });
}

#[test]
fn prefixes_go_first_both_ways() {
    on_worker(async {
        for choice in EXCHANGE_CHOICES {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let order = ExchangeOrder {
                a_prefix: b"hello ",
                b_prefix: b"220 ",
                ..order(choice)
            };
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order);
            let talk = async {
                assert_eq!(receive(&mut sockets.receiver, 6).await, b"hello ");
                assert_eq!(receive(&mut sockets.sender, 4).await, b"220 ");
                sockets.sender.write_all(b"server").await.unwrap();
                sockets.receiver.write_all(b"welcome").await.unwrap();
                assert_eq!(receive(&mut sockets.receiver, 6).await, b"server");
                assert_eq!(receive(&mut sockets.sender, 7).await, b"welcome");
                drop((sockets.sender, sockets.receiver));
            };
            let (end, ()) = tokio::join!(exchange.run(), talk);
            assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
            assert_eq!((exchange.a_to_b_bytes(), exchange.b_to_a_bytes()), (6, 7));
        }
    });
}

#[test]
fn each_direction_adapts_on_its_own() {
    on_worker(async {
        let mut sockets = Sockets::new().await;
        let splicer = splicer();
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order(Choice::Auto));
        let response = sample(6, 64 << 10);
        let talk = async {
            for _ in 0..20 {
                sockets.sender.write_all(b"GET /64k").await.unwrap();
                assert_eq!(receive(&mut sockets.receiver, 8).await, b"GET /64k");
                let (sent, arrived) = tokio::join!(
                    sockets.receiver.write_all(&response),
                    receive(&mut sockets.sender, response.len())
                );
                sent.unwrap();
                assert_same(&arrived, &response, "response");
            }
            drop((sockets.sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        assert_eq!(exchange.engines(), (Engine::Copy, Engine::Pipe));
        let counters = splicer.counters();
        assert_eq!(counters.reason(Reason::BurstLarge).get(), 1);
        assert!(counters.pipe_bytes.get() >= 18 * (64 << 10), "{counters:?}");
    });
}

#[test]
fn resets_at_every_moment_reach_the_caller() {
    on_worker(async {
        let sent = sample(1, 3_000_000);
        for seed in 0..60 {
            let choice = EXCHANGE_CHOICES[seed as usize % 4];
            let mut random = Random::new(seed);
            let sockets = Sockets::of(seed).await;
            let (mut one, mut other) = (sockets.sender, sockets.receiver);
            if seed % 4 < 2 {
                std::mem::swap(&mut one, &mut other);
            }
            let cut = random.magnitude(100_000);
            let splicer = splicer();
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order(choice));
            // The other side sends and receives freely; one side receives for a while, then resets.
            let (mut other_read, mut other_write) = other.split();
            let flood = async {
                let _ = other_write.write_all(&sent).await;
                std::future::pending::<()>().await;
            };
            let drain = async {
                let mut arrived = Vec::new();
                let _ = other_read.read_to_end(&mut arrived).await;
                std::future::pending::<()>().await;
            };
            let break_off = async {
                let arrived = receive(&mut one, cut).await;
                assert_same(&arrived, &sent[..cut], "before the reset");
                if seed % 5 == 0 {
                    let _ =
                        tokio::time::timeout(Duration::from_millis(3), one.write_all(&sent)).await;
                }
                reset(one);
            };
            let (end, ()) = tokio::select! {
                both = async { tokio::join!(exchange.run(), break_off) } => both,
                () = flood => unreachable!(),
                () = drain => unreachable!(),
            };
            assert!(
                matches!(end, ExchangeEnd::Fault { .. }),
                "{end:?}, {choice:?}, seed {seed}"
            );
        }
    });
}

#[test]
fn the_rest_of_a_dead_senders_queue_still_arrives() {
    on_worker(async {
        for choice in EXCHANGE_CHOICES {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order(choice));
            // The server answers early and closes with the upload unread: its kernel sends RST after the answer.
            // It all fits into the window: what is left in its own queue goes with it.
            let answer = sample(3, 50_000);
            let upload = sample(4, 8_000_000);
            let (mut read, mut write) = sockets.sender.split();
            let mut arrived = Vec::new();
            let has_gone = Cell::new(false);
            let client = async {
                let receive = async {
                    until(|| has_gone.get()).await;
                    let _ = read.read_to_end(&mut arrived).await;
                };
                let _ = tokio::join!(write.write_all(&upload), receive);
                std::future::pending::<()>().await;
            };
            let server = async {
                sockets.receiver.write_all(&answer).await.unwrap();
                // Without anything unread, the kernel would send FIN.
                sockets.receiver.readable().await.unwrap();
                drop(sockets.receiver);
                has_gone.set(true);
            };
            let end = tokio::select! {
                (end, ()) = async { tokio::join!(exchange.run(), server) } => end,
                () = client => unreachable!(),
            };
            let ExchangeEnd::Fault { fault, .. } = end else {
                panic!("{end:?}")
            };
            assert!(
                exchange.b_to_a_bytes() == 50_000,
                "{} bytes, {fault:?}",
                exchange.b_to_a_bytes()
            );
        }
    });
}

#[test]
fn a_reset_is_noticed_although_the_other_side_takes_nothing() {
    on_worker(async {
        let mut sockets = Sockets::tiny().await;
        let splicer = splicer();
        let idle = HANG / 2;
        let mut exchange = splicer.exchange(
            &sockets.from,
            &sockets.to,
            ExchangeOrder {
                idle,
                ..order(Choice::Auto)
            },
        );
        let flood = sample(2, 1_000_000);
        let talk = async {
            fill(&mut sockets.sender, &sockets.from, &flood).await;
            reset(sockets.sender);
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        let ExchangeEnd::Fault {
            a_to_b: false,
            fault,
        } = end
        else {
            panic!("{end:?}")
        };
        assert_eq!(fault.side, Side::To);
        let (a_to_b, _) = exchange.unsplice().await;
        let taken = a_to_b.bytes as usize + a_to_b.unsent.len();
        assert!(taken > 0);
        assert_same(
            &a_to_b.unsent,
            &flood[a_to_b.bytes as usize..taken],
            "handed back",
        );
    });
}

#[test]
fn a_reset_reported_elsewhere_is_no_clean_end() {
    on_worker(async {
        for choice in EXCHANGE_CHOICES {
            let mut sockets = Sockets::tiny().await;
            let splicer = splicer();
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order(choice));
            let flood = sample(2, 1_000_000);
            // The client reads nothing, so that data is held for it.
            let flooding = async {
                fill(&mut sockets.receiver, &sockets.to, &flood).await;
                sockets.sender.write_all(b"half of it").await.unwrap();
                until(|| tcp::pending_input(&sockets.receiver).unwrap() == 10).await;
            };
            tokio::select! {
                end = exchange.run() => unreachable!("{end:?}"),
                () = flooding => {}
            }
            reset(sockets.sender);
            // As splice(2) does when it has already written a part.
            until(|| sockets.from.take_error().unwrap().is_some()).await;
            let end = exchange.run().await;
            assert!(matches!(end, ExchangeEnd::Fault { .. }), "{end:?}");
            assert!(exchange.a_to_b_bytes() == 10, "{choice:?}");
            drop(exchange);
            carrick_splice::tcp::reset_on_close(&sockets.to).unwrap();
            drop(sockets.to);
            let (_, ending) = receive_until_it_breaks(&mut sockets.receiver).await;
            assert!(ending.is_err(), "{choice:?}: the server saw an end");
        }
    });
}

#[test]
fn a_reset_behind_a_half_close_is_noticed_at_once() {
    on_worker(async {
        for choice in EXCHANGE_CHOICES {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order(choice));
            let talk = async {
                sockets.sender.write_all(b"question").await.unwrap();
                sockets.sender.shutdown().await.unwrap();
                let (asked, _) = receive_until_it_breaks(&mut sockets.receiver).await;
                assert_eq!(asked, b"question");
                reset(sockets.sender);
            };
            let (end, ()) = tokio::join!(exchange.run(), talk);
            let ExchangeEnd::Fault {
                a_to_b: false,
                fault,
            } = end
            else {
                panic!("{end:?}")
            };
            assert_eq!(fault.side, Side::To);
        }
    });
}

#[test]
fn an_idle_end_tells_whether_bytes_were_on_their_way() {
    for choice in EXCHANGE_CHOICES {
        on_worker(async {
            let mut sockets = Sockets::tiny().await;
            let splicer = splicer();
            let order = ExchangeOrder {
                idle: Duration::from_millis(100),
                ..order(choice)
            };
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order);
            sockets.sender.write_all(b"all of it").await.unwrap();
            let (end, _) = tokio::join!(exchange.run(), receive(&mut sockets.receiver, 9));
            assert!(matches!(end, ExchangeEnd::Idle), "{choice:?}: {end:?}");
            // The acknowledgement may be late.
            until(|| exchange.is_quiet()).await;
            let flood = sample(1, 1_000_000);
            let end = tokio::select! {
                end = exchange.run() => end,
                _ = sockets.sender.write_all(&flood) => panic!("1 MB fits nowhere"),
            };
            assert!(matches!(end, ExchangeEnd::Idle), "{choice:?}: {end:?}");
            assert!(!exchange.is_quiet(), "{choice:?}");
        });
    }
}

/// Telnet's interrupt: nothing comes behind the urgent byte that would make the socket readable again.
#[test]
fn an_urgent_byte_does_not_wait_for_the_next_one() {
    for choice in EXCHANGE_CHOICES {
        on_worker(async {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            SockRef::from(&sockets.from)
                .set_out_of_band_inline(true)
                .unwrap();
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order(choice));
            let talk = async {
                // As much in front of it as goes through a pipe, too.
                for bytes in [100_000, 3] {
                    let before = sample(5, bytes);
                    sockets.sender.write_all(&before[1..]).await.unwrap();
                    let urgent = [before[0], b'!'];
                    let sent = SockRef::from(&sockets.sender).send_out_of_band(&urgent);
                    assert_eq!(sent.unwrap(), 2);
                    let arrived = receive(&mut sockets.receiver, bytes + 1).await;
                    assert_eq!(arrived.last(), Some(&b'!'), "{choice:?}");
                }
            };
            tokio::select! {
                end = exchange.run() => panic!("{choice:?}: {end:?}"),
                () = talk => {}
            }
        });
    }
}

#[test]
fn nothing_moves_and_the_exchange_ends_idle_even_half_open() {
    let each = |half_open| EXCHANGE_CHOICES.map(|choice| (half_open, choice));
    for (half_open, choice) in [each(false), each(true)].concat() {
        on_worker(async {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let idle = HANG / 4;
            let mut exchange = splicer.exchange(
                &sockets.from,
                &sockets.to,
                ExchangeOrder {
                    idle,
                    ..order(choice)
                },
            );
            let started = tokio::time::Instant::now();
            if half_open {
                sockets.sender.shutdown().await.unwrap();
            }
            let talk = async {
                // Bytes in one direction keep both alive.
                for _ in 0..6 {
                    pass(idle / 4).await;
                    sockets.receiver.write_all(b".").await.unwrap();
                    receive(&mut sockets.sender, 1).await;
                }
                // An idle end is detected up to a quarter of the time-out late.
                for _ in 0..6 {
                    pass(idle / 4).await;
                }
            };
            let (end, ()) = tokio::join!(exchange.run(), talk);
            assert!(matches!(end, ExchangeEnd::Idle), "{end:?}");
            assert!(
                started.elapsed() >= idle / 4 * 6 + idle,
                "{:?}",
                started.elapsed()
            );
            assert_eq!(exchange.b_to_a_bytes(), 6);
            assert_eq!(splicer.counters().idle_ends.get(), 1);
        });
    }
}

#[test]
fn three_hundred_exchanges_side_by_side() {
    on_worker(async {
        let splicer = splicer();
        let mut tasks = Vec::new();
        for seed in 0..300_u64 {
            let splicer = splicer.clone();
            tasks.push(tokio::task::spawn_local(async move {
                let mut sockets = Sockets::new().await;
                let (question, answer) = (
                    sample(seed, 50 + 10 * seed as usize),
                    sample(seed + 1000, 100 * seed as usize),
                );
                let choice = EXCHANGE_CHOICES[seed as usize % 4];
                let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order(choice));
                let ask = async {
                    sockets.sender.write_all(&question).await.unwrap();
                    sockets.sender.shutdown().await.unwrap();
                    receive_in_pieces(&mut sockets.sender, &mut Random::new(seed)).await
                };
                let reply = async {
                    let asked =
                        receive_in_pieces(&mut sockets.receiver, &mut Random::new(seed + 1)).await;
                    send_in_pieces(&mut sockets.receiver, &answer, &mut Random::new(seed + 2))
                        .await;
                    sockets.receiver.shutdown().await.unwrap();
                    asked
                };
                let (end, replied, asked) = tokio::join!(exchange.run(), ask, reply);
                assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
                assert_same(&asked, &question, "question");
                assert_same(&replied, &answer, "answer");
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let counters = splicer.counters();
        assert_eq!(counters.exchanges.get(), 300);
        assert_eq!(counters.buffers_in_use.get(), 0);
        assert_eq!(counters.pipes_open.get(), counters.pipes_pooled.get());
    });
}

#[test]
fn small_helpers_do_what_they_say() {
    on_worker(async {
        let mut sockets = Sockets::new().await;
        tcp::set_nodelay(&sockets.from).unwrap();
        assert!(sockets.from.nodelay().unwrap());
        sockets.sender.write_all(b"12345").await.unwrap();
        until(|| tcp::pending_input(&sockets.from).unwrap() == 5).await;
        tcp::reset_on_close(&sockets.to).unwrap();
        drop(sockets.to);
        let (_, outcome) = receive_until_it_breaks(&mut sockets.receiver).await;
        assert_eq!(
            outcome.unwrap_err().kind(),
            std::io::ErrorKind::ConnectionReset
        );
    });
}
