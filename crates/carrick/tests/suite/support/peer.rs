//! One end of a TCP connection, driven by a script: every step waits for its event, and on failure shows what arrived instead.
use super::message::{Response, head_end, read_response};
use super::{PATIENCE, wait_until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A scripted client or server connection.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    /// Received, but not consumed yet.
    buffer: Vec<u8>,
}

/// How the other side ended, with the remaining bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// With FIN.
    Closed(Vec<u8>),
    /// With RST.
    Reset(Vec<u8>),
}

impl Ending {
    /// The bytes before the end.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Closed(bytes) | Self::Reset(bytes) => bytes,
        }
    }
}

/// Writes what `more` yields until the other side, which does not read, has taken nothing for a while.
pub fn fill(mut stream: &TcpStream, mut more: impl FnMut() -> Vec<u8>) {
    stream.set_nonblocking(true).expect("a mode");
    let (mut bytes, mut refused) = (Vec::new(), 0);
    wait_until("the connection to be full", || {
        loop {
            if bytes.is_empty() {
                bytes = more();
            }
            match stream.write(&bytes) {
                Ok(count) => {
                    bytes.drain(..count);
                    refused = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("send: {error}"),
            }
        }
        refused += 1;
        refused == 20
    });
    stream.set_nonblocking(false).expect("a mode");
}

fn new_socket(to: SocketAddr) -> Socket {
    Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP)).expect("a socket")
}

impl Peer {
    /// Wraps an established connection.
    pub fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("a TCP option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream
            .set_write_timeout(Some(PATIENCE))
            .expect("a time-out");
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Connects.
    pub fn connect(to: SocketAddr) -> Self {
        Self::connect_by(new_socket(to), to)
    }

    /// Whoever reads gets the connection's error, also that of a reset that comes before this thread has seen the connection:
    /// `connect(2)` would return it.
    fn connect_by(socket: Socket, to: SocketAddr) -> Self {
        socket.set_nonblocking(true).expect("a mode");
        if let Err(error) = socket.connect(&to.into())
            && error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error())
        {
            panic!("connect to {to}: {error}");
        }
        let mut connected = [PollFd::new(&socket, PollFlags::OUT)];
        wait_until("the connection", || {
            poll(&mut connected, Some(&Timespec::default())).expect("poll") > 0
        });
        socket.set_nonblocking(false).expect("a mode");
        Self::new(socket.into())
    }

    /// Connects from the given address.
    pub fn connect_from(from: IpAddr, to: SocketAddr) -> Self {
        let socket = new_socket(to);
        socket
            .bind(&SocketAddr::new(from, 0).into())
            .expect("a local address");
        Self::connect_by(socket, to)
    }

    /// Connects with small socket buffers: `bytes` in each direction (the kernel doubles and rounds).
    pub fn connect_with_buffers(to: SocketAddr, bytes: usize) -> Self {
        let socket = new_socket(to);
        // Before connecting, so that the window is small from the start.
        socket.set_recv_buffer_size(bytes).expect("a buffer size");
        socket.set_send_buffer_size(bytes).expect("a buffer size");
        Self::connect_by(socket, to)
    }

    /// The connection itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The connection itself; no bytes may have been read ahead.
    pub fn into_stream(self) -> TcpStream {
        assert!(self.buffer.is_empty(), "more was read: {}", self.shown());
        self.stream
    }

    /// This end's address.
    pub fn local_address(&self) -> SocketAddr {
        self.stream.local_addr().expect("an address")
    }

