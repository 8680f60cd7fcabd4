//! A transfer stops exactly at its boundary, and passes on exactly what it was told to.

use crate::support::*;
use carrick_splice::{Choice, End, Ended, Engine, Order, Reason, tcp};
use std::io::{Read, Write};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LENGTHS: [usize; 9] = [
    0,
    1,
    1000,
    8192,
    16_383,
    16_384,
    65_536,
    65_537,
    (1 << 20) + 7,
];

#[test]
fn the_byte_after_the_last_one_stays_in_the_socket() {
    on_worker(async {
        for choice in CHOICES {
            for length in LENGTHS {
                let mut sockets = Sockets::new().await;
                let body = sample(length as u64, length);
                let (sent, rest) = ([&body[..], b"next"].concat(), &mut [0; 16]);
                let send = sockets.sender.write_all(&sent);
                let splicer = splicer();
                let order = Order {
                    choice,
                    ..Order::new(End::AfterBytes(length as u64))
                };
                let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                let (ended, arrived, sent) =
                    tokio::join!(transfer.run(), receive(&mut sockets.receiver, length), send);
                sent.unwrap();
                assert_eq!(ended.unwrap(), Ended::Bytes);
                assert_eq!(transfer.bytes(), length as u64);
                assert_same(&arrived, &body, "body");
                let hand_over = transfer.unsplice().await;
                assert_eq!(
                    (hand_over.bytes, hand_over.unsent.len()),
                    (length as u64, 0)
                );
                let surplus = hand_over.surplus;
                assert!(choice == Choice::Socket || surplus.is_empty());
                let left = 4 - surplus.len();
                until(|| tcp::pending_input(&sockets.from).unwrap() >= left as u64).await;
                assert_eq!(
                    tcp::pending_input(&sockets.from).unwrap(),
                    left as u64,
                    "{choice:?}, {length} bytes"
                );
                assert_eq!(sockets.from.try_read(rest).unwrap_or(0), left);
                assert_eq!([&surplus[..], &rest[..left]].concat(), b"next");
                assert_eq!(tcp::pending_input(&sockets.receiver).unwrap(), 0);
            }
        }
    });
}

/// On a keep-alive connection nothing follows a response, and nothing else marks its end.
#[test]
fn the_last_byte_is_the_end_although_nothing_follows() {
    on_worker(async {
        for choice in CHOICES {
            for seed in 0..seeds("CARRICK_SEEDS", 150) {
                let mut random = Random::new(seed);
                let sockets = Sockets::new().await;
                let body = sample(seed, 1 + random.magnitude(200_000));
                // On separate threads: they wake no task here.
                let sending = std::thread::spawn({
                    let (mut sender, body) = (blocking(sockets.sender), body.clone());
                    move || {
                        send_and_pause(&mut sender, &body, &mut random);
                        sender
                    }
                });
                let receiving = std::thread::spawn({
                    let (mut receiver, mut arrived) = (blocking(sockets.receiver), body.clone());
                    move || {
                        arrived.fill(0);
                        receiver.read_exact(&mut arrived).unwrap();
                        (receiver, arrived)
                    }
                });
                let splicer = splicer();
                let order = Order {
                    choice,
                    idle: Duration::from_secs(600),
                    ..Order::new(End::AfterBytes(body.len() as u64))
                };
                let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                let ended = tokio::time::timeout(HANG / 2, transfer.run()).await;
                assert!(
                    matches!(ended, Ok(Ok(Ended::Bytes))),
                    "{choice:?}, seed {seed}: {ended:?}, {} of {} bytes",
                    transfer.bytes(),
                    body.len()
                );
                assert_same(&receiving.join().unwrap().1, &body, "body");
                drop(sending.join().unwrap());
            }
        }
    });
}

/// The same connection for a blocking thread.
fn blocking(stream: TcpStream) -> std::net::TcpStream {
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

/// Sends everything in random pieces, with pauses in between.
fn send_and_pause(stream: &mut std::net::TcpStream, bytes: &[u8], random: &mut Random) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let piece = 1 + random.magnitude(rest.len());
        stream.write_all(&rest[..piece]).unwrap();
        rest = &rest[piece..];
        if random.below(3) == 0 {
            let pause = 10 * random.magnitude(300) as u64;
            std::thread::sleep(Duration::from_micros(pause));
        }
    }
}

