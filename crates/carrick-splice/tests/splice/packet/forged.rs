//! Packets that a peer's TCP would not send, or that others send in its name.

use super::bed::*;
use super::classified_requests::*;
use super::wire::*;
use crate::support::*;
use carrick_splice::requests::RequestFields;
use carrick_splice::{Arming, Choice, ExchangeOrder, PaceHandle, Splicer};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A TCP option that is not negotiated, as of connections that are signed (RFC 2385).
fn signature() -> Vec<u8> {
    [vec![1, 1, 19, 18], vec![7; 16]].concat()
}

/// The client's next segment, after another question.
fn next_of_client(line: &Line, stream: &mut TcpStream, sum: &mut (u64, u64)) -> Segment {
    let own_port = stream.local_addr().unwrap().port();
    let heard = line.heard(
        |port| port == own_port,
        || {
            let bytes = ask(stream, 10, 10);
            *sum = (sum.0 + bytes.0, sum.1 + bytes.1);
        },
    );
    heard.answered()
}

/// A tunnel whose client sends what `forge` makes of its next segment, and goes on.
fn tunnel_goes_on(
    bed: &Bed,
    addresses: [IpAddr; 2],
    forge: impl Fn(&Segment) -> Vec<Vec<u8>> + Send + 'static,
) {
    let serving = bed.serve(addresses[1], 1, answer);
    let proxying = bed.tunnels(addresses, 1);
    let asking = bed.on(Host::Client, move || {
        let line = Line::open("c");
        let mut stream = connect(addresses[0]);
        let mut sum = ask_until_decided(&mut stream);
        until_given(1);
        let next = next_of_client(&line, &mut stream, &mut sum);
        for frame in forge(&next) {
            line.send(&frame);
        }
        let bytes = ask_and_close_on(stream, 20);
        (sum.0 + bytes.0, sum.1 + bytes.1)
    });
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    proxying.join().unwrap()[0].assert_closed(sent);
}

/// Otherwise Linux would put it together with the next one, for the local socket, whose numbers are others.
#[test]
fn a_first_fragment_that_ends_within_its_headers_is_dropped() {
    let Some(bed) = Bed::new() else { return };
    tunnel_goes_on(&bed, V6, |next| vec![next.fragment_within_headers()]);
    let counters = bed.read(Host::Middle, "/proc/net/snmp6");
    let mut lines = counters.lines().map(str::split_whitespace);
    let begun = lines.find_map(|mut words| {
        (words.next() == Some("Ip6ReasmReqds")).then(|| words.next().map(str::to_owned))
    });
    assert_eq!(begun.flatten().as_deref(), Some("0"));
}

