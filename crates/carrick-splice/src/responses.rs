//! Responses that the kernel forwards from a server to a client, while the requests go through the process (packet engine).

use crate::engine::tc::command::Answer;
pub use crate::engine::tc::command::Judging;
use crate::engine::tc::path_statistics::PathStatistics;
use crate::engine::tc::records::Record;
pub use crate::engine::tc::records::{ResponseWatch, ToldResponse};
use crate::engine::tc::splice::PacketSplice;
use crate::lifecycle::State;
use crate::{PaceHandle, Reason, Splicer};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::task::Context;
use std::time::Duration;
use tokio::net::TcpStream;

/// A client's connection and a server's, between which the kernel forwards what the server sends, packet by packet: the
/// response, head included, does not visit the process. What the client sends, its end of stream and a reset come to its
/// socket here as always; the process reads requests, and writes them to the server's socket.
///
/// While it is armed, nothing may be written to the client's socket, and nothing comes to the server's but its end of stream (once
/// the client has acknowledged all before it) or a reset. After [`ResponseSplice::disarm`] both sockets are as if all that was
/// forwarded had gone through them. Dropping it disarms, too.
///
/// The connections stay known to the kernel as long as they live, since their numbers differ from those of their peers from
/// then on. They can be bound again, to each other or to others.
pub struct ResponseSplice {
    splice: PacketSplice,
    record: Record,
    splicer: Splicer,
    /// What had been forwarded before the latest response.
    begun_at: u64,
    /// Acknowledged bytes that are in the splicer's counters.
    counted_bytes: u64,
    /// It was armed with a request that had been read already.
    is_fresh: bool,
    /// The kernel has, or is to get, the rest of one response only.
    is_body: bool,
    /// Requests that the kernel had forwarded when that was asked for last.
    judged: u32,
    path_statistics: Box<PathStatistics>,
}

/// A client with less room than that is what a response waits for.
const ROOM_BYTES_MIN: u32 = 4096;

/// Bytes of responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Forwarded to the client.
    pub sent_bytes: u64,
    /// And acknowledged by it.
    pub acked_bytes: u64,
}

/// Requests that the kernel has forwarded without the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaughtUp {
    /// How many.
    pub requests: u32,
    /// The method of the latest.
    pub method: Option<&'static str>,
    /// Of the response to the request that the process has passed on before them: bytes, head included. Of no meaning if that was asked before.
    pub passed_bytes: u64,
    /// Likewise, its status, if its first line is known.
    pub passed_status: Option<u16>,
}

/// Why the kernel has not given two connections back ([`ResponseSplice::disarm`]).
#[derive(Debug, thiserror::Error)]
pub enum DisarmError {
    /// It has forwarded requests since [`ResponseSplice::catch_up`] was called last, and goes on forwarding.
    #[error("further requests are under way to the server")]
    Behind,
    /// It failed, or the server has not acknowledged a request that the kernel has forwarded: neither connection can be used any more.
    #[error("the packet engine does not give the connections back: {0}")]
    Lost(#[from] io::Error),
}

/// What came of an attempt to arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arming {
    /// The kernel forwards what the server sends from now on.
    Armed,
    /// Not yet: the kernel has not seen both connections, or something is under way. Relay this response; the next one may go.
    NotYet,
    /// Never, for this reason, which the splicer has counted.
    Never(Reason),
}

impl Splicer {
    /// Whether responses may go by the packet engine where nobody has named it.
    ///
    /// # Errors
    /// Why not: it is not loaded, or something of this machine has to see packets, as for tunnels with
    /// [`Choice::Auto`](crate::Choice). It is counted.
    pub fn may_choose_packets(&self) -> Result<(), Reason> {
        let engine = self.packet_engine();
        let obstacle = engine.map_or(Some(Reason::PacketUnavailable), |engine| engine.obstacle());
        obstacle.map_or(Ok(()), |reason| Err(self.refuse_responses(reason)))
    }

    fn refuse_responses(&self, reason: Reason) -> Reason {
        self.counters().reason(reason).add(1);
        reason
    }

