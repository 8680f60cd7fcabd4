//! The packet engine: tunnels between namespaces whose bytes the kernel forwards, packet by packet.

use crate::support::*;
use carrick_splice::{
    Choice, Counters, Engine, ExchangeEnd, ExchangeOrder, PacketService, PoolLimits, Reason,
    SocketService, Splicer,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A client, a proxy and a server, each in a namespace of its own. They go when this is dropped.
struct Bed {
    names: [String; 3],
}

const PROXY_PORT: u16 = 8080;
const SERVER_PORT: u16 = 8000;

/// The host that is meant.
#[derive(Clone, Copy)]
enum Host {
    Client,
    Proxy,
    Server,
}

impl Bed {
    fn new() -> Bed {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("cpk{}x{number}", std::process::id());
        let bed = Bed {
            names: ["c", "p", "s"].map(|host| format!("{stem}{host}")),
        };
        let [client, proxy, server] = &bed.names;
        for name in &bed.names {
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
        }
        ip(&format!(
            "link add c netns {client} type veth peer name pc netns {proxy}"
        ));
        ip(&format!(
            "link add s netns {server} type veth peer name ps netns {proxy}"
        ));
        for (name, device, host) in [
            (client, "c", "1.2"),
            (proxy, "pc", "1.1"),
            (proxy, "ps", "2.1"),
            (server, "s", "2.2"),
        ] {
            let (network, own) = host.split_once('.').unwrap();
            ip(&format!("-n {name} addr add 10.78.{host}/24 dev {device}"));
            ip(&format!(
                "-n {name} addr add fd78:{network}::{own}/64 dev {device} nodad"
            ));
            ip(&format!("-n {name} link set {device} up"));
        }
        bed
    }

    /// Runs `what` in a thread of its own on this host.
    fn on<T: Send + 'static>(
        &self,
        host: Host,
        what: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let path = format!("/run/netns/{}", self.names[host as usize]);
        std::thread::spawn(move || {
            let file = std::fs::File::open(path).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            what()
        })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.unwrap().success(), "ip {arguments}");
}

/// What the proxy says of one exchange.
#[derive(Debug)]
struct Told {
    end: ExchangeEnd,
    bytes: (u64, u64),
    engines: (Engine, Engine),
    reasons: Vec<(&'static str, u64)>,
}

/// A proxy that joins `count` connections to the server by the packet engine, all at the same time.
fn proxy(
    bed: &Bed,
    addresses: [IpAddr; 2],
    count: usize,
) -> (mpsc::Receiver<()>, std::thread::JoinHandle<Vec<Told>>) {
    let (ready, is_ready) = mpsc::channel();
    let [own, server] = addresses;
    let running = bed.on(Host::Proxy, move || {
        let service = PacketService::default();
        service.load(64, &[]).unwrap();
        on_worker(async move {
            let listener = tokio::net::TcpListener::bind((own, PROXY_PORT))
                .await
                .unwrap();
            ready.send(()).unwrap();
            let mut tasks = Vec::new();
            for _ in 0..count {
                let (client, _) = listener.accept().await.unwrap();
                let service = service.clone();
                tasks.push(tokio::task::spawn_local(async move {
                    let server = tokio::net::TcpStream::connect((server, SERVER_PORT))
                        .await
                        .unwrap();
                    client.set_nodelay(true).unwrap();
                    server.set_nodelay(true).unwrap();
                    let splicer = Splicer::with_engines(
                        PoolLimits::default(),
                        Arc::new(Counters::default()),
                        SocketService::default(),
                        service,
                    );
                    let mut exchange =
                        splicer.exchange(client, server, ExchangeOrder::new(Choice::Packet));
                    let end = exchange.run().await;
                    let reasons = Reason::ALL
                        .map(|reason| (reason.name(), splicer.counters().reason(reason).get()));
                    Told {
                        end,
                        bytes: (exchange.a_to_b_bytes(), exchange.b_to_a_bytes()),
                        engines: exchange.engines(),
                        reasons: reasons
                            .into_iter()
                            .filter(|(_, count)| *count > 0)
                            .collect(),
                    }
                }));
            }
            let mut told = Vec::new();
            for task in tasks {
                told.push(task.await.unwrap());
            }
            told
        })
    });
    (is_ready, running)
}

/// Answers each message of `N bytes`, its length in front, with as many bytes as it asks for, until the end.
fn serve(mut stream: TcpStream) -> u64 {
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

/// Asks, and checks the answer.
fn ask(stream: &mut TcpStream, bytes: usize, answer_bytes: usize) {
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
}

const V4: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 78, 1, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 78, 2, 2)),
];
const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0xfd78, 1, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd78, 2, 0, 0, 0, 0, 0, 2)),
];

fn connect(address: IpAddr) -> TcpStream {
    let address = SocketAddr::new(address, PROXY_PORT);
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn is_here(test: &str) -> bool {
    let here = rustix::process::geteuid().is_root();
    if !here {
        eprintln!("SKIPPED: {test}: the packet engine needs root");
    }
    here
}

#[test]
fn a_tunnel_goes_packet_by_packet_and_ends() {
    if !is_here("a_tunnel_goes_packet_by_packet_and_ends") {
        return;
    }
    for addresses in [V4, V6] {
        let bed = Bed::new();
        let serving = bed.on(Host::Server, move || {
            let listener = TcpListener::bind((addresses[1], SERVER_PORT)).unwrap();
            let (stream, _) = listener.accept().unwrap();
            serve(stream)
        });
        let (is_ready, proxying) = proxy(&bed, addresses, 1);
        is_ready.recv().unwrap();
        let asking = bed.on(Host::Client, move || {
            let mut stream = connect(addresses[0]);
            let (mut up, mut down) = (0, 0);
            for round in 0..200 {
                let (question, answer) = (round * 7 % 5000, round * 1001 % 300_000);
                ask(&mut stream, question, answer);
                up += 16 + question as u64;
                down += answer as u64;
            }
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            (up, down)
        });
        let sent = asking.join().unwrap();
        assert_eq!(serving.join().unwrap(), sent.0);
        let told = proxying.join().unwrap().remove(0);
        assert!(matches!(told.end, ExchangeEnd::Closed), "{told:?}");
        assert_eq!(told.bytes, sent, "{told:?}");
        assert_eq!(told.engines, (Engine::Packet, Engine::Packet), "{told:?}");
    }
    std::thread::sleep(Duration::from_millis(1));
}
