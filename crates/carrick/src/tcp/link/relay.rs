//! Relays one connection, the client's at the near end or the server's at the far end, over a link connection.
//!
//! Both directions at once: incoming bytes are sent in DATA frames, each as long as what waits in the socket; received DATA is written out.
//! The splice service moves the contents. An end is reproduced at the other end: END is a half-close, RESET a reset.
use super::GIVEN_UP_MAX;
use crate::context::worker::Worker;
use crate::net::io::{peek, write_both};
use crate::upstream::group::Active;
use crate::upstream::link_connection::{Connection, Lost};
use carrick_logic::link::connection_state::Event;
use carrick_logic::link::{DATA_BYTES_MAX, ErrorCode, Frame};
use carrick_splice::tcp::{acknowledged_bytes, is_hung_up, pending_input, until_reset};
use carrick_splice::{Choice, End, Ended, Engine, Order, PaceHandle, Side, Transfer};
use socket2::SockRef;
use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::net::{Shutdown, SocketAddr};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Idle checks per idle time.
const LOOKS: u32 = 4;

/// How a relayed connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Both directions have ended regularly.
    Complete,
    /// The local connection was reset.
    Reset,
    /// The other end has given it up.
    ByPeer(ErrorCode),
    /// The other end cannot connect to the server.
    Refused(ErrorCode),
    /// No bytes moved in either direction for too long.
    Idle,
}

/// How to relay.
#[derive(Debug, Clone, Copy)]
pub struct RelayOptions<'a> {
    /// The engine.
    pub engine: Choice,
    /// Pacing towards the link, and away from it.
    pub pace: [PaceHandle; 2],
    /// Ends the relay after this time without a byte.
    pub idle: Duration,
    /// How long the near end waits for OPENED or REFUSED.
    pub answer: Option<Duration>,
    /// The server that OPENED counts a request on.
    pub on: Option<&'a Active>,
}

/// Called on progress: bytes towards the link and away from it, and the engines.
type Note<'a> = dyn Fn([u64; 2], [Engine; 2]) + 'a;

/// A relay in progress.
pub struct Relay<'a> {
    worker: &'a Worker,
    connection: &'a Connection,
    local: &'a TcpStream,
    options: RelayOptions<'a>,
    /// Bytes towards the link, and away from it.
    moved: [Cell<u64>; 2],
    engines: [Cell<Engine>; 2],
    /// Pacing holds this direction back.
    is_held: [Cell<bool>; 2],
    /// Bytes have been taken from the local socket.
    has_taken: Cell<bool>,
    /// The server's address, once the other end has sent it.
    server: Cell<Option<SocketAddr>>,
    outcome: Cell<Option<Outcome>>,
    /// RESET must be sent, for this reason.
    owes_reset: Cell<Option<ErrorCode>>,
    /// A frame other than DATA is being sent.
    is_sending: Cell<bool>,
    has_local_failed: Cell<bool>,
    is_local_shut: Cell<bool>,
    /// RESET was sent, or must be at once.
    is_given_up: Cell<bool>,
    note: Cell<Option<&'a Note<'a>>>,
}

/// Input from the local connection.
enum Input {
    /// This many bytes, at least one.
    Bytes(u32),
    /// Its end.
    End,
    /// The relayed connection is given up.
    Reset(ErrorCode),
}

impl Input {
    /// As much as fits into a frame.
    fn waiting(bytes: u64) -> Self {
        Self::Bytes(bytes.min(DATA_BYTES_MAX.into()) as u32)
    }
}

impl<'a> Relay<'a> {
    /// To be called after OPEN or OPENED was sent.
    pub fn new(
        worker: &'a Worker,
        connection: &'a Connection,
        local: &'a TcpStream,
        options: RelayOptions<'a>,
    ) -> Self {
        Self {
            worker,
            connection,
            local,
            options,
            moved: Default::default(),
            engines: [const { Cell::new(Engine::Copy) }; 2],
            is_held: Default::default(),
            has_taken: Cell::new(false),
            server: Cell::new(None),
            outcome: Cell::new(None),
            owes_reset: Cell::new(None),
            is_sending: Cell::new(false),
            has_local_failed: Cell::new(false),
            is_local_shut: Cell::new(false),
            is_given_up: Cell::new(false),
            note: Cell::new(None),
        }
    }

