//! The local copy: the same bytes as the receiver gets, and more if the receiver closes.

use crate::support::*;
use carrick_splice::{Choice, End, Ended, LocalCopy, Order, PoolLimits, Side, Splicer};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use tokio::io::AsyncWriteExt;

/// Sends `sent` through a transfer with a copy to a function; returns what arrived and what was copied.
async fn through_a_function(
    splicer: &Splicer,
    choice: Choice,
    sent: &[u8],
    tiny: bool,
    seed: u64,
) -> (Vec<u8>, Vec<u8>) {
    let mut sockets = if tiny {
        Sockets::tiny().await
    } else {
        Sockets::new().await
    };
    let mut copied = Vec::new();
    let mut copy = |bytes: &[u8]| copied.extend_from_slice(bytes);
    let order = Order {
        choice,
        prefix: b"head",
        pass_end: true,
        local_copy: LocalCopy::To(&mut copy),
        ..Order::new(End::EndOfStream)
    };
    let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
    let send = async {
        send_in_pieces(&mut sockets.sender, sent, &mut Random::new(seed)).await;
        sockets.sender.shutdown().await.unwrap();
    };
    let mut random = Random::new(seed + 1);
    let receive = receive_in_pieces(&mut sockets.receiver, &mut random);
    let (ended, (), arrived) = tokio::join!(transfer.run(), send, receive);
    assert_eq!(ended.unwrap(), Ended::EndOfStream);
    let hand_over = transfer.unsplice().await;
    assert!(hand_over.copy_complete);
    assert_eq!(hand_over.copied_bytes, sent.len() as u64);
    assert_eq!(&arrived[..4], b"head");
    (arrived[4..].to_vec(), copied)
}

#[test]
fn a_function_gets_what_the_receiver_gets() {
    on_worker(async {
        for choice in CHOICES {
            for seed in 0..6 {
                let sent = sample(seed, 400_000);
                let (arrived, copied) =
                    through_a_function(&splicer(), choice, &sent, seed % 2 == 0, seed).await;
                assert_same(&arrived, &sent, &format!("{choice:?} arrived, seed {seed}"));
                assert_same(&copied, &sent, &format!("{choice:?} copied, seed {seed}"));
            }
        }
    });
}

#[test]
fn without_a_second_pipe_the_copy_is_still_complete() {
    on_worker(async {
        let limits = PoolLimits {
            pipes_max: 1,
            ..PoolLimits::default()
        };
        let splicer = Splicer::new(limits, Default::default());
        let sent = sample(1, 300_000);
        let (arrived, copied) = through_a_function(&splicer, Choice::Pipe, &sent, false, 1).await;
        assert_same(&arrived, &sent, "arrived");
        assert_same(&copied, &sent, "copied");
        assert_eq!(splicer.counters().pipe_bytes.get(), 0);
        assert!(splicer.counters().pipes_refused.get() > 0);
    });
}

#[test]
fn a_file_gets_what_the_receiver_gets() {
    on_worker(async {
        for choice in CHOICES {
            for append in [false, true] {
                let mut sockets = Sockets::tiny().await;
                let sent = sample(5, 700_000);
                let named = tempfile::NamedTempFile::new().unwrap();
                let mut options = File::options();
                let file = if append {
                    options.append(true)
                } else {
                    options.write(true)
                }
                .open(named.path())
                .unwrap();
                let splicer = splicer();
                let order = Order {
                    choice,
                    pass_end: true,
                    local_copy: LocalCopy::File(file.as_fd()),
                    ..Order::new(End::EndOfStream)
                };
                let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                let send = async {
                    sockets.sender.write_all(&sent).await.unwrap();
                    sockets.sender.shutdown().await.unwrap();
                };
                let (ended, (), (arrived, _)) = tokio::join!(
                    transfer.run(),
                    send,
                    receive_until_it_breaks(&mut sockets.receiver)
                );
                assert_eq!(ended.unwrap(), Ended::EndOfStream);
                assert!(
                    transfer.copy_error().is_none(),
                    "{:?}",
                    transfer.copy_error()
                );
                assert!(transfer.unsplice().await.copy_complete);
                assert_same(&arrived, &sent, "arrived");
                let mut copied = Vec::new();
                let mut file = File::open(named.path()).unwrap();
                file.rewind().unwrap();
                file.read_to_end(&mut copied).unwrap();
                assert_same(&copied, &sent, &format!("{choice:?}, append {append}"));
            }
        }
    });
}

