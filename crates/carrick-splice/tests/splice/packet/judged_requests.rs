//! Requests that the kernel judges and forwards, in between those that the process passes on.

use super::bed::*;
use crate::support::*;
use carrick_splice::requests::{Cookie, Host as HostRule, RequestTable, Route, Settings};
use carrick_splice::{Arming, Judging, PaceHandle, PacketService, Splicer};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const UPSTREAM: u32 = 3;

/// A route to everything, or to what begins so.
fn route(path: Option<&str>, in_kernel: bool) -> Route {
    Route {
        host: HostRule::Any,
        path: path.map(str::to_owned),
        extensions: Vec::new(),
        cookie: None::<Cookie>,
        methods: Vec::new(),
        cgi: None,
        has_more: false,
        upstream: UPSTREAM,
        in_kernel,
    }
}

fn install(service: &PacketService) -> Judging {
    let routes = [route(Some("/process/"), false), route(None, true)];
    let table = RequestTable::new(&routes, Settings::default());
    let tables = service.request_tables().unwrap();
    Judging {
        table: 4,
        generation: tables.install(4, &table).unwrap(),
        upstream: UPSTREAM,
    }
}

/// Reads one head; `None` at the end.
fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap() == 0 {
            assert!(head.is_empty());
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Answers `GET /any/N/…` with N bytes and their length in front; how many requests came.
fn answer_requests(mut stream: TcpStream) -> u64 {
    let mut count = 0;
    while let Some(head) = read_head(&mut stream) {
        count += 1;
        let bytes: usize = head.split('/').nth(2).unwrap().parse().unwrap();
        if bytes % 7 == 3 {
            // So late that the request is acknowledged before.
            std::thread::sleep(Duration::from_millis(60));
        }
        let mut answer = (bytes as u64).to_le_bytes().to_vec();
        answer.extend(sample(bytes as u64, bytes));
        stream.write_all(&answer).unwrap();
    }
    count
}

/// Passes on what the kernel leaves to the process; how many requests those were, and how many the kernel forwarded.
async fn pass_requests(
    splicer: Splicer,
    mut client: tokio::net::TcpStream,
    mut server: tokio::net::TcpStream,
    judging: Judging,
) -> (u64, u64) {
    let mut responses = splicer.responses(&client, &server, 7).unwrap();
    let (mut passed, mut judged) = (0, 0);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match client.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) if head.is_empty() => break,
                Err(error) => panic!("{error}"),
            }
        }
        judged += responses
            .catch_up()
            .map_or(0, |caught| u64::from(caught.requests));
        if head.is_empty() {
            break;
        }
        passed += 1;
        let is_armed = responses.arm(Some(judging), PaceHandle::default()) == Arming::Armed;
        if is_armed {
            responses.expect_response();
        }
        server.write_all(&head).await.unwrap();
        if is_armed {
            responses.settle(head.len() as u64);
            continue;
        }
        let mut length = [0; 8];
        server.read_exact(&mut length).await.unwrap();
        let mut answer = vec![0; u64::from_le_bytes(length) as usize];
        server.read_exact(&mut answer).await.unwrap();
        client.write_all(&length).await.unwrap();
        client.write_all(&answer).await.unwrap();
    }
    responses.disarm().unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    client.shutdown().await.unwrap();
    (passed, judged)
}

/// Asks one after the other, as the seed has it; some so that the process has to pass them on.
fn request(address: IpAddr, seed: u64, rounds: u64, process_every: usize) {
    let mut stream = connect(address);
    let mut random = Random::new(seed);
    for round in 0..rounds {
        let bytes = random.magnitude(200_000);
        let place = if random.below(process_every) == 0 {
            "process"
        } else {
            "kernel"
        };
        let rest = "x".repeat(random.magnitude(900));
        let head = format!(
            "GET /{place}/{bytes}/{round} HTTP/1.1\r\nHost: a.example\r\nX-Rest: {rest}.\r\n\r\n"
        );
        if random.below(10) == 0 {
            // In two pieces: nothing for the kernel.
            let (first, second) = head.as_bytes().split_at(random.below(head.len()));
            stream.write_all(first).unwrap();
            std::thread::sleep(Duration::from_millis(random.below(3) as u64));
            stream.write_all(second).unwrap();
        } else {
            stream.write_all(head.as_bytes()).unwrap();
        }
        let mut length = [0; 8];
        stream.read_exact(&mut length).unwrap();
        assert_eq!(u64::from_le_bytes(length), bytes as u64, "{seed}: {round}");
        let mut answer = vec![0; bytes];
        stream.read_exact(&mut answer).unwrap();
        assert_same(
            &answer,
            &sample(bytes as u64, bytes),
            &format!("{seed}: {round}"),
        );
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

fn requests_pass(
    name: &str,
    addresses: [IpAddr; 2],
    (clients, rounds): (u64, u64),
    prepare: impl FnOnce(&Bed),
) {
    let Some(bed) = Bed::new(name) else { return };
    prepare(&bed);
    let serving = bed.serve(addresses[1], clients as usize, answer_requests);
    let judged = Arc::new(AtomicU64::new(0));
    let proxying = bed.proxy_with(addresses, (clients as usize, 64), install, pass_requests);
    let asking: Vec<_> = (0..clients)
        .map(|seed| {
            bed.on(Host::Client, move || {
                request(addresses[0], seed, rounds, 2 + seed as usize % 9)
            })
        })
        .collect();
    for thread in asking {
        thread.join().unwrap();
    }
    let served: u64 = serving.join().unwrap().into_iter().sum();
    assert_eq!(served, clients * rounds);
    let mut passed = 0;
    for (by_process, by_kernel) in proxying.join().unwrap() {
        passed += by_process;
        judged.fetch_add(by_kernel, Ordering::Relaxed);
    }
    let judged = judged.load(Ordering::Relaxed);
    assert_eq!(passed + judged, clients * rounds);
    assert!(
        judged > clients * rounds / 4,
        "{judged} of {}",
        clients * rounds
    );
}

#[test]
fn requests_pass_by_the_process() {
    requests_pass("requests_pass_by_the_process", V4, (16, 60), |_| {});
}

#[test]
fn requests_pass_by_the_process_with_ipv6() {
    requests_pass(
        "requests_pass_by_the_process_with_ipv6",
        V6,
        (4, 60),
        |_| {},
    );
}

#[test]
fn requests_pass_though_packets_are_lost() {
    requests_pass(
        "requests_pass_though_packets_are_lost",
        V4,
        (16, 40),
        |bed| bed.lose(3),
    );
}
