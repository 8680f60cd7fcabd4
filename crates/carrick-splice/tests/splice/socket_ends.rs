//! The socket engine at its ends: taken back at any moment, full backlogs, thousands of short splices, leaks.

use crate::socket::{is_here, order, until_in_kernel};
use crate::support::*;
use carrick_splice::{ExchangeEnd, SocketService};
use std::cell::Cell;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends all of `bytes` in random pieces and closes, while it reads to the end.
async fn talk(stream: TcpStream, bytes: Vec<u8>, seed: u64) -> Vec<u8> {
    let (mut read, mut write) = stream.into_split();
    let send = async {
        let mut random = Random::new(seed);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let piece = 1 + random.magnitude(rest.len());
            write.write_all(&rest[..piece]).await.unwrap();
            rest = &rest[piece..];
            if random.below(30) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        write.shutdown().await.unwrap();
    };
    let mut arrived = Vec::new();
    let receive = async {
        let mut random = Random::new(seed + 77);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let piece = 1 + random.magnitude(buffer.len());
            match read.read(&mut buffer[..piece]).await.unwrap() {
                0 => break,
                read => arrived.extend_from_slice(&buffer[..read]),
            }
            if random.below(50) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    tokio::join!(send, receive);
    arrived
}

/// Whether everything has ended. An end that an earlier splice on the same connections has already passed on cannot be
/// passed on again when both sides have closed.
fn is_closed(end: &ExchangeEnd) -> bool {
    match end {
        ExchangeEnd::Closed => true,
        ExchangeEnd::Idle | ExchangeEnd::Stalled => false,
        ExchangeEnd::Fault { fault, .. } => {
            fault.call == "shutdown" && fault.source.kind() == std::io::ErrorKind::NotConnected
        }
    }
}

#[test]
fn taken_back_at_any_moment_nothing_is_lost() {
    if !is_here() {
        return;
    }
    let (mut forwarded, mut taken_back, mut broken) = (0, 0, 0);
    let first: u64 = seeds("CARRICK_FIRST_SEED", 0);
    let count = seeds("CARRICK_SEEDS", 150);
    for seed in first..first + count {
        on_worker(async {
            let mut random = Random::new(seed);
            let sockets = if seed % 4 == 0 {
                Sockets::to_a_slow_receiver().await
            } else {
                Sockets::new().await
            };
            let (a, b) = (sockets.from, sockets.to);
            let up = sample(seed, 1 + random.magnitude(600_000));
            let down = sample(seed + 1000, 1 + random.magnitude(600_000));
            // On separate threads, so that bytes arrive while the connections are taken back.
            let (client, server) = (
                sockets.sender.into_std().unwrap(),
                sockets.receiver.into_std().unwrap(),
            );
            let (up_sent, down_sent) = (up.clone(), down.clone());
            let talking = std::thread::spawn(move || {
                on_worker(async {
                    tokio::join!(
                        talk(TcpStream::from_std(client).unwrap(), up_sent, seed),
                        talk(TcpStream::from_std(server).unwrap(), down_sent, seed + 1)
                    )
                })
            });
            let splicer = splicer();
            // Several splices one after another on the same connections, each taken back at some moment.
            let (mut up_carried, mut down_carried) = (Vec::new(), Vec::new());
            let mut closed = false;
            for _ in 0..4 {
                let mut exchange = splicer.exchange(
                    &a,
                    &b,
                    carrick_splice::ExchangeOrder {
                        a_prefix: &up_carried,
                        b_prefix: &down_carried,
                        ..order()
                    },
                );
                let while_running = Duration::from_micros(random.magnitude(6000) as u64);
                let end = tokio::time::timeout(while_running, exchange.run()).await;
                let (a_to_b, b_to_a) = exchange.unsplice().await;
                let carry = |carried: &mut Vec<u8>, hand_over: carrick_splice::HandOver| {
                    let start = carried.len() - hand_over.prefix_unsent;
                    let unsent_prefix = carried[start..].to_vec();
                    *carried = [unsent_prefix, hand_over.unsent].concat();
                };
                carry(&mut up_carried, a_to_b);
                carry(&mut down_carried, b_to_a);
                match end {
                    Ok(end) if is_closed(&end) => {
                        closed = true;
                        break;
                    }
                    Ok(_) if splicer.counters().socket_broken.get() > 0 => break,
                    Ok(end) => panic!("{end:?}, seed {seed}"),
                    Err(_) => taken_back += 1,
                }
            }
            let is_broken = || splicer.counters().socket_broken.get() > 0;
            if !closed && !is_broken() {
                let mut exchange = splicer.exchange(
                    &a,
                    &b,
                    carrick_splice::ExchangeOrder {
                        a_prefix: &up_carried,
                        b_prefix: &down_carried,
                        ..order()
                    },
                );
                let end = exchange.run().await;
                assert!(is_closed(&end) || is_broken(), "{end:?}, seed {seed}");
            }
            drop((a, b));
            if is_broken() {
                // The talkers see a reset, or an irregular end.
                let _ = talking.join();
                eprintln!("seed {seed} was broken");
                broken += 1;
                return;
            }
            let (answered, asked) = talking.join().unwrap();
            assert_same(&asked, &up, &format!("seed {seed}, up"));
            assert_same(&answered, &down, &format!("seed {seed}, down"));
            forwarded += splicer.counters().socket_bytes.get();
        });
    }
    assert_eq!(broken, 0, "connections were broken");
    assert!(
        forwarded > 0 && taken_back > count / 3,
        "{forwarded}, {taken_back}"
    );
}

#[test]
fn an_end_of_stream_behind_a_full_backlog_comes_last() {
    if !is_here() {
        return;
    }
    on_worker(async {
        for (round, megabytes) in [64, 3, 5, 7].into_iter().enumerate() {
            let sockets = Sockets::new().await;
            let sent = sample(round as u64, megabytes << 20);
            let (sender, mut write) = sockets.sender.into_split();
            let mut receiver = sockets.receiver;
            let splicer = splicer();
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order());
            let bytes = sent.clone();
            let has_gone = Cell::new(false);
            let talk = async {
                until_in_kernel(&splicer).await;
                write.write_all(&bytes).await.unwrap();
                // Closed at once, with everything before it in flight.
                drop(write);
                has_gone.set(true);
            };
            let receive = async {
                until(|| has_gone.get() || is_window_shut(sender.as_ref())).await;
                drop(sender);
                let arrived = receive_until_it_breaks(&mut receiver).await;
                drop(receiver);
                arrived
            };
            let (end, (), (arrived, outcome)) = tokio::join!(exchange.run(), talk, receive);
            assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
            outcome.unwrap();
            assert_same(&arrived, &sent, &format!("{megabytes} MB"));
        }
    });
}

