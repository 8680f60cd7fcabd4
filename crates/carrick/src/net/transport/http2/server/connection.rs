//! A connection of HTTP/2 to a server, which requests share.
use super::super::head::FIELD_BYTES;
use super::super::{Gather, Http2Connection, Http2Io, Piece, StreamPlace};
use super::ServerStream;
use super::request::Outgoing;
use super::unended::Unended;
use crate::net::deadline::{Deadline, Timer, now};
use crate::net::transport::Transport;
use carrick_logic::http1::HeadLimits;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream};
use http::uri::Scheme;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Requests on one connection at the same time, if the server allows as many.
pub const STREAMS_MAX: usize = 100;

/// Unread bytes of a response, per stream. The connection has as many for each of its streams: a client that does not read
/// holds up its own response only.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * 100;

/// Unsent bytes of a request's body, per stream.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// What is to be sent at last may take so long.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A stream that was given up after this time, while nothing at all came from the server, speaks against its connection.
const SILENCE: Duration = Duration::from_secs(1);

/// A request with content goes by a connection whose window has room for so much of it.
const FIRST_BYTES: u32 = 8 * 1024;

/// With so many requests cancelled within so long, a connection takes no more for a while. Netty allows 200 in 30 s; those that are under
/// way may be cancelled, too.
const CANCELLED_MAX: u32 = 50;
const CANCELLED_WITHIN: Duration = Duration::from_secs(30);

/// The library's part of a connection, to be [driven](ServerConnection::drive).
pub type Framing = h2::client::Connection<Http2Io, Piece>;

/// A connection to a server.
pub struct ServerConnection {
    shared: Rc<Http2Connection>,
    address: SocketAddr,
    /// `None`: it takes no further requests.
    send: RefCell<Option<SendRequest<Piece>>>,
    scheme: Scheme,
    unended: RefCell<Unended>,
    state: Cell<State>,
    /// Why it has ended.
    error: RefCell<Option<Ended>>,
    changed: Notify,
    takes_websockets: Cell<bool>,
    has_served: Cell<bool>,
    idle_since: Cell<Instant>,
    /// How many requests were cancelled, since when.
    cancelled: Cell<(u32, Instant)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The server's settings are to come.
    Opening,
    Open,
    Over,
}

/// Why a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The server has closed it.
    #[error("the server closed the connection")]
    Closed,
    /// What came is not HTTP/2.
    #[error("the server does not speak HTTP/2")]
    NotHttp2,
    /// It has sent more frames that cost work and carry nothing than any server has reason to.
    #[error("the server floods the connection with frames that carry nothing")]
    Flooded,
    /// It has broken a rule whose breach ends the connection.
    #[error("the server broke a rule of HTTP/2 ({0:?}): all requests on the connection are lost")]
    Malformed(Reason),
    /// It takes nothing of what is to be sent at last.
    #[error("the server takes nothing any more, not even the end of the connection")]
    Hung,
    /// The network has ended it, or the library.
    #[error("{0}")]
    Broken(String),
}

/// Ends a connection that was given up while it was being opened.
struct EndUnlessOpen<'a>(Option<&'a ServerConnection>);

impl Drop for EndUnlessOpen<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.0 {
            connection.end();
        }
    }
}

