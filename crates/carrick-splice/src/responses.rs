//! Responses that the kernel forwards from a server to a client, while the requests go through the process (packet engine).

use crate::engine::tc::command::Answer;
pub use crate::engine::tc::command::KernelRoutes;
use crate::engine::tc::http::RequestFields;
use crate::engine::tc::path_statistics::PathStatistics;
use crate::engine::tc::records::Record;
pub use crate::engine::tc::records::{ResponseWatch, ToldResponse};
use crate::engine::tc::splice::PacketSplice;
use crate::lifecycle::State;
use crate::sys::clock::now_ns;
use crate::{PaceHandle, Reason, Splicer};
use std::io;
use std::task::Context;
use std::time::Duration;
use tokio::net::TcpStream;

/// A client's connection and a server's, between which the kernel forwards the server's packets: responses,
/// head included, bypass the process. The client's data, FIN and reset still arrive at its socket here; the
/// process reads requests, and writes them to the server's socket.
///
/// While it is armed, nothing may be written to the client's socket, and the server's receives only a FIN
/// (once the client has acknowledged everything before it) or a reset. After [`ResponseSplice::disarm`] both
/// sockets are as if everything forwarded had gone through them. Dropping it disarms, too.
///
/// The kernel keeps track of the connections as long as they live, since their numbers differ from their
/// peers' from then on. They can be spliced again, with each other or with others.
pub struct ResponseSplice {
    splice: PacketSplice,
    record: Record,
    splicer: Splicer,
    /// Bytes forwarded before the latest response.
    begun_at: u64,
    /// Acknowledged bytes already in the splicer's counters.
    counted_bytes: u64,
    /// A request had been read when it was armed.
    is_fresh: bool,
    /// The kernel has, or is to get, the rest of one response only.
    is_body: bool,
    /// Forwarded requests at the last check.
    classified: u32,
    /// The routes that it was armed with, if any, and what ends that.
    bound: Option<Bound>,
    path_statistics: Box<PathStatistics>,
}

/// How long the kernel goes on forwarding requests.
struct Bound {
    upstream: u32,
    /// [`RequestTables::choices`](crate::requests::RequestTables::choices) when it began.
    choices: u32,
    /// The number of forwarded requests, and the time (`CLOCK_MONOTONIC`), at which it ends.
    requests: u32,
    until_ns: u64,
}

/// A response waits for a client with less room than this.
const ROOM_BYTES_MIN: u32 = 4096;

/// Bytes of responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Forwarded to the client.
    pub sent_bytes: u64,
    /// Acknowledged by the client.
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

/// Why the kernel has not returned two connections ([`ResponseSplice::disarm`]).
#[derive(Debug, thiserror::Error)]
pub enum DisarmError {
    /// It has forwarded requests since [`ResponseSplice::catch_up`] was called last, and goes on forwarding.
    #[error("further requests are under way to the server")]
    Behind,
    /// It failed, or the server has not acknowledged a forwarded request: neither connection can be used any
    /// more.
    #[error("the packet engine does not give the connections back: {0}")]
    Lost(#[from] io::Error),
}

/// The result of arming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arming {
    /// The kernel forwards what the server sends from now on.
    Armed,
    /// Not yet: the kernel has not seen both connections, or data is in flight. Relay this response; the next
    /// may work.
    NotYet,
    /// Never, for this reason, which the splicer has counted.
    Never(Reason),
}

impl Splicer {
    /// Whether the policy `auto` may give responses to the packet engine.
    ///
    /// Why not: it is not loaded, or something on this machine must see the packets, as for tunnels with
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

