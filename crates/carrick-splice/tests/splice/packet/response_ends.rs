//! Events at a client and a server while the kernel forwards responses.

use super::bed::*;
use crate::support::*;
use carrick_splice::requests::RequestFields;
use carrick_splice::{Arming, PaceHandle, ResponseSplice, Splicer};
use socket2::SockRef;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// More than the buffers of both peers hold.
pub const LONG: usize = 20_000_000;

/// Relays a byte as a question and the byte of the answer back, some times; then one question whose answer the kernel forwards.
pub async fn bind(
    splicer: &Splicer,
    client: &mut TcpStream,
    server: &mut TcpStream,
) -> ResponseSplice {
    let mut responses = splicer.responses(client, server, 7).unwrap();
    for _ in 0..GREETING {
        let question = client.read_u8().await.unwrap();
        server.write_u8(question).await.unwrap();
        let answer = server.read_u8().await.unwrap();
        client.write_u8(answer).await.unwrap();
    }
    let question = client.read_u8().await.unwrap();
    assert_eq!(
        responses.arm(None, &RequestFields::default(), PaceHandle::default()),
        Arming::Armed
    );
    responses.expect_response(true, false);
    server.write_u8(question).await.unwrap();
    responses
}

async fn until_server_has_ended(responses: &ResponseSplice) {
    poll_fn(|cx| {
        assert!(responses.listen(cx));
        let progress = responses.progress();
        match responses.has_server_ended() && progress.sent_bytes == progress.acked_bytes {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

/// A client that exchanges greetings and asks: the other side's first byte. Its buffer does not grow: current kernels
/// let it grow to 32 MB, more than [`LONG`].
pub fn ask_shortly(address: IpAddr) -> std::net::TcpStream {
    let mut stream = connect(address);
    SockRef::from(&stream)
        .set_recv_buffer_size(1_000_000)
        .unwrap();
    greet_without_rest(&mut stream);
    stream.write_all(&[2]).unwrap();
    stream
}

fn greet_without_rest(stream: &mut std::net::TcpStream) {
    for _ in 0..GREETING {
        stream.write_all(&[1]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
}

/// A server's part of the greeting, and the question.
pub fn hear_question(stream: &mut std::net::TcpStream) {
    for _ in 0..GREETING {
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(&[1]).unwrap();
    }
    stream.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_server_that_ends_with_its_answer() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], 1, |mut stream| {
        hear_question(&mut stream);
        stream.write_all(&sample(1, 300_000)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // Its peer closes, too.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    let proxying = bed.proxy(V4, (1, 8), |splicer, mut client, mut server| async move {
        let mut responses = bind(&splicer, &mut client, &mut server).await;
        until_server_has_ended(&responses).await;
        assert_eq!(responses.progress().acked_bytes, 300_000);
        responses.disarm().unwrap();
        // The client is still there, and gets data from the process again.
        client.write_all(b"more").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        // The end reaches the server's socket after all.
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    });
    let asking = bed.on(Host::Client, || {
        let mut stream = ask_shortly(V4[0]);
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        let mut expected = sample(1, 300_000);
        expected.extend_from_slice(b"more");
        assert_same(&heard, &expected, "answer");
    });
    asking.join().unwrap();
    proxying.join().unwrap();
    serving.join().unwrap();
}

#[test]
fn a_server_that_ends_while_nothing_is_asked() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], 1, |mut stream| {
        hear_question(&mut stream);
        stream.write_all(&sample(1, 3000)).unwrap();
        wait_until("the client has it", || is_all_acknowledged(&stream));
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    let (ended, has_ended) = mpsc::channel();
    let proxying = bed.proxy(V4, (1, 8), move |splicer, mut client, mut server| {
        let ended = ended.clone();
        async move {
            let mut responses = bind(&splicer, &mut client, &mut server).await;
            // It reaches the socket by itself.
            assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
            assert_eq!(responses.progress().acked_bytes, 3000);
            responses.disarm().unwrap();
            server.shutdown().await.unwrap();
            ended.send(()).unwrap();
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
            client.shutdown().await.unwrap();
        }
    });
    let asking = bed.on(Host::Client, move || {
        let mut stream = ask_shortly(V4[0]);
        let mut heard = vec![0; 3000];
        stream.read_exact(&mut heard).unwrap();
        has_ended.recv_timeout(HANG).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    asking.join().unwrap();
    proxying.join().unwrap();
    serving.join().unwrap();
}

#[test]
fn a_server_that_resets_in_the_midst() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], 1, |mut stream| {
        hear_question(&mut stream);
        stream.write_all(&sample(1, 100_000)).unwrap();
        wait_until("the client has it", || is_all_acknowledged(&stream));
        SockRef::from(&stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    });
    let proxying = bed.proxy(V4, (1, 8), |splicer, mut client, mut server| async move {
        let mut responses = bind(&splicer, &mut client, &mut server).await;
        server.read(&mut [0]).await.unwrap_err();
        assert_eq!(responses.progress().acked_bytes, 100_000);
        responses.disarm().unwrap();
        client.write_all(b"sorry").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    });
    let asking = bed.on(Host::Client, || {
        let mut stream = ask_shortly(V4[0]);
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        let mut expected = sample(1, 100_000);
        expected.extend_from_slice(b"sorry");
        assert_same(&heard, &expected, "answer");
    });
    asking.join().unwrap();
    proxying.join().unwrap();
    serving.join().unwrap();
}

/// A long answer, while an event happens; returns what the client received, and whether it was reset.
fn a_long_answer<T, F: Future<Output = T> + 'static>(
    proxy: impl Fn(Splicer, TcpStream, TcpStream) -> F + Send + 'static,
    client: impl FnOnce(std::net::TcpStream) -> (Vec<u8>, bool) + Send + 'static,
) -> Option<(Vec<u8>, bool)> {
    let bed = Bed::new()?;
    let peers_done = Arc::new(AtomicU32::new(0));
    let [server_done, client_done] = [(); 2].map(|()| Arc::clone(&peers_done));
    let serving = bed.serve(V4[1], 1, move |mut stream| {
        hear_question(&mut stream);
        let _ = stream.write_all(&sample(1, LONG));
        let _ = stream.read(&mut [0]);
        server_done.fetch_add(1, Ordering::SeqCst);
    });
    let proxying = bed.proxy(V4, (1, 8), move |splicer, client, server| {
        let (peers_done, proxy) = (Arc::clone(&peers_done), proxy(splicer, client, server));
        async move {
            let _kept = proxy.await;
            // The sockets' last packets are translated only while the engine exists.
            until(|| peers_done.load(Ordering::SeqCst) == 2).await;
        }
    });
    let asking = bed.on(Host::Client, move || {
        let heard = client(ask_shortly(V4[0]));
        client_done.fetch_add(1, Ordering::SeqCst);
        heard
    });
    let heard = asking.join().unwrap();
    proxying.join().unwrap();
    serving.join().unwrap();
    Some(heard)
}

#[test]
fn a_client_that_reads_slowly() {
    let heard = a_long_answer(
        |splicer, mut client, mut server| async move {
            let responses = bind(&splicer, &mut client, &mut server).await;
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
            assert_eq!(responses.progress().acked_bytes, LONG as u64);
        },
        |mut stream| {
            // Its window is closed for longer than a probe takes.
            std::thread::sleep(Duration::from_secs(1));
            let mut heard = vec![0; LONG];
            for part in heard.chunks_mut(LONG / 4) {
                stream.read_exact(part).unwrap();
                std::thread::sleep(Duration::from_millis(300));
            }
            stream.shutdown(Shutdown::Write).unwrap();
            read_to_any_end(&mut stream);
            (heard, false)
        },
    );
    if let Some((heard, _)) = heard {
        assert_same(&heard, &sample(1, LONG), "answer");
    }
}

#[test]
fn a_client_that_has_said_all() {
    let heard = a_long_answer(
        |splicer, mut client, mut server| async move {
            let mut responses = bind(&splicer, &mut client, &mut server).await;
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
            until(|| responses.progress().acked_bytes >= LONG as u64).await;
            responses.disarm().unwrap();
            client.shutdown().await.unwrap();
        },
        |mut stream| {
            let mut heard = vec![0; 1000];
            stream.read_exact(&mut heard).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let (rest, is_reset) = read_to_any_end(&mut stream);
            heard.extend(rest);
            (heard, is_reset)
        },
    );
    if let Some((heard, is_reset)) = heard {
        assert_same(&heard, &sample(1, LONG), "answer");
        assert!(!is_reset);
    }
}

#[test]
fn a_client_that_resets() {
    a_long_answer(
        |splicer, mut client, mut server| async move {
            let responses = bind(&splicer, &mut client, &mut server).await;
            client.read(&mut [0]).await.unwrap_err();
            drop(responses);
            carrick_splice::tcp::reset_on_close(&server).unwrap();
        },
        |mut stream| {
            stream.read_exact(&mut [0; 1000]).unwrap();
            // Closing with unread bytes is a reset.
            (Vec::new(), false)
        },
    );
}

#[test]
fn a_proxy_that_lets_go_in_the_midst() {
    let heard = a_long_answer(
        |splicer, mut client, mut server| async move {
            let responses = bind(&splicer, &mut client, &mut server).await;
            while responses.progress().acked_bytes < 100_000 {
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
            // As if the process had died, but in this order. It takes nothing back: the sockets may end later, since a child that another
            // test starts has them until it executes its program.
            drop(client);
            drop(server);
            responses
        },
        |mut stream| read_to_any_end(&mut stream),
    );
    if let Some((heard, is_reset)) = heard {
        // The client does not take a part for the whole; a proxy that comes late has nothing to break off.
        let bytes = heard.len();
        assert!(is_reset || bytes == LONG, "{bytes}");
        assert!(sample(1, LONG).starts_with(&heard));
    }
}

#[test]
fn a_proxy_that_takes_the_answer_back_in_the_midst() {
    let heard = a_long_answer(
        |splicer, mut client, mut server| async move {
            let mut responses = bind(&splicer, &mut client, &mut server).await;
            while responses.progress().acked_bytes < 100_000 {
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
            responses.disarm().unwrap();
            let mut left = LONG - responses.progress().acked_bytes as usize;
            let mut buffer = vec![0; 100_000];
            while left > 0 {
                let got = server.read(&mut buffer).await.unwrap();
                assert!(got > 0 && got <= left, "{got} of {left}");
                client.write_all(&buffer[..got]).await.unwrap();
                left -= got;
            }
            client.shutdown().await.unwrap();
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        },
        |mut stream| read_to_any_end(&mut stream),
    );
    if let Some((heard, is_reset)) = heard {
        assert_same(&heard, &sample(1, LONG), "answer");
        assert!(!is_reset);
    }
}

#[test]
fn questions_that_do_not_wait_for_answers() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let bytes = |question: u8| usize::from(question) * 9000;
    let serving = bed.serve(V4[1], 1, move |mut stream| {
        for _ in 0..GREETING {
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(&[1]).unwrap();
        }
        let mut question = [0];
        while stream.read(&mut question).unwrap() > 0 {
            // Not at once: the next question may arrive before.
            std::thread::sleep(Duration::from_micros(u64::from(question[0]) * 23 % 500));
            stream
                .write_all(&sample(question[0].into(), bytes(question[0])))
                .unwrap();
        }
    });
    let proxying = bed.proxy(V4, (1, 8), |splicer, mut client, mut server| async move {
        let mut responses = bind(&splicer, &mut client, &mut server).await;
        let mut question = [0];
        while client.read(&mut question).await.unwrap() > 0 {
            server.write_all(&question).await.unwrap();
        }
        let all = (1..=50).map(|question: u64| question * 9000).sum();
        until(|| responses.progress().acked_bytes >= all).await;
        responses.disarm().unwrap();
        client.shutdown().await.unwrap();
    });
    let asking = bed.on(Host::Client, move || {
        let mut stream = connect(V4[0]);
        greet_without_rest(&mut stream);
        stream.write_all(&[1]).unwrap();
        let mut heard = vec![0; bytes(1)];
        stream.read_exact(&mut heard).unwrap();
        let writer = stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            for question in 2..=50 {
                (&writer).write_all(&[question]).unwrap();
                std::thread::sleep(Duration::from_micros(u64::from(question) * 37 % 700));
            }
            writer.shutdown(Shutdown::Write).unwrap();
        });
        stream.read_to_end(&mut heard).unwrap();
        writing.join().unwrap();
        let expected: Vec<u8> = (1..=50)
            .flat_map(|question| sample(question.into(), bytes(question)))
            .collect();
        assert_same(&heard, &expected, "answers");
    });
    asking.join().unwrap();
    proxying.join().unwrap();
    serving.join().unwrap();
}
