//! Pacing by windows: rates are kept, and no data is lost, stalled or reordered.

use super::bed::*;
use super::wire::*;
use crate::support::*;
use carrick_splice::requests::RequestFields;
use carrick_splice::{Arming, Choice, ClassSettings, ExchangeOrder, INTERVAL, Pacing, Policy};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes per second.
const CEILING: u64 = 10_000_000;

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 78, 1, 2));

/// A live worker, until dropped.
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

/// Tunnels paced by the class.
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

/// Reads to the end, and checks each byte's value by its position. Returns their number.
fn receive(stream: &mut TcpStream) -> u64 {
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
    }
}

/// Sends this many bytes, and receives as many.
fn talk(stream: &mut TcpStream, bytes: u64) {
    let mut writer = stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || send(&mut writer, bytes));
    assert_eq!(receive(stream), bytes);
    sending.join().unwrap();
}

/// Both sides send this many bytes to each other, on each of these connections. Returns the time.
fn both_ways(bed: &Bed, pacing: &Pacing, connections: usize, bytes: u64) -> Duration {
    let begun = Instant::now();
    let serving = bed.serve(V4[1], connections, move |mut stream| {
        greet_back(&mut stream);
        talk(&mut stream, bytes);
    });
    let proxying = tunnels(bed, pacing, connections);
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            bed.on(Host::Client, move || {
                let mut stream = connect(V4[0]);
                greet(&mut stream);
                talk(&mut stream, bytes);
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let took = begun.elapsed();
    serving.join().unwrap();
    for told in proxying.join().unwrap() {
        told.assert_closed((bytes + GREETING, bytes + GREETING));
    }
    took
}

/// The least time for this many bytes at [`CEILING`]. What sockets had allowed before goes at once.
fn least(connections: usize, bytes: u64) -> Duration {
    let at_once = CEILING as f64 * 0.15 + (connections * (128 << 10)) as f64;
    Duration::from_secs_f64(((connections as u64 * bytes) as f64 - at_once) / CEILING as f64)
}

#[test]
fn a_ceiling_is_shared_by_whatever_number_of_connections() {
    for (connections, bytes) in [(1, 10_000_000), (8, 1_500_000), (64, 300_000)] {
        let Some((bed, pacing, _worker)) = bed(class(CEILING)) else {
            return;
        };
        let took = both_ways(&bed, &pacing, connections, bytes);
        let least = least(connections, bytes);
        assert!(
            took >= least,
            "{connections}: {took:?} instead of {least:?}"
        );
    }
}

#[test]
fn rates_change_under_load() {
    let Some((bed, pacing, _worker)) = bed(class(20_000_000)) else {
        return;
    };
    let changing = std::thread::spawn({
        let pacing = pacing.clone();
        move || {
            let mut random = Random::new(7);
            for _ in 0..60 {
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
    let _ = both_ways(&bed, &pacing, 4, 20_000_000);
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
    let took = both_ways(&bed, &pacing, 2, 20_000_000);
    dying.join().unwrap();
    // At its rate, it would take seven minutes.
    assert!(took < Duration::from_secs(390), "{took:?}");
}

/// A client that asks again as soon as it has its answer is idle for a moment only; delayed from the first byte on, never.
#[test]
fn an_exchange_held_back_from_the_first_byte_reaches_the_kernel() {
    const ANSWER: usize = 30_000;
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
        let mut ask = || {
            stream.write_all(&[1]).unwrap();
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, sample(3, ANSWER));
        };
        // How soon depends on when both directions are idle, which a busy machine delays.
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < carrick_test::PATIENCE);
            ask();
            if super::bed::tunnels().all(|counters| counters.packet_stays.get() > 0) {
                break;
            }
        }
        ask();
    })
    .join()
    .unwrap();
    serving.join().unwrap();
    let told = &proxying.join().unwrap()[0];
    assert!(told.by_kernel >= ANSWER as u64, "{told:?}");
}

/// A client that asks for one long answer after another; the kernel forwards paced responses.
#[test]
fn responses_keep_to_a_ceiling() {
    const ANSWERS: usize = 3;
    const BYTES: usize = 5_000_000;
    let Some((bed, pacing, _worker)) = bed(class(CEILING)) else {
        return;
    };
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = paced_responses(&bed, &pacing);
    let asking = bed.on(Host::Client, || {
        let mut stream = connect(V4[0]);
        ask(&mut stream, 0, 100);
        let right = sample(BYTES as u64 + 1, BYTES);
        let question = [0, BYTES as u64].map(u64::to_le_bytes).concat();
        let begun = Instant::now();
        for _ in 0..ANSWERS {
            stream.write_all(&question).unwrap();
            let mut answer = vec![0; BYTES];
            stream.read_exact(&mut answer).unwrap();
            assert_same(&answer, &right, "answer");
        }
        begun.elapsed()
    });
    let took = asking.join().unwrap();
    serving.join().unwrap();
    assert_eq!(proxying.join().unwrap(), [ANSWERS as u64]);
    let least = least(1, (ANSWERS * BYTES) as u64);
    assert!(took >= least, "{took:?} instead of {least:?}");
}

/// Relays questions; the kernel forwards the answers but the first, paced by the class. Returns how many those are.
fn paced_responses(bed: &Bed, pacing: &Pacing) -> JoinHandle<Vec<u64>> {
    let paced = pacing.clone();
    bed.proxy(V4, (1, 16), move |splicer, mut client, mut server| {
        let paced = paced.pace("x", CLIENT, 0).unwrap();
        async move {
            let mut responses = splicer.responses(&client, &server, 7).unwrap();
            let mut question = [0; 16];
            let mut unseen = 0;
            while client.read_exact(&mut question).await.is_ok() {
                let is_armed = responses.arm(None, &RequestFields::default(), paced.to_client())
                    == Arming::Armed;
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
    })
}

/// The lowest ceiling, in bytes per second: grants of it take seconds.
const LEAST: u64 = 1000;

/// Less than any window.
const TAKEN: usize = 20_000;

/// What is sent beyond a window.
const BEYOND: u8 = b'P';

/// Ignores the window of these segments, whose unit is that of `shift`: sends a unit beyond it, and another one behind that, and
/// so on. `next` is what would be sent next.
fn send_beyond(line: &Line, seen: &[Segment], shift: u32, next: &Segment) {
    let (told, unit) = (edge(seen, next.ports[1], shift), 1 << shift);
    assert!(told.wrapping_sub(next.seq) as usize > TAKEN / 10);
    for number in 0..50 {
        let beyond = next.with(|one| {
            one.seq = told.wrapping_add(number * unit);
            one.payload = vec![BEYOND; unit as usize];
        });
        line.send(&beyond.frame());
    }
}

/// Checks how many bytes of these segments were sent beyond a window. On a busy machine, something may have been granted since `begun`.
#[track_caller]
fn assert_kept(seen: &[Segment], begun: Instant) {
    let is_beyond = |one: &&Segment| one.payload.starts_with(&[BEYOND; 32]);
    let bytes = seen.iter().filter(is_beyond).map(|one| one.payload.len());
    let (bytes, at_most) = (bytes.sum::<usize>(), 2 * begun.elapsed().as_millis());
    assert!(bytes as u128 <= at_most, "{bytes}, not {at_most}");
}

/// The last segment with data from a port.
fn last_from(seen: &[Segment], port: u16) -> &Segment {
    let of_it = |one: &&Segment| one.ports[0] == port && !one.payload.is_empty();
    seen.iter().rfind(of_it).unwrap()
}

/// The shift of the windows of a port that has begun a connection.
fn shift_of(line: &Line, port: u16) -> u32 {
    let seen = line.segments();
    let mut own = seen.iter().filter(|one| one.ports[0] == port);
    let shift = own.find_map(Segment::shift).unwrap();
    assert!(shift >= 5, "units would not be recognized");
    shift
}

#[test]
fn a_client_cannot_go_on_beyond_its_window() {
    let Some((bed, pacing, _worker)) = bed(class(1_000_000_000)) else {
        return;
    };
    let at_server = bed.on(Host::Server, || Line::open("s")).join().unwrap();
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = tunnels(&bed, &pacing, 1);
    let asking = bed.on(Host::Client, move || {
        let line = Line::open("c");
        let mut stream = connect(V4[0]);
        let shift = shift_of(&line, PROXY_PORT);
        ask_until_decided(&mut stream);
        until_given(1);
        let begun = Instant::now();
        pacing.configure(&[class(LEAST)], INTERVAL).unwrap();
        line.segments();
        ask(&mut stream, TAKEN, 10);
        let seen = line.segments();
        let next = last_from(&seen, PROXY_PORT).answered();
        send_beyond(&line, &seen, shift, &next);
        ask(&mut stream, 10, 10);
        assert_kept(&at_server.segments(), begun);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    asking.join().unwrap();
    serving.join().unwrap();
    let told = &proxying.join().unwrap()[0];
    assert!(told.by_kernel > TAKEN as u64, "{told:?}");
}

#[test]
fn a_server_cannot_go_on_beyond_its_window() {
    let Some((bed, pacing, _worker)) = bed(class(1_000_000_000)) else {
        return;
    };
    let line = bed.on(Host::Server, || Line::open("s")).join().unwrap();
    let line = std::sync::Mutex::new(line);
    let serving = bed.serve(V4[1], 1, move |mut stream| {
        let line = line.lock().unwrap();
        let proxy_port = stream.peer_addr().unwrap().port();
        let shift = shift_of(&line, proxy_port);
        let mut seen = Vec::new();
        let mut question = [0; 16];
        for number in 0.. {
            if stream.read_exact(&mut question).is_err() {
                return;
            }
            seen.extend(line.segments());
            if number == 2 {
                let next = last_from(&seen, proxy_port).answered();
                send_beyond(&line, &seen, shift, &next);
            }
            let bytes = u64::from_le_bytes(*question[8..].first_chunk().unwrap());
            stream
                .write_all(&sample(bytes + 1, bytes as usize))
                .unwrap();
        }
    });
    let proxying = paced_responses(&bed, &pacing);
    let asking = bed.on(Host::Client, move || {
        let line = Line::open("c");
        let mut stream = connect(V4[0]);
        ask(&mut stream, 0, 100);
        let begun = Instant::now();
        pacing.configure(&[class(LEAST)], INTERVAL).unwrap();
        ask(&mut stream, 0, TAKEN);
        ask(&mut stream, 0, 100);
        assert_kept(&line.segments(), begun);
    });
    asking.join().unwrap();
    serving.join().unwrap();
    assert_eq!(proxying.join().unwrap(), [2]);
}
