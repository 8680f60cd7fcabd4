//! A test bed for clients and servers that stop reading: each host has its own network namespace, and a delay can be
//! put between proxy and server.
use crate::support::carrick::PROGRAM;
use crate::support::{Carrick, Peer, Place, Server, wait_until};
use crate::transparent::bed::{inside as command_in, lines};
use carrick_lab::command::run;
use carrick_lab::testbed::name::RunName;
use carrick_lab::testbed::namespace::Namespace;
use carrick_test::Killed;
use std::io::Read;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The proxy's addresses, for its client and for the server's host.
const FOR_CLIENTS: &str = "10.81.1.1";
const FOR_THE_FAR: &str = "10.81.2.1";
const FAR: &str = "10.81.3.1";

/// When both sockets of a splice hold the same amount for this long, everything in flight has arrived.
const STILL: Duration = Duration::from_millis(500);

/// The hosts; removed when dropped.
pub struct Bed {
    client: Namespace,
    proxy: Namespace,
    far: Namespace,
    line: Namespace,
    emulator: Option<Killed>,
}

/// An emulated line: one-way delay, and rate, for each connection.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    pub delay_ms: u32,
    pub rate_kbit: u32,
}

/// Runs a test on the proxy of a new bed. Skipped without root.
pub fn on_the_proxy(line: Option<Line>, play: impl FnOnce(&Bed, &Place) + Send) {
    if !carrick_test::is_root() {
        return;
    }
    let bed = Bed::build(line);
    let played = bed.proxy.inside(|| {
        play(&bed, &Place::claim());
        Ok(())
    });
    played.expect("no failure");
}

impl Bed {
    fn build(line: Option<Line>) -> Self {
        let run = RunName::of_this_process().expect("a name");
        let part = |role| {
            let namespace = Namespace::named(&run, role);
            namespace.create().expect("a namespace");
            namespace
        };
        let mut bed = Self {
            client: part("client"),
            proxy: part("proxy"),
            far: part("far"),
            line: part("line"),
            emulator: None,
        };
        bed.link([(&bed.client, "10.81.1.2"), (&bed.proxy, FOR_CLIENTS)], "c");
        bed.link([(&bed.line, "10.81.2.2"), (&bed.proxy, FOR_THE_FAR)], "n");
        bed.link([(&bed.line, "10.81.3.2"), (&bed.far, FAR)], "f");
        lines(&bed.proxy, &["route add 10.81.3.0/24 via 10.81.2.2"]);
        lines(&bed.far, &["route add default via 10.81.3.2"]);
        match line {
            Some(line) => bed.emulate(line),
            None => bed
                .line
                .set_parameter("net/ipv4/ip_forward", "1")
                .expect("a parameter"),
        }
        bed
    }

    fn link(
        &self,
        [(one, one_address), (other, other_address)]: [(&Namespace, &str); 2],
        name: &str,
    ) {
        one.join(&format!("{name}1"), other, &format!("{name}2"))
            .expect("a link");
        lines(
            one,
            &[
                &format!("address add {one_address}/24 dev {name}1"),
                &format!("link set {name}1 up"),
            ],
        );
        lines(
            other,
            &[
                &format!("address add {other_address}/24 dev {name}2"),
                &format!("link set {name}2 up"),
            ],
        );
    }

    fn emulate(&mut self, line: Line) {
        let Line {
            delay_ms,
            rate_kbit,
        } = line;
        // One queue per connection: waiting behind another connection would not model distance.
        let rule = |way: &str, ports: &str| {
            format!(
                "[[rule]]\n{way} = \"10.81.3.0/24\"\n{ports} = [1024, 65535]\nfor_each_port = true\ndelay_ms = {delay_ms}\nrate_kbit = {rate_kbit}\n"
            )
        };
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("line.toml");
        std::fs::write(&file, rule("from", "to_ports") + &rule("to", "from_ports"))
            .expect("a file");
        let file = file.display().to_string();
        let mut command = command_in(&self.line, &[PROGRAM, "lab", "wan", "--config", &file]);
        let mut emulator = command.stdout(Stdio::piped()).spawn().expect("a line");
        let mut ready = [0; 5];
        let output = emulator.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut ready).expect("the line is ready");
        assert_eq!(&ready, b"ready");
        self.emulator = Some(Killed(emulator));
    }

    /// A server on the server's host. Without a line it has small buffers, so that the data is held elsewhere.
    pub fn server(&self) -> Server {
        let address: SocketAddr = format!("{FAR}:8000").parse().expect("an address");
        let is_far = self.emulator.is_some();
        let listen = || {
            Ok(match is_far {
                true => Server::listen_at(address),
                false => Server::listen_at_with_buffers(address, 64 << 10),
            })
        };
        self.far.inside(listen).expect("a server")
    }

    /// A client on the client's host, with small buffers.
    pub fn connect(&self, port: u16) -> Peer {
        let address: SocketAddr = format!("{FOR_CLIENTS}:{port}").parse().expect("an address");
        let connect = || Ok(Peer::connect_with_buffers(address, 64 << 10));
        self.client.inside(connect).expect("a connection")
    }

    /// A client on the server's host.
    pub fn connect_from_far(&self, port: u16) -> Peer {
        let address: SocketAddr = format!("{FOR_THE_FAR}:{port}").parse().expect("an address");
        let connect = || Ok(Peer::connect(address));
        self.far.inside(connect).expect("a connection")
    }

    /// Waits until all the proxy's connections to other hosts hold at most this many bytes in the kernel, received and
    /// unsent, and the number is stable. On a busy machine bytes may stand still on the line, too.
    pub fn expect_held(&self, bytes_max: u64, way: &str) {
        let (mut held, mut since) = (held_now(), Instant::now());
        wait_until(&format!("at most {bytes_max} bytes: {way}"), || {
            let now = held_now();
            if now != held {
                (held, since) = (now, Instant::now());
            }
            held <= bytes_max && since.elapsed() >= STILL
        });
    }
}

fn held_now() -> u64 {
    let memory = memory(&["not", "src", "127.0.0.0/8"]);
    memory
        .iter()
        .map(|one| part(one, "r") + part(one, "w"))
        .sum()
}

/// The largest receive buffer of the proxy's connections to the far host.
pub fn far_receive_buffer_bytes() -> u64 {
    let memory = memory(&["dst", FAR]);
    memory.iter().map(|one| part(one, "rb")).max().unwrap_or(0)
}

/// The output of `ss` on the memory of this namespace's connections.
fn memory(which: &[&str]) -> Vec<String> {
    let text = run("ss", &[&["-tnmH", "state", "established"], which].concat()).expect("ss");
    text.split("skmem:(").skip(1).map(String::from).collect()
}

fn part(memory: &str, name: &str) -> u64 {
    let mut parts = memory.split([',', ')']);
    let found = parts.find_map(|part| part.strip_prefix(name)?.parse().ok());
    found.unwrap_or_else(|| panic!("no {name} in {memory}"))
}

/// Other clients must get their responses, and servers must be up.
pub fn expect_others_unaffected(bed: &Bed, carrick: &Carrick, port: u16) {
    for _ in 0..20 {
        let mut client = bed.connect(port);
        let small = client.ask("GET /small HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!((small.status, small.text().as_str()), (200, "ok"));
    }
    // A check may be late on a busy machine.
    carrick.wait_for_metric("carrick_server_up", &[], 1.0);
    assert_eq!(carrick.limit_reached("kernel_memory"), 0.0);
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.emulator = None;
        for host in [&self.client, &self.proxy, &self.far, &self.line] {
            host.remove();
        }
    }
}