/// The fragments behind it could become another request than the one that is classified next.
#[test]
fn behind_a_fragment_of_old_bytes_no_request_is_forwarded() {
    let Some(bed) = Bed::new() else { return };
    let serving = bed.serve(V4[1], 1, answer_requests);
    let passed = Arc::new(AtomicU64::new(0));
    let by_process = Arc::clone(&passed);
    let proxying = bed.proxy_with(
        V4,
        (1, 4),
        install,
        move |splicer, client, server, routes| {
            let passed = Arc::clone(&by_process);
            pass_requests_and_tell(splicer, client, server, routes, move || {
                passed.fetch_add(1, SeqCst);
            })
        },
    );
    let asking = bed.on(Host::Client, move || {
        let line = Line::open("c");
        let mut stream = connect(V4[0]);
        // Whether the process got the request.
        let mut request = || {
            let before = passed.load(SeqCst);
            stream.write_all(ask_for(10).as_bytes()).unwrap();
            assert_eq!(content_bytes(&read_head(&mut stream).unwrap()), 10);
            stream.read_exact(&mut [0; 10]).unwrap();
            passed.load(SeqCst) > before
        };
        wait_until("the kernel forwards requests", || !request());
        let mut was_passed = false;
        let heard = line.heard(|port| port != PROXY_PORT, || was_passed = request());
        assert!(!was_passed);
        // The answer may have come in two segments.
        let last = line
            .segments()
            .into_iter()
            .rfind(|one| !one.payload.is_empty() && one.ports == heard.ports);
        let fragment = last.unwrap_or(heard).answered().with(|one| {
            one.seq = one.seq.wrapping_sub(4);
            one.payload = b"\r\n\r\n".to_vec();
        });
        line.send(&fragment.first_fragment());
        for _ in 0..3 {
            assert!(request());
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    asking.join().unwrap();
    serving.join().unwrap();
    proxying.join().unwrap();
}

#[test]
fn no_data_passes_with_a_syn() {
    let Some(bed) = Bed::new() else { return };
    let at_server = bed.on(Host::Server, || Line::open("s")).join().unwrap();
    tunnel_goes_on(&bed, V4, |next| {
        let syn = next.with(|one| (one.flags, one.payload) = (SYN, MARK.to_vec()));
        vec![syn.frame()]
    });
    let heard = at_server.segments();
    assert!(!heard.iter().any(|one| one.payload == MARK));
}

/// The server does not get them, so they end nothing.
#[test]
fn ends_that_expire_at_the_proxy_do_not_end_a_tunnel() {
    for flags in [RST | ACK, RST, FIN | ACK] {
        let Some(bed) = Bed::new() else { return };
        tunnel_goes_on(&bed, V4, move |next| {
            let end = next.with(|one| (one.flags, one.hops) = (flags, 1));
            vec![end.frame()]
        });
    }
}

/// The first tunnel of a proxy of tunnels whose client resets it, though the server gets no resets. `is_reset`: from then on; `is_over`:
/// its process may end.
struct Reset {
    is_reset: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Reset {
    fn new(bed: &Bed) -> Reset {
        bed.nft(
            Host::Server,
            "table netdev deaf { chain c { type filter hook ingress device s priority -500; tcp flags & rst == rst drop; }; }",
        );
        Reset {
            is_reset: Arc::default(),
            is_over: Arc::default(),
        }
    }

    /// A proxy for this many tunnels, which remains until `is_over`.
    fn proxy(&self, bed: &Bed, count: usize) -> std::thread::JoinHandle<Vec<()>> {
        let (is_reset, is_over) = (Arc::clone(&self.is_reset), Arc::clone(&self.is_over));
        bed.proxy(V4, (count, 8), move |splicer, client, server| {
            let (is_reset, is_over) = (Arc::clone(&is_reset), Arc::clone(&is_over));
            async move {
                let order = ExchangeOrder::new(Choice::Packet);
                splicer.exchange(client, server, order).run().await;
                is_reset.store(true, SeqCst);
                until(|| is_over.load(SeqCst)).await;
            }
        })
    }

    /// Greets, and resets the connection for the proxy.
    fn forge(&self, line: &Line, stream: &mut TcpStream) {
        greet(stream);
        let own_port = stream.local_addr().unwrap().port();
        let heard = line.heard(
            |port| port == own_port,
            || {
                stream.write_all(&[1]).unwrap();
                stream.read_exact(&mut [0]).unwrap();
            },
        );
        let reset = heard.answered().with(|one| one.flags = RST | ACK);
        line.send(&reset.frame());
        wait_until("the tunnel is reset", || self.is_reset.load(SeqCst));
    }
}

/// Waits until these bytes were sent several times.
fn until_sent_again(line: &Line, bytes: &[u8]) {
    let mut count = 0;
    wait_until("nobody acknowledges it", || {
        count += line
            .segments()
            .iter()
            .filter(|one| one.payload.ends_with(bytes))
            .count();
        count > 2
    });
}

const MARK: &[u8] = b"behind the end";

#[test]
fn behind_a_reset_that_the_server_has_not_taken_it_gets_nothing() {
    let Some(bed) = Bed::new() else { return };
    let reset = Reset::new(&bed);
    let is_over = Arc::clone(&reset.is_over);
    let serving = bed.serve(V4[1], 1, move |mut stream| {
        greet_back(&mut stream);
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(&[1]).unwrap();
        wait_until("the client has sent", || is_over.load(SeqCst));
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0; 100]).unwrap_err().kind()
    });
    let proxying = reset.proxy(&bed, 1);
    let asking = bed.on(Host::Client, move || {
        let line = Line::open("c");
        let mut stream = connect(V4[0]);
        reset.forge(&line, &mut stream);
        stream.write_all(MARK).unwrap();
        until_sent_again(&line, MARK);
        reset.is_over.store(true, SeqCst);
    });
    asking.join().unwrap();
    assert_eq!(serving.join().unwrap(), [ErrorKind::WouldBlock]);
    proxying.join().unwrap();
}

#[test]
fn a_new_connection_with_the_client_s_addresses_gets_nothing_of_the_old_one() {
    let Some(bed) = Bed::new() else { return };
    let reset = Reset::new(&bed);
    // Its socket goes silently.
    bed.nft(
        Host::Client,
        "table ip quiet { chain c { type filter hook output priority 0; tcp flags & rst == rst drop; }; }",
    );
    let (begun, has_begun) = mpsc::channel();
    let (sent, is_sent) = mpsc::channel();
    let (has_begun, sent) = (Mutex::new(has_begun), Mutex::new(sent));
    let count = AtomicU64::new(0);
    let serving = bed.serve(V4[1], 2, move |mut stream| {
        if count.fetch_add(1, SeqCst) > 0 {
            assert_eq!(stream.read(&mut [0]).unwrap(), 1);
            stream.write_all(&[2]).unwrap();
            return read_to_any_end(&mut stream).0;
        }
        let line = Line::open("s");
        greet_back(&mut stream);
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(&[1]).unwrap();
        has_begun.lock().unwrap().recv_timeout(HANG).unwrap();
        stream.write_all(MARK).unwrap();
        until_sent_again(&line, MARK);
        sent.lock().unwrap().send(()).unwrap();
        Vec::new()
    });
    let proxying = reset.proxy(&bed, 2);
    let asking = bed.on(Host::Client, move || {
        let own = "10.78.1.2:33333".parse().unwrap();
        let proxy = SocketAddr::new(V4[0], PROXY_PORT);
        let line = Line::open("c");
        let mut stream = connect_from(own, proxy);
        reset.forge(&line, &mut stream);
        let linger = Some(std::time::Duration::ZERO);
        socket2::SockRef::from(&stream).set_linger(linger).unwrap();
        drop(stream);
        let mut stream = connect_from(own, proxy);
        stream.write_all(&[1]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        begun.send(()).unwrap();
        is_sent.recv_timeout(HANG).unwrap();
        let heard = line.segments();
        assert!(!heard.iter().any(|one| one.payload.ends_with(MARK)));
        stream.shutdown(Shutdown::Write).unwrap();
        reset.is_over.store(true, SeqCst);
        drop(stream);
    });
    asking.join().unwrap();
    serving.join().unwrap();
    proxying.join().unwrap();
}

/// The bytes of each answer.
const ANSWER_BYTES: usize = 100;

/// Relays questions; the kernel forwards the answers as soon as it can, which `is_armed` tells before the server gets the question. Checks
/// what is known of each. Returns how many those are.
async fn relay_questions(
    splicer: Splicer,
    mut client: tokio::net::TcpStream,
    mut server: tokio::net::TcpStream,
    is_armed: Arc<AtomicBool>,
) -> u64 {
    let mut responses = splicer.responses(&client, &server, 7).unwrap();
    let mut forwarded = 0;
    let mut question = [0; 16];
    let answer = sample(ANSWER_BYTES as u64 + 1, ANSWER_BYTES);
    while client.read_exact(&mut question).await.is_ok() {
        if is_armed.load(SeqCst) {
            assert!(!responses.is_stuck());
            assert_eq!(responses.head(), answer);
            assert_eq!(responses.progress().sent_bytes, ANSWER_BYTES as u64);
            forwarded += 1;
        }
        let armed = responses.arm(None, &RequestFields::default(), PaceHandle::default());
        let by_kernel = armed == Arming::Armed;
        if by_kernel {
            responses.expect_response(true, false);
        }
        is_armed.store(by_kernel, SeqCst);
        server.write_all(&question).await.unwrap();
        if !by_kernel {
            let mut answer = [0; ANSWER_BYTES];
            server.read_exact(&mut answer).await.unwrap();
            client.write_all(&answer).await.unwrap();
        }
    }
    responses.disarm().unwrap();
    forwarded
}

/// Responses behind what `forge` makes of the server's next segment, which change nothing.
fn responses_pass(forge: impl Fn(&Segment) -> Vec<Vec<u8>> + Send + Sync + 'static) {
    const ROUNDS: usize = 12;
    let Some(bed) = Bed::new() else { return };
    let is_armed = Arc::<AtomicBool>::default();
    let at_server = Arc::clone(&is_armed);
    let serving = bed.serve(V4[1], 1, move |mut stream| {
        let line = Line::open("s");
        let mut question = [0; 16];
        while stream.read_exact(&mut question).is_ok() {
            let heard = line.segments();
            let asked = |one: &&Segment| one.payload == question && one.ports[1] == SERVER_PORT;
            if at_server.load(SeqCst) {
                let asked = heard.iter().rfind(asked).unwrap();
                for frame in forge(&asked.answered()) {
                    line.send(&frame);
                }
            }
            let answer = sample(ANSWER_BYTES as u64 + 1, ANSWER_BYTES);
            stream.write_all(&answer).unwrap();
        }
    });
    let proxying = bed.proxy(V4, (1, 4), move |splicer, client, server| {
        relay_questions(splicer, client, server, Arc::clone(&is_armed))
    });
    let asking = bed.on(Host::Client, || {
        let mut stream = connect(V4[0]);
        for _ in 0..ROUNDS {
            ask(&mut stream, 0, ANSWER_BYTES);
        }
    });
    asking.join().unwrap();
    serving.join().unwrap();
    assert!(proxying.join().unwrap()[0] > 0);
}

/// Only a fragment with the server's next number may be the server's.
#[test]
fn a_fragment_from_anywhere_in_the_window_does_not_break_a_response_off() {
    responses_pass(|next| {
        let fragment = next.with(|one| {
            one.seq = one.seq.wrapping_add(5000);
            one.payload = vec![b'y'; 16];
        });
        vec![fragment.first_fragment()]
    });
}

/// The client gets another response than the programs would have kept.
#[test]
fn what_the_client_may_not_get_is_not_taken_for_its_response() {
    responses_pass(|next| {
        let other = next.with(|one| one.payload = vec![b'x'; ANSWER_BYTES]);
        let signed = other.with(|one| one.options = signature());
        vec![other.with(|one| one.hops = 1).frame(), signed.frame()]
    });
}
