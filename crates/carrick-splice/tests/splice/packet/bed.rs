//! A client, a proxy and a server, each in its own network namespace, and their conversations.

use crate::hosts::{Hosts, Interface, succeed};
use crate::support::*;
use carrick_splice::{
    Choice, Counters, Engine, Exchange, ExchangeEnd, ExchangeOrder, Pacing, PacketService,
    PoolLimits, Reason, SocketService, Splicer,
};
use carrick_test::listen;
use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use crate::hosts::Host;

pub const PROXY_PORT: u16 = 8080;
pub const SERVER_PORT: u16 = 8000;

/// The proxy's address for the client, and the server's.
pub const V4: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 78, 1, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 78, 2, 2)),
];
pub const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0xfd78, 1, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd78, 2, 0, 0, 0, 0, 0, 2)),
];

/// An idle time after which the kernel may get the packets.
const REST: Duration = Duration::from_millis(100);

/// Number of greetings in each direction. (The engine has to see packets of both connections in both directions, and
/// some acknowledgements arrive late.)
pub const GREETING: u64 = 3;

/// A client, a proxy and a server.
pub struct Bed {
    hosts: Hosts,
    /// The proxy's interfaces with the engine's programs; empty: all.
    pub hooked: Vec<String>,
    /// The classes by which the engine paces.
    pub pacing: Option<Pacing>,
    pub seen: Arc<Tunnels>,
}

/// The other hosts' view of the proxy's tunnels.
#[derive(Default)]
pub struct Tunnels {
    counters: Mutex<Vec<Arc<Counters>>>,
    over: AtomicUsize,
}

thread_local! {
    /// Those of the bed for which this thread runs.
    static TUNNELS: RefCell<Arc<Tunnels>> = RefCell::default();
}

/// Interfaces: the client's, the proxy's towards it; the proxy's towards the server, the server's.
pub const INTERFACES: [Interface; 4] = [
    (Host::Client, "c"),
    (Host::Middle, "pc"),
    (Host::Middle, "ps"),
    (Host::Server, "s"),
];

impl Deref for Bed {
    type Target = Hosts;

    fn deref(&self) -> &Hosts {
        &self.hosts
    }
}

/// The proxy's listener, also where another listened before.
pub fn listen_at_proxy(own: IpAddr) -> tokio::net::TcpListener {
    let listener = listen((own, PROXY_PORT));
    listener.set_nonblocking(true).unwrap();
    tokio::net::TcpListener::from_std(listener).unwrap()
}

impl Bed {
    /// `None` without root.
    pub fn new() -> Option<Bed> {
        let bed = Bed::bare()?;
        bed.give_addresses();
        Some(bed)
    }

    /// Without addresses.
    pub fn bare() -> Option<Bed> {
        Bed::by(Vec::new())
    }

    /// With four interfaces of the machine.
    pub fn by(lent: Vec<String>) -> Option<Bed> {
        if !carrick_test::is_root() {
            return None;
        }
        Some(Bed {
            hosts: Hosts::with(INTERFACES, 78, lent),
            hooked: Vec::new(),
            pacing: None,
            seen: Arc::default(),
        })
    }

