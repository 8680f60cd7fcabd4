//! Responses that the kernel forwards, while the requests go through the process.

use super::bed::*;
use crate::support::*;
use carrick_splice::requests::RequestFields;
use carrick_splice::{Arming, PaceHandle, ResponseProgress as Progress, ResponseSplice, Splicer};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Of a question: its length, and the requested length of the answer.
const QUESTION_HEAD_BYTES: usize = 16;

/// The proxy's report on one client.
#[derive(Debug, Default)]
struct Served {
    /// Questions, and those whose answer it has not seen.
    questions: u64,
    unseen: u64,
    /// Bytes of the latter, as the kernel had counted them when the next question arrived.
    unseen_bytes: u64,
}

/// Relays questions one after another; the kernel forwards the answers as soon as possible. Every `apart`-th answer
/// goes through the process.
async fn serve(
    splicer: Splicer,
    mut client: tokio::net::TcpStream,
    mut server: tokio::net::TcpStream,
    apart: u64,
) -> Served {
    let mut responses = splicer.responses(&client, &server, 7).unwrap();
    let mut told = Served::default();
    let mut expected: Option<u64> = None;
    loop {
        let mut question = vec![0; QUESTION_HEAD_BYTES];
        let got = client.read(&mut question[..1]).await.unwrap();
        if let Some(bytes) = expected.take() {
            told.unseen_bytes += check_answer(&responses, bytes);
        }
        if got == 0 {
            break;
        }
        client.read_exact(&mut question[1..]).await.unwrap();
        let length = u64::from_le_bytes(*question.first_chunk().unwrap()) as usize;
        let wanted = u64::from_le_bytes(*question[8..].first_chunk().unwrap());
        question.resize(QUESTION_HEAD_BYTES + length, 0);
        client
            .read_exact(&mut question[QUESTION_HEAD_BYTES..])
            .await
            .unwrap();
        told.questions += 1;
        let is_apart = told.questions.is_multiple_of(apart);
        if is_apart {
            responses.disarm().unwrap();
        }
        let is_armed = !is_apart
            && responses.arm(None, &RequestFields::default(), PaceHandle::default())
                == Arming::Armed;
        if is_armed {
            responses.expect_response(true, false);
        }
        server.write_all(&question).await.unwrap();
        if is_armed {
            told.unseen += 1;
            expected = Some(wanted);
        } else {
            let mut answer = vec![0; wanted as usize];
            server.read_exact(&mut answer).await.unwrap();
            client.write_all(&answer).await.unwrap();
        }
    }
    responses.disarm().unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    client.shutdown().await.unwrap();
    told
}

/// A client that asks again has its answer: all of it was forwarded, and its beginning and end are known.
fn check_answer(responses: &ResponseSplice, bytes: u64) -> u64 {
    let whole = Progress {
        sent_bytes: bytes,
        acked_bytes: bytes,
    };
    assert_eq!(responses.progress(), whole);
    let answer = sample(bytes + 1, bytes as usize);
    let head = responses.head();
    assert!(answer.starts_with(&head), "{bytes}");
    assert!(!head.is_empty() || answer.is_empty());
    if bytes >= 5 && !responses.tail().is_empty() {
        assert!(answer.ends_with(&responses.tail()), "{bytes}");
    }
    bytes
}

