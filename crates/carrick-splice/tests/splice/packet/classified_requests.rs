//! Requests that the kernel classifies and forwards, among others that the process relays.

use super::bed::*;
use crate::support::*;
use carrick_splice::requests::{
    Cookie, Host as HostRule, RequestFields, RequestTable, Route, Settings,
};
use carrick_splice::{
    Arming, DisarmError, KernelRoutes, PaceHandle, PacketService, ResponseSplice, Splicer,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const UPSTREAM: u32 = 3;

/// A route for everything, or for paths with this prefix.
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

pub(super) fn install(service: &PacketService) -> KernelRoutes {
    let routes = [route(Some("/process/"), false), route(None, true)];
    let table = RequestTable::new(&routes, Settings::default());
    let tables = service.request_tables().unwrap();
    KernelRoutes {
        table: 4,
        generation: tables.install(4, &table).unwrap(),
        upstream: UPSTREAM,
        requests_max: u32::MAX,
        time_max: Duration::MAX,
    }
}

/// Reads one head; `None` at the end.
pub(super) fn read_head(stream: &mut TcpStream) -> Option<String> {
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

/// The head of a response with this many bytes.
fn response_head(bytes: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n")
}

/// The length in such a head.
pub(super) fn content_bytes(head: &str) -> usize {
    let value = head.rsplit(": ").next().unwrap();
    value.trim_end().parse().unwrap()
}

/// Answers `GET /any/N/…` with N bytes; returns the number of requests.
pub(super) fn answer_requests(mut stream: TcpStream) -> u64 {
    let mut count = 0;
    while let Some(head) = read_head(&mut stream) {
        count += 1;
        let bytes: usize = head.split('/').nth(2).unwrap().parse().unwrap();
        if bytes % 7 == 3 {
            // So late that the request is acknowledged before.
            std::thread::sleep(Duration::from_millis(60));
        }
        let mut answer = response_head(bytes).into_bytes();
        answer.extend(sample(bytes as u64, bytes));
        stream.write_all(&answer).unwrap();
    }
    count
}

/// Relays what the kernel leaves to the process; returns how many requests those were, and how many the kernel forwarded.
async fn pass_requests(
    splicer: Splicer,
    client: tokio::net::TcpStream,
    server: tokio::net::TcpStream,
    routes: KernelRoutes,
) -> (u64, u64) {
    pass_requests_and_tell(splicer, client, server, routes, || ()).await
}

/// The same; tells of each request that the process gets.
pub(super) async fn pass_requests_and_tell(
    splicer: Splicer,
    mut client: tokio::net::TcpStream,
    mut server: tokio::net::TcpStream,
    routes: KernelRoutes,
    tell: impl Fn(),
) -> (u64, u64) {
    let mut responses = splicer.responses(&client, &server, 7).unwrap();
    let (mut passed, mut classified) = (0, 0);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match client.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) if head.is_empty() => break,
                Err(error) => panic!("{error}"),
            }
        }
        classified += responses
            .catch_up()
            .map_or(0, |caught| u64::from(caught.requests));
        if head.is_empty() {
            break;
        }
        passed += 1;
        tell();
        let is_exact = !responses.is_armed() || is_whole(&responses);
        let is_armed = responses.arm(
            Some(routes),
            &RequestFields::default(),
            PaceHandle::default(),
        ) == Arming::Armed;
        if is_armed {
            responses.expect_response(is_exact, false);
        }
        server.write_all(&head).await.unwrap();
        if is_armed {
            responses.settle(head.len() as u64);
            continue;
        }
        relay_response(&mut server, &mut client).await;
    }
    responses.disarm().unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    client.shutdown().await.unwrap();
    (passed, classified)
}

/// Whether the latest response has gone to the client.
fn is_whole(responses: &ResponseSplice) -> bool {
    let begun = responses.head();
    let end = begun.windows(4).position(|four| four == b"\r\n\r\n");
    end.is_some_and(|end| {
        let content_bytes = content_bytes(std::str::from_utf8(&begun[..end]).unwrap());
        responses.progress().sent_bytes == (end + 4 + content_bytes) as u64
    })
}

/// Relays a response.
async fn relay_response(server: &mut tokio::net::TcpStream, client: &mut tokio::net::TcpStream) {
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\n") {
        response.push(server.read_u8().await.unwrap());
    }
    let head_bytes = response.len();
    let content_bytes = content_bytes(std::str::from_utf8(&response).unwrap());
    response.resize(head_bytes + content_bytes, 0);
    server
        .read_exact(&mut response[head_bytes..])
        .await
        .unwrap();
    client.write_all(&response).await.unwrap();
}