#[test]
fn random_pieces_arrive_whole() {
    on_worker(async {
        for choice in CHOICES {
            for seed in 0..6 {
                let mut sockets = Sockets::of(seed + 1).await;
                let (mut sending, mut receiving) = (Random::new(seed), Random::new(seed + 100));
                let sent = sample(seed, 300_000);
                let splicer = splicer();
                let order = Order {
                    choice,
                    pass_end: true,
                    ..Order::new(End::EndOfStream)
                };
                let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                let send = async {
                    send_in_pieces(&mut sockets.sender, &sent, &mut sending).await;
                    sockets.sender.shutdown().await.unwrap();
                };
                let receive = receive_in_pieces(&mut sockets.receiver, &mut receiving);
                let (ended, arrived, ()) = tokio::join!(transfer.run(), receive, send);
                assert_eq!(ended.unwrap(), Ended::EndOfStream);
                assert_same(&arrived, &sent, &format!("{choice:?}, seed {seed}"));
            }
        }
    });
}

#[test]
fn single_bytes_through_tiny_buffers() {
    on_worker(async {
        for choice in CHOICES {
            let mut sockets = Sockets::tiny().await;
            let sent = sample(9, 2000);
            let splicer = splicer();
            let order = Order {
                choice,
                pass_end: true,
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let send = async {
                for byte in &sent {
                    sockets
                        .sender
                        .write_all(std::slice::from_ref(byte))
                        .await
                        .unwrap();
                }
                sockets.sender.shutdown().await.unwrap();
            };
            let mut arrived = Vec::new();
            let receive = async {
                while let Ok(byte) = sockets.receiver.read_u8().await {
                    arrived.push(byte);
                }
            };
            let (ended, (), ()) = tokio::join!(transfer.run(), send, receive);
            assert_eq!(ended.unwrap(), Ended::EndOfStream);
            assert_same(&arrived, &sent, "single bytes");
        }
    });
}

#[test]
fn many_small_segments_fill_the_buffers_of_a_pipe() {
    on_worker(async {
        // The receiver's queue keeps 3,000 segments separate: far more than a pipe has buffers.
        let mut sockets = Sockets::new().await;
        let sent = sample(10, 3000 * 7);
        for piece in sent.chunks(7) {
            sockets.sender.write_all(piece).await.unwrap();
        }
        sockets.sender.shutdown().await.unwrap();
        until(|| tcp_state(&sockets.from) == CLOSE_WAIT).await;
        let splicer = splicer();
        let order = Order {
            choice: Choice::Pipe,
            pass_end: true,
            ..Order::new(End::EndOfStream)
        };
        let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
        let (ended, (arrived, _)) = tokio::join!(
            transfer.run(),
            receive_until_it_breaks(&mut sockets.receiver)
        );
        assert_eq!(ended.unwrap(), Ended::EndOfStream);
        assert_same(&arrived, &sent, "segments");
    });
}

#[test]
fn the_end_of_the_stream_is_passed_on_only_if_asked_for() {
    on_worker(async {
        for choice in CHOICES {
            for pass_end in [false, true] {
                let mut sockets = Sockets::new().await;
                sockets.sender.write_all(b"all").await.unwrap();
                sockets.sender.shutdown().await.unwrap();
                let splicer = splicer();
                let order = Order {
                    choice,
                    pass_end,
                    ..Order::new(End::EndOfStream)
                };
                let ended = splicer
                    .transfer(&sockets.from, &sockets.to, order)
                    .run()
                    .await;
                assert_eq!(ended.unwrap(), Ended::EndOfStream);
                let more = sockets.to.write_all(b" and more").await;
                assert_eq!(more.is_err(), pass_end);
                drop(sockets.to);
                let (arrived, _) = receive_until_it_breaks(&mut sockets.receiver).await;
                assert_eq!(
                    arrived,
                    if pass_end {
                        &b"all"[..]
                    } else {
                        b"all and more"
                    }
                );
            }
        }
    });
}

#[test]
fn a_body_that_ends_early_is_not_passed_off_as_whole() {
    on_worker(async {
        for choice in CHOICES {
            let mut sockets = Sockets::new().await;
            sockets.sender.write_all(&sample(3, 50_000)).await.unwrap();
            sockets.sender.shutdown().await.unwrap();
            let splicer = splicer();
            let order = Order {
                choice,
                pass_end: true,
                ..Order::new(End::AfterBytes(50_001))
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            assert_eq!(transfer.run().await.unwrap(), Ended::EndOfStream);
            assert_eq!(transfer.bytes(), 50_000);
            assert!(!transfer.unsplice().await.copy_complete);
            receive(&mut sockets.receiver, 50_000).await;
            assert_eq!(tcp_state(&sockets.to), ESTABLISHED, "it has sent an end");
        }
    });
}

#[test]
fn a_prefix_never_waits_for_the_body() {
    on_worker(async {
        for choice in CHOICES {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let order = Order {
                choice,
                prefix: b"head",
                ..Order::new(End::AfterBytes(100_000))
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let body = sample(1, 100_000);
            let talk = async {
                assert_eq!(receive(&mut sockets.receiver, 4).await, b"head");
                let (sent, arrived) = tokio::join!(
                    sockets.sender.write_all(&body),
                    receive(&mut sockets.receiver, 100_000)
                );
                sent.unwrap();
                arrived
            };
            let (ended, arrived) = tokio::join!(transfer.run(), talk);
            assert_eq!(ended.unwrap(), Ended::Bytes);
            assert_eq!(transfer.bytes(), 100_000);
            assert_same(&arrived, &body, "body after its prefix");
        }
    });
}

#[test]
fn a_prefix_shares_a_segment_with_the_body_that_is_there() {
    on_worker(async {
        for choice in [Choice::Copy, Choice::Pipe] {
            let mut sockets = Sockets::new().await;
            sockets.sender.write_all(&sample(1, 500)).await.unwrap();
            sockets.from.readable().await.unwrap();
            let splicer = splicer();
            let order = Order {
                choice,
                prefix: &[b'h'; 100],
                ..Order::new(End::AfterBytes(500))
            };
            assert_eq!(
                splicer
                    .transfer(&sockets.from, &sockets.to, order)
                    .run()
                    .await
                    .unwrap(),
                Ended::Bytes
            );
            receive(&mut sockets.receiver, 600).await;
            assert_eq!(data_segments_sent(&sockets.to), 1, "{choice:?}");
        }
    });
}

#[test]
fn a_prefix_goes_first_and_whole_whatever_its_size() {
    on_worker(async {
        for choice in CHOICES {
            for prefix_bytes in [1, 300, 70_000, 3_000_000] {
                for body_bytes in [0, 1, 5000, 200_000] {
                    let mut sockets = Sockets::tiny().await;
                    let all = sample(4, prefix_bytes + body_bytes);
                    let (prefix, body) = all.split_at(prefix_bytes);
                    let splicer = splicer();
                    let order = Order {
                        choice,
                        prefix,
                        ..Order::new(End::AfterBytes(body_bytes as u64))
                    };
                    let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                    let (ended, arrived, sent) = tokio::join!(
                        transfer.run(),
                        receive(&mut sockets.receiver, all.len()),
                        sockets.sender.write_all(body)
                    );
                    sent.unwrap();
                    assert_eq!(ended.unwrap(), Ended::Bytes);
                    assert_eq!(transfer.unsplice().await.prefix_unsent, 0);
                    assert_same(&arrived, &all, "prefix and body");
                }
            }
        }
    });
}

#[test]
fn input_ends_a_transfer_and_it_can_go_on() {
    on_worker(async {
        for choice in CHOICES {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let order = Order {
                choice,
                stop_on_input: true,
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let talk = async {
                sockets.sender.write_all(b"one").await.unwrap();
                assert_eq!(receive(&mut sockets.receiver, 3).await, b"one");
                sockets.receiver.write_all(b"stop").await.unwrap();
            };
            let (ended, ()) = tokio::join!(transfer.run(), talk);
            assert_eq!(ended.unwrap(), Ended::Input);
            assert_eq!(tcp::pending_input(&sockets.to).unwrap(), 4);
            transfer.ignore_input();
            let talk = async {
                sockets.sender.write_all(b"two").await.unwrap();
                sockets.sender.shutdown().await.unwrap();
                assert_eq!(receive(&mut sockets.receiver, 3).await, b"two");
            };
            let (ended, ()) = tokio::join!(transfer.run(), talk);
            assert_eq!(ended.unwrap(), Ended::EndOfStream);
            assert_eq!(transfer.bytes(), 6);
        }
    });
}

#[test]
fn a_receiver_that_closes_its_side_still_receives() {
    on_worker(async {
        for choice in CHOICES {
            for stop_on_input in [false, true] {
                let mut sockets = Sockets::new().await;
                let sent = sample(7, 200_000);
                sockets.receiver.shutdown().await.unwrap();
                until(|| tcp_state(&sockets.to) == CLOSE_WAIT).await;
                let splicer = splicer();
                let order = Order {
                    choice,
                    stop_on_input,
                    pass_end: true,
                    ..Order::new(End::EndOfStream)
                };
                let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                let talk = async {
                    // It waits for the sender by then.
                    tokio::task::yield_now().await;
                    sockets.sender.write_all(&sent).await.unwrap();
                    sockets.sender.shutdown().await.unwrap();
                };
                let ((arrived, _), ended, ()) = tokio::join!(
                    receive_until_it_breaks(&mut sockets.receiver),
                    transfer.run(),
                    talk
                );
                assert_eq!(ended.unwrap(), Ended::EndOfStream);
                assert_same(&arrived, &sent, "to a half-closed receiver");
            }
        }
    });
}

#[test]
fn auto_takes_the_engine_that_fits_the_length() {
    on_worker(async {
        for (length, engine, reason) in [
            (1 << 10, Engine::Copy, Reason::SmallBody),
            (1 << 20, Engine::Pipe, Reason::LargeBody),
        ] {
            let mut sockets = Sockets::new().await;
            let body = sample(1, length);
            let splicer = splicer();
            let mut transfer = splicer.transfer(
                &sockets.from,
                &sockets.to,
                Order::new(End::AfterBytes(length as u64)),
            );
            let (ended, _, sent) = tokio::join!(
                transfer.run(),
                receive(&mut sockets.receiver, length),
                sockets.sender.write_all(&body)
            );
            sent.unwrap();
            assert_eq!(ended.unwrap(), Ended::Bytes);
            let counters = splicer.counters();
            assert_eq!(counters.reason(reason).get(), 1);
            let used = if engine == Engine::Copy {
                &counters.copy_splices
            } else {
                &counters.pipe_splices
            };
            assert_eq!(used.get(), 1, "{length} bytes");
            assert_eq!(
                counters.copy_bytes.get() + counters.pipe_bytes.get(),
                length as u64
            );
        }
    });
}

/// Urgent data interrupts both recv(2) and splice(2); the data behind it must not wait forever.
#[test]
fn urgent_data_does_not_stop_a_transfer() {
    on_worker(async {
        for choice in CHOICES {
            let mut sockets = Sockets::new().await;
            let splicer = splicer();
            let idle = Duration::from_secs(8);
            let order = Order {
                choice,
                idle,
                ..Order::new(End::AfterBytes(60_000))
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let body = sample(8, 60_000);
            let talk = async {
                let (before, after) = body.split_at(20_000);
                sockets.sender.write_all(before).await.unwrap();
                let urgent = socket2::SockRef::from(&sockets.sender)
                    .send_out_of_band(b"!")
                    .unwrap();
                assert_eq!(urgent, 1);
                sockets.sender.write_all(after).await.unwrap();
            };
            let (ended, (), arrived) =
                tokio::join!(transfer.run(), talk, receive(&mut sockets.receiver, 60_000));
            assert_eq!(ended.unwrap(), Ended::Bytes);
            let body = if choice == Choice::Socket && arrived[20_000] == b'!' {
                // The kernel delivers the urgent byte in line.
                [&body[..20_000], b"!", &body[20_000..59_999]].concat()
            } else {
                body
            };
            assert_same(&arrived, &body, &format!("{choice:?}, around urgent data"));
        }
    });
}