/// One question after another with answers of many lengths. Returns the bytes of the answers.
fn ask_often(address: IpAddr, rounds: usize, seed: u64) -> u64 {
    let mut stream = connect(address);
    let mut random = Random::new(seed);
    let mut sum = 0;
    for _ in 0..rounds {
        let (length, wanted) = (random.magnitude(3000), 1 + random.magnitude(400_000));
        sum += ask(&mut stream, length, wanted).1;
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    sum
}

fn answers_pass(addresses: [IpAddr; 2], apart: u64, prepare: impl FnOnce(&Bed)) {
    let Some(bed) = Bed::new() else { return };
    prepare(&bed);
    let (clients, rounds) = (16, 40);
    let serving = bed.serve(addresses[1], clients, answer);
    let proxying = bed.proxy(addresses, (clients, 64), move |splicer, client, server| {
        serve(splicer, client, server, apart)
    });
    let asking: Vec<_> = (0..clients as u64)
        .map(|seed| bed.on(Host::Client, move || ask_often(addresses[0], rounds, seed)))
        .collect();
    for thread in asking {
        thread.join().unwrap();
    }
    serving.join().unwrap();
    for told in proxying.join().unwrap() {
        assert_eq!(told.questions, rounds as u64);
        // Except the first, and those that the process relayed.
        let apart = told.questions / apart;
        assert!(told.unseen + apart + 8 >= told.questions, "{told:?}");
    }
}

#[test]
fn answers_pass_by_the_process() {
    answers_pass(V4, u64::MAX, |_| {});
}

#[test]
fn answers_pass_by_the_process_with_ipv6() {
    answers_pass(V6, u64::MAX, |_| {});
}

#[test]
fn answers_pass_by_the_process_and_through_it_in_turn() {
    answers_pass(V4, 3, |_| {});
}

#[test]
fn answers_pass_without_timestamps() {
    answers_pass(V4, 5, |bed| {
        for host in [Host::Client, Host::Server] {
            bed.set(host, "tcp_timestamps", 0);
        }
    });
}

#[test]
fn answers_pass_though_packets_are_lost() {
    answers_pass(V4, 7, |bed| {
        bed.lose(3);
    });
}

/// Answers a greeting, and then sends more than the client will accept.
fn answer_too_much(mut stream: std::net::TcpStream) {
    for _ in 0..GREETING {
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(&[1]).unwrap();
    }
    stream.read_exact(&mut [0]).unwrap();
    let _ = stream.write_all(&vec![0; 20_000_000]);
}

#[test]
fn what_a_client_never_took_does_not_count_for_the_next() {
    let Some(bed) = Bed::new() else { return };
    let count = Arc::new(AtomicU32::new(0));
    let proxied = AtomicU32::new(0);
    let serving = bed.serve(V4[1], 2, move |stream| {
        match count.fetch_add(1, Ordering::SeqCst) {
            0 => answer_too_much(stream),
            _ => drop(answer(stream)),
        }
    });
    let proxying = bed.proxy(V4, (2, 8), move |splicer, mut client, mut server| {
        let number = proxied.fetch_add(1, Ordering::SeqCst);
        async move {
            if number > 0 {
                return serve(splicer, client, server, u64::MAX).await.unseen;
            }
            let mut responses = splicer.responses(&client, &server, 7).unwrap();
            for _ in 0..GREETING {
                server
                    .write_u8(client.read_u8().await.unwrap())
                    .await
                    .unwrap();
                client
                    .write_u8(server.read_u8().await.unwrap())
                    .await
                    .unwrap();
            }
            let question = client.read_u8().await.unwrap();
            assert_eq!(
                responses.arm(None, &RequestFields::default(), PaceHandle::default()),
                Arming::Armed
            );
            server.write_u8(question).await.unwrap();
            until(|| {
                let progress = responses.progress();
                progress.acked_bytes < progress.sent_bytes
            })
            .await;
            for socket in [&client, &server] {
                carrick_splice::tcp::reset_on_close(socket).unwrap();
            }
            0
        }
    });
    let (ready, is_ready) = mpsc::channel();
    let (deaf, is_deaf) = mpsc::channel();
    let asking = bed.on(Host::Client, move || {
        let mut stream = connect(V4[0]);
        for _ in 0..GREETING {
            stream.write_all(&[1]).unwrap();
            stream.read_exact(&mut [0]).unwrap();
        }
        ready.send(()).unwrap();
        is_deaf.recv().unwrap();
        stream.write_all(&[2]).unwrap();
        is_deaf.recv().unwrap();
        // Each answer is checked to be complete when the next question arrives.
        ask_often(V4[0], 20, 5)
    });
    is_ready.recv().unwrap();
    bed.lose_at(Host::Client, 99);
    deaf.send(()).unwrap();
    until_over(&bed.seen, 1);
    bed.run(Host::Client, "nft delete table netdev lossy");
    deaf.send(()).unwrap();
    assert!(asking.join().unwrap() > 0);
    assert!(proxying.join().unwrap()[1] > 10);
    serving.join().unwrap();
}
