//! Connections spliced and taken back repeatedly at random byte counts, by every engine and by all of them in turn; in
//! between, bytes are relayed by hand, like a user of the returned connections would.

use crate::support::*;
use carrick_splice::{Choice, End, Ended, ExchangeEnd, ExchangeOrder, HandOver, Order};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Seeds for each engine, so that a test takes seconds. The variable sets more: thousands take minutes.
const SEEDS: u64 = 100;
const SEEDS_VARIABLE: &str = "CARRICK_TORTURE_SEEDS";

/// Of this many connections in the kernel, at most one may be broken when it is taken back (docs/internals/socket-engine.md, "Taking a
/// socket out"). That is detected and both sides are reset; it is never silent.
const WHOLE_PER_BROKEN_MIN: u64 = 100;

/// How many seeds a test runs with each engine.
pub fn seeds() -> u64 {
    let wanted = std::env::var(SEEDS_VARIABLE).ok();
    wanted.map_or(SEEDS, |text| text.parse().expect(SEEDS_VARIABLE))
}

/// How many bytes one side has read; others can wait for it.
#[derive(Default)]
struct Progress {
    bytes: AtomicU64,
    changed: Notify,
}

impl Progress {
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    async fn reach(&self, bytes: u64) {
        while self.bytes() < bytes {
            self.changed.notified().await;
        }
    }
}

/// Sends all of `bytes` in random pieces and closes, while it reads to the end.
async fn talk(stream: TcpStream, bytes: Vec<u8>, seed: u64, progress: Arc<Progress>) -> Vec<u8> {
    let (mut read, mut write) = stream.into_split();
    let send = async {
        let mut random = Random::new(seed);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let piece = 1 + random.magnitude(rest.len());
            write.write_all(&rest[..piece]).await.unwrap();
            rest = &rest[piece..];
            if random.below(20) == 0 {
                tokio::time::sleep(Duration::from_micros(random.magnitude(2000) as u64)).await;
            }
        }
        write.shutdown().await.unwrap();
    };
    let receive = async {
        let mut random = Random::new(seed + 77);
        let mut arrived = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let piece = 1 + random.magnitude(buffer.len());
            match read.read(&mut buffer[..piece]).await.unwrap() {
                0 => return arrived,
                read => {
                    arrived.extend_from_slice(&buffer[..read]);
                    progress.add(read);
                }
            }
        }
    };
    tokio::join!(send, receive).1
}

/// Both outer ends, on a separate thread, so that bytes arrive while connections are taken back.
struct Talkers {
    up: Vec<u8>,
    down: Vec<u8>,
    /// What the server has read, and the client.
    progress: [Arc<Progress>; 2],
    thread: JoinHandle<(Vec<u8>, Vec<u8>)>,
}

impl Talkers {
    fn start(client: TcpStream, server: TcpStream, seed: u64) -> Talkers {
        let mut random = Random::new(seed ^ 0x7A1C);
        let up = sample(seed, 1 + random.magnitude(400_000));
        let down = sample(seed + 1_000_000, 1 + random.magnitude(400_000));
        let progress: [Arc<Progress>; 2] = Default::default();
        let (client, server) = (client.into_std().unwrap(), server.into_std().unwrap());
        let (up_sent, down_sent) = (up.clone(), down.clone());
        let [of_server, of_client] = progress.clone();
        let thread = std::thread::spawn(move || {
            on_worker(async {
                let client = TcpStream::from_std(client).unwrap();
                let server = TcpStream::from_std(server).unwrap();
                tokio::join!(
                    talk(server, down_sent, seed + 1, of_server),
                    talk(client, up_sent, seed, of_client)
                )
            })
        });
        Talkers {
            up,
            down,
            progress,
            thread,
        }
    }

    /// Until one side has read some more, up to its total.
    async fn some_more(&self, random: &mut Random) {
        let side = random.below(2);
        let all = [&self.up, &self.down][side].len() as u64;
        let progress = &self.progress[side];
        let left = all - progress.bytes().min(all);
        let more = 1 + random.magnitude(left as usize) as u64;
        progress.reach((progress.bytes() + more).min(all)).await;
    }
}