    /// A second handle for another thread, so that one reads while the other writes; bytes that were read ahead stay here.
    pub fn second(&self) -> Self {
        Self {
            stream: self.stream.try_clone().expect("a second descriptor"),
            buffer: Vec::new(),
        }
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes)
            .unwrap_or_else(|error| panic!("send: {error}"));
    }

    /// Like [`send`](Self::send), if the other side may be gone.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends `bytes`, the last of which is urgent (RFC 9293 section 3.8.5).
    pub fn send_urgent(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let sent = SockRef::from(&self.stream).send_out_of_band(bytes);
        assert_eq!(sent.expect("send"), bytes.len());
    }

    /// Sends `bytes` in pieces of these sizes, cyclically; after each the other side has time to read it separately. Once it has
    /// closed, no more is sent.
    pub fn send_in_pieces(&mut self, bytes: impl AsRef<[u8]>, sizes: &[usize]) {
        let mut rest = bytes.as_ref();
        for size in sizes.iter().cycle() {
            let (piece, after) = rest.split_at((*size).clamp(1, rest.len().max(1)).min(rest.len()));
            rest = after;
            if self.try_send(piece).is_err() || rest.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Closes this side; the other may continue sending, or has reset the connection.
    pub fn half_close(&mut self) {
        match self.stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => {
                panic!("half-close: {error}")
            }
            _ => {}
        }
    }

    /// Resets the connection.
    pub fn reset(self) {
        SockRef::from(&self.stream)
            .set_linger(Some(Duration::ZERO))
            .expect("SO_LINGER");
    }

    /// Reads more into the buffer; 0 if the other side has closed.
    fn fill(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 64 * 1024];
        let count = loop {
            match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(count)
    }

    /// Reads more; fails on the end and on errors.
    pub(super) fn fill_or_fail(&mut self, wanted: &str) {
        match self.fill() {
            Ok(0) => panic!("expected {wanted}, got the end after {}", self.shown()),
            Ok(_) => {}
            Err(error) => panic!("expected {wanted}, got {error} after {}", self.shown()),
        }
    }

    fn shown(&self) -> String {
        let shown = &self.buffer[..self.buffer.len().min(500)];
        format!("{} bytes: \"{}\"", self.buffer.len(), shown.escape_ascii())
    }

    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer
    }

    pub(super) fn take_buffered(&mut self, count: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(count);
        std::mem::replace(&mut self.buffer, rest)
    }

    /// Reads a head, including its empty line.
    pub fn read_head(&mut self) -> String {
        loop {
            if let Some(end) = head_end(&self.buffer) {
                return String::from_utf8_lossy(&self.take_buffered(end)).into_owned();
            }
            self.fill_or_fail("a head");
        }
    }

    /// Reads ahead until this holds for what came; false: the other side ended instead.
    pub fn reads_until(&mut self, is_all: impl Fn(&[u8]) -> bool) -> bool {
        while !is_all(&self.buffer) {
            if !self.fill().is_ok_and(|count| count > 0) {
                return false;
            }
        }
        true
    }

    /// Reads exactly `count` bytes.
    pub fn read_exact(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            self.fill_or_fail(&format!("{count} bytes"));
        }
        self.take_buffered(count)
    }

    /// Reads as many bytes as `expected` has; they must be equal.
    pub fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let came = self.read_exact(expected.len());
        assert!(
            came == expected,
            "\"{}\" came instead of \"{}\"",
            came[..came.len().min(500)].escape_ascii(),
            expected[..expected.len().min(500)].escape_ascii()
        );
    }

    /// Reads a response to a request with this method, including its body; interim responses are kept separately.
    pub fn read_response(&mut self, method: &str) -> Response {
        read_response(self, method)
    }

    /// Reads until the other side ends in either way.
    pub fn read_ending(&mut self) -> Ending {
        loop {
            match self.fill() {
                Ok(0) => return Ending::Closed(std::mem::take(&mut self.buffer)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ending::Reset(std::mem::take(&mut self.buffer));
                }
                Err(error) => panic!("expected the end, got {error} after {}", self.shown()),
            }
        }
    }

    /// Reads until the other side ends with FIN; returns the bytes.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        match self.read_ending() {
            Ending::Closed(bytes) => bytes,
            Ending::Reset(bytes) => panic!("reset after {:?}", String::from_utf8_lossy(&bytes)),
        }
    }

    /// The other side must end with FIN, without further bytes.
    pub fn expect_end(&mut self) {
        let rest = self.read_to_end();
        assert!(
            rest.is_empty(),
            "more came: {:?}",
            String::from_utf8_lossy(&rest)
        );
    }

    /// The other side must reset the connection, without further bytes: so carrick closes servers' connections that are at rest.
    pub fn expect_reset(&mut self) {
        match self.read_ending() {
            Ending::Reset(rest) if rest.is_empty() => {}
            other => panic!("no reset, but {other:?}"),
        }
    }

    /// Bytes that were read ahead.
    pub fn take_ahead(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Whether unread data or an end has arrived; does not wait.
    pub fn has_more(&mut self) -> bool {
        if !self.buffer.is_empty() {
            return true;
        }
        self.stream.set_nonblocking(true).expect("a socket option");
        let result = self.fill();
        self.stream.set_nonblocking(false).expect("a socket option");
        !matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request and reads its response.
    pub fn ask(&mut self, request: &str) -> Response {
        self.send(request);
        let method = request.split(' ').next().unwrap_or_default();
        self.read_response(method)
    }
}