impl ServerConnection {
    /// Begins HTTP/2 on a new connection. Heads have these limits; `when_full` is called when requests begin to wait for less
    /// to be queued. The framing is to be [driven](Self::drive) from now on.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn begin(
        transport: Transport,
        address: SocketAddr,
        limits: HeadLimits,
        when_full: impl Fn() + 'static,
    ) -> Result<(Rc<Self>, Framing), h2::Error> {
        let scheme = match &transport {
            Transport::Tls(_) => Scheme::HTTPS,
            _ => Scheme::HTTP,
        };
        let shared = Rc::new(Http2Connection::to_server(transport, when_full));
        let head_bytes = limits.head_bytes_max + limits.fields_max * FIELD_BYTES;
        let (send, framing) = Builder::new()
            .enable_push(false)
            // Nothing is asked before the server's settings are known.
            .initial_max_send_streams(0)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buffer_size(SEND_BUFFER_BYTES)
            .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
            // What a server still sends on streams that clients have given up would count, and end the others' as well. (Of small
            // frames, the library forgets only those that were queued; what is queued is gathered, and bounded by the windows.)
            .max_local_error_reset_streams(None)
            .data_frame_budget(usize::MAX)
            .handshake(Http2Io::new(Rc::clone(&shared), Vec::new()))
            .await?;
        let connection = Self {
            shared,
            address,
            send: RefCell::new(Some(send)),
            scheme,
            unended: RefCell::default(),
            state: Cell::new(State::Opening),
            error: RefCell::default(),
            changed: Notify::new(),
            takes_websockets: Cell::new(false),
            has_served: Cell::new(false),
            idle_since: Cell::new(now()),
            cancelled: Cell::new((0, now())),
        };
        Ok((Rc::new(connection), framing))
    }

    /// Moves frames until the connection ends, by either side.
    pub async fn drive(self: Rc<Self>, mut framing: Framing) -> Ended {
        let (mut timer, mut close) = (Timer::default(), Deadline::after(CLOSE_TIMEOUT));
        let ended = poll_fn(|cx| {
            let is_over = self.poll_drive(&mut framing, &mut timer, cx);
            if is_over.is_ready() || !self.is_ending() || self.streams() > 0 {
                return is_over;
            }
            let mut is_late = timer.until(&mut close, pending::<()>());
            Pin::new(&mut is_late).poll(cx).map(|_| Ended::Hung)
        })
        .await;
        self.send.take();
        self.state.set(State::Over);
        self.unended.take();
        self.error.replace(Some(ended.clone()));
        // The streams learn of it by this.
        drop(framing);
        self.changed.notify_waiters();
        self.shared.finish();
        ended
    }

    fn poll_drive(
        &self,
        framing: &mut Framing,
        timer: &mut Timer,
        cx: &mut Context<'_>,
    ) -> Poll<Ended> {
        self.shared.register(cx);
        if self.shared.is_flooded() {
            return Poll::Ready(Ended::Flooded);
        }
        match Pin::new(&mut *framing).poll(cx) {
            Poll::Ready(Ok(())) => return Poll::Ready(Ended::Closed),
            Poll::Ready(Err(error)) => return Poll::Ready(self.ended_by(&error)),
            Poll::Pending => {}
        }
        self.unended.borrow_mut().poll(timer, cx);
        if let Err(error) = self.shared.send_written(cx) {
            return Poll::Ready(Ended::Broken(error.to_string()));
        }
        if self.shared.is_flooded() {
            return Poll::Ready(Ended::Flooded);
        }
        if self.state.get() == State::Open && self.streams() == 0 && !self.is_ending() {
            // Finds that the server takes no more.
            let _ = self.has_room();
        }
        if self.state.get() == State::Opening && framing.max_concurrent_send_streams() > 0 {
            self.state.set(State::Open);
            self.takes_websockets.set(self.agrees_to_websockets());
            self.changed.notify_waiters();
        }
        Poll::Pending
    }

    fn ended_by(&self, error: &h2::Error) -> Ended {
        let is_first = self.state.get() == State::Opening;
        match error.get_io() {
            Some(io) if io.kind() == std::io::ErrorKind::BrokenPipe => Ended::Closed,
            // What came is no frame of settings.
            None if is_first && error.is_library() => Ended::NotHttp2,
            None if error.is_library() => {
                Ended::Malformed(error.reason().unwrap_or(Reason::PROTOCOL_ERROR))
            }
            _ => Ended::Broken(error.to_string()),
        }
    }

    /// Waits for the server's settings. If this is given up, the connection ends: nobody else knows of it.
    ///
    /// # Errors
    /// The connection has ended instead.
    pub async fn opened(&self) -> Result<(), Ended> {
        let mut opening = EndUnlessOpen(Some(self));
        loop {
            let changed = self.changed.notified();
            match self.state.get() {
                State::Opening => changed.await,
                State::Open => {
                    opening.0 = None;
                    return Ok(());
                }
                State::Over => {
                    return Err(self.error.borrow().clone().unwrap_or(Ended::Closed));
                }
            }
        }
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The connection below.
    #[must_use]
    pub fn transport(&self) -> &Transport {
        self.shared.transport()
    }

    /// Whether a request may be sent now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let mut send = self.send.borrow_mut();
        let Some(handle) = &mut *send else {
            return false;
        };
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(Err(_)) = handle.poll_ready(&mut cx) {
            // The server has said that it takes no more, or is gone.
            send.take();
            return false;
        }
        self.shared.streams() < handle.current_max_send_streams().min(STREAMS_MAX)
            && !self.is_spared()
    }

    /// Whether so many requests were cancelled that the next might make the server end it, with the requests of others.
    fn is_spared(&self) -> bool {
        let (count, since) = self.cancelled.get();
        count >= CANCELLED_MAX && now().saturating_duration_since(since) <= CANCELLED_WITHIN
    }

    /// How many requests it carries at the same time.
    #[must_use]
    pub fn streams_max(&self) -> usize {
        let send = self.send.borrow();
        let allowed = send
            .as_ref()
            .map_or(0, SendRequest::current_max_send_streams);
        allowed.min(STREAMS_MAX)
    }

    /// Whether it takes no further requests.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.send.borrow().is_none()
    }

    /// Whether the server took WebSockets (RFC 8441) when the connection was opened.
    #[must_use]
    pub fn takes_websockets(&self) -> bool {
        self.takes_websockets.get()
    }

    fn agrees_to_websockets(&self) -> bool {
        let send = self.send.borrow();
        (send.as_ref()).is_some_and(SendRequest::is_extended_connect_protocol_enabled)
    }

    /// Whether it has carried a request.
    #[must_use]
    pub fn has_served(&self) -> bool {
        self.has_served.get()
    }

    /// How many requests are under way.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.shared.streams()
    }

    /// Since when it has had none.
    #[must_use]
    pub fn idle_since(&self) -> Option<Instant> {
        (self.streams() == 0).then(|| self.idle_since.get())
    }

    /// A stream for a request with so much content, which may be none. `None`: see [`has_room`](Self::has_room); or the window of all streams
    /// together has no room for the first of it, as one whose receiver does not read can keep that from all others.
    #[must_use]
    pub fn stream(self: &Rc<Self>, content_bytes: u32) -> Option<Rc<ServerStream>> {
        if !self.has_room()
            || !self
                .shared
                .takes_content(content_bytes.min(FIRST_BYTES).into())
        {
            return None;
        }
        let send = self.send.borrow().clone()?;
        self.has_served.set(true);
        let request = Outgoing::new(send, self.scheme.clone());
        let stream = ServerStream::new(Rc::clone(self), self.shared.place(0), request);
        let stream = Rc::new(stream);
        let watched: Weak<dyn Gather> = Rc::downgrade(&stream) as _;
        self.shared.watch(watched);
        Some(stream)
    }

    /// No further requests are to be sent: it closes when those under way are over.
    pub fn end(&self) {
        self.send.take();
        // The library closes when nobody can ask any more.
        self.shared.end();
    }

    pub(super) fn shared(&self) -> &Rc<Http2Connection> {
        &self.shared
    }

    /// A stream has carried a whole request and all of its response, but has not [ended](Unended).
    pub(super) fn await_end(&self, stream: RecvStream, place: StreamPlace) {
        if self.state.get() == State::Open {
            self.unended.borrow_mut().add(stream, place);
            self.shared.wake_task();
        }
    }

    /// A client has given up a request.
    pub(super) fn is_cancelled(&self) {
        let (count, since) = self.cancelled.get();
        let (count, since) = match now().saturating_duration_since(since) {
            age if age > CANCELLED_WITHIN => (1, now()),
            // The pause begins with the last one.
            _ if count + 1 >= CANCELLED_MAX => (count + 1, now()),
            _ => (count + 1, since),
        };
        self.cancelled.set((count, since));
    }

    /// A stream is over; `asked_at`: it was given up without a byte of a response.
    pub(super) fn is_left(&self, asked_at: Option<Instant>) {
        let now = now();
        self.idle_since.set(now);
        if let Some(asked_at) = asked_at
            && self.shared.came_at() < asked_at
            && now.saturating_duration_since(asked_at) >= SILENCE
        {
            // Perhaps the server is gone without a word: the next request goes by another connection.
            self.end();
        }
    }
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerConnection")
            .field("state", &self.state)
            .field("streams", &self.streams())
            .finish_non_exhaustive()
    }
}