    /// Makes two connections known to the kernel, so that [`ResponseSplice::arm`] can follow once a request and a response have
    /// passed. `label` is the owner's number for it.
    ///
    /// # Errors
    /// Why that cannot be; it is counted.
    pub fn responses(
        &self,
        client: &TcpStream,
        server: &TcpStream,
        label: u64,
    ) -> Result<ResponseSplice, Reason> {
        let refuse = |reason| self.refuse_responses(reason);
        let engine = self
            .packet_engine()
            .ok_or_else(|| refuse(Reason::PacketUnavailable))?;
        // Whoever has gone already has no address any more.
        let [Ok(to_client), Ok(to_server)] = [client, server].map(TcpStream::peer_addr) else {
            return Err(refuse(Reason::PacketRefused));
        };
        let path_statistics =
            PathStatistics::from_now([to_client.ip(), to_server.ip()], [client, server]);
        if path_statistics.has_bad_leg(engine) {
            return Err(refuse(Reason::PacketBadLeg));
        }
        let record = engine
            .take_record()
            .ok_or_else(|| refuse(Reason::PacketFull))?;
        match PacketSplice::new(engine, [client, server], label) {
            Ok(splice) => Ok(ResponseSplice {
                splice,
                // Others may have left something in it.
                begun_at: record.sent_bytes(),
                counted_bytes: record.acked_bytes(),
                judged: record.judged(),
                record,
                splicer: self.clone(),
                is_fresh: false,
                is_body: false,
                path_statistics: Box::new(path_statistics),
            }),
            Err(reason) => Err(refuse(reason)),
        }
    }
}

impl ResponseSplice {
    /// Lets the kernel forward what the server sends. To be called between a response and the next request, before that is
    /// written to the server's socket. Costs a system call.
    ///
    /// With `judging`, requests that the kernel can judge, and that may go where the last one went, are forwarded by it, too; the process
    /// does not hear of them but by events ([`Events`](crate::requests::Events)). That begins once [`ResponseSplice::settle`] has said that there is nothing
    /// else to be done.
    ///
    /// What is forwarded is paced as `pace` says, which is to be there as long as it is.
    pub fn arm(&mut self, judging: Option<Judging>, pace: PaceHandle) -> Arming {
        if self.is_body && self.disarm().is_err() {
            return self.refused(Reason::PacketRefused);
        }
        if self.splice.is_armed() {
            return Arming::Armed;
        }
        if self.has_bad_leg() {
            return self.refused(Reason::PacketBadLeg);
        }
        let before = self.begin_record();
        let answer = self.splice.arm_responses(&self.record, judging, pace);
        let arming = self.armed(&answer, before);
        if arming == Arming::Armed {
            self.is_fresh = true;
            self.splicer.counters().packet_splices.add(1);
        }
        arming
    }

    /// Lets the kernel forward the rest of a response that the process is passing on, from the first packet on that finds all before it
    /// received. `held_bytes` of the response, head included as it is to be written, were read from the server's socket and are not written to
    /// the client's yet; `rest_bytes` were not read yet. Costs a system call.
    ///
    /// From then on, first those that are held, and then what can be read from the server's socket, is to be written to the client's, byte by
    /// byte, at most `rest_bytes`, and nothing else. Nothing comes to the server's socket any more once the kernel has begun; only if the server sends
    /// more than `rest_bytes`, it gets what the client has not. When the response is whole, [`ResponseSplice::disarm`] or [`ResponseSplice::arm`] have
    /// to come before the next request. [`ResponseSplice::progress`] counts what the kernel forwards.
    /// What is forwarded is paced as `pace` says.
    pub fn arm_body(&mut self, held_bytes: u32, rest_bytes: u64, pace: PaceHandle) -> Arming {
        if self.splice.is_armed() && !self.is_body {
            return Arming::NotYet;
        }
        self.count();
        if self.is_body && self.record.is_back() {
            self.splice.note_back();
            self.is_body = false;
        }
        // Nothing is forwarded yet, and nobody is in the midst of a response.
        if !self.splice.is_armed() && self.has_bad_leg() {
            return self.refused(Reason::PacketBadLeg);
        }
        let before = self.begin_record();
        let answer = self
            .splice
            .arm_body(&self.record, held_bytes, rest_bytes, pace);
        let arming = self.armed(&answer, before);
        if arming == Arming::Armed {
            self.is_body = true;
            if rest_bytes > 0 {
                self.splicer.counters().packet_splices.add(1);
            }
        }
        arming
    }

    /// Where it stands. Costs no system call.
    #[must_use]
    pub fn state(&self) -> State {
        match (self.splice.is_armed(), self.is_body) {
            (false, _) => State::Relaying,
            (true, true) if self.record.is_back() => State::Relaying,
            (true, true) if !self.record.has_begun() => State::Attaching,
            (true, _) => State::InKernel,
        }
    }

    /// Lets the server send no more than the client takes, so that little of a response comes to this process before [`ResponseSplice::arm_body`]
    /// says what is to become of the rest. To be called before a request is written to the server's socket; nothing is forwarded. Costs a system
    /// call, but only if that is not so already.
    pub fn hold(&mut self) -> Arming {
        if self.state() == State::Attaching {
            return Arming::Armed;
        }
        let is_to_end = !self.is_body || self.has_bad_leg();
        if self.splice.is_armed() && is_to_end && self.disarm().is_err() {
            return self.refused(Reason::PacketRefused);
        }
        self.arm_body(0, 0, PaceHandle::default())
    }