/// Sends requests in turn, determined by the seed; some of them must be relayed by the process.
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
            // In two pieces: the kernel does not forward it.
            let (first, second) = head.as_bytes().split_at(random.below(head.len()));
            stream.write_all(first).unwrap();
            std::thread::sleep(Duration::from_millis(random.below(3) as u64));
            stream.write_all(second).unwrap();
        } else {
            stream.write_all(head.as_bytes()).unwrap();
        }
        let head = read_head(&mut stream).unwrap();
        assert_eq!(content_bytes(&head), bytes, "{seed}: {round}");
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
    addresses: [IpAddr; 2],
    (clients, rounds): (u64, u64),
    prepare: impl FnOnce(&Bed),
) {
    let Some(bed) = Bed::new() else { return };
    prepare(&bed);
    let serving = bed.serve(addresses[1], clients as usize, answer_requests);
    let classified = Arc::new(AtomicU64::new(0));
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
        classified.fetch_add(by_kernel, Ordering::Relaxed);
    }
    let classified = classified.load(Ordering::Relaxed);
    assert_eq!(passed + classified, clients * rounds);
    // Not those of clients that always ask before the process has given their connections to the kernel.
    assert!(classified > 0, "none of {}", clients * rounds);
}

#[test]
fn requests_pass_by_the_process() {
    requests_pass(V4, (16, 60), |_| {});
}

#[test]
fn requests_pass_by_the_process_with_ipv6() {
    requests_pass(V6, (4, 60), |_| {});
}

#[test]
fn requests_pass_though_packets_are_lost() {
    requests_pass(V4, (16, 40), |bed| bed.lose(3));
}

/// The client's TCP retransmits both as one packet.
#[test]
fn a_client_that_does_not_wait_is_answered_though_its_first_request_is_lost() {
    let Some(bed) = Bed::new() else { return };
    const CLIENTS: u64 = 8;
    const REQUESTS: u64 = 5;
    // Otherwise it first tries the second one alone.
    bed.run(Host::Client, "sysctl -qw net.ipv4.tcp_early_retrans=0");
    bed.nft(
        Host::Server,
        "table netdev lossy { chain c { type filter hook ingress device s priority -500; ip dscp cs1 drop; }; }",
    );
    let serving = bed.serve(V4[1], CLIENTS as usize, answer_requests);
    let proxying = bed.proxy_with(V4, (CLIENTS as usize, 16), install, pass_requests);
    let ask_twice = || {
        let mut stream = connect(V4[0]);
        stream.set_nodelay(true).unwrap();
        let ask = |mut stream: &TcpStream, bytes: usize| {
            stream.write_all(ask_for(bytes).as_bytes()).unwrap();
        };
        let hear = |stream: &mut TcpStream, bytes: usize| {
            assert_eq!(content_bytes(&read_head(stream).unwrap()), bytes);
            stream.read_exact(&mut vec![0; bytes]).unwrap();
        };
        for bytes in 100..98 + REQUESTS as usize {
            ask(&stream, bytes);
            hear(&mut stream, bytes);
        }
        rustix::net::sockopt::set_ip_tos(&stream, 0x20).unwrap();
        ask(&stream, 7);
        rustix::net::sockopt::set_ip_tos(&stream, 0).unwrap();
        ask(&stream, 8);
        hear(&mut stream, 7);
        hear(&mut stream, 8);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    };
    let asking: Vec<_> = (0..CLIENTS)
        .map(|_| bed.on(Host::Client, ask_twice))
        .collect();
    for thread in asking {
        thread.join().unwrap();
    }
    let served: u64 = serving.join().unwrap().into_iter().sum();
    let counts = proxying.join().unwrap();
    let passed: u64 = counts.iter().map(|(by_process, _)| by_process).sum();
    let classified: u64 = counts.iter().map(|(_, by_kernel)| by_kernel).sum();
    assert_eq!(
        (served, passed + classified),
        (CLIENTS * REQUESTS, CLIENTS * REQUESTS)
    );
    assert!(classified > 0, "none of {passed}");
}