    /// Runs `what` in a separate thread on this host.
    pub fn on<T: Send + 'static>(
        &self,
        host: Host,
        what: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let tunnels = Arc::clone(&self.seen);
        self.hosts.on(host, move || {
            TUNNELS.set(tunnels);
            what()
        })
    }

    /// From now on, this percentage of TCP packets to each host is dropped.
    pub fn lose(&self, percent: u32) {
        for host in [Host::Client, Host::Middle, Host::Server] {
            self.lose_at(host, percent);
        }
    }

    /// Packets to this host.
    pub fn lose_at(&self, host: Host, percent: u32) {
        let mut rules = String::from("add table netdev lossy; ");
        for (_, interface) in INTERFACES.iter().filter(|(at, _)| *at == host) {
            rules += &format!(
                "add chain netdev lossy {interface} {{ type filter hook ingress device {interface} priority -500; }}; \
                 add rule netdev lossy {interface} meta l4proto tcp numgen random mod 100 < {percent} drop; "
            );
        }
        self.nft(host, &rules);
    }

    /// Adds rules of nftables on this host.
    pub fn nft(&self, host: Host, rules: &str) {
        succeed(&mut self.command(host, &["nft", rules]));
    }

    /// Moves an interface from the proxy to the server.
    pub fn give_to_server(&self, interface: &str) {
        let server = self.name(Host::Server);
        self.ip(
            Host::Middle,
            &format!("link set {interface} netns {server}"),
        );
    }

    /// Sets `net.ipv4.NAME` on this host.
    pub fn set(&self, host: Host, setting: &str, value: u32) {
        self.run(host, &format!("sysctl -qw net.ipv4.{setting}={value}"));
    }

    /// A server that runs the same function for each of `count` connections, each in a thread; returns the results.
    pub fn serve<T: Send + 'static>(
        &self,
        address: IpAddr,
        count: usize,
        what: impl Fn(TcpStream) -> T + Send + Sync + 'static,
    ) -> JoinHandle<Vec<T>> {
        self.serve_at(Host::Server, address, count, what)
    }

    /// The same on this host.
    pub fn serve_at<T: Send + 'static>(
        &self,
        host: Host,
        address: IpAddr,
        count: usize,
        what: impl Fn(TcpStream) -> T + Send + Sync + 'static,
    ) -> JoinHandle<Vec<T>> {
        let (ready, is_ready) = mpsc::channel();
        let tunnels = Arc::clone(&self.seen);
        let serving = self.on(host, move || {
            let listener = listen((address, SERVER_PORT));
            ready.send(()).unwrap();
            std::thread::scope(|scope| {
                let (what, tunnels) = (&what, &tunnels);
                let threads: Vec<_> = (0..count)
                    .map(|_| {
                        let (stream, _) = listener.accept().unwrap();
                        stream.set_read_timeout(Some(HANG)).unwrap();
                        stream.set_nodelay(true).unwrap();
                        scope.spawn(move || {
                            TUNNELS.set(Arc::clone(tunnels));
                            what(stream)
                        })
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect()
            })
        });
        is_ready.recv().unwrap();
        serving
    }

    /// A proxy that runs the same function for each of `count` pairs of connections, concurrently.
    pub fn proxy<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        addresses: [IpAddr; 2],
        count: (usize, u32),
        join: impl Fn(Splicer, tokio::net::TcpStream, tokio::net::TcpStream) -> F + Send + 'static,
    ) -> JoinHandle<Vec<T>> {
        self.proxy_with(
            addresses,
            count,
            |_| (),
            move |splicer, client, server, ()| join(splicer, client, server),
        )
    }

    /// The same, with a value derived from the loaded engine.
    pub fn proxy_with<S: Copy + 'static, T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        [own, server]: [IpAddr; 2],
        (count, places): (usize, u32),
        prepare: impl FnOnce(&PacketService) -> S + Send + 'static,
        join: impl Fn(Splicer, tokio::net::TcpStream, tokio::net::TcpStream, S) -> F + Send + 'static,
    ) -> JoinHandle<Vec<T>> {
        let (ready, is_ready) = mpsc::channel();
        let (hooked, pacing) = (self.hooked.clone(), self.pacing.clone());
        let tunnels = Arc::clone(&self.seen);
        let proxying = self.on(Host::Middle, move || {
            let service = PacketService::default();
            service
                .load(places, &hooked, None, pacing.as_ref())
                .unwrap();
            let prepared = prepare(&service);
            on_worker(async move {
                let listener = listen_at_proxy(own);
                ready.send(()).unwrap();
                let mut tasks = Vec::new();
                for _ in 0..count {
                    let (client, _) = listener.accept().await.unwrap();
                    let server = tokio::net::TcpStream::connect((server, SERVER_PORT))
                        .await
                        .unwrap();
                    client.set_nodelay(true).unwrap();
                    server.set_nodelay(true).unwrap();
                    let splicer = Splicer::with_engines(
                        PoolLimits::default(),
                        tunnels.another(),
                        SocketService::default(),
                        service.clone(),
                    );
                    let (joining, tunnels) = (
                        join(splicer, client, server, prepared),
                        Arc::clone(&tunnels),
                    );
                    tasks.push(tokio::task::spawn_local(async move {
                        let told = joining.await;
                        tunnels.over.fetch_add(1, SeqCst);
                        told
                    }));
                }
                let mut told = Vec::new();
                for task in tasks {
                    told.push(task.await.unwrap());
                }
                drop(listener);
                until_sockets_are_gone().await;
                told
            })
        });
        is_ready.recv().unwrap();
        proxying
    }

    /// A proxy of tunnels by the packet engine, until they end.
    pub fn tunnels(&self, addresses: [IpAddr; 2], count: usize) -> JoinHandle<Vec<Told>> {
        self.tunnels_of(addresses, (count, 128), Duration::from_secs(3600))
    }

    /// Until they end, or are idle for this long.
    pub fn tunnels_of(
        &self,
        addresses: [IpAddr; 2],
        count: (usize, u32),
        idle: Duration,
    ) -> JoinHandle<Vec<Told>> {
        self.proxy(
            addresses,
            count,
            move |splicer, client, server| async move {
                let order = ExchangeOrder {
                    idle,
                    ..ExchangeOrder::new(Choice::Packet)
                };
                let mut exchange = splicer.exchange(client, server, order);
                let end = exchange.run().await;
                Told::of(&splicer, &exchange, end)
            },
        )
    }
}

