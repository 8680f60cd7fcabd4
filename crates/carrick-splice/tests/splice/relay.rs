//! The example `relay`, as a separate process: bytes, half-closes and resets pass, and errors are reported.

use crate::support::{HANG, assert_same, sample, socket_service};
use carrick_test::Killed;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

#[allow(dead_code, reason = "its main function is not called here")]
#[path = "../../examples/relay.rs"]
mod example;

/// The relay's arguments, in the process that runs it.
const WORDS: &str = "CARRICK_SPLICE_RELAY";

const ENGINES: [&str; 4] = ["auto", "copy", "pipe", "socket"];

#[test]
#[ignore = "is what the other tests start"]
fn the_relay_itself() {
    let Ok(words) = std::env::var(WORDS) else {
        return;
    };
    let runtime = tokio::runtime::LocalRuntime::new().unwrap();
    let outcome = runtime.block_on(example::run(words.split(' ').map(str::to_owned)));
    eprintln!("Error: {}", outcome.unwrap_err());
}

/// A running relay.
struct Relay {
    _process: Killed,
    said: Receiver<String>,
    address: SocketAddr,
    before: Vec<String>,
}

impl Relay {
    fn start(to: SocketAddr, engine: &str) -> Relay {
        Relay::start_by(Command::new(std::env::current_exe().unwrap()), to, engine)
    }

    fn start_by(mut command: Command, to: SocketAddr, engine: &str) -> Relay {
        let mut process = command
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("relay::the_relay_itself")
            .env(WORDS, format!("127.0.0.1:0 {to} {engine}"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(process.stderr.take().unwrap());
        let (tell, said) = channel();
        std::thread::spawn(move || {
            errors
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        let mut before = Vec::new();
        let address = loop {
            let line = said.recv_timeout(HANG).expect("it says where it listens");
            match line.strip_prefix("listening on ") {
                Some(address) => break address.parse().unwrap(),
                None => before.push(line),
            }
        };
        Relay {
            _process: Killed(process),
            said,
            address,
            before,
        }
    }

    fn connect(&self) -> TcpStream {
        patient(TcpStream::connect(self.address).unwrap())
    }

    /// Waits until it reports this about the client.
    fn says_of(&self, client: SocketAddr, what: &str) {
        let line = self.said.recv_timeout(HANG).unwrap();
        let is_right = line.starts_with(&client.to_string()) && line.contains(what);
        assert!(is_right, "of {client}, {what}: {line}");
    }
}

/// With time limits, so that a hang fails.
fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.set_write_timeout(Some(HANG)).unwrap();
    stream
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = carrick_test::listen("127.0.0.1:0");
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn accept(listener: &TcpListener) -> TcpStream {
    patient(listener.accept().expect("a connection").0)
}

/// Closes by RST.
fn reset(stream: TcpStream) {
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

/// Sends everything and closes.
fn finish(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
}

fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut arrived = Vec::new();
    stream.read_to_end(&mut arrived).unwrap();
    arrived
}

/// A message there and back; then one side sends and closes, and the other, once it has everything, does the same.
fn talk(mut first: TcpStream, mut second: TcpStream, what: &str) {
    let mut hello = [0; 5];
    first.write_all(b"hello").unwrap();
    second.read_exact(&mut hello).unwrap();
    second.write_all(&hello).unwrap();
    first.read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"hello", "{what}");

    let (question, answer) = (sample(1, 300_000), sample(2, 700_000));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_same(&read_all(&mut second), &question, what);
            finish(&mut second, &answer);
        });
        finish(&mut first, &question);
        assert_same(&read_all(&mut first), &answer, what);
    });
}

#[test]
fn bytes_pass_both_ways_and_each_side_may_close_first() {
    for engine in ENGINES {
        let (listener, address) = listen();
        let relay = Relay::start(address, engine);
        for client_first in [true, false] {
            let client = relay.connect();
            let server = accept(&listener);
            let what = format!("{engine}, client first: {client_first}");
            if client_first {
                talk(client, server, &what);
            } else {
                talk(server, client, &what);
            }
        }
        // If the engine is available, it is not mentioned; nor are connections that closed.
        let is_without = engine == "socket" && !socket_service().is_loaded();
        assert_eq!(relay.before.is_empty(), !is_without, "{:?}", relay.before);
        assert!(relay.said.try_recv().is_err(), "{engine}");
    }
}

#[test]
fn a_reset_is_passed_on_and_told() {
    for engine in ENGINES {
        for by_client in [true, false] {
            let (listener, address) = listen();
            let relay = Relay::start(address, engine);
            let mut client = relay.connect();
            let mut server = accept(&listener);
            client.write_all(b"hello").unwrap();
            server.read_exact(&mut [0; 5]).unwrap();
            let address = client.local_addr().unwrap();
            let (broken, mut other) = if by_client {
                (client, server)
            } else {
                (server, client)
            };
            reset(broken);
            let error = other.read(&mut [0]).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::ConnectionReset,
                "{engine}: {error}"
            );
            relay.says_of(address, "reset by peer");
        }
    }
}

#[test]
fn an_absent_server_is_reported_and_the_next_client_is_served() {
    // A port that no other program gets, without a listener so far.
    let port = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    port.bind(&anywhere.into()).unwrap();
    let address = port.local_addr().unwrap().as_socket().unwrap();
    let relay = Relay::start(address, "auto");
    let mut client = relay.connect();
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    relay.says_of(client.local_addr().unwrap(), "Connection refused");

    port.set_read_timeout(Some(HANG)).unwrap();
    port.listen(1).unwrap();
    talk(relay.connect(), accept(&port.into()), "the next client");
}

#[test]
fn without_the_socket_engine_it_says_why_and_goes_on() {
    let own = std::env::current_exe().unwrap();
    let command = if rustix::process::geteuid().is_root() {
        if Command::new("setpriv").arg("--version").output().is_err() {
            carrick_test::lacks!("needs setpriv, to give root's capabilities away");
            return;
        }
        let mut command = Command::new("setpriv");
        command.arg("--bounding-set=-all").arg(own);
        command
    } else {
        Command::new(own)
    };
    let (listener, address) = listen();
    let relay = Relay::start_by(command, address, "socket");
    let why = relay.before.join("\n");
    assert!(
        why.contains("going on without the socket engine: "),
        "{why}"
    );
    talk(relay.connect(), accept(&listener), "without the engine");
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    for (words, part) in [
        ("127.0.0.1:0", "usage: relay LISTEN CONNECT"),
        ("127.0.0.1:0 127.0.0.1:1 fast", "unknown engine `fast`"),
    ] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("relay::the_relay_itself")
            .env(WORDS, words)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(part), "{words}: {said}");
    }
}