/// Bytes that an exchange did not write precede all later ones.
fn carry(carried: &mut Vec<u8>, hand_over: HandOver) {
    let start = carried.len() - hand_over.prefix_unsent;
    let unsent_prefix = carried[start..].to_vec();
    *carried = [unsent_prefix, hand_over.unsent].concat();
}

/// Relays by hand: carried bytes, and some of the available ones.
async fn relay_by_hand(
    from: &mut TcpStream,
    to: &mut TcpStream,
    carried: &mut Vec<u8>,
    bytes: usize,
) {
    to.write_all(carried).await.unwrap();
    carried.clear();
    let mut buffer = vec![0; bytes.max(1)];
    // An end is left for the next splice.
    if let Ok(read) = from.try_read(&mut buffer) {
        to.write_all(&buffer[..read]).await.unwrap();
    }
}

/// An end that an earlier splice on the same connections has already passed on cannot be passed on again when both sides have closed.
fn is_closed(end: &ExchangeEnd) -> bool {
    match end {
        ExchangeEnd::Closed => true,
        ExchangeEnd::Idle | ExchangeEnd::Stalled => false,
        ExchangeEnd::Fault { fault, .. } => {
            fault.call == "shutdown" && fault.source.kind() == std::io::ErrorKind::NotConnected
        }
    }
}

/// The results of one engine's seeds.
#[derive(Debug, Default)]
struct Sum {
    taken_back: u64,
    broken: u64,
    by_kernel_bytes: u64,
}

/// One pair of connections, taken back a few times. `engine`: always this one, or else any.
async fn exchange_and_take_back(seed: u64, engine: Option<Choice>, sum: &mut Sum) {
    let what = format!("{engine:?}, seed {seed}");
    let mut random = Random::new(seed);
    let sockets = match seed % 4 {
        0 => Sockets::to_a_slow_receiver().await,
        1 => Sockets::tiny().await,
        _ => Sockets::new().await,
    };
    let (mut a, mut b) = (sockets.from, sockets.to);
    let talkers = Talkers::start(sockets.sender, sockets.receiver, seed);
    let splicer = splicer();
    let (mut up_carried, mut down_carried) = (Vec::new(), Vec::new());
    let is_broken = || splicer.counters().socket_broken.get() > 0;
    let mut rounds = 1 + random.below(6);
    loop {
        let choice = engine.unwrap_or(EXCHANGE_CHOICES[random.below(4)]);
        let mut exchange = splicer.exchange(
            &a,
            &b,
            ExchangeOrder {
                choice,
                a_prefix: &up_carried,
                b_prefix: &down_carried,
                ..ExchangeOrder::default()
            },
        );
        let end = if rounds == 0 {
            Some(exchange.run().await)
        } else {
            tokio::select! {
                end = exchange.run() => Some(end),
                () = talkers.some_more(&mut random) => None,
            }
        };
        let (a_to_b, b_to_a) = exchange.unsplice().await;
        if is_broken() {
            break;
        }
        carry(&mut up_carried, a_to_b);
        carry(&mut down_carried, b_to_a);
        if let Some(end) = end {
            assert!(is_closed(&end), "{end:?}, {what}");
            assert_eq!((up_carried.len(), down_carried.len()), (0, 0), "{what}");
            break;
        }
        rounds -= 1;
        sum.taken_back += 1;
        if random.below(2) == 0 {
            let bytes = random.magnitude(50_000);
            relay_by_hand(&mut a, &mut b, &mut up_carried, bytes).await;
            relay_by_hand(&mut b, &mut a, &mut down_carried, bytes).await;
        }
    }
    drop((a, b));
    let talked = talkers.thread.join();
    if is_broken() {
        sum.broken += 1;
        return;
    }
    let (asked, answered) = talked.unwrap_or_else(|_| panic!("a talker failed: {what}"));
    assert_same(&asked, &talkers.up, &format!("{what}, up"));
    assert_same(&answered, &talkers.down, &format!("{what}, down"));
    sum.by_kernel_bytes += splicer.counters().socket_bytes.get();
}

