//! The socket engine: the kernel does the work, memory stays bounded, and no byte is lost in hand-overs between kernel and process.

use crate::support::*;
use carrick_splice::{
    Choice, Counters, Engine, ExchangeEnd, ExchangeOrder, PoolLimits, Reason, SocketService,
    Splicer,
};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// An order for the socket engine.
pub fn order<'a>() -> ExchangeOrder<'a> {
    ExchangeOrder {
        choice: Choice::Socket,
        ..ExchangeOrder::default()
    }
}

/// Waits until the kernel has the connections of this splicer's only exchange.
pub async fn until_in_kernel(splicer: &Splicer) {
    until(|| splicer.counters().socket_stays.get() > 0).await;
}

/// Whether the engine is usable here; otherwise prints a message.
pub fn is_here() -> bool {
    let loaded = socket_service().is_loaded();
    if !loaded {
        carrick_test::skip!("the socket engine is not usable here (is it run as root?)");
    }
    loaded
}

/// Bytes at a position of an endless stream in which every loss, duplication and displacement shows.
fn stream_bytes(start: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    let mut word = start / 8;
    let skip = (start % 8) as usize;
    while bytes.len() < length + skip {
        bytes.extend_from_slice(&word.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        word += 1;
    }
    bytes[skip..skip + length].to_vec()
}

#[test]
fn chatter_never_reaches_the_process() {
    if !is_here() {
        return;
    }
    on_worker(async {
        let mut sockets = Sockets::new().await;
        let splicer = splicer();
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order());
        let talk = async {
            // In the kernel from here on.
            sockets.sender.write_all(b"hello").await.unwrap();
            assert_eq!(receive(&mut sockets.receiver, 5).await, b"hello");
            until_in_kernel(&splicer).await;
            for length in [1, 64, 1000, 10_000] {
                for round in 0..50 {
                    let bytes = sample(round, length);
                    sockets.sender.write_all(&bytes).await.unwrap();
                    assert_same(
                        &receive(&mut sockets.receiver, length).await,
                        &bytes,
                        "there",
                    );
                    sockets.receiver.write_all(&bytes).await.unwrap();
                    assert_same(&receive(&mut sockets.sender, length).await, &bytes, "back");
                }
            }
            drop((sockets.sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        let bytes = 50 * 11_065;
        assert_eq!(
            (exchange.a_to_b_bytes(), exchange.b_to_a_bytes()),
            (bytes + 5, bytes)
        );
        assert_eq!(exchange.engines(), (Engine::Socket, Engine::Socket));
        drop(exchange);
        let counters = splicer.counters();
        assert_eq!(counters.socket_splices.get(), 2);
        assert_eq!(
            counters.socket_bytes.get() + counters.copy_bytes.get(),
            2 * bytes + 5
        );
        assert!(counters.copy_bytes.get() <= 5, "{counters:?}");
    });
}

#[test]
fn ipv6_and_ipv4_may_be_joined() {
    if !is_here() {
        return;
    }
    on_worker(async {
        let Ok(listener) = tokio::net::TcpListener::bind("[::1]:0").await else {
            carrick_test::lacks!("no IPv6 here");
            return;
        };
        let address = listener.local_addr().unwrap();
        let (sender, from) =
            tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
        let (mut sender, from) = (sender.unwrap(), from.unwrap().0);
        let mut sockets = Sockets::new().await;
        let splicer = splicer();
        let mut exchange = splicer.exchange(&from, &sockets.to, order());
        let talk = async {
            until_in_kernel(&splicer).await;
            for round in 0..50 {
                let bytes = sample(round, 1 + 300 * round as usize);
                sender.write_all(&bytes).await.unwrap();
                assert_same(
                    &receive(&mut sockets.receiver, bytes.len()).await,
                    &bytes,
                    "there",
                );
                sockets.receiver.write_all(&bytes).await.unwrap();
                assert_same(&receive(&mut sender, bytes.len()).await, &bytes, "back");
            }
            drop((sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        assert_eq!(exchange.engines(), (Engine::Socket, Engine::Socket));
    });
}

#[test]
fn what_is_queued_before_the_start_goes_first() {
    if !is_here() {
        return;
    }
    on_worker(async {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let mut sockets = Sockets::new().await;
            let sent = sample(seed, 1 + random.magnitude(200_000));
            let early = random.below(sent.len());
            sockets.sender.write_all(&sent[..early]).await.unwrap();
            // The caller has read a part of it, in the middle of one message.
            let read = random.below(early.max(1));
            let prefix = receive(&mut sockets.from, read).await;
            let splicer = splicer();
            let mut exchange = splicer.exchange(
                &sockets.from,
                &sockets.to,
                ExchangeOrder {
                    a_prefix: &prefix,
                    ..order()
                },
            );
            let talk = async {
                send_in_pieces(&mut sockets.sender, &sent[early..], &mut random).await;
                sockets.sender.shutdown().await.unwrap();
            };
            let answer = async {
                let arrived = receive_until_it_breaks(&mut sockets.receiver).await.0;
                drop(sockets.receiver);
                arrived
            };
            let (end, (), arrived) = tokio::join!(exchange.run(), talk, answer);
            assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
            assert_same(&arrived, &sent, &format!("seed {seed}"));
        }
    });
}

#[test]
fn segments_of_every_size_arrive_in_order() {
    if !is_here() {
        return;
    }
    on_worker(async {
        for (piece, pieces, slow) in [
            (1, 20_000, false),
            (1, 5_000, true),
            (64 << 10, 300, false),
            (64 << 10, 30, true),
            (7001, 500, false),
        ] {
            let mut sockets = if slow {
                Sockets::to_a_slow_receiver().await
            } else {
                Sockets::new().await
            };
            let splicer = splicer();
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order());
            let sent = sample(piece as u64, piece * pieces);
            let talk = async {
                // Quiet at first: everything below goes to the kernel.
                until_in_kernel(&splicer).await;
                for bytes in sent.chunks(piece) {
                    sockets.sender.write_all(bytes).await.unwrap();
                }
                sockets.sender.shutdown().await.unwrap();
            };
            let answer = async {
                let arrived = receive_in_pieces(&mut sockets.receiver, &mut Random::new(1)).await;
                drop(sockets.receiver);
                arrived
            };
            let (end, (), arrived) = tokio::join!(exchange.run(), talk, answer);
            assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
            assert_same(
                &arrived,
                &sent,
                &format!("{pieces} pieces of {piece}, slow: {slow}"),
            );
            // A piece larger than the send buffer never goes through the kernel.
            assert!(slow || splicer.counters().socket_bytes.get() > 0);
        }
    });
}

#[test]
fn a_receiver_that_never_reads_holds_the_sender_back() {
    if !is_here() {
        return;
    }
    on_worker(async {
        const OFFERED: u64 = 1 << 30;
        // Two receive buffers and two send buffers, as long as Linux lets them grow (`tcp_rmem`, `tcp_wmem`).
        const HELD_MAX: u64 = 2 * (32 << 20) + 2 * (4 << 20);
        let mut sockets = Sockets::new().await;
        let splicer = splicer();
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order());
        let mut offered = 0;
        let talk = async {
            until_in_kernel(&splicer).await;
            // Until nothing more is accepted.
            while offered < OFFERED {
                let piece = stream_bytes(offered, 256 << 10);
                match tokio::time::timeout(SHORT, sockets.sender.write(&piece)).await {
                    Ok(written) => offered += written.unwrap() as u64,
                    Err(_) if is_window_shut(&sockets.sender) => break,
                    Err(_) => {}
                }
            }
            assert!(offered < HELD_MAX, "{offered} bytes went in, none came out");
            // The receiver begins to read, and the sender continues to its end.
            let rest = async {
                let end = offered + (16 << 20);
                while offered < end {
                    let piece = stream_bytes(offered, 256 << 10);
                    offered += sockets.sender.write(&piece).await.unwrap() as u64;
                }
                sockets.sender.shutdown().await.unwrap();
                end
            };
            let drain = async {
                let (mut arrived, mut buffer) = (0, vec![0; 256 << 10]);
                loop {
                    let read = sockets.receiver.read(&mut buffer).await.unwrap();
                    if read == 0 {
                        break;
                    }
                    assert_same(&buffer[..read], &stream_bytes(arrived, read), "piece");
                    arrived += read as u64;
                }
                sockets.receiver.write_all(b"thanks").await.unwrap();
                sockets.receiver.shutdown().await.unwrap();
                arrived
            };
            let (_, arrived) = tokio::join!(rest, drain);
            assert_eq!(
                receive_until_it_breaks(&mut sockets.sender).await.0,
                b"thanks"
            );
            arrived
        };
        let (end, arrived) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        assert_eq!(arrived, offered);
        assert_eq!(exchange.a_to_b_bytes(), offered);
        drop(exchange);
        assert!(splicer.counters().socket_bytes.get() > 0);
        assert!(splicer.counters().socket_passed_bytes.get() > 0);
    });
}

#[test]
fn after_a_slow_receiver_the_kernel_goes_on() {
    if !is_here() {
        return;
    }
    on_worker(async {
        let mut sockets = Sockets::new().await;
        let splicer = splicer();
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order());
        let talk = async {
            until_in_kernel(&splicer).await;
            let sent = sample(1, 24 << 20);
            let (sender, mut write) = sockets.sender.split();
            let receive_late = async {
                until(|| is_window_shut(sender.as_ref())).await;
                receive(&mut sockets.receiver, sent.len()).await
            };
            let (written, arrived) = tokio::join!(write.write_all(&sent), receive_late);
            written.unwrap();
            assert_same(&arrived, &sent, "all of it");
            let mut by_kernel = 0;
            // Some of them may still go through the process.
            while by_kernel < 100 {
                let before = splicer.counters().copy_bytes.get();
                sockets.sender.write_all(b"a question").await.unwrap();
                assert_eq!(receive(&mut sockets.receiver, 10).await, b"a question");
                let is_by_kernel = splicer.counters().copy_bytes.get() == before;
                assert!(is_by_kernel || by_kernel == 0, "it came back");
                by_kernel += u64::from(is_by_kernel);
            }
            drop((sockets.sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
    });
}

#[test]
fn where_there_is_no_room_the_process_does_it() {
    if !is_here() {
        return;
    }
    on_worker(async {
        let service = SocketService::default();
        service.load(1, None).unwrap();
        let splicer = Splicer::with_socket(
            PoolLimits::default(),
            Arc::new(Counters::default()),
            service.clone(),
        );
        let mut first = Sockets::new().await;
        let mut second = Sockets::new().await;
        let mut one = splicer.exchange(&first.from, &first.to, order());
        let mut two = splicer.exchange(&second.from, &second.to, order());
        let talk = async {
            let refused = || splicer.counters().reason(Reason::SocketFull).get();
            for (sender, receiver) in [
                (&mut first.sender, &mut first.receiver),
                (&mut second.sender, &mut second.receiver),
            ] {
                for _ in 0..3 {
                    sender.write_all(b"question").await.unwrap();
                    assert_eq!(receive(receiver, 8).await, b"question");
                }
                until(|| service.splices() == (1, 1)).await;
            }
            until(|| refused() == 1).await;
            drop((first.sender, first.receiver, second.sender, second.receiver));
        };
        let (one_end, two_end, ()) = tokio::join!(one.run(), two.run(), talk);
        assert!(matches!(one_end, ExchangeEnd::Closed), "{one_end:?}");
        assert!(matches!(two_end, ExchangeEnd::Closed), "{two_end:?}");
        drop((one, two));
        assert_eq!(splicer.counters().reason(Reason::SocketFull).get(), 1);
        assert_eq!(service.splices(), (0, 1));
    });
}

#[test]
fn without_the_engine_the_process_does_it_and_says_so() {
    on_worker(async {
        let splicer = Splicer::new(PoolLimits::default(), Arc::new(Counters::default()));
        let mut sockets = Sockets::new().await;
        let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order());
        let talk = async {
            sockets.sender.write_all(b"question").await.unwrap();
            assert_eq!(receive(&mut sockets.receiver, 8).await, b"question");
            drop((sockets.sender, sockets.receiver));
        };
        let (end, ()) = tokio::join!(exchange.run(), talk);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        assert_eq!(
            splicer.counters().reason(Reason::SocketUnavailable).get(),
            1
        );
        assert_eq!(exchange.engines().0, Engine::Copy);
    });
}