impl Tunnels {
    /// The counters of another tunnel.
    pub fn another(&self) -> Arc<Counters> {
        let counters = Arc::<Counters>::default();
        self.counters.lock().unwrap().push(Arc::clone(&counters));
        counters
    }

    /// The counters of the only tunnel that matters from now on.
    pub fn only(&self) -> Arc<Counters> {
        self.counters.lock().unwrap().clear();
        self.another()
    }

    /// Whether this reason decided about the engine of all of them.
    pub fn have(&self, reason: Reason) -> bool {
        self.all(|counters| counters.reason(reason).get() > 0)
    }

    /// Whether the condition holds for all of them.
    pub fn all(&self, holds: impl Fn(&Counters) -> bool) -> bool {
        let counters = self.counters.lock().unwrap();
        assert!(!counters.is_empty(), "there is no tunnel yet");
        counters.iter().all(|counters| holds(counters))
    }
}

/// Those of the bed for which this thread runs.
pub fn tunnels() -> Arc<Tunnels> {
    TUNNELS.with_borrow(Arc::clone)
}

/// Why the packets were not given to the kernel, where that was decided.
fn refusals(counters: &Counters) -> impl Iterator<Item = Reason> {
    let of_packets = |reason: &Reason| reason.name().starts_with("packet_");
    let refusals = Reason::ALL.into_iter().filter(of_packets);
    refusals.filter(|reason| *reason != Reason::PacketPays && counters.reason(*reason).get() > 0)
}

/// Whether the packets of all present tunnels have been given to the kernel, or will not be.
fn are_decided() -> bool {
    tunnels().all(|counters| counters.packet_stays.get() > 0 || refusals(counters).next().is_some())
}

/// Waits until the packets of all present tunnels have been given to the kernel this many times.
pub fn until_given(times: u64) {
    wait_until("the kernel has the packets", || {
        tunnels().all(|counters| counters.packet_stays.get() >= times)
    });
}

/// Waits until no connection of this host has unacknowledged or unread data.
pub fn until_at_rest() {
    wait_until("everything is acknowledged", || {
        ["tcp", "tcp6"].into_iter().all(|kind| {
            let table = std::fs::read_to_string(format!("/proc/thread-self/net/{kind}")).unwrap();
            let mut queues = table
                .lines()
                .skip(1)
                .map(|line| line.split_whitespace().nth(4).unwrap());
            queues.all(|queues| queues == "00000000:00000000")
        })
    });
}

/// Waits until this many tunnels have ended, and their sockets are closed.
pub fn until_over(tunnels: &Tunnels, count: usize) {
    wait_until("tunnels end", || tunnels.over.load(SeqCst) >= count);
}

/// Waits until closed sockets are gone: packets that the kernel still sends for them are translated only while the
/// engine exists. At most some seconds, since some tests have peers that never answer.
async fn until_sockets_are_gone() {
    const TIME_WAIT: &str = "06";
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        let sockets = ["tcp", "tcp6"].map(|kind| {
            let table = std::fs::read_to_string(format!("/proc/thread-self/net/{kind}")).unwrap();
            let states = table
                .lines()
                .skip(1)
                .map(|line| line.split_whitespace().nth(3).unwrap() != TIME_WAIT);
            states.filter(|is_there| *is_there).count()
        });
        if sockets == [0, 0] {
            return;
        }
        tokio::time::sleep(carrick_test::pause(begun.elapsed())).await;
    }
}

/// A tunnel by this engine, until it ends.
pub async fn relay(
    splicer: Splicer,
    client: tokio::net::TcpStream,
    server: tokio::net::TcpStream,
    choice: Choice,
) -> Told {
    let mut exchange = splicer.exchange(client, server, ExchangeOrder::new(choice));
    let end = exchange.run().await;
    Told::of(&splicer, &exchange, end)
}

/// The proxy's report on one exchange.
#[derive(Debug)]
pub struct Told {
    pub end: ExchangeEnd,
    pub is_quiet: bool,
    pub bytes: (u64, u64),
    pub engines: (Engine, Engine),
    /// Bytes that the kernel has forwarded as packets.
    pub by_kernel: u64,
    /// Bytes that it has redirected from socket to socket.
    pub by_sockets: u64,
    pub reasons: Vec<&'static str>,
}

impl Told {
    pub fn of(splicer: &Splicer, exchange: &Exchange<'_>, end: ExchangeEnd) -> Told {
        let counted = |reason: &Reason| splicer.counters().reason(*reason).get() > 0;
        Told {
            end,
            is_quiet: exchange.is_quiet(),
            bytes: (exchange.a_to_b_bytes(), exchange.b_to_a_bytes()),
            engines: exchange.engines(),
            by_kernel: splicer.counters().packet_bytes.get(),
            by_sockets: splicer.counters().socket_bytes.get(),
            reasons: Reason::ALL
                .into_iter()
                .filter(counted)
                .map(Reason::name)
                .collect(),
        }
    }