#[test]
fn a_file_that_fails_ends_the_copy_and_not_the_transfer() {
    on_worker(async {
        for choice in CHOICES {
            let mut sockets = Sockets::new().await;
            let sent = sample(5, 300_000);
            let full = File::options().write(true).open("/dev/full").unwrap();
            let splicer = splicer();
            let order = Order {
                choice,
                pass_end: true,
                local_copy: LocalCopy::File(full.as_fd()),
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let send = async {
                sockets.sender.write_all(&sent).await.unwrap();
                sockets.sender.shutdown().await.unwrap();
            };
            let (ended, (), (arrived, _)) = tokio::join!(
                transfer.run(),
                send,
                receive_until_it_breaks(&mut sockets.receiver)
            );
            assert_eq!(ended.unwrap(), Ended::EndOfStream);
            assert_same(&arrived, &sent, "arrived");
            assert!(transfer.copy_error().is_some());
            assert!(!transfer.unsplice().await.copy_complete);
        }
    });
}

#[test]
fn the_copy_is_finished_when_the_client_has_gone() {
    on_worker(async {
        for seed in 0..24 {
            let choice = CHOICES[seed as usize % CHOICES.len()];
            let mut random = Random::new(seed);
            let mut sockets = if seed % 2 == 0 {
                Sockets::tiny().await
            } else {
                Sockets::to_a_tiny_receiver().await
            };
            let length = 1_500_000;
            let sent = [&sample(seed, length)[..], b"next"].concat();
            let cut = random.magnitude(100_000);
            let mut copied = Vec::new();
            let mut copy = |bytes: &[u8]| copied.extend_from_slice(bytes);
            let splicer = splicer();
            let order = Order {
                choice,
                local_copy: LocalCopy::To(&mut copy),
                keep_reading_bytes_max: u64::MAX,
                ..Order::new(End::AfterBytes(length as u64))
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let leave = async {
                receive(&mut sockets.receiver, cut).await;
                reset(sockets.receiver);
            };
            let (outcome, (), sent_all) =
                tokio::join!(transfer.run(), leave, sockets.sender.write_all(&sent));
            sent_all.unwrap();
            assert_eq!(outcome.expect_err("the receiver has gone").side, Side::To);
            let hand_over = transfer.unsplice().await;
            assert!(hand_over.copy_complete, "{hand_over:?}");
            assert_same(
                &copied,
                &sent[..length],
                &format!("{choice:?}, seed {seed}"),
            );
            assert_eq!(
                receive(&mut sockets.from, 4).await,
                b"next",
                "the sender's connection stands at the boundary"
            );
        }
    });
}

#[test]
fn no_more_is_read_for_the_copy_than_allowed() {
    on_worker(async {
        for choice in [Choice::Copy, Choice::Pipe] {
            let mut sockets = Sockets::new().await;
            let mut copied = Vec::new();
            let mut copy = |bytes: &[u8]| copied.extend_from_slice(bytes);
            let splicer = splicer();
            let order = Order {
                choice,
                local_copy: LocalCopy::To(&mut copy),
                keep_reading_bytes_max: 50_000,
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let sent = sample(3, 150_000);
            let talk = async {
                sockets.sender.write_all(&sent[..1000]).await.unwrap();
                receive(&mut sockets.receiver, 1000).await;
                reset(sockets.receiver);
                until(|| tcp_state(&sockets.to) == CLOSED).await;
                // The runtime sees the event.
                tokio::task::yield_now().await;
                sockets.sender.write_all(&sent[1000..]).await.unwrap();
            };
            let (outcome, ()) = tokio::join!(transfer.run(), talk);
            assert_eq!(outcome.expect_err("the receiver has gone").side, Side::To);
            assert!(!transfer.unsplice().await.copy_complete);
            assert_same(&copied, &sent[..51_000], &format!("{choice:?}"));
        }
    });
}

#[test]
fn a_silent_sender_is_not_waited_for_longer_than_idle() {
    on_worker(async {
        let mut sockets = Sockets::new().await;
        let mut copied = 0;
        let mut copy = |bytes: &[u8]| copied += bytes.len();
        let splicer = splicer();
        let order = Order {
            local_copy: LocalCopy::To(&mut copy),
            keep_reading_bytes_max: u64::MAX,
            idle: HANG / 4,
            ..Order::new(End::EndOfStream)
        };
        let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
        let talk = async {
            sockets.sender.write_all(b"first").await.unwrap();
            receive(&mut sockets.receiver, 5).await;
            reset(sockets.receiver);
            until(|| tcp_state(&sockets.to) == CLOSED).await;
            for _ in 0..8 {
                pass(HANG / 16).await;
            }
        };
        let (outcome, ()) = tokio::join!(transfer.run(), talk);
        assert_eq!(outcome.expect_err("the receiver has gone").side, Side::To);
        let hand_over = transfer.unsplice().await;
        assert_eq!(
            (hand_over.copied_bytes, hand_over.copy_complete),
            (5, false)
        );
    });
}
