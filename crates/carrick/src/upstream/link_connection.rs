//! Frames on a link connection. Heads are read to the byte, so that relayed bytes stay in the socket for the splice service.
use crate::net::io::write_all;
use crate::telemetry::metrics::WorkerMetrics;
use crate::upstream::Upstream;
use carrick_logic::link::connection_state::{ConnectionState, Event};
use carrick_logic::link::{self, CONTROL_BYTES_MAX, Frame, Read};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;

/// Discarded bytes are read in pieces of this size.
const DISCARD_BYTES: usize = 16 * 1024;

/// Why a link connection can no longer be used.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The other end has closed it.
    #[error("the other end has closed it")]
    Ended,
    /// It failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other end violated the protocol.
    #[error("{0}")]
    Malformed(&'static str),
    /// The relayed connection broke in the middle of a frame, which cannot be completed.
    #[error("the relayed connection broke in the middle of a frame")]
    Torn,
    /// The other end keeps sending for a relayed connection that was given up.
    #[error("the other end does not end a relayed connection that this end gave up")]
    Stuck,
    /// The other end does not answer OPEN.
    #[error("the other end does not say whether it has reached a server")]
    Silent,
    /// This carrick is ending.
    #[error("the drain time is over")]
    CutOff,
}

/// A link connection, at either end.
#[derive(Debug)]
pub struct Connection {
    /// The connection.
    pub stream: Rc<TcpStream>,
    /// The other end.
    pub peer: SocketAddr,
    /// Whether it has relayed a connection before.
    pub has_carried: Cell<bool>,
    state: RefCell<ConnectionState>,
    /// The beginning of a frame.
    unread: RefCell<Vec<u8>>,
    awaits_hello: Cell<bool>,
    /// The end that opened it counts it until dropped.
    _opened: Option<Opened>,
}

/// Counts a connection to a peer as open.
#[derive(Debug)]
struct Opened {
    metrics: Arc<WorkerMetrics>,
    _upstream: Upstream,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.metrics.link.closed.add(1);
    }
}

impl Connection {
    /// A connection that this end has opened; the answer to its HELLO has not arrived. `None` if it is not TCP.
    pub fn opened(mut upstream: Upstream, metrics: &Arc<WorkerMetrics>) -> Option<Self> {
        upstream.limit_unread_if_near();
        let stream = Rc::clone(upstream.transport.shared_tcp()?);
        metrics.link.opened.add(1);
        Some(Self {
            stream,
            peer: upstream.address,
            has_carried: Cell::new(false),
            state: RefCell::new(ConnectionState::new(true)),
            unread: RefCell::default(),
            awaits_hello: Cell::new(true),
            _opened: Some(Opened {
                metrics: Arc::clone(metrics),
                _upstream: upstream,
            }),
        })
    }

    /// A connection that the other end has opened; its HELLO has arrived.
    pub fn accepted(stream: &Rc<TcpStream>, peer: SocketAddr) -> Self {
        Self {
            stream: Rc::clone(stream),
            peer,
            has_carried: Cell::new(false),
            state: RefCell::new(ConnectionState::new(false)),
            unread: RefCell::default(),
            awaits_hello: Cell::new(true),
            _opened: None,
        }
    }

    /// Whether the HELLO of the other end has arrived.
    pub fn has_greeted(&self) -> bool {
        !self.awaits_hello.get()
    }

    /// Updates the protocol state, and returns the result of `change`.
    pub fn with_state<T>(&self, change: impl FnOnce(&mut ConnectionState) -> T) -> T {
        change(&mut self.state.borrow_mut())
    }

    /// Whether another connection can be relayed over it.
    pub fn is_at_rest(&self) -> bool {
        self.state.borrow().is_at_rest()
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// Those of `send(2)`.
    pub async fn send(&self, frame: &Frame) -> io::Result<()> {
        self.send_with(frame, &[]).await
    }

    /// Sends a frame, and this in DATA, if it is not empty.
    ///
    /// # Errors
    /// Those of `send(2)`.
    pub async fn send_with(&self, frame: &Frame, data: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(CONTROL_BYTES_MAX);
        frame.write(&mut bytes);
        if !data.is_empty() {
            Frame::Data(data.len() as u32).write(&mut bytes);
            bytes.extend_from_slice(data);
        }
        write_all(&*self.stream, &bytes).await
    }

    /// Waits for the HELLO of the other end, and returns the version that it requests.
    ///
    /// # Errors
    /// Another frame, or the end, arrived.
    pub async fn expect_hello(&self) -> Result<u16, Lost> {
        let frame = poll_fn(|cx| self.poll_frame(cx)).await?;
        self.take_hello(&frame)
    }

    fn take_hello(&self, frame: &Frame) -> Result<u16, Lost> {
        match frame {
            Frame::Hello { version: 0 } => Err(Lost::Malformed("there is no version 0")),
            Frame::Hello { version } => {
                self.awaits_hello.set(false);
                Ok(*version)
            }
            _ => Err(Lost::Malformed("a frame arrived before HELLO")),
        }
    }

    /// Waits for the next frame, and returns its meaning. Of DATA only the head is read. Cancel-safe.
    ///
    /// # Errors
    /// See [`Lost`].
    pub async fn event(&self) -> Result<(Event, Frame), Lost> {
        loop {
            // Frames that mean nothing do not keep the worker's other connections waiting.
            tokio::task::coop::consume_budget().await;
            let frame = poll_fn(|cx| self.poll_frame(cx)).await?;
            if self.awaits_hello.get() {
                // The end that opened it requests its version; the answer may be lower.
                if self.take_hello(&frame)? > link::VERSION {
                    return Err(Lost::Malformed("the answer to HELLO is another version"));
                }
                continue;
            }
            let event = self.state.borrow_mut().came(&frame);
            return Ok((event.map_err(Lost::Malformed)?, frame));
        }
    }

    fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Result<Frame, Lost>> {
        let mut unread = self.unread.borrow_mut();
        loop {
            let wanted = match link::read(&unread).map_err(Lost::Malformed)? {
                Read::Complete(_, frame) => {
                    unread.clear();
                    return Poll::Ready(Ok(frame));
                }
                Read::Partial(wanted) => wanted,
            };
            let mut piece = [0; CONTROL_BYTES_MAX];
            let room = wanted.saturating_sub(unread.len());
            let piece = piece.get_mut(..room).unwrap_or_default();
            match self.stream.try_read(piece) {
                Ok(0) => return Poll::Ready(Err(Lost::Ended)),
                Ok(count) => unread.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.stream.poll_read_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Reads and discards this many bytes of DATA.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn discard(&self, bytes: u64) -> Result<(), Lost> {
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(());
        }
        let mut buffer = vec![0; DISCARD_BYTES];
        poll_fn(|cx| {
            while left > 0 {
                ready!(self.stream.poll_read_ready(cx))?;
                let room = buffer
                    .get_mut(..left.min(DISCARD_BYTES))
                    .unwrap_or_default();
                match self.stream.try_read(room) {
                    Ok(0) => return Poll::Ready(Err(Lost::Ended)),
                    Ok(count) => left -= count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error.into())),
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Reads until the other end has also ended the relayed connection that this end gave up.
    ///
    /// # Errors
    /// The connection failed, or the other end violated the protocol.
    pub async fn discard_until_rest(&self) -> Result<(), Lost> {
        while !self.is_at_rest() {
            if let (Event::Data(bytes) | Event::Unwanted(bytes), _) = self.event().await? {
                self.discard(bytes.into()).await?;
            }
        }
        Ok(())
    }
}