    /// Sets the callback for progress.
    pub fn noting(&self, note: &'a Note<'a>) {
        self.note.set(Some(note));
    }

    /// Bytes towards the link, and away from it.
    pub fn moved(&self) -> [u64; 2] {
        self.moved.each_ref().map(Cell::get)
    }

    /// Whether bytes were taken from the local connection, sent or not: then no other path can relay it.
    pub fn has_taken(&self) -> bool {
        self.has_taken.get() || self.moved()[0] > 0
    }

    /// Whether the other end's half-close was passed on, behind all of its bytes.
    pub fn has_passed_end(&self) -> bool {
        self.is_local_shut.get()
    }

    /// The engines used last, towards the link and away from it.
    pub fn engines(&self) -> [Engine; 2] {
        self.engines.each_ref().map(Cell::get)
    }

    /// The server's address, if the other end has sent it.
    pub fn server(&self) -> Option<SocketAddr> {
        self.server.get()
    }

    /// Relays until both ends have ended; then the link connection can carry the next one. `first` is sent before the
    /// client's further bytes.
    ///
    /// # Errors
    /// The link connection failed, and the relayed connection with it: both must be reset.
    pub async fn run(&self, first: &[u8]) -> Result<Outcome, Lost> {
        let result = self.run_both(first).await;
        let metrics = &self.worker.metrics().link;
        let [sent, received] = self.moved();
        metrics.bytes_sent.add(sent);
        metrics.bytes_received.add(received);
        result.map(|()| self.outcome.get().unwrap_or(Outcome::Complete))
    }

