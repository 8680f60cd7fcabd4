//! Connections within a test: two ends that behave like TCP but have no socket, so that time can be virtual.
use crate::net::io::{Stream, read_at_most, read_some, write_all};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::sync::mpsc;

/// Capacity of one direction.
const ROOM_BYTES: usize = 64 * 1024;

/// One direction.
#[derive(Debug, Default)]
struct Way {
    bytes: RefCell<VecDeque<u8>>,
    /// Bytes that wait for more.
    held: RefCell<Vec<u8>>,
    /// How often something went out.
    segments: Cell<usize>,
    is_ended: Cell<bool>,
    is_reset: Cell<bool>,
    reader: RefCell<Vec<Waker>>,
    writer: RefCell<Vec<Waker>>,
}

impl Way {
    fn wake(&self) {
        let mut all = self.reader.take();
        all.append(&mut self.writer.take());
        all.into_iter().for_each(Waker::wake);
    }

    /// What was held goes out, and what the caller has added.
    fn push(&self) {
        self.bytes.borrow_mut().extend(self.held.take());
        self.segments.set(self.segments.get() + 1);
        self.wake();
    }

    fn wait(wakers: &RefCell<Vec<Waker>>, cx: &Context<'_>) {
        let mut wakers = wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
    }

    fn room(&self) -> usize {
        ROOM_BYTES - self.bytes.borrow().len() - self.held.borrow().len()
    }