/// The server is silent for longer than the keep-alive of the local sockets allows.
#[test]
fn local_sockets_hear_that_their_peers_are_there() {
    let Some(bed) = Bed::new() else { return };
    let (go, may_go) = mpsc::channel();
    let may_go = Mutex::new(may_go);
    let serving = bed.serve(V4[1], 1, move |mut stream| {
        for bytes in 1..=4 {
            read_head(&mut stream).unwrap();
            if bytes == 4 {
                may_go.lock().unwrap().recv_timeout(HANG).unwrap();
            }
            let answer = response_head(bytes) + &"x".repeat(bytes);
            stream.write_all(answer.as_bytes()).unwrap();
        }
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    let proxying = bed.proxy_with(V4, (1, 4), install, |splicer, client, server, routes| {
        let keepalive = socket2::TcpKeepalive::new()
            .with_time(Duration::from_secs(1))
            .with_interval(Duration::from_secs(1))
            .with_retries(2);
        for socket in [&client, &server] {
            let socket = socket2::SockRef::from(socket);
            socket.set_tcp_keepalive(&keepalive).unwrap();
        }
        pass_requests(splicer, client, server, routes)
    });
    let asking = bed.on(Host::Client, || {
        let mut stream = connect(V4[0]);
        for bytes in 1..=4 {
            stream.write_all(ask_for(bytes).as_bytes()).unwrap();
            assert_eq!(content_bytes(&read_head(&mut stream).unwrap()), bytes);
            stream.read_exact(&mut vec![0; bytes]).unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    // Twice as many as both together send without an answer.
    wait_until("probes", || {
        let counted = bed.read(Host::Middle, "/proc/net/netstat");
        asking.is_finished() || extended(&counted, "TCPKeepAlive") >= 8
    });
    go.send(()).unwrap();
    asking.join().unwrap();
    serving.join().unwrap();
    let (passed, classified) = proxying.join().unwrap()[0];
    // Whoever sent them: each response may be the kernel's.
    assert_eq!(passed + classified, 4);
}

/// A container's or a virtual machine's client: it may say where the checksum is to be written, and so change the classified request.
#[test]
fn a_request_whose_checksum_is_to_be_written_elsewhere_does_not_reach_the_server() {
    let Some(bed) = Bed::new() else { return };
    if lacks("csum_start", (6, 2)) {
        return;
    }
    // The client's packets are dropped at first; the last interface writes checksums.
    bed.nft(
        Host::Server,
        "table netdev lossy { chain c { type filter hook ingress device s priority -500; ip dscp cs1 drop; }; }",
    );
    bed.run(Host::Middle, "ethtool -K ps tx off");
    let arrived = bed.on(Host::Server, || Wire::open("s")).join().unwrap();
    let serving = bed.serve(V4[1], 1, answer_requests);
    let proxying = bed.proxy_with(V4, (1, 4), install, pass_requests);
    let asking = bed.on(Host::Client, || {
        let wire = Wire::open("c");
        let mut stream = connect(V4[0]);
        for (number, checksum_at) in [(1, None), (2, None), (3, Some(34)), (4, Some(80))] {
            let tos = if checksum_at.is_some() { 0x20 } else { 0 };
            rustix::net::sockopt::set_ip_tos(&stream, tos).unwrap();
            let head = ask_for(number);
            stream.write_all(head.as_bytes()).unwrap();
            if let Some(checksum_at) = checksum_at {
                wire.send_again(head.as_bytes(), checksum_at);
            }
            rustix::net::sockopt::set_ip_tos(&stream, 0).unwrap();
            assert_eq!(content_bytes(&read_head(&mut stream).unwrap()), number);
            stream.read_exact(&mut vec![0; number]).unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    asking.join().unwrap();
    assert_eq!(serving.join().unwrap(), [4]);
    proxying.join().unwrap();
    let frames = arrived.frames();
    for number in 1..=4 {
        let (head, line) = (ask_for(number), format!("GET /kernel/{number}/"));
        let mut count = 0;
        for frame in &frames {
            if frame.windows(line.len()).any(|at| at == line.as_bytes()) {
                assert!(frame.ends_with(head.as_bytes()), "{}", frame.escape_ascii());
                count += 1;
            }
        }
        assert!(count > 0, "{number}");
    }
}

pub(super) fn ask_for(bytes: usize) -> String {
    format!("GET /kernel/{bytes}/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
}

/// Captures packets of an interface, and sends frames with a virtio-net header on it (packet(7), `PACKET_VNET_HDR`).
struct Wire(Socket);

impl Wire {
    #[expect(unsafe_code, reason = "socket2 does not know this option")]
    fn open(interface: &str) -> Wire {
        const PACKET_VNET_HDR: libc::c_int = 15;
        let every = i32::from((libc::ETH_P_ALL as u16).to_be());
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(every))).unwrap();
        let one: libc::c_int = 1;
        // SAFETY: the pointer and the length are those of `one`, which outlives the call.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_VNET_HDR,
                std::ptr::from_ref(&one).cast(),
                size_of_val(&one) as libc::socklen_t,
            )
        };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        socket.bind(&link_address(&socket, interface)).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        Wire(socket)
    }

    /// The packets captured since then.
    fn frames(&self) -> Vec<Vec<u8>> {
        self.0.set_nonblocking(true).unwrap();
        let mut buffer = vec![0; 4096];
        let mut frames = Vec::new();
        while let Ok(read) = (&self.0).read(&mut buffer) {
            frames.push(buffer[10..read].to_vec());
        }
        frames
    }

    /// Finds the IPv4 frame with this end, and sends it again with TOS 0; its checksum is to be written behind byte `checksum_at`.
    fn send_again(&self, end: &[u8], checksum_at: u16) {
        const NEEDS_CHECKSUM: u8 = 1;
        let mut buffer = vec![0; 4096];
        let mut frame = loop {
            let read = (&self.0).read(&mut buffer).unwrap();
            if buffer[10..read].ends_with(end) {
                break buffer[10..read].to_vec();
            }
        };
        let tos = u16::from(std::mem::take(&mut frame[15]));
        let (sum, carry) = u16::from_be_bytes([frame[24], frame[25]]).overflowing_add(tos);
        frame[24..26].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
        let mut sent = vec![NEEDS_CHECKSUM, 0, 0, 0, 0, 0];
        sent.extend(checksum_at.to_ne_bytes());
        sent.extend(16_u16.to_ne_bytes());
        sent.extend(frame);
        self.0.send(&sent).unwrap();
    }
}

/// Otherwise other clients would get that client's response over the server's connection, and it none.
#[test]
fn the_server_s_connection_does_not_come_back_while_a_request_is_on_its_way_that_the_process_does_not_know()
 {
    let Some(bed) = Bed::new() else { return };
    let (has_arrived, arrived) = mpsc::channel();
    let (release, is_released) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    let is_released = Mutex::new(is_released);
    let serving = bed.serve(V4[1], 1, move |mut stream| {
        while let Some(head) = read_head(&mut stream) {
            if head.contains("/held/") {
                has_arrived.send(()).unwrap();
            }
            is_released.lock().unwrap().recv_timeout(HANG).unwrap();
            let answer = response_head(6) + "answer";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let channels = RefCell::new(Some((arrived, release, go)));
    let proxying = bed.proxy_with(
        V4,
        (1, 4),
        install,
        move |splicer, client, server, routes| {
            decide_late(splicer, client, server, routes, channels.take().unwrap())
        },
    );
    let asking = bed.on(Host::Client, move || {
        let mut stream = connect(V4[0]);
        let mut ask = |path: &str| {
            let head = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            assert_eq!(content_bytes(&read_head(&mut stream).unwrap()), 6);
            let mut answer = [0; 6];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"answer");
        };
        while may_go.try_recv().is_err() {
            ask("/process/");
        }
        ask("/held/");
    });
    asking.join().unwrap();
    proxying.join().unwrap();
    serving.join().unwrap();
}

/// Relays requests until the kernel has both connections. Then it checks, sees that everything is answered, is delayed,
/// and takes them back.
async fn decide_late(
    splicer: Splicer,
    mut client: tokio::net::TcpStream,
    mut server: tokio::net::TcpStream,
    routes: KernelRoutes,
    (arrived, release, go): (mpsc::Receiver<()>, mpsc::Sender<()>, mpsc::Sender<()>),
) {
    let mut responses = splicer.responses(&client, &server, 7).unwrap();
    let mut is_armed = false;
    while !is_armed {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        is_armed = responses.arm(
            Some(routes),
            &RequestFields::default(),
            PaceHandle::default(),
        ) == Arming::Armed;
        if is_armed {
            responses.expect_response(true, false);
            go.send(()).unwrap();
        }
        server.write_all(&head).await.unwrap();
        if is_armed {
            responses.settle(head.len() as u64);
        }
        release.send(()).unwrap();
        if is_armed {
            break;
        }
        relay_response(&mut server, &mut client).await;
    }
    // The client may send a request directly behind that answer: the kernel forwards it.
    arrived.recv_timeout(HANG).unwrap();
    assert!(matches!(responses.disarm(), Err(DisarmError::Behind)));
    assert!(responses.is_armed());
    release.send(()).unwrap();
    assert_eq!(responses.catch_up().unwrap().requests, 1);
    let is_answered = |responses: &ResponseSplice| {
        let (progress, whole) = (responses.progress(), response_head(6).len() as u64 + 6);
        progress.sent_bytes == whole && progress.acked_bytes == whole
    };
    while !is_answered(&responses) {
        tokio::task::yield_now().await;
    }
    responses.disarm().unwrap();
    // Later requests reach the process.
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}