    /// Tells the kernel of two connections, so that [`ResponseSplice::arm`] can follow once a request and a
    /// response have passed. `label` is the owner's number for the splice.
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
        // A peer that has disconnected has no address.
        let [Ok(to_client), Ok(to_server)] = [client, server].map(TcpStream::peer_addr) else {
            return Err(refuse(Reason::PacketRefused));
        };
        let path_statistics =
            PathStatistics::from_now([to_client.ip(), to_server.ip()], [client, server]);
        if path_statistics.is_lossy(engine) {
            return Err(refuse(Reason::PacketLossyPath));
        }
        let record = engine
            .take_record()
            .ok_or_else(|| refuse(Reason::PacketFull))?;
        match PacketSplice::new(engine, [client, server], label) {
            Ok(splice) => Ok(ResponseSplice {
                splice,
                // An earlier splice may have left something in it.
                begun_at: record.sent_bytes(),
                counted_bytes: record.acked_bytes(),
                classified: record.classified(),
                bound: None,
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
    /// Lets the kernel forward what the server sends. Call it between a response and the next request, before
    /// that is written to the server's socket. Costs a system call.
    ///
    /// With `routes`, the kernel also forwards requests that it can classify and that go to the same
    /// upstream; the process learns of them only by events ([`Events`](crate::requests::Events)). This begins
    /// once [`ResponseSplice::settle`] has reported that nothing else is outstanding. These requests get
    /// `fields`.
    ///
    /// What is forwarded is paced by `pace`, which must outlive it.
    pub fn arm(
        &mut self,
        routes: Option<KernelRoutes>,
        fields: &RequestFields,
        pace: PaceHandle,
    ) -> Arming {
        if self.is_body && self.disarm().is_err() {
            return self.refused(Reason::PacketRefused);
        }
        if self.splice.is_armed() {
            return Arming::Armed;
        }
        if self.is_lossy() {
            return self.refused(Reason::PacketLossyPath);
        }
        let choices = routes.and_then(|routes| self.choices(routes.upstream));
        let before = self.begin_record();
        self.record.append(fields);
        let answer = self.splice.arm_responses(&self.record, routes, pace);
        let arming = self.armed(&answer, before);
        if arming == Arming::Armed {
            self.is_fresh = true;
            self.bound = routes.zip(choices).map(|(routes, choices)| {
                let until_ns = u128::from(now_ns()) + routes.time_max.as_nanos();
                Bound {
                    upstream: routes.upstream,
                    choices,
                    requests: self.classified.wrapping_add(routes.requests_max),
                    until_ns: u64::try_from(until_ns).unwrap_or(u64::MAX),
                }
            });
            self.splicer.counters().packet_splices.add(1);
        }
        arming
    }

    /// Lets the kernel forward the rest of a response that the process is relaying, from the first packet
    /// that finds everything before it received. `held_bytes` of the response, head included as it is to be
    /// written, were read from the server's socket and are not written to the client's yet; `rest_bytes` were
    /// not read yet. Costs a system call.
    ///
    /// From then on, first the held bytes, and then what can be read from the server's socket, must be
    /// written to the client's unchanged, at most `rest_bytes`, and nothing else. Once the kernel has begun,
    /// the server's socket receives nothing more; only if the server sends more than `rest_bytes`, it gets
    /// what the client lacks. When the response is whole, [`ResponseSplice::disarm`] or
    /// [`ResponseSplice::arm`] must come before the next request. [`ResponseSplice::progress`] counts what
    /// the kernel forwards,
    /// paced by `pace`.
    pub fn arm_body(&mut self, held_bytes: u32, rest_bytes: u64, pace: PaceHandle) -> Arming {
        if self.splice.is_armed() && !self.is_body {
            return Arming::NotYet;
        }
        self.count();
        if self.is_body && self.record.is_back() {
            self.splice.note_back();
            self.is_body = false;
        }
        // Nothing is forwarded yet, and no response is in progress.
        if !self.splice.is_armed() && self.is_lossy() {
            return self.refused(Reason::PacketLossyPath);
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

    /// The state of the splice. Costs no system call.
    #[must_use]
    pub fn state(&self) -> State {
        match (self.splice.is_armed(), self.is_body) {
            (false, _) => State::Relaying,
            (true, true) if self.record.is_back() => State::Relaying,
            (true, true) if !self.record.has_begun() => State::Attaching,
            (true, _) => State::InKernel,
        }
    }

    /// Limits the server's window to what the client takes, so that little of a response reaches this process
    /// before [`ResponseSplice::arm_body`] decides about the rest. Call it before a request is written to the
    /// server's socket; nothing is forwarded. Costs a system call, unless it is already so.
    pub fn hold(&mut self) -> Arming {
        if self.state() == State::Attaching {
            return Arming::Armed;
        }
        let is_to_end = !self.is_body || self.is_lossy();
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

    /// After a response whose rest the kernel was to get, and did not begin: why it cannot, which is counted.
    /// `None`: it could, but too much of the response had arrived before. Costs a system call.
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

    /// Resets the record; returns its counts of sent and acknowledged bytes, which an earlier splice may have
    /// left.
    fn begin_record(&self) -> (u64, u64) {
        self.record.clear();
        (self.record.sent_bytes(), self.record.acked_bytes())
    }

    /// Interprets the answer to arming. `before` is the result of [`begin_record`](Self::begin_record): by
    /// now another processor may have forwarded the first packets of a body.
    fn armed(&mut self, answer: &io::Result<Answer>, before: (u64, u64)) -> Arming {
        match answer {
            Ok(Answer::Done) => {
                (self.begun_at, self.counted_bytes) = before;
                self.classified = self.record.classified();
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

    /// Whether the kernel forwards no further requests because of [`KernelRoutes::requests_max`], [`KernelRoutes::time_max`] or
    /// [`choose_again`](crate::requests::RequestTables::choose_again): a server is to be chosen. Costs no system call.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.bound.as_ref().is_some_and(|bound| {
            self.record.classified() == bound.requests
                || now_ns() >= bound.until_ns
                || self.choices(bound.upstream) != Some(bound.choices)
        })
    }

    fn choices(&self, upstream: u32) -> Option<u32> {
        let engine = self.splicer.packet_engine()?;
        Some(engine.request_tables.choices(upstream))
    }

    /// Sets the name in events of requests that the kernel forwards from now on. Call it before
    /// [`ResponseSplice::settle`].
    pub fn tell_as(&self, name: u64) {
        self.record.tell_as(name);
    }

    /// A view of the kernel's record, for others.
    #[must_use]
    pub fn watch(&self) -> ResponseWatch {
        self.record.watch()
    }

    /// Whether the kernel forwards what the server sends.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.splice.is_armed()
    }

    /// Announces a request to the server's socket: what is forwarded from now on belongs to its response, if
    /// all responses before are whole. `is_exact`: that is certain; otherwise the kernel classifies no
    /// further request until it is armed again. `is_head`: the method is HEAD, so the response ends with its
    /// head.
    pub fn expect_response(&mut self, is_exact: bool, is_head: bool) {
        self.count();
        self.record.ask(is_head);
        if is_exact {
            self.record.note_whole();
        }
        self.begun_at = self.record.sent_bytes();
    }

    /// Reports that a request of `bytes` bytes, read from the client's socket, was written to the server's as
    /// a whole. Once this is reported for everything that the client's socket received since arming, the
    /// kernel may classify the next request. Do not call it if some request was not passed on.
    pub fn settle(&mut self, bytes: u64) {
        if std::mem::take(&mut self.is_fresh) {
            self.record.settle_first();
        } else {
            self.record.settle(bytes);
        }
    }

    /// Returns requests that the kernel has forwarded since the last call; `None`: none. From now on
    /// [`ResponseSplice::progress`] and [`ResponseSplice::head`] are about the response to the latest of
    /// them.
    pub fn catch_up(&mut self) -> Option<CaughtUp> {
        let classified = self.record.classified();
        let requests = classified.wrapping_sub(self.classified);
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
        self.classified = classified;
        self.count();
        self.begun_at = self.record.head_at();
        Some(caught_up)
    }

    /// The latest request that the kernel has forwarded, as the client has sent it. Call it once the connections are returned
    /// ([`ResponseSplice::disarm`]): the kernel may forward another one before. Costs a system call.
    #[must_use]
    pub fn forwarded_request(&self) -> Option<Vec<u8>> {
        let engine = self.splicer.packet_engine()?;
        engine.kept_request(&self.record)
    }

    /// How much of the response has gone to the client. Costs no system call.
    #[must_use]
    pub fn progress(&self) -> Progress {
        // In this order, since what is acknowledged was sent before.
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

    /// Time since the client last acknowledged forwarded data. Costs no system call.
    #[must_use]
    pub fn since_acknowledged(&self) -> Duration {
        Duration::from_nanos(now_ns().saturating_sub(self.record.acked_ns()))
    }

    /// The beginning of the response: its first packet, at most 1024 bytes. If interim heads (1xx) came in
    /// packets of their own, shorter than 512 bytes together, the next packet follows, at most 512 bytes of
    /// it. Empty if there is none yet, or if its packets arrived out of order. The caller interprets it: if
    /// the response before was not whole when the request was sent, these may be bytes of that one. Costs no
    /// system call.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        self.record.head(self.begun_at)
    }

    /// Whether all of the response was forwarded, as the kernel has read in its head; `None`: that did not come as a whole in
    /// the response's first packet, or does not say it. Costs no system call.
    #[must_use]
    pub fn has_whole(&self) -> Option<bool> {
        self.record.has_whole(self.begun_at)
    }

    /// The last five bytes forwarded; empty if unknown. Costs no system call.
    #[must_use]
    pub fn tail(&self) -> Vec<u8> {
        self.record.tail()
    }

    /// Whether the client would take more at once: it has acknowledged what it was sent, and offers a window. Costs a system call.
    #[must_use]
    pub fn client_has_room(&self) -> bool {
        self.splice.response_room_bytes() >= ROOM_BYTES_MIN
    }

    /// Whether the server has sent its FIN, which is not forwarded, or unrequested data. What precedes that
    /// may still be in flight.
    #[must_use]
    pub fn has_server_ended(&self) -> bool {
        self.record.has_end()
    }

    /// Whether the response, or its request, gets no further in the kernel, since its packets have come in fragments. Until
    /// the connections are returned, these are lost. Costs no system call.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.record.is_stuck()
    }

    /// Whether the client has acknowledged everything before the server's FIN, or before unrequested data.
    #[must_use]
    pub fn is_server_over(&self) -> bool {
        let Progress {
            sent_bytes,
            acked_bytes,
        } = self.progress();
        self.record.is_over() && (sent_bytes == acked_bytes || self.record.has_spilt())
    }

    /// Arranges to wake `cx` when the server has sent its FIN and the client has acknowledged everything
    /// before it, or when interfaces or routes have changed: called then, it updates the route of the
    /// packets. False if there is no notifier.
    pub fn listen(&self, cx: &Context<'_>) -> bool {
        let is_heard = self.splice.listen(cx);
        // If the kernel refuses, it is asked again at the next change; the next request shows the sockets'
        // new route.
        let _ = self.splice.follow();
        is_heard
    }

    /// Returns both connections to their sockets. What the client has not acknowledged yet is retransmitted
    /// to the server's socket, after a retransmission time-out.
    ///
    /// Afterwards the caller knows of every request that went to the server: the kernel compares its count
    /// with that of [`ResponseSplice::catch_up`] in the same step.
    ///
    /// # Errors
    /// [`DisarmError`].
    pub fn disarm(&mut self) -> Result<(), DisarmError> {
        self.count();
        let answer = self.splice.disarm(self.classified)?;
        self.disarmed(answer)
    }

    /// [`ResponseSplice::disarm`] when the server's connection is of no further use: it may have missed the latest forwarded request,
    /// which the client takes for received. [`ResponseSplice::forwarded_request`] has it. Close the server's connection by a reset.
    ///
    /// # Errors
    /// [`DisarmError`].
    pub fn take_client(&mut self) -> Result<(), DisarmError> {
        self.count();
        let answer = self.splice.take_client(self.classified)?;
        self.disarmed(answer)
    }

    fn disarmed(&mut self, answer: Answer) -> Result<(), DisarmError> {
        let was_body = std::mem::take(&mut self.is_body);
        match answer {
            Answer::Done => Ok(()),
            Answer::Behind => Err(DisarmError::Behind),
            // The kernel has returned them by itself.
            Answer::NoSlot if was_body => {
                self.splice.note_back();
                Ok(())
            }
            answer => Err(DisarmError::Lost(io::Error::other(format!("{answer:?}")))),
        }
    }

    /// Reports statistics of both connections since the last report, or since the kernel knows them, to the
    /// engine: it refuses new splices of their networks for a while if one leg loses much. Call it before the
    /// connections part. Costs three system calls.
    pub fn note_path_statistics(&mut self, client: &TcpStream, server: &TcpStream) {
        let Some(engine) = self.splicer.packet_engine() else {
            return;
        };
        // A client's fragments say nothing of the others in its network.
        if self.record.is_stuck_by_server() {
            self.path_statistics.avoid(engine);
        }
        let mut state = self.splice.state();
        // Only responses are forwarded; acknowledgements go the other way.
        (state.packets[0], state.bytes[0]) = (0, 0);
        self.path_statistics
            .note(engine, [client, server], Some(&state));
    }

    fn is_lossy(&self) -> bool {
        let engine = self.splicer.packet_engine();
        engine.is_some_and(|engine| self.path_statistics.is_lossy(engine))
    }

    /// Adds newly acknowledged bytes to the splicer's counters. So do the next request and
    /// [`ResponseSplice::disarm`].
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
