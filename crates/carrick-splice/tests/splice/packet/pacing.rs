//! Pacing by windows: rates are kept to, and nothing is lost, stops or comes out of order by it.

use super::bed::*;
use crate::support::*;
use carrick_splice::{Arming, Choice, ClassSettings, ExchangeOrder, INTERVAL, Pacing, Policy};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 78, 1, 2));

/// How often what is slow is tried again.
const ATTEMPTS: usize = 5;

/// A worker that lives, until this is dropped.
struct Worker {
    is_alive: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn new(pacing: &Pacing) -> Worker {
        let is_alive = Arc::new(AtomicBool::new(true));
        pacing.beat(0);
        let thread = std::thread::spawn({
            let (is_alive, pacing) = (Arc::clone(&is_alive), pacing.clone());
            move || {
                while is_alive.load(SeqCst) {
                    pacing.beat(0);
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        });
        Worker {
            is_alive,
            thread: Some(thread),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.is_alive.store(false, SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn class(ceiling: u64) -> ClassSettings {
    ClassSettings {
        ceiling: Some(ceiling),
        ..ClassSettings::new("x")
    }
}

/// Classes with this one, and hosts whose proxy paces by them.
fn bed(settings: ClassSettings) -> Option<(Bed, Pacing, Worker)> {
    let mut bed = Bed::new()?;
    let pacing = Pacing::new().unwrap();
    pacing.configure(&[settings], INTERVAL).unwrap();
    bed.pacing = Some(pacing.clone());
    let worker = Worker::new(&pacing);
    Some((bed, pacing, worker))
}

/// Tunnels that are paced by the class.
fn tunnels(bed: &Bed, pacing: &Pacing, count: usize) -> JoinHandle<Vec<Told>> {
    let pacing = pacing.clone();
    bed.proxy(V4, (count, 128), move |splicer, client, server| {
        let paced = pacing.pace("x", CLIENT, 0).unwrap();
        async move {
            let order = ExchangeOrder {
                pace: paced.both(),
                ..ExchangeOrder::new(Choice::Packet)
            };
            let mut exchange = splicer.exchange(client, server, order);
            let end = exchange.run().await;
            Told::of(&splicer, &exchange, end)
        }
    })
}

const PIECE: usize = 1_000_003;

fn send(stream: &mut TcpStream, bytes: u64) {
    let piece = sample(9, PIECE);
    let mut left = bytes;
    while left > 0 {
        let now = left.min(PIECE as u64) as usize;
        stream.write_all(&piece[..now]).unwrap();
        left -= now as u64;
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Reads to the end, and sees to each byte being the right one at its place. How many there were.
fn receive(stream: &mut TcpStream, heard: &AtomicU64) -> u64 {
    let piece = sample(9, PIECE);
    let mut buffer = vec![0; 256 * 1024];
    let mut sum = 0;
    loop {
        let bytes = stream.read(&mut buffer).unwrap();
        if bytes == 0 {
            return sum;
        }
        let mut at = 0;
        while at < bytes {
            let place = (sum % PIECE as u64) as usize;
            let now = (bytes - at).min(PIECE - place);
            assert!(
                buffer[at..at + now] == piece[place..place + now],
                "at {sum}"
            );
            at += now;
            sum += now as u64;
        }
        heard.fetch_add(bytes as u64, SeqCst);
    }
}

/// Both send so many bytes to each other, on so many connections at a time. How fast each direction was, in bytes per second, from the first
/// second on until the first was through.
fn both_ways(bed: &Bed, pacing: &Pacing, connections: usize, bytes: u64, seconds: f64) -> [f64; 2] {
    let heard: [Arc<AtomicU64>; 2] = Default::default();
    let serving = bed.serve(V4[1], connections, {
        let heard = Arc::clone(&heard[0]);
        move |mut stream| {
            greet_back(&mut stream);
            let mut writer = stream.try_clone().unwrap();
            let sending = std::thread::spawn(move || send(&mut writer, bytes));
            let sum = receive(&mut stream, &heard);
            sending.join().unwrap();
            sum
        }
    });
    let proxying = tunnels(bed, pacing, connections);
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let heard = Arc::clone(&heard[1]);
            bed.on(Host::Client, move || {
                let mut stream = connect(V4[0]);
                greet(&mut stream);
                let mut writer = stream.try_clone().unwrap();
                let sending = std::thread::spawn(move || send(&mut writer, bytes));
                let sum = receive(&mut stream, &heard);
                sending.join().unwrap();
                sum
            })
        })
        .collect();
    while heard.iter().any(|heard| heard.load(SeqCst) < bytes / 20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (begun, first) = (
        Instant::now(),
        heard.each_ref().map(|heard| heard.load(SeqCst)),
    );
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let (lasted, last) = (
        begun.elapsed(),
        heard.each_ref().map(|heard| heard.load(SeqCst)),
    );
    for client in clients {
        assert_eq!(client.join().unwrap(), bytes);
    }
    assert!(serving.join().unwrap().into_iter().all(|sum| sum == bytes));
    for told in proxying.join().unwrap() {
        told.assert_closed((bytes + GREETING, bytes + GREETING));
    }
    [0, 1].map(|way| (last[way] - first[way]) as f64 / lasted.as_secs_f64())
}

/// Both directions keep to a ceiling of 10 MB/s, within these bounds. Too much is wrong each time; too little is tried again, since a machine
/// that others keep busy may not bring more.
fn keep_to_ceiling(connections: usize, bytes: u64, seconds: f64, allowed: RangeInclusive<f64>) {
    let mut rates = [0.0; 2];
    for _ in 0..ATTEMPTS {
        let Some((bed, pacing, _worker)) = bed(class(10_000_000)) else {
            return;
        };
        rates = both_ways(&bed, &pacing, connections, bytes, seconds);
        assert!(rates.iter().all(|rate| rate <= allowed.end()), "{rates:?}");
        if rates.iter().all(|rate| rate >= allowed.start()) {
            return;
        }
    }
    panic!("too slow: {rates:?}");
}

#[test]
fn a_ceiling_is_kept_by_one_connection() {
    keep_to_ceiling(1, 30_000_000, 2.0, 9_000_000.0..=10_500_000.0);
}

#[test]
fn a_ceiling_is_shared_by_eight_connections() {
    keep_to_ceiling(8, 4_000_000, 2.0, 9_000_000.0..=10_500_000.0);
}

#[test]
fn many_connections_are_not_slower_than_their_ceiling() {
    // What they had been allowed before, 64 KB each, they send at once, and pay for it later: 4 MB more or less.
    keep_to_ceiling(64, 600_000, 3.0, 8_000_000.0..=12_000_000.0);
}

#[test]
fn rates_change_under_load() {
    let Some((bed, pacing, _worker)) = bed(class(20_000_000)) else {
        return;
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let changing = std::thread::spawn({
        let (is_over, pacing) = (Arc::clone(&is_over), pacing.clone());
        move || {
            let mut random = Random::new(7);
            while !is_over.load(SeqCst) {
                let policy = [Policy::Immediate, Policy::Conservative][random.below(2)];
                let settings = ClassSettings {
                    ceiling: (random.below(4) > 0)
                        .then(|| 200_000 + random.magnitude(50_000_000) as u64),
                    splice: (random.below(4) == 0).then_some(5_000_000),
                    policy,
                    ..ClassSettings::new("x")
                };
                pacing.configure(&[settings], INTERVAL).unwrap();
                std::thread::sleep(Duration::from_millis(random.magnitude(100) as u64));
            }
            // So that it does not take long.
            pacing
                .configure(&[ClassSettings::new("x")], INTERVAL)
                .unwrap();
        }
    });
    let stopping = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            std::thread::sleep(Duration::from_secs(4));
            is_over.store(true, SeqCst);
        }
    });
    let _ = both_ways(&bed, &pacing, 4, 20_000_000, 0.1);
    stopping.join().unwrap();
    changing.join().unwrap();
}

#[test]
fn nothing_is_paced_without_its_worker() {
    let Some((bed, pacing, worker)) = bed(class(100_000)) else {
        return;
    };
    let dying = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        drop(worker);
    });
    // By its rate, it would take minutes.
    let begun = Instant::now();
    let _ = both_ways(&bed, &pacing, 2, 20_000_000, 0.1);
    dying.join().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
}

/// Who asks again as soon as it has its answer is at rest for a moment only; held back from the first byte on, never.
#[test]
fn whoever_is_held_back_from_the_first_byte_on_gets_to_the_kernel() {
    const ANSWER: usize = 30_000;
    const ROUNDS: usize = 12;
    let Some((bed, pacing, _worker)) = bed(class(250_000)) else {
        return;
    };
    let serving = bed.serve(V4[1], 1, |mut stream| {
        let answer = sample(3, ANSWER);
        while stream.read_exact(&mut [0]).is_ok() {
            stream.write_all(&answer).unwrap();
        }
    });
    let proxying = tunnels(&bed, &pacing, 1);
    bed.on(Host::Client, || {
        let mut stream = connect(V4[0]);
        let mut answer = vec![0; ANSWER];
        for _ in 0..ROUNDS {
            stream.write_all(&[1]).unwrap();
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, sample(3, ANSWER));
        }
    })
    .join()
    .unwrap();
    serving.join().unwrap();
    let told = &proxying.join().unwrap()[0];
    assert!(told.by_kernel > (ROUNDS * ANSWER / 2) as u64, "{told:?}");
}

/// A client that asks for one long answer after the other; responses go by the kernel, paced.
#[test]
fn responses_keep_to_a_ceiling() {
    const ANSWERS_MAX: usize = 8;
    const ANSWERS_MIN: usize = 3;
    const BYTES: usize = 10_000_000;
    let Some((bed, pacing, _worker)) = bed(class(10_000_000)) else {
        return;
    };
    let serving = bed.serve(V4[1], 1, answer);
    let paced = pacing.clone();
    let proxying = bed.proxy(V4, (1, 16), move |splicer, mut client, mut server| {
        let paced = paced.pace("x", CLIENT, 0).unwrap();
        async move {
            let mut responses = splicer.responses(&client, &server, 7).unwrap();
            let mut question = [0; 16];
            let mut unseen = 0;
            while client.read_exact(&mut question).await.is_ok() {
                let is_armed = responses.arm(None, paced.to_client()) == Arming::Armed;
                unseen += u64::from(is_armed);
                if is_armed {
                    responses.expect_response(true, false);
                }
                server.write_all(&question).await.unwrap();
                if !is_armed {
                    let mut answer =
                        vec![0; u64::from_le_bytes(*question[8..].first_chunk().unwrap()) as usize];
                    server.read_exact(&mut answer).await.unwrap();
                    client.write_all(&answer).await.unwrap();
                }
            }
            responses.disarm().unwrap();
            unseen
        }
    });
    let asking = bed.on(Host::Client, || {
        let mut stream = connect(V4[0]);
        ask(&mut stream, 0, 100);
        let right = sample(BYTES as u64 + 1, BYTES);
        let mut lasted = Vec::new();
        let rate = |time: Duration| BYTES as f64 / time.as_secs_f64();
        // Until one of them was on a machine that others did not keep busy.
        while lasted.len() < ANSWERS_MIN
            || lasted.len() < ANSWERS_MAX && lasted.iter().all(|time| rate(*time) < 9_000_000.0)
        {
            let begun = Instant::now();
            let question = [0, BYTES as u64].map(u64::to_le_bytes).concat();
            stream.write_all(&question).unwrap();
            let mut answer = vec![0; BYTES];
            stream.read_exact(&mut answer).unwrap();
            lasted.push(begun.elapsed());
            assert_same(&answer, &right, "answer");
        }
        lasted
    });
    let lasted = asking.join().unwrap();
    serving.join().unwrap();
    assert_eq!(proxying.join().unwrap(), [lasted.len() as u64]);
    let rate = (lasted.len() * BYTES) as f64 / lasted.iter().sum::<Duration>().as_secs_f64();
    let best = lasted.iter().min().expect("some answers").as_secs_f64();
    assert!(rate <= 10_500_000.0, "{rate}");
    // Where none was: each window waited for a processor, but nothing stood still.
    assert!(BYTES as f64 / best >= 6_000_000.0, "{lasted:?}");
}
