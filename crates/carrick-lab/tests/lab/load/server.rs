//! For tests of the load generator: a small origin by the emulator's rules, and a relay that harms what it relays.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use carrick_lab::content::Body;
use carrick_lab::origin::handshake::{
    Beginning, Exchange, FIRST_BYTES, MARKER, Party, Step, recognise,
};

/// How responses say where they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length,
    Chunked,
    UntilClose,
}

#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub framing: Framing,
    /// Answers 503 to everything.
    pub refuses: bool,
    /// From the request of this number on, answers nothing for so long.
    pub stall: Option<(usize, Duration)>,
}

pub const PLAIN: Manner = Manner {
    framing: Framing::Length,
    refuses: false,
    stall: None,
};

/// A request as the origin saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub connection: usize,
    pub peer: SocketAddr,
    pub target: String,
    pub closes: bool,
    /// Whether the client went away before all of the response was sent.
    pub broke_off: bool,
}

/// Something that is waited for while it changes.
#[derive(Default)]
pub struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.value.lock().unwrap());
        self.changed.notify_all();
        result
    }

    /// Returns when the value is so, or after a time that only a hang reaches: what is asserted afterwards tells.
    pub fn wait_until(&self, is_so: impl Fn(&T) -> bool) {
        let value = self.value.lock().unwrap();
        let _ = self
            .changed
            .wait_timeout_while(value, carrick_test::PATIENCE, |value| !is_so(value))
            .unwrap();
    }
}

pub struct Origin {
    pub address: SocketAddr,
    seen: Arc<Watched<Vec<Seen>>>,
}

impl Origin {
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Watched::default());
        let log = Arc::clone(&seen);
        let stalls_until = Arc::new(OnceLock::new());
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().flatten().enumerate() {
                let (log, stalls_until) = (Arc::clone(&log), Arc::clone(&stalls_until));
                // A client that goes away is no fault of the origin's.
                std::thread::spawn(move || {
                    let _ = serve(stream, connection, manner, &stalls_until, &log);
                });
            }
        });
        Self { address, seen }
    }

    /// Each request so far, in the order in which their heads came.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.value.lock().unwrap().clone()
    }

    /// Returns when the requests so far are such.
    pub fn wait_until(&self, are_so: impl Fn(&[Seen]) -> bool) {
        self.seen.wait_until(|seen| are_so(seen));
    }
}

/// An address at which nobody listens, and which nobody else gets meanwhile.
pub struct Nobody(socket2::Socket);

impl Nobody {
    pub fn new() -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        socket.bind(&loopback.into()).unwrap();
        Self(socket)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}

fn serve(
    stream: TcpStream,
    connection: usize,
    manner: Manner,
    stalls_until: &OnceLock<Instant>,
    log: &Watched<Vec<Seen>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let peer = stream.peer_addr()?;
    let mut output = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    loop {
        match input.fill_buf()?.first() {
            None => return Ok(()),
            Some(&MARKER) => shake_hands(&mut input, &mut output)?,
            Some(_) => {}
        }
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        if lines[0].starts_with("CONNECT ") {
            output.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
            continue;
        }
        let target = lines[0].split(' ').nth(1).unwrap().to_owned();
        let closes = lines[0].ends_with("1.0")
            || lines
                .iter()
                .any(|line| line.eq_ignore_ascii_case("connection: close"))
            || manner.framing == Framing::UntilClose;
        let response = respond(&target, manner, closes);
        let number = log.change(|seen| {
            seen.push(Seen {
                connection,
                peer,
                target,
                closes,
                broke_off: false,
            });
            seen.len() - 1
        });
        if let Some((from, time)) = manner.stall
            && number >= from
        {
            let until = *stalls_until.get_or_init(|| Instant::now() + time);
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        let sent = output.write_all(&response);
        if sent.is_err() {
            log.change(|seen| seen[number].broke_off = true);
        }
        sent?;
        if closes {
            return output.shutdown(Shutdown::Both);
        }
    }
}

fn shake_hands(input: &mut BufReader<TcpStream>, output: &mut TcpStream) -> std::io::Result<()> {
    let mut first = [0; FIRST_BYTES];
    input.read_exact(&mut first)?;
    let Beginning::Handshake(handshake) = recognise(&first) else {
        panic!("not a handshake");
    };
    let mut exchange = Exchange::new(handshake, Party::Server);
    exchange.received(&first).unwrap();
    loop {
        match exchange.step() {
            Step::Done => return Ok(()),
            Step::Send(message) => {
                output.write_all(&message)?;
                exchange.sent();
            }
            Step::Receive(bytes) => {
                let mut message = vec![0; bytes];
                input.read_exact(&mut message)?;
                exchange.received(&message).unwrap();
            }
        }
    }
}

fn respond(target: &str, manner: Manner, closes: bool) -> Vec<u8> {
    if manner.refuses {
        return b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec();
    }
    let path = &target[target.find("/b/").unwrap() + 3..];
    let (bytes, query) = path.split_once('?').unwrap();
    let digits: String = bytes.chars().take_while(char::is_ascii_digit).collect();
    let bytes: usize = digits.parse().unwrap();
    let seed = query.split("seed=").nth(1).unwrap().parse().unwrap();
    let body = Body::of_seed(seed);
    let mut whole = Vec::new();
    while whole.len() < bytes {
        whole.extend_from_slice(body.piece(whole.len() as u64, bytes - whole.len()));
    }
    let close = if closes { "Connection: close\r\n" } else { "" };
    let mut response = match manner.framing {
        Framing::Length => format!("HTTP/1.1 200 OK\r\n{close}Content-Length: {bytes}\r\n\r\n"),
        Framing::Chunked => format!("HTTP/1.1 200 OK\r\n{close}Transfer-Encoding: chunked\r\n\r\n"),
        Framing::UntilClose => format!("HTTP/1.1 200 OK\r\n{close}\r\n"),
    }
    .into_bytes();
    if manner.framing == Framing::Chunked {
        for chunk in whole.chunks(777) {
            response.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            response.extend_from_slice(chunk);
            response.extend_from_slice(b"\r\n");
        }
        response.extend_from_slice(b"0\r\n\r\n");
    } else {
        response.extend_from_slice(&whole);
    }
    response
}

/// What a relay does to the bytes from the server, at a place counted from the connection's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    None,
    /// The byte there does not arrive.
    Drop,
    /// The byte there is another.
    Change,
    /// The byte there arrives twice.
    Repeat,
    /// So many bytes from there on arrive twice.
    RepeatPiece(usize),
    /// Nothing from there on, and an orderly end.
    EndWithFin,
    /// Nothing from there on, and a reset.
    EndWithReset,
    /// Nothing from there on, and the connection stays open.
    Silence,
}