    /// Checks that both sides have closed, these bytes went in each direction, and most of them in the kernel.
    #[track_caller]
    pub fn assert_closed(&self, bytes: (u64, u64)) {
        assert!(matches!(self.end, ExchangeEnd::Closed), "{self:?}");
        assert_eq!(self.bytes, bytes, "{self:?}");
        assert!(self.by_kernel > (bytes.0 + bytes.1) / 2, "{self:?}");
    }
}

/// A number of `/proc/net/netstat`.
pub fn extended(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let names = lines.next().unwrap().split(' ');
    let mut pairs = names.zip(lines.next().unwrap().split(' '));
    pairs
        .find(|(one, _)| *one == name)
        .unwrap()
        .1
        .parse()
        .unwrap()
}

/// From the client to the proxy.
pub fn connect(address: IpAddr) -> TcpStream {
    let address = SocketAddr::new(address, PROXY_PORT);
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.set_write_timeout(Some(HANG)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Answers each question with as many bytes as it asks for, until the end. Returns the bytes received.
pub fn answer(mut stream: TcpStream) -> u64 {
    let mut sum = 0;
    loop {
        let mut head = [0; 16];
        match stream.read(&mut head[..1]) {
            Ok(0) => return sum,
            Ok(_) => stream.read_exact(&mut head[1..]).unwrap(),
            Err(error) => panic!("{error}"),
        }
        let asked = u64::from_le_bytes(*head.first_chunk().unwrap()) as usize;
        let wanted = u64::from_le_bytes(*head[8..].first_chunk().unwrap()) as usize;
        let mut body = vec![0; asked];
        stream.read_exact(&mut body).unwrap();
        assert_same(&body, &sample(asked as u64, asked), "question");
        stream
            .write_all(&sample(wanted as u64 + 1, wanted))
            .unwrap();
        sum += 16 + asked as u64;
    }
}

/// Asks, and checks the answer. Returns the bytes in each direction.
pub fn ask(stream: &mut TcpStream, bytes: usize, answer_bytes: usize) -> (u64, u64) {
    let mut question = (bytes as u64).to_le_bytes().to_vec();
    question.extend((answer_bytes as u64).to_le_bytes());
    question.extend(sample(bytes as u64, bytes));
    stream.write_all(&question).unwrap();
    let mut answer = vec![0; answer_bytes];
    stream.read_exact(&mut answer).unwrap();
    assert_same(
        &answer,
        &sample(answer_bytes as u64 + 1, answer_bytes),
        "answer",
    );
    (16 + bytes as u64, answer_bytes as u64)
}

/// Exchanges some greetings, and waits until the kernel has the packets.
pub fn greet(stream: &mut TcpStream) {
    for _ in 0..GREETING {
        stream.write_all(&[1]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
    until_given(1);
}

/// The other side of it.
pub fn greet_back(stream: &mut TcpStream) {
    for _ in 0..GREETING {
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(&[1]).unwrap();
    }
    until_given(1);
}

/// Asks until the kernel has the packets, or will not get them; then `rounds` more times, and closes.
pub fn ask_and_close(address: IpAddr, rounds: usize) -> (u64, u64) {
    ask_and_close_on(connect(address), rounds)
}

/// The same on an existing connection.
pub fn ask_and_close_on(mut stream: TcpStream, rounds: usize) -> (u64, u64) {
    let mut sum = ask_until_decided(&mut stream);
    for round in 0..rounds {
        let bytes = ask(&mut stream, round * 7 % 5000, round * 1001 % 300_000);
        sum = (sum.0 + bytes.0, sum.1 + bytes.1);
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    sum
}

/// Asks little, with pauses, until the kernel has the packets, or will not get them. Returns the bytes in each direction.
pub fn ask_until_decided(stream: &mut TcpStream) -> (u64, u64) {
    let mut sum = (0, 0);
    wait_until("it is decided", || {
        let bytes = ask(stream, 10, 10);
        sum = (sum.0 + bytes.0, sum.1 + bytes.1);
        let begun = Instant::now();
        while !are_decided() && begun.elapsed() < REST {
            std::thread::sleep(Duration::from_millis(1));
        }
        are_decided()
    });
    sum
}

/// Reads until the other side closes or resets the connection. Returns the bytes, and whether it was a reset.
pub fn read_to_any_end(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut arrived = Vec::new();
    match stream.read_to_end(&mut arrived) {
        Ok(_) => (arrived, false),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => (arrived, true),
        Err(error) => panic!("neither an end nor a reset: {error}"),
    }
}