#[test]
fn a_half_closed_client_gets_a_long_answer_whole() {
    if !is_here() {
        return;
    }
    on_worker(async {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let mut sockets = if seed % 2 == 0 {
                Sockets::to_a_slow_receiver().await
            } else {
                Sockets::new().await
            };
            // The small receiver waits for the answer.
            let answer = sample(seed, 200_000 + random.magnitude(2_000_000));
            let asked = 1 + random.magnitude(10_000);
            let splicer = splicer();
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order());
            let at = random.below(answer.len());
            let question = sample(seed + 1, asked);
            let talk = async {
                until_in_kernel(&splicer).await;
                let server = async {
                    // It begins to answer before the question has ended.
                    sockets.sender.write_all(&answer[..at]).await.unwrap();
                    let question = receive_until_it_breaks(&mut sockets.sender).await.0;
                    sockets.sender.write_all(&answer[at..]).await.unwrap();
                    drop(sockets.sender);
                    question
                };
                let (mut read, mut write) = sockets.receiver.split();
                let client = async {
                    let ask = async {
                        write.write_all(&question).await.unwrap();
                        tokio::time::sleep(Duration::from_micros(random.magnitude(5000) as u64))
                            .await;
                        write.shutdown().await.unwrap();
                    };
                    let mut arrived = Vec::new();
                    let (_, read) = tokio::join!(ask, read.read_to_end(&mut arrived));
                    read.unwrap();
                    arrived
                };
                let (asked, answered) = tokio::join!(server, client);
                assert_same(&asked, &question, &format!("question, seed {seed}"));
                assert_same(&answered, &answer, &format!("answer, seed {seed}"));
            };
            let (end, ()) = tokio::join!(exchange.run(), talk);
            assert!(matches!(end, ExchangeEnd::Closed), "{end:?}, seed {seed}");
        }
    });
}

#[test]
fn thousands_of_short_splices_leave_nothing_behind() {
    if !is_here() {
        return;
    }
    in_a_process_of_its_own("socket_ends::leave_nothing_behind");
}

#[test]
#[ignore = "counts descriptors: run by thousands_of_short_splices_leave_nothing_behind"]
fn leave_nothing_behind() {
    on_worker(async {
        let service: &SocketService = socket_service();
        // Its thread has its own descriptors.
        service.start_notifier();
        let splicer = splicer();
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = descriptors();
        for round in 0..3000_u64 {
            let mut sockets = Sockets::new().await;
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order());
            let talk = async {
                sockets.sender.write_all(b"question").await.unwrap();
                assert_eq!(receive(&mut sockets.receiver, 8).await, b"question");
                sockets.receiver.write_all(b"answer").await.unwrap();
                assert_eq!(receive(&mut sockets.sender, 6).await, b"answer");
                match round % 3 {
                    0 => drop((sockets.sender, sockets.receiver)),
                    1 => {
                        reset(sockets.sender);
                        drop(sockets.receiver);
                    }
                    _ => {
                        sockets.receiver.shutdown().await.unwrap();
                        drop(sockets.sender);
                    }
                }
            };
            tokio::join!(exchange.run(), talk);
        }
        assert_eq!(service.splices().0, 0);
        assert_eq!(descriptors(), before);
        assert!(splicer.counters().socket_bytes.get() > 0);
    });
}