    /// The result of a read, without taking anything.
    fn peek(&self) -> rustix::io::Result<bool> {
        if !self.bytes.borrow().is_empty() {
            Ok(true)
        } else if self.is_reset.get() {
            Err(Errno::CONNRESET)
        } else if self.is_ended.get() {
            Ok(false)
        } else {
            Err(Errno::AGAIN)
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct End {
    from: Rc<Way>,
    to: Rc<Way>,
    address: SocketAddr,
    resets: Cell<bool>,
}

/// Both ends, with their addresses.
pub(crate) fn pair([one, other]: [SocketAddr; 2]) -> [Rc<End>; 2] {
    let ways = [Rc::<Way>::default(), Rc::<Way>::default()];
    let end = |from: usize, address| {
        Rc::new(End {
            from: Rc::clone(&ways[from]),
            to: Rc::clone(&ways[1 - from]),
            address,
            resets: Cell::new(false),
        })
    };
    [end(0, one), end(1, other)]
}

impl End {
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    /// Ends this end's stream.
    pub(crate) fn end(&self) -> io::Result<()> {
        if self.to.is_reset.get() {
            return Err(Errno::NOTCONN.into());
        }
        self.to.is_ended.set(true);
        self.to.push();
        Ok(())
    }

    /// Sends what is held.
    pub(crate) fn push(&self) {
        if !self.to.held.borrow().is_empty() {
            self.to.push();
        }
    }

    pub(crate) fn reset_on_close(&self) {
        self.resets.set(true);
    }

    /// Resets the connection now.
    pub(crate) fn reset(&self) {
        for way in [&self.from, &self.to] {
            way.is_reset.set(true);
            way.wake();
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.to.room() > 0 || self.to.is_reset.get()
    }

    /// Bytes that the other end has not read count as unacknowledged, so a test can model a server that has not received a request.
    pub(crate) fn unacknowledged_bytes(&self) -> u64 {
        self.to.bytes.borrow().len() as u64
    }

    /// In how many segments the other end has sent everything, its end included.
    pub(crate) fn segments(&self) -> usize {
        self.from.segments.get()
    }

    /// Writes all of `text`.
    pub(crate) async fn say(&self, text: impl AsRef<[u8]>) {
        write_all(self, text.as_ref())
            .await
            .expect("the other end takes it");
    }

    /// Reads until the text ends with `end`, and not one byte further; returns all of it.
    pub(crate) async fn hear(&self, end: &str) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(end.as_bytes()) {
            poll_fn(|cx| self.poll_read_ready(cx))
                .await
                .expect("reads do not fail");
            if !matches!(Stream::peek(self), Ok(true)) {
                let heard = String::from_utf8_lossy(&heard);
                panic!("the connection is over instead of {end:?} after {heard:?}");
            }
            let mut bytes = self.from.bytes.borrow_mut();
            while !heard.ends_with(end.as_bytes())
                && let Some(byte) = bytes.pop_front()
            {
                heard.push(byte);
            }
            drop(bytes);
            self.from.wake();
        }
        String::from_utf8(heard).expect("text")
    }

    /// Reads at most `bytes_max` bytes.
    pub(crate) async fn hear_some(&self, bytes_max: usize) -> String {
        let mut heard = Vec::with_capacity(bytes_max);
        let count = read_at_most(self, &mut heard, bytes_max).await;
        assert!(matches!(count, Ok(1..)), "{count:?}");
        String::from_utf8(heard).expect("text")
    }

    /// Reads to the end; returns the text, and whether the end was a reset.
    pub(crate) async fn hear_all(&self) -> (String, bool) {
        let mut heard = Vec::new();
        let is_reset = loop {
            heard.reserve(4096);
            match read_some(self, &mut heard).await {
                Ok(0) => break false,
                Ok(_) => {}
                Err(_) => break true,
            }
        };
        (String::from_utf8_lossy(&heard).into_owned(), is_reset)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // As in the kernel: closing with unread bytes sends a reset, which can overtake sent data (RFC 9112 section 9.6).
        if !self.from.bytes.take().is_empty() {
            self.to.bytes.take();
            return self.reset();
        }
        if self.resets.get() {
            return self.reset();
        }
        self.to.is_ended.set(true);
        self.to.push();
        // Later writes to it are answered with a reset.
        self.from.is_reset.set(true);
        self.from.wake();
    }
}

impl Stream for End {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.from.peek() {
            Err(Errno::AGAIN) => {
                Way::wait(&self.from.reader, cx);
                Poll::Pending
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_room() {
            return Poll::Ready(Ok(()));
        }
        Way::wait(&self.to.writer, cx);
        Poll::Pending
    }

    fn try_read(&self, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
        Stream::peek(self)?;
        let mut bytes = self.from.bytes.borrow_mut();
        let count = bytes.len().min(room);
        buffer.extend(bytes.drain(..count));
        drop(bytes);
        self.from.wake();
        Ok(count)
    }

    fn read_now(&self, buffer: &mut Vec<u8>) -> rustix::io::Result<usize> {
        Stream::peek(self)?;
        let room = buffer.capacity() - buffer.len();
        Ok(self.try_read(buffer, room).unwrap_or_default())
    }

    fn peek(&self) -> rustix::io::Result<bool> {
        self.from.peek()
    }

    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_send(pieces, 0, false)
    }

    fn try_send(&self, pieces: &[IoSlice<'_>], _: usize, more: bool) -> io::Result<usize> {
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| &**piece).collect();
        let bytes = pieces.concat();
        if self.to.is_reset.get() {
            return Err(Errno::CONNRESET.into());
        }
        if self.to.is_ended.get() {
            return Err(Errno::PIPE.into());
        }
        let count = self.to.room().min(bytes.len());
        if count == 0 && !bytes.is_empty() {
            return Err(Errno::AGAIN.into());
        }
        self.to.held.borrow_mut().extend(&bytes[..count]);
        if !more {
            self.to.push();
        }
        Ok(count)
    }
}

/// How a server treats new connections.
enum Door {
    Open(mpsc::UnboundedSender<Rc<End>>),
    /// It does not react: connecting never completes.
    Silent,
}

/// Servers by address; other addresses refuse.
#[derive(Clone, Default)]
pub struct Servers(Rc<RefCell<HashMap<SocketAddr, Door>>>);

impl std::fmt::Debug for Servers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Servers")
    }
}

impl Servers {
    /// Connections to this address arrive at the receiver.
    pub(crate) fn listen(&self, address: SocketAddr) -> mpsc::UnboundedReceiver<Rc<End>> {
        let (door, connections) = mpsc::unbounded_channel();
        self.0.borrow_mut().insert(address, Door::Open(door));
        connections
    }

    /// Connections to this address are never answered.
    pub(crate) fn silence(&self, address: SocketAddr) {
        self.0.borrow_mut().insert(address, Door::Silent);
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> io::Result<Rc<End>> {
        let is_silent = matches!(self.0.borrow().get(&address), Some(Door::Silent));
        if is_silent {
            std::future::pending::<()>().await;
        }
        let refused = || io::Error::from(Errno::CONNREFUSED);
        let own = SocketAddr::from(([127, 0, 0, 1], 1));
        let [near, far] = pair([own, address]);
        match self.0.borrow().get(&address) {
            Some(Door::Open(door)) => door.send(far).map_err(|_| refused())?,
            _ => return Err(refused()),
        }
        Ok(near)
    }
}