    async fn run_both(&self, first: &[u8]) -> Result<(), Lost> {
        let mut towards = pin!(self.towards_link(first));
        let mut away = pin!(self.away_from_link());
        let mut local_reset = pin!(until_reset(self.local));
        let mut link_reset = pin!(until_reset(&self.connection.stream));
        let mut cut_off = pin!(self.worker.sessions.wait_for_cut_off());
        let mut quiet = pin!(self.look_for_quiet());
        let mut overdue = pin!(async {
            match self.options.answer {
                Some(limit) => sleep(limit).await,
                None => pending().await,
            }
        });
        let mut patience: Option<(_, Pin<Box<Sleep>>)> = None;
        let [mut towards_over, mut away_over] = [false; 2];
        let [mut local_heard, mut is_quiet] = [false; 2];
        poll_fn(|cx| {
            loop {
                let owed = self.owes_reset.get();
                if !away_over && let Poll::Ready(result) = away.as_mut().poll(cx) {
                    result?;
                    away_over = true;
                }
                // Each is polled to completion once.
                if !local_heard && local_reset.as_mut().poll(cx).is_ready() {
                    local_heard = true;
                    self.local_failed();
                }
                is_quiet = is_quiet || quiet.as_mut().poll(cx).is_ready();
                if !towards_over && let Poll::Ready(result) = towards.as_mut().poll(cx) {
                    result?;
                    towards_over = true;
                }
                if self.connection.is_at_rest() && !self.is_sending.get() {
                    return Poll::Ready(Ok(()));
                }
                if self.owes_reset.get() == owed {
                    break;
                }
            }
            if link_reset.as_mut().poll(cx).is_ready() {
                let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                return Poll::Ready(Err(error.into()));
            }
            if cut_off.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(Lost::CutOff));
            }
            let is_answered = self.server.get().is_some() || self.outcome.get().is_some();
            if !is_answered && overdue.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(Lost::Silent));
            }
            if self.outcome.get().is_some() {
                let stage = self.last_progress();
                if patience.as_ref().is_none_or(|(seen, _)| *seen != stage) {
                    patience = Some((stage, Box::pin(sleep(GIVEN_UP_MAX))));
                }
                if let Some((_, timer)) = &mut patience {
                    return timer.as_mut().poll(cx).map(|()| Err(Lost::Stuck));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// What changes as long as a relay that has an outcome is to go on: once RESET is sent, nothing; before that, what the link
    /// takes.
    fn last_progress(&self) -> Option<(u64, Option<u64>)> {
        (!self.is_given_up.get()).then(|| {
            let [sent, _] = self.moved();
            (sent, acknowledged_bytes(&self.connection.stream))
        })
    }

    /// Relays from the local connection to the link.
    async fn towards_link(&self, first: &[u8]) -> Result<(), Lost> {
        self.send_first(first).await?;
        loop {
            match poll_fn(|cx| self.poll_input(cx)).await {
                Input::Bytes(bytes) => self.send_data(bytes).await?,
                Input::End => {
                    let end = self.connection.with_state(|state| state.end());
                    self.send(&end).await?;
                }
                Input::Reset(why) => {
                    let reset = self
                        .connection
                        .with_state(|state| state.may_reset().then(|| state.reset(why)));
                    if let Some(reset) = reset {
                        self.is_given_up.set(true);
                        self.send(&reset).await?;
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn send(&self, frame: &Frame) -> Result<(), Lost> {
        self.is_sending.set(true);
        self.connection.send(frame).await?;
        self.is_sending.set(false);
        Ok(())
    }

    async fn send_first(&self, first: &[u8]) -> Result<(), Lost> {
        for piece in first.chunks(DATA_BYTES_MAX as usize) {
            let head = Frame::data_head(piece.len() as u32);
            write_both(&*self.connection.stream, &head, piece, &mut 0).await?;
            self.note_moved(0, piece.len() as u64, Engine::Copy);
        }
        Ok(())
    }

    /// Waits for input from the local connection.
    fn poll_input(&self, cx: &mut Context<'_>) -> Poll<Input> {
        if let Some(why) = self.owes_reset.get() {
            // What the local connection received before it failed goes first.
            return Poll::Ready(match pending_input(self.local).unwrap_or(0) {
                waiting @ 1.. if self.may_drain() => Input::waiting(waiting),
                _ => Input::Reset(why),
            });
        }
        if self.connection.with_state(|state| state.has_ended()) {
            // The task that watches the local connection reports its failure.
            return Poll::Pending;
        }
        loop {
            if ready!(self.local.poll_read_ready(cx)).is_err() {
                self.local_failed();
                return Poll::Ready(Input::Reset(ErrorCode::Reset));
            }
            let waiting = pending_input(self.local).unwrap_or(0);
            if waiting > 0 {
                return Poll::Ready(Input::waiting(waiting));
            }
            let found = self
                .local
                .try_io(Interest::READABLE, || Ok(peek(self.local)?));
            match found {
                // It arrived just now; or it is behind an out-of-band byte, which is not part of the stream.
                Ok(true) => return Poll::Ready(Input::Bytes(1)),
                // If another reader has consumed the error of a reset, a read returns 0 as at an end.
                Ok(false) if !self.is_local_shut.get() && is_hung_up(self.local) => {}
                Ok(false) => return Poll::Ready(Input::End),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => {}
            }
            self.local_failed();
            return Poll::Ready(Input::Reset(ErrorCode::Reset));
        }
    }

    /// Whether what the failed local connection has received may still be sent.
    fn may_drain(&self) -> bool {
        self.outcome.get() == Some(Outcome::Reset)
            && !self.is_given_up.get()
            && self.connection.with_state(|state| state.may_send())
    }

    /// Sends this many bytes, which wait in the local socket.
    async fn send_data(&self, bytes: u32) -> Result<(), Lost> {
        let head = Frame::data_head(bytes);
        let order = Order {
            prefix: &head,
            ..self.order(bytes, 0)
        };
        let splicer = &self.worker.splicer;
        let mut transfer = splicer.transfer(self.local, &self.connection.stream, order);
        match self.run_noting(&mut transfer, 0).await {
            Ok(Ended::Bytes) => Ok(()),
            Err(fault) if fault.side == Side::To => Err(fault.source.into()),
            // The bytes promised in the frame's head are missing.
            Ok(_) | Err(_) => {
                self.local_failed();
                Err(Lost::Torn)
            }
        }
    }

    /// Relays from the link to the local connection.
    async fn away_from_link(&self) -> Result<(), Lost> {
        loop {
            let (event, _) = self.connection.event().await?;
            match event {
                Event::Data(bytes) => self.take_data(bytes).await?,
                Event::Unwanted(bytes) => self.connection.discard(bytes.into()).await?,
                Event::Opened(server) => {
                    self.server.set(Some(server));
                    if let Some(active) = self.options.on {
                        active.count_request();
                    }
                }
                Event::End => self.end_local(),
                Event::Reset(why) => self.end_by(Outcome::ByPeer(why), why),
                Event::Refused(why) => self.end_by(Outcome::Refused(why), why),
                Event::Nothing => {}
                Event::Open => return Err(Lost::Malformed("unexpected OPEN")),
            }
            // The next frame belongs to the next relayed connection.
            if self.connection.is_at_rest() {
                return Ok(());
            }
        }
    }

    async fn take_data(&self, bytes: u32) -> Result<(), Lost> {
        if self.has_local_failed.get() || self.outcome.get().is_some() {
            return self.connection.discard(bytes.into()).await;
        }
        let splicer = &self.worker.splicer;
        let order = self.order(bytes, 1);
        let mut transfer = splicer.transfer(&self.connection.stream, self.local, order);
        match self.run_noting(&mut transfer, 1).await {
            Ok(Ended::Bytes) => Ok(()),
            Ok(_) => Err(Lost::Ended),
            Err(fault) if fault.side == Side::From => Err(fault.source.into()),
            Err(_) => {
                let left = u64::from(bytes).saturating_sub(transfer.taken_bytes());
                drop(transfer);
                self.local_failed();
                self.connection.discard(left).await
            }
        }
    }

    fn order<'o>(&self, bytes: u32, way: usize) -> Order<'o> {
        let [towards, away] = self.options.pace;
        Order {
            // The kernel's engines need whole connections; this is a part of one.
            choice: match self.options.engine {
                Choice::Socket | Choice::Packet => Choice::Auto,
                choice => choice,
            },
            // Both directions share one idle timer.
            idle: Duration::MAX,
            pace: if way == 0 { towards } else { away },
            ..Order::new(End::AfterBytes(bytes.into()))
        }
    }

    async fn run_noting(
        &self,
        transfer: &mut Transfer<'_>,
        way: usize,
    ) -> Result<Ended, carrick_splice::Fault> {
        let mut known = 0;
        poll_fn(|cx| {
            let result = transfer.poll_run(cx);
            let bytes = transfer.bytes();
            if way == 0 && transfer.taken_bytes() > 0 {
                self.has_taken.set(true);
            }
            if bytes > known {
                self.note_moved(way, bytes - known, transfer.engine());
                known = bytes;
            }
            if let Some(is_held) = self.is_held.get(way) {
                is_held.set(result.is_pending() && transfer.is_held());
            }
            result
        })
        .await
    }

    fn note_moved(&self, way: usize, bytes: u64, engine: Engine) {
        if let (Some(moved), Some(noted)) = (self.moved.get(way), self.engines.get(way)) {
            moved.set(moved.get() + bytes);
            noted.set(engine);
        }
        if let Some(note) = self.note.get() {
            note(self.moved(), self.engines());
        }
    }

    /// The other end has half-closed.
    fn end_local(&self) {
        self.is_local_shut.set(true);
        // A failure is reported by the task that reads from or watches the connection.
        let _ = SockRef::from(self.local).shutdown(Shutdown::Write);
    }

    /// The local connection failed.
    fn local_failed(&self) {
        self.has_local_failed.set(true);
        self.end_by(Outcome::Reset, ErrorCode::Reset);
    }

    /// Notes the end; the other end is told, now or later.
    fn end_by(&self, outcome: Outcome, why: ErrorCode) {
        if self.outcome.get().is_none() {
            self.outcome.set(Some(outcome));
        }
        if self.owes_reset.get().is_none() {
            self.owes_reset.set(Some(why));
        }
        // Before the reset of a local connection, the link gets what that has received.
        if outcome != Outcome::Reset {
            self.is_given_up.set(true);
        }
    }

    /// Gives up a relay that has stalled.
    async fn look_for_quiet(&self) {
        // What a slow receiver takes does not make room for more at once.
        let sockets = [self.local, &self.connection.stream];
        let progress = || (self.moved(), sockets.map(acknowledged_bytes));
        let (mut seen, mut since) = (progress(), Instant::now());
        loop {
            sleep((self.options.idle / LOOKS).max(Duration::from_millis(1))).await;
            let found = progress();
            if found != seen || self.is_held.iter().any(Cell::get) {
                (seen, since) = (found, Instant::now());
            } else if since.elapsed() >= self.options.idle {
                return self.end_by(Outcome::Idle, ErrorCode::Idle);
            }
        }
    }
}
