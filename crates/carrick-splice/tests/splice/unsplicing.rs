//! Both connections are returned exactly where they are, at whatever moment.

use crate::support::*;
use carrick_splice::{Choice, End, ExchangeOrder, HandOver, LocalCopy, Order};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Does by hand what a transfer that was taken back would have done.
async fn go_on_by_hand(
    from: &mut TcpStream,
    to: &mut TcpStream,
    prefix: &[u8],
    hand_over: HandOver,
) {
    to.write_all(&prefix[prefix.len() - hand_over.prefix_unsent..])
        .await
        .unwrap();
    to.write_all(&hand_over.unsent).await.unwrap();
    let mut buffer = vec![0; 10_000];
    loop {
        match from.read(&mut buffer).await.unwrap() {
            0 => break,
            read => to.write_all(&buffer[..read]).await.unwrap(),
        }
    }
    to.shutdown().await.unwrap();
}

#[test]
fn a_transfer_taken_back_at_any_moment_loses_nothing() {
    on_worker(async {
        let mut in_flight = 0;
        for seed in 0..80 {
            let choice = CHOICES[seed as usize % CHOICES.len()];
            let mut random = Random::new(seed);
            let mut sockets = Sockets::of(seed).await;
            let sent = sample(seed, 100_000 + random.below(500_000));
            let prefix_bytes = random.magnitude(100_000);
            let (prefix, body) = sent.split_at(prefix_bytes);
            let (mut sender, mut receiver) = (sockets.sender, sockets.receiver);
            let body_sent = body.to_vec();
            let sending = tokio::task::spawn_local(async move {
                send_in_pieces(&mut sender, &body_sent, &mut Random::new(seed + 1)).await;
                sender.shutdown().await.unwrap();
                sender
            });
            let receiving = tokio::task::spawn_local(async move {
                if seed % 3 != 0 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                receive_in_pieces(&mut receiver, &mut Random::new(seed + 2)).await
            });
            let splicer = splicer();
            let order = Order {
                choice,
                prefix,
                pass_end: true,
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let mut ended = None;
            for _ in 0..1 + random.below(3) {
                let polls = random.magnitude(60);
                ended = ended.or(poll_times(transfer.run(), polls).await);
                if random.below(2) == 0 {
                    tokio::task::yield_now().await;
                }
            }
            let written = transfer.bytes();
            let hand_over = transfer.unsplice().await;
            // The kernel does not stop in between.
            assert!(
                hand_over.bytes == written || choice == Choice::Socket && hand_over.bytes > written
            );
            in_flight += usize::from(!hand_over.unsent.is_empty());
            if ended.is_none() {
                go_on_by_hand(&mut sockets.from, &mut sockets.to, prefix, hand_over).await;
            }
            assert_same(
                &receiving.await.unwrap(),
                &sent,
                &format!("{choice:?}, seed {seed}"),
            );
            sending.await.unwrap();
        }
        assert!(
            in_flight > 3,
            "only {in_flight} transfers had bytes in flight: this test shows too little"
        );
    });
}

#[test]
fn an_exact_count_is_kept_when_it_is_taken_back_and_given_again() {
    on_worker(async {
        for seed in 0..30 {
            let choice = CHOICES[seed as usize % CHOICES.len()];
            let mut random = Random::new(seed);
            let mut sockets = Sockets::of(seed).await;
            let length = 1 + random.magnitude(600_000);
            let sent = [&sample(seed, length)[..], b"after"].concat();
            let body = sent[..length].to_vec();
            let (mut sender, mut receiver) = (sockets.sender, sockets.receiver);
            let sending = tokio::task::spawn_local(async move {
                send_in_pieces(&mut sender, &sent, &mut Random::new(seed + 1)).await;
                sender
            });
            let receiving =
                tokio::task::spawn_local(async move { receive(&mut receiver, length).await });
            let splicer = splicer();
            // Each transfer carries a part; the next one gets its unsent bytes as its prefix.
            let (mut taken, mut carried) = (0, Vec::new());
            let surplus = loop {
                let left = (length - taken) as u64;
                let order = Order {
                    choice,
                    prefix: &carried,
                    ..Order::new(End::AfterBytes(left))
                };
                let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                let ended = poll_times(transfer.run(), 1 + random.below(20)).await;
                let hand_over = transfer.unsplice().await;
                taken += hand_over.bytes as usize + hand_over.unsent.len();
                let unsent_prefix = carried[carried.len() - hand_over.prefix_unsent..].to_vec();
                carried = [unsent_prefix, hand_over.unsent].concat();
                if ended.is_some() || !hand_over.surplus.is_empty() {
                    break hand_over.surplus;
                }
            };
            sockets.to.write_all(&carried).await.unwrap();
            assert_eq!(taken, length);
            assert_same(
                &receiving.await.unwrap(),
                &body,
                &format!("{choice:?}, seed {seed}"),
            );
            let rest = receive(&mut sockets.from, 5 - surplus.len()).await;
            assert_eq!([surplus, rest].concat(), b"after");
            sending.await.unwrap();
        }
    });
}

#[test]
fn an_exchange_taken_back_at_any_moment_loses_nothing() {
    on_worker(async {
        for seed in 0..40 {
            let choice = EXCHANGE_CHOICES[seed as usize % 4];
            let mut random = Random::new(seed);
            let sockets = Sockets::of(seed).await;
            let (mut a, mut b) = (sockets.from, sockets.to);
            let up = sample(seed, 1000 + random.magnitude(500_000));
            let down = sample(seed + 1000, 1000 + random.magnitude(500_000));
            let (a_prefix, a_rest) = up.split_at(random.magnitude(1000));
            let (b_prefix, b_rest) = down.split_at(random.magnitude(1000));
            let talk = |mut stream: TcpStream, bytes: Vec<u8>, seed| {
                tokio::task::spawn_local(async move {
                    let (mut read, mut write) = stream.split();
                    let send = async {
                        write.write_all(&bytes).await.unwrap();
                        write.shutdown().await.unwrap();
                    };
                    let mut arrived = Vec::new();
                    let receive = async {
                        tokio::time::sleep(Duration::from_millis(seed % 4)).await;
                        read.read_to_end(&mut arrived).await.unwrap();
                    };
                    tokio::join!(send, receive);
                    arrived
                })
            };
            let client = talk(sockets.sender, a_rest.to_vec(), seed);
            let server = talk(sockets.receiver, b_rest.to_vec(), seed + 1);
            let splicer = splicer();
            let order = ExchangeOrder {
                choice,
                a_prefix,
                b_prefix,
                ..ExchangeOrder::default()
            };
            let mut exchange = splicer.exchange(&a, &b, order);
            let ended = poll_times(exchange.run(), random.magnitude(40)).await;
            let (a_to_b, b_to_a) = exchange.unsplice().await;
            if ended.is_none() {
                let (mut a_read, mut a_write) = a.split();
                let (mut b_read, mut b_write) = b.split();
                let upwards = async {
                    b_write
                        .write_all(&a_prefix[a_prefix.len() - a_to_b.prefix_unsent..])
                        .await
                        .unwrap();
                    b_write.write_all(&a_to_b.unsent).await.unwrap();
                    tokio::io::copy(&mut a_read, &mut b_write).await.unwrap();
                    b_write.shutdown().await.ok();
                };
                let downwards = async {
                    a_write
                        .write_all(&b_prefix[b_prefix.len() - b_to_a.prefix_unsent..])
                        .await
                        .unwrap();
                    a_write.write_all(&b_to_a.unsent).await.unwrap();
                    tokio::io::copy(&mut b_read, &mut a_write).await.unwrap();
                    a_write.shutdown().await.ok();
                };
                tokio::join!(upwards, downwards);
            }
            assert_same(
                &server.await.unwrap(),
                &up,
                &format!("{choice:?}, seed {seed}, up"),
            );
            assert_same(
                &client.await.unwrap(),
                &down,
                &format!("{choice:?}, seed {seed}, down"),
            );
        }
    });
}

#[test]
fn a_local_copy_and_the_bytes_handed_back_fit_together() {
    on_worker(async {
        for seed in 0..30 {
            let choice = CHOICES[seed as usize % 2];
            let mut random = Random::new(seed);
            let mut sockets = Sockets::tiny().await;
            let sent = sample(seed, 400_000);
            let mut sender = sockets.sender;
            let all = sent.clone();
            let sending = tokio::task::spawn_local(async move {
                let _ = sender.write_all(&all).await;
                sender
            });
            let splicer = splicer();
            let mut copied = Vec::new();
            let mut copy = |bytes: &[u8]| copied.extend_from_slice(bytes);
            let order = Order {
                choice,
                local_copy: LocalCopy::To(&mut copy),
                ..Order::new(End::AfterBytes(400_000))
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let (some, polls) = (random.magnitude(200_000), 1 + random.magnitude(100));
            let receive_some = async {
                receive(&mut sockets.receiver, some).await;
            };
            tokio::select! {
                biased;
                _ = poll_times(transfer.run(), polls) => {}
                () = receive_some => {}
            }
            let hand_over = transfer.unsplice().await;
            assert!(!hand_over.copy_complete);
            assert_eq!(hand_over.copied_bytes, copied.len() as u64);
            assert_same(&copied, &sent[..copied.len()], "copy");
            let taken = hand_over.bytes as usize + hand_over.unsent.len();
            assert!(hand_over.bytes <= hand_over.copied_bytes && copied.len() <= taken);
            assert_same(
                &hand_over.unsent,
                &sent[hand_over.bytes as usize..taken],
                "handed back",
            );
            sending.abort();
        }
    });
}