/// All seeds with one engine, or with any.
fn take_back_at_random_counts(engine: Option<Choice>) -> Sum {
    let mut sum = Sum::default();
    for seed in 0..seeds() {
        on_worker(exchange_and_take_back(seed, engine, &mut sum));
    }
    assert!(sum.taken_back > seeds() / 2, "{sum:?}");
    assert!(
        sum.broken <= seeds() / WHOLE_PER_BROKEN_MIN,
        "{sum:?} of {} seeds",
        seeds()
    );
    sum
}

#[test]
fn exchanges_by_copy_come_back_exact() {
    let sum = take_back_at_random_counts(Some(Choice::Copy));
    assert_eq!(sum.broken, 0);
}

#[test]
fn exchanges_by_pipe_come_back_exact() {
    let sum = take_back_at_random_counts(Some(Choice::Pipe));
    assert_eq!(sum.broken, 0);
}

#[test]
fn exchanges_by_auto_come_back_exact() {
    let sum = take_back_at_random_counts(Some(Choice::Auto));
    assert_eq!(sum.broken, 0);
}

#[test]
fn exchanges_by_the_kernel_come_back_exact() {
    if !crate::socket::is_here() {
        return;
    }
    let sum = take_back_at_random_counts(Some(Choice::Socket));
    assert!(sum.by_kernel_bytes > 0, "{sum:?}");
}

#[test]
fn exchanges_by_all_engines_in_turn_come_back_exact() {
    take_back_at_random_counts(None);
}

/// A stream cut into transfers of random lengths, by random engines, with bytes read by hand in between.
async fn transfer_exact_counts(seed: u64) {
    let mut random = Random::new(seed);
    let mut sockets = match seed % 3 {
        0 => Sockets::tiny().await,
        1 => Sockets::to_a_tiny_receiver().await,
        _ => Sockets::new().await,
    };
    let sent = sample(seed, 1 + random.magnitude(300_000));
    let (mut sender, mut receiver) = (sockets.sender, sockets.receiver);
    let all = sent.clone();
    let sending = tokio::task::spawn_local(async move {
        send_in_pieces(&mut sender, &all, &mut Random::new(seed + 1)).await;
        sender
    });
    let receiving = tokio::task::spawn_local(async move {
        let mut random = Random::new(seed + 2);
        receive_in_pieces(&mut receiver, &mut random).await
    });
    let splicer = splicer();
    let mut at = 0;
    while at < sent.len() {
        let choice = EXCHANGE_CHOICES[random.below(4)];
        let length = 1 + random.magnitude(sent.len() - at);
        let order = Order {
            choice,
            ..Order::new(End::AfterBytes(length as u64))
        };
        let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
        let ended = transfer.run().await.unwrap_or_else(|fault| {
            let source = &fault.source;
            panic!("{choice:?}, seed {seed}, {length} bytes from {at} on: {fault}: {source}")
        });
        assert_eq!(ended, Ended::Bytes, "{choice:?}, seed {seed}");
        let hand_over = transfer.unsplice().await;
        assert_eq!(
            (hand_over.bytes, hand_over.unsent.len()),
            (length as u64, 0)
        );
        at += length;
        // Bytes that the kernel had already read are returned.
        let surplus = &hand_over.surplus;
        assert!(surplus.is_empty() || choice == Choice::Socket);
        assert_same(surplus, &sent[at..at + surplus.len()], "surplus");
        sockets.to.write_all(surplus).await.unwrap();
        at += surplus.len();
        // The next byte is in the sender's socket: what is read by hand comes next.
        let by_hand = random.magnitude(3000).min(sent.len() - at);
        let read = receive(&mut sockets.from, by_hand).await;
        assert_same(
            &read,
            &sent[at..at + by_hand],
            &format!("{choice:?}, seed {seed}, by hand"),
        );
        sockets.to.write_all(&read).await.unwrap();
        at += by_hand;
    }
    drop(sockets.to);
    assert_same(
        &receiving.await.unwrap(),
        &sent,
        &format!("seed {seed}, all of it"),
    );
    drop(sending.await.unwrap());
}

#[test]
fn transfers_of_random_lengths_stop_at_the_byte() {
    for seed in 0..seeds() {
        on_worker(transfer_exact_counts(seed));
    }
}