pub struct Relay {
    pub address: SocketAddr,
    /// How many it has accepted. A client opens another when the last one ended, or when something was wrong with it.
    pub connections: Arc<Watched<usize>>,
}

/// Starts a relay to `server`; `at` is the place of the harm.
pub fn relay(server: SocketAddr, harm: Harm, at: usize) -> Relay {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(Watched::default());
    let accepted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            accepted.change(|accepted| *accepted += 1);
            std::thread::spawn(move || {
                let _ = relay_one(&client, server, harm, at);
            });
        }
    });
    Relay {
        address,
        connections,
    }
}

fn relay_one(client: &TcpStream, server: SocketAddr, harm: Harm, at: usize) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let mut before = 0;
    let mut buffer = vec![0; 64 * 1024];
    let mut output = client;
    // What was relayed of the piece that is to come twice.
    let mut piece = Vec::new();
    loop {
        let bytes = (&server).read(&mut buffer)?;
        if bytes == 0 {
            return client.shutdown(Shutdown::Both);
        }
        let now = &mut buffer[..bytes];
        let here = at.checked_sub(before).filter(|here| *here < bytes);
        match (harm, here) {
            (Harm::RepeatPiece(length), _) if before + bytes > at && piece.len() < length => {
                let start = at.saturating_sub(before);
                let end = bytes.min(start + length - piece.len());
                piece.extend_from_slice(&now[start..end]);
                output.write_all(&now[..end])?;
                if piece.len() == length {
                    output.write_all(&piece)?;
                }
                output.write_all(&now[end..])?;
            }
            (Harm::None | Harm::RepeatPiece(_), _) | (_, None) => output.write_all(now)?,
            (Harm::Drop, Some(here)) => {
                output.write_all(&now[..here])?;
                output.write_all(&now[here + 1..])?;
            }
            (Harm::Change, Some(here)) => {
                now[here] ^= 0x20;
                output.write_all(now)?;
            }
            (Harm::Repeat, Some(here)) => {
                output.write_all(&now[..=here])?;
                output.write_all(&now[here..])?;
            }
            (Harm::EndWithFin, Some(here)) => {
                output.write_all(&now[..here])?;
                return client.shutdown(Shutdown::Both);
            }
            (Harm::EndWithReset, Some(here)) => {
                output.write_all(&now[..here])?;
                let socket = socket2::SockRef::from(client);
                socket.set_linger(Some(Duration::ZERO))?;
                let _ = server.shutdown(Shutdown::Both);
                // The other thread's handle keeps the socket open: disconnecting resets it at once.
                return socket2_disconnect(client);
            }
            (Harm::Silence, Some(here)) => {
                // The other thread's handles keep the connections open.
                return output.write_all(&now[..here]);
            }
        }
        before += bytes;
    }
}

/// Resets a connection whatever other handles there are: `connect` to no address (connect(2), `AF_UNSPEC`).
fn socket2_disconnect(stream: &TcpStream) -> std::io::Result<()> {
    rustix::net::connect_unspec(stream).map_err(std::io::Error::from)
}