    /// Whether the kernel has begun to forward the rest of the response ([`ResponseSplice::arm_body`]). Costs no system call.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.is_body && self.record.has_begun()
    }

    /// After a response of which the kernel was to get the rest and has not begun: why it cannot, which is counted. `None`: it could, but too
    /// much of the response had come before. Costs a system call.
    #[must_use]
    pub fn why_not_begun(&self) -> Option<Reason> {
        let is_unseen = !self.splice.is_seen();
        is_unseen.then(|| self.splicer.refuse_responses(self.splice.why_unseen()))
    }

    /// Whether the kernel has, or is to get, the rest of one response only.
    #[must_use]
    pub fn is_body(&self) -> bool {
        self.is_body
    }

    /// The record is about to begin anew; what it says was sent and acknowledged, which others may have left in it.
    fn begin_record(&self) -> (u64, u64) {
        self.record.clear();
        (self.record.sent_bytes(), self.record.acked_bytes())
    }

    /// What the answer to an attempt to arm means. `before` is what [`begin_record`](Self::begin_record) said: by the time the answer is here,
    /// another processor may have forwarded the first packets of a body.
    fn armed(&mut self, answer: &io::Result<Answer>, before: (u64, u64)) -> Arming {
        match answer {
            Ok(Answer::Done) => {
                (self.begun_at, self.counted_bytes) = before;
                self.judged = self.record.judged();
                Arming::Armed
            }
            Ok(Answer::Busy | Answer::Unseen) => Arming::NotYet,
            Ok(answer) => self.refused(answer.reason()),
            Err(_) => self.refused(Reason::PacketRefused),
        }
    }

    fn refused(&self, reason: Reason) -> Arming {
        self.splicer.counters().reason(reason).add(1);
        Arming::Never(reason)
    }

    /// Lets events of requests that the kernel forwards from now on have this name. To be called before [`ResponseSplice::settle`].
    pub fn tell_as(&self, name: u64) {
        self.record.tell_as(name);
    }

    /// A look at what the kernel notes, for others.
    #[must_use]
    pub fn watch(&self) -> ResponseWatch {
        self.record.watch()
    }

    /// Whether the kernel forwards what the server sends.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.splice.is_armed()
    }

    /// A request is about to be written to the server's socket: what is forwarded from now on belongs to its response, if all
    /// responses before are whole. `is_exact`: that is certain; otherwise the kernel judges no further request until it is armed again.
    /// `is_head`: the request's method is HEAD, so that its response ends with the head.
    pub fn expect_response(&mut self, is_exact: bool, is_head: bool) {
        self.count();
        self.record.ask(is_head);
        if is_exact {
            self.record.note_whole();
        }
        self.begun_at = self.record.sent_bytes();
    }

    /// A request of `bytes` bytes, which was read from the client's socket, is in the server's socket as a whole. Once that has been said of
    /// all that has come to the client's socket since it was armed, the kernel may judge the next request. Not to be called
    /// where some request was not passed on.
    pub fn settle(&mut self, bytes: u64) {
        if std::mem::take(&mut self.is_fresh) {
            self.record.settle_first();
        } else {
            self.record.settle(bytes);
        }
    }

    /// Takes note of requests that the kernel has forwarded since the last time; `None`: there are none. What is said of the
    /// response ([`ResponseSplice::progress`], [`ResponseSplice::head`]) belongs to the latest of them from now on.
    pub fn catch_up(&mut self) -> Option<CaughtUp> {
        let judged = self.record.judged();
        let requests = judged.wrapping_sub(self.judged);
        if requests == 0 {
            return None;
        }
        let (passed_end, passed_status) = self.record.passed();
        let caught_up = CaughtUp {
            requests,
            method: self.record.method(),
            passed_bytes: passed_end.saturating_sub(self.begun_at),
            passed_status,
        };
        self.judged = judged;
        self.count();
        self.begun_at = self.record.head_at();
        Some(caught_up)
    }

    /// How much of the response has gone to the client. Costs no system call.
    #[must_use]
    pub fn progress(&self) -> Progress {
        // In this order: what is acknowledged was sent before.
        let acked_bytes = self.record.acked_bytes();
        let since = |bytes: u64| bytes.saturating_sub(self.begun_at);
        let sent_bytes = if self.record.is_back() {
            // The rest comes again.
            acked_bytes
        } else {
            self.record.sent_bytes()
        };
        Progress {
            sent_bytes: since(sent_bytes),
            acked_bytes: since(acked_bytes),
        }
    }

    /// How long ago the client has acknowledged something of what was forwarded. Costs no system call.
    #[must_use]
    pub fn since_acknowledged(&self) -> Duration {
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(
            now.tv_sec.try_into().unwrap_or(0),
            now.tv_nsec.try_into().unwrap_or(0),
        );
        now.saturating_sub(Duration::from_nanos(self.record.acked_ns()))
    }

    /// The beginning of the response: what was in its first packet, at most 1024 bytes. Where interim heads (1xx) came in packets of
    /// their own, shorter than 512 bytes together, the next packet follows, at most 512 bytes of it. Empty if there is none yet, or
    /// if its packets did not come in order. What it means is for the caller to say: if the response before was not whole when the
    /// request was sent, these may be bytes of that one. Costs no system call.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        self.record.head(self.begun_at)
    }

    /// The last five bytes of what was forwarded; empty if they are not known. Costs no system call.
    #[must_use]
    pub fn tail(&self) -> Vec<u8> {
        self.record.tail()
    }

    /// Whether the client would take more at once: it has acknowledged what it was sent, and offers a window. Costs a system call.
    #[must_use]
    pub fn client_has_room(&self) -> bool {
        self.splice.response_room_bytes() >= ROOM_BYTES_MIN
    }

    /// Whether the server's end of stream has been seen, which is kept from the client; or it has sent what nobody has asked for. What is before
    /// that may be under way yet.
    #[must_use]
    pub fn has_server_ended(&self) -> bool {
        self.record.has_end()
    }

    /// Whether the client has acknowledged all before the server's end of stream, or before what nobody has asked for.
    #[must_use]
    pub fn is_server_over(&self) -> bool {
        let Progress {
            sent_bytes,
            acked_bytes,
        } = self.progress();
        self.record.is_over() && (sent_bytes == acked_bytes || self.record.has_spilt())
    }

    /// Sees to `cx` being woken when the server has ended its stream and the client has acknowledged all before, or when interfaces or routes
    /// have changed: called then, it lets the packets go where the routes lead. False if there is nobody to do that.
    pub fn listen(&self, cx: &Context<'_>) -> bool {
        let is_heard = self.splice.listen(cx);
        // If the kernel refuses, it is asked again at the next change; the sockets find the way with the next request.
        let _ = self.splice.follow();
        is_heard
    }

    /// Gives both connections back to their sockets. What the client has not acknowledged yet comes again, to the
    /// server's socket; that takes a retransmission time-out.
    ///
    /// Whoever has done that knows of each request that went to the server: the kernel compares its count with that of
    /// [`ResponseSplice::catch_up`] in the same step.
    ///
    /// # Errors
    /// [`DisarmError`].
    pub fn disarm(&mut self) -> Result<(), DisarmError> {
        self.count();
        let was_body = std::mem::take(&mut self.is_body);
        match self.splice.disarm(self.judged)? {
            Answer::Done => Ok(()),
            Answer::Behind => Err(DisarmError::Behind),
            // The kernel has given them back by itself.
            Answer::NoSlot if was_body => {
                self.splice.note_back();
                Ok(())
            }
            answer => Err(DisarmError::Lost(io::Error::other(format!("{answer:?}")))),
        }
    }

    /// Tells the engine how both connections have fared since that was told last, or since they became known to the kernel: it refuses
    /// new splices of their networks for a while if one leg loses much. To be called when they are parted, with the same connections.
    /// Costs three system calls.
    pub fn note_path_statistics(&mut self, client: &TcpStream, server: &TcpStream) {
        let Some(engine) = self.splicer.packet_engine() else {
            return;
        };
        let mut state = self.splice.state();
        // Only responses are forwarded; the other way go acknowledgements.
        (state.packets[0], state.bytes[0]) = (0, 0);
        self.path_statistics
            .note(engine, [client, server], Some(&state));
    }

    fn has_bad_leg(&self) -> bool {
        let engine = self.splicer.packet_engine();
        engine.is_some_and(|engine| self.path_statistics.has_bad_leg(engine))
    }

    /// Adds what was acknowledged since to the splicer's counters. So do the next request and [`ResponseSplice::disarm`].
    pub fn count(&mut self) {
        let acked_bytes = self.record.acked_bytes();
        let counters = self.splicer.counters();
        counters.packet_bytes.add(acked_bytes - self.counted_bytes);
        self.counted_bytes = acked_bytes;
    }
}

impl Drop for ResponseSplice {
    fn drop(&mut self) {
        if self.is_armed() {
            self.count();
        }
    }
}

impl std::fmt::Debug for ResponseSplice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ResponseSplice")
            .field("state", &self.state())
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}
