//! Both ways: joins two connections until both have closed, one fails, or nothing moves any more.

mod parking;
mod steering;

use crate::last_bytes::LAST_BYTES_IDLE;
use crate::lifecycle::pair::{Forwarded, Pair};
use crate::lifecycle::policy::{EnginePolicy, Joining};
use crate::lifecycle::{Attachment, Detach, Lifecycle, State};
use crate::relay::flow::{Ends, Flow, Step};
use crate::relay::local_copy::Sink;
use crate::relay::stalls::{self, Stall};
use crate::relay::watch::{Alarm, ErrorWatch};
use crate::tcp::UnreadLimit;
use crate::{Choice, End, Engine, Fault, HandOver, Leg, PaceHandle, Reason, Side, Splicer, tcp};
use parking::{MayPark, Parked};
use std::future::poll_fn;
use std::os::fd::AsFd;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;

/// The order for an [`Exchange`].
#[derive(Debug, Clone, Copy)]
pub struct ExchangeOrder<'a> {
    /// The engine, for both directions. With `Auto`, each direction adapts on its own.
    pub choice: Choice,
    /// Bytes already read from `a`: they go to `b` first.
    pub a_prefix: &'a [u8],
    /// Bytes already read from `b`: they go to `a` first.
    pub b_prefix: &'a [u8],
    /// End with [`ExchangeEnd::Idle`] if no byte moves either way for this long. Noticed within a quarter of
    /// it.
    pub idle: Duration,
    /// The owner's number for this splice, which identifies it among those in the kernel.
    pub label: u64,
    /// Its pacing: from `a` to `b`, and from `b` to `a`.
    pub pace: [PaceHandle; 2],
    /// Whether the packet engine may join the two connections into one.
    pub joining: Joining,
    /// What may queue at `a`'s connection, and at `b`'s.
    pub unread: [UnreadLimit; 2],
}

impl ExchangeOrder<'_> {
    /// An order for this engine, otherwise the default.
    #[must_use]
    pub fn new(choice: Choice) -> Self {
        ExchangeOrder {
            choice,
            ..ExchangeOrder::default()
        }
    }
}

impl Default for ExchangeOrder<'_> {
    /// `Auto`, no prefixes, one hour of `idle`.
    fn default() -> Self {
        ExchangeOrder {
            choice: Choice::Auto,
            a_prefix: &[],
            b_prefix: &[],
            idle: Duration::from_secs(3600),
            label: 0,
            pace: [PaceHandle::default(); 2],
            joining: Joining::IfGood,
            unread: [UnreadLimit::default(); 2],
        }
    }
}

/// How an [`Exchange`] ended.
#[derive(Debug)]
pub enum ExchangeEnd {
    /// Both sides have closed, and everything they sent was passed on, both FINs included.
    Closed,
    /// No byte moved for as long as `idle` says. [`Exchange::is_quiet`] says whether any was waiting.
    Idle,
    /// A receiver took nothing, and the owner reclaimed the memory ([`Splicer::end_stalled`]).
    Stalled,
    /// One connection failed. What the other direction could still deliver was written. The caller should
    /// reset the other connection (see [`tcp::reset_on_close`](crate::tcp::reset_on_close)), so that its peer
    /// does not take a truncated stream for a whole one; and before that wait for the peer
    /// ([`Exchange::survivor`]), since a reset discards what the peer has not acknowledged.
    Fault {
        /// The direction in which it was noticed.
        a_to_b: bool,
        /// Which connection failed in this direction, and how.
        fault: Fault,
    },
}

/// A transfer both ways, made by [`Splicer::exchange`].
pub struct Exchange<'a> {
    pair: Pair<'a>,
    lifecycle: Lifecycle,
    policy: EnginePolicy,
    /// The engine in the kernel that has the connections or is to get them; or that had them and keeps
    /// translating their numbers.
    attachment: Option<Attachment>,
    /// The connections while they are not registered with tokio.
    parked: Option<Parked>,
    may_park: MayPark,
    idle: Duration,
    /// Why the packets stay with the local sockets, until the caller asks.
    packets_refused: Option<Reason>,
    errors: [ErrorWatch<'a>; 2],
    stall: Option<Box<Stall>>,
    /// The connection that may still deliver, after the other has failed.
    survivor: Option<u8>,
}

impl Splicer {
    /// A transfer both ways. Nothing happens before [`Exchange::run`]. The connections are lent or owned: see
    /// [`Leg`].
    #[must_use]
    pub fn exchange<'a>(
        &self,
        a: impl Into<Leg<'a>>,
        b: impl Into<Leg<'a>>,
        order: ExchangeOrder<'a>,
    ) -> Exchange<'a> {
        Exchange::new(self.clone(), [a.into(), b.into()], order)
    }
}

impl<'a> Exchange<'a> {
    fn new(splicer: Splicer, legs: [Leg<'a>; 2], order: ExchangeOrder<'a>) -> Self {
        splicer.counters().exchanges.add(1);
        let (policy, start) = EnginePolicy::new(
            order.choice,
            splicer.socket_engine().is_some(),
            splicer.packet_engine().is_some(),
            order.joining,
        );
        let choice = start.refused.map_or(order.choice, |reason| {
            splicer.counters().reason(reason).add(1);
            Choice::Auto
        });
        let flows = [0, 1].map(|side| {
            let mut flow = Flow::new(&splicer, choice, End::EndOfStream, None, &Sink::none());
            flow.set_pace(order.pace[side]);
            flow.set_unread(order.unread[side]);
            flow.set_pass_end(true);
            flow
        });
        let prefixes = [order.a_prefix, order.b_prefix];
        let mut exchange = Exchange {
            pair: Pair::new(splicer, legs, prefixes, flows, order.label, order.joining),
            lifecycle: Lifecycle::default(),
            policy,
            attachment: None,
            parked: None,
            may_park: MayPark::default(),
            idle: order.idle,
            packets_refused: start.refused.filter(|_| order.choice == Choice::Packet),
            errors: <[ErrorWatch<'_>; 2]>::default(),
            stall: None,
            survivor: None,
        };
        if let Some(engine) = start.engine {
            exchange.begin_attaching(engine);
        }
        exchange
    }

    /// Moves bytes both ways until both directions have ended, a connection fails, or nothing moves for too
    /// long. May be dropped at any time and called again: the exchange keeps the state.
    pub async fn run(&mut self) -> ExchangeEnd {
        poll_fn(|cx| self.poll_run(cx)).await
    }

    /// [`run`](Exchange::run), for callers that poll.
    pub fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEnd> {
        let end = self.poll_end(cx);
        if let Poll::Ready(end) = &end {
            let has_tc = matches!(self.attachment, Some(Attachment::Tc(_)));
            // While the kernel has the packets, each poll reports them.
            if !(has_tc && self.lifecycle.is(State::InKernel)) {
                self.pair.note_path_statistics(None);
            }
            if matches!(end, ExchangeEnd::Closed | ExchangeEnd::Fault { .. }) {
                self.lifecycle.enter(State::Ended);
            }
        }
        end
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEnd> {
        loop {
            if self.parked.is_some() {
                match self.poll_parked(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(end)) => return Poll::Ready(end),
                    Poll::Ready(None) => {}
                }
            }
            if let Poll::Ready(end) = self.poll_awake(cx) {
                return Poll::Ready(end);
            }
            if !self.park(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Moves what can be moved, while tokio has the connections.
    fn poll_awake(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEnd> {
        loop {
            match self.poll_engine(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(end)) => return Poll::Ready(end),
                Poll::Ready(None) => {}
            }
            let steps = [self.poll_way(cx, 0), self.poll_way(cx, 1)];
            if let Some(end) = self.end() {
                return Poll::Ready(end);
            }
            self.note_stall(cx, &steps);
            if Stall::is_ended(&self.stall) {
                return Poll::Ready(self.take_fault().unwrap_or(ExchangeEnd::Stalled));
            }
            if self.choose_packets() | self.choose_socket() {
                continue;
            }
            if steps.iter().any(|step| matches!(step, Step::Yield)) {
                return Poll::Pending;
            }
            if self.attach(cx, &steps) || self.poll_errors(cx, &steps) {
                continue;
            }
            // A direction held by pacing is not idle.
            if steps.iter().any(|step| matches!(step, Step::Held)) {
                return Poll::Pending;
            }
            let [a_to_b, b_to_a] = &mut self.pair.flows;
            if a_to_b.take_was_held_long() | b_to_a.take_was_held_long() {
                self.pair.watch.disarm();
            }
            let moved_bytes = self.pair.moved_bytes();
            let idle = if self.pair.failed.is_some() {
                self.idle.min(LAST_BYTES_IDLE)
            } else {
                self.idle
            };
            let waits = if steps
                .iter()
                .any(|step| matches!(step, Step::Blocked(Side::To)))
            {
                Side::To
            } else {
                Side::From
            };
            let legs = self.pair.legs.as_ref();
            let acked = || legs.and_then(|[a, b]| acked_bytes([&**a, &**b]));
            let watch = &mut self.pair.watch;
            match watch.poll(cx, (moved_bytes, waits), acked, idle, None) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Alarm::Quiet) => {
                    self.pair.flows.iter_mut().for_each(Flow::look_anyway);
                }
                Poll::Ready(Alarm::Ended(_)) => return Poll::Ready(self.stalled()),
            }
        }
    }

    /// Records directions that wait for their receivers.
    fn note_stall(&mut self, cx: &Context<'_>, steps: &[Step; 2]) {
        let waits = |step: &Step| matches!(step, Step::Blocked(Side::To));
        let moved_bytes = (steps.iter().zip(&self.pair.flows))
            .filter(|(step, _)| waits(step))
            .map(|(_, flow)| flow.moved_bytes())
            .sum();
        let legs = &self.pair.legs;
        let sockets = || legs.as_ref().map(|[a, b]| stalls::descriptors(a, b));
        Stall::note(
            &mut self.stall,
            self.pair.splicer.stalls(),
            steps.iter().any(waits),
            moved_bytes,
            sockets,
            cx,
        );
    }

    /// Moves what can be moved from this side, unless that has ended or failed; records a fault.
    fn poll_way(&mut self, cx: &mut Context<'_>, side: usize) -> Step {
        if matches!(self.pair.failed, Some((failed, _)) if usize::from(failed) == side) {
            return Step::Blocked(Side::To);
        }
        match self.relay(cx, side) {
            Step::Fault(fault) => {
                self.pair.fail(side, fault);
                Step::Blocked(Side::To)
            }
            step => step,
        }
    }

    /// Relays what comes from this side, except what the engine forwards.
    fn relay(&mut self, cx: &mut Context<'_>, side: usize) -> Step {
        let pair = &mut self.pair;
        let mut attachment = self.attachment.as_mut();
        if let Some(attachment) = &mut attachment
            && let Some(step) = attachment.before_relay(cx, pair, side)
        {
            return step;
        }
        let Some(legs) = &pair.legs else {
            return Step::Blocked(Side::From);
        };
        let is_from_owed = pair.flows[1 - side].holds_bytes();
        let ends = Ends {
            splicer: &pair.splicer,
            from: &legs[side],
            to: &legs[1 - side],
            prefix: pair.prefixes[side],
            kernel: attachment
                .as_deref()
                .and_then(|attachment| attachment.part(side)),
            is_from_owed,
        };
        let step = pair.flows[side].poll(cx, &ends, &mut Sink::none());
        match attachment {
            Some(attachment) => attachment.engine_mut().after_relay(cx, pair, side, step),
            None => step,
        }
    }

    /// Whether a direction has ended, and its FIN was passed on if requested.
    fn is_ended(&self, side: usize) -> bool {
        let has_passed_end = |attachment: &Attachment| attachment.has_passed_end(side);
        self.pair.flows[side].is_ended()
            && (self.pair.failed.is_some() || self.attachment.as_ref().is_none_or(has_passed_end))
    }

    /// Watches a connection that is not being read, and to which data is to be written. True if one has
    /// failed.
    fn poll_errors(&mut self, cx: &mut Context<'_>, steps: &[Step; 2]) -> bool {
        for side in [0, 1] {
            let Some(legs) = self.pair.legs.as_ref() else {
                return false;
            };
            if self.pair.failed.is_some() {
                return false;
            }
            if !self.is_ended(1 - side)
                && !matches!(steps[side], Step::Blocked(Side::From))
                && let Poll::Ready(source) = self.errors[side].poll(cx, &legs[side])
            {
                let fault = Fault::new(Side::To, "poll", source);
                self.pair.fail(1 - side, fault);
                return true;
            }
        }
        false
    }

    /// The end of the exchange, if it has ended.
    fn end(&mut self) -> Option<ExchangeEnd> {
        match &self.pair.failed {
            None if self.is_ended(0) && self.is_ended(1) => Some(ExchangeEnd::Closed),
            None => None,
            Some((side, fault)) if self.pair.is_over || self.is_ended(usize::from(1 - *side)) => {
                self.survivor = Some(match fault.side {
                    Side::From => 1 - *side,
                    Side::To => *side,
                });
                self.stall = None;
                self.take_fault()
            }
            Some(_) => None,
        }
    }

    fn take_fault(&mut self) -> Option<ExchangeEnd> {
        let (side, fault) = self.pair.failed.take()?;
        let a_to_b = side == 0;
        Some(ExchangeEnd::Fault { a_to_b, fault })
    }

    /// Nothing moved for too long.
    fn stalled(&mut self) -> ExchangeEnd {
        self.take_fault().unwrap_or_else(|| {
            self.pair.splicer.counters().idle_ends.add(1);
            ExchangeEnd::Idle
        })
    }

    /// After [`ExchangeEnd::Fault`]: the connection to the other peer, if that may still take what was written to it;
    /// [`Splicer::deliver`] waits for it.
    #[must_use]
    pub fn survivor(&self) -> Option<&TcpStream> {
        let legs = self.pair.legs.as_ref()?;
        legs.get(usize::from(self.survivor?)).map(|leg| &**leg)
    }

    /// Whether nothing that one side has sent is still on its way to the other. Otherwise the caller of an
    /// exchange that ended with [`ExchangeEnd::Idle`] should reset both connections: if it closes them, what
    /// the receiver has not got is lost, and the rest looks whole.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let engine = self.attachment.as_ref();
        // What follows a FIN that was passed on, the kernel delivers by itself.
        [0, 1]
            .into_iter()
            .all(|side| self.is_ended(side) || self.pair.is_quiet(side))
            && engine.is_none_or(|engine| engine.is_quiet(&self.pair))
    }

    /// Bytes read from `a`'s connection and written to `b` so far, without the prefix.
    #[must_use]
    pub fn a_to_b_bytes(&self) -> u64 {
        self.pair.flows[0].written_bytes()
    }

    /// Bytes read from `b`'s connection and written to `a` so far, without the prefix.
    #[must_use]
    pub fn b_to_a_bytes(&self) -> u64 {
        self.pair.flows[1].written_bytes()
    }

    /// What [`SocketService::live`](crate::SocketService::live) and
    /// [`PacketService::live`](crate::PacketService::live) do not count of this exchange while it is in the
    /// kernel: bytes from `a` to `b`, and from `b` to `a`, that the process relayed, or the kernel forwarded
    /// in an earlier stay. `None` if it is not in the kernel: then [`a_to_b_bytes`](Exchange::a_to_b_bytes)
    /// and [`b_to_a_bytes`](Exchange::b_to_a_bytes) count everything.
    #[must_use]
    pub fn bytes_beside_live(&self) -> Option<(u64, u64)> {
        let engine = self.attachment.as_ref()?.engine();
        engine.bytes_beside_live(&self.pair).map(|[a, b]| (a, b))
    }

    /// The state of the splice.
    #[must_use]
    pub fn state(&self) -> State {
        self.lifecycle.state()
    }

    /// Why the packet engine does not forward this exchange's packets, if that was requested and decided
    /// since the last call. The splicer has counted it.
    pub fn take_packets_refused(&mut self) -> Option<Reason> {
        self.packets_refused.take()
    }

    /// Leaves the connections to the kernel for good, which goes on without this process: for the process's
    /// exit. From then on, nothing that happens to the local sockets reaches the peers. False if that is not
    /// possible: the packets are not in the kernel, the engine has no folder in which it outlives the process
    /// ([`PacketService::pins`](crate::PacketService::pins)), or a local socket holds data, which would be
    /// lost.
    pub fn leave(&mut self) -> bool {
        // Those are asked.
        self.wake_up();
        match &mut self.attachment {
            Some(Attachment::Tc(tc)) => tc.leave(&self.pair),
            _ => false,
        }
    }

    /// What the packet engine has done, when last checked: at the end of the exchange, all of it.
    #[must_use]
    pub fn forwarded(&self) -> Forwarded {
        self.pair.forwarded.as_deref().copied().unwrap_or_default()
    }

    /// The engines in use, or used last: from `a` to `b`, and from `b` to `a`.
    #[must_use]
    pub fn engines(&self) -> (Engine, Engine) {
        (self.pair.flows[0].engine(), self.pair.flows[1].engine())
    }

    /// Takes the connections back: returns what was taken from one side and not written to the other, in
    /// order. First from `a` to `b`, then from `b` to `a`.
    ///
    /// With the socket engine, this waits for data in flight inside the kernel, usually for microseconds.
    pub async fn unsplice(self) -> (HandOver, HandOver) {
        let (a_to_b, b_to_a, _) = self.unsplice_own().await;
        (a_to_b, b_to_a)
    }

    /// [`unsplice`](Exchange::unsplice) for owned connections: returns them, too. `None` for one that was
    /// lent, or that tokio refused. Must be called on a runtime.
    pub async fn unsplice_own(mut self) -> (HandOver, HandOver, [Option<TcpStream>; 2]) {
        // If tokio refuses them, they are lost.
        self.wake_up();
        poll_fn(|cx| self.poll_unsplice(cx)).await;
        let [a_to_b, b_to_a] = [0, 1].map(|side: usize| {
            let prefix_bytes = self.pair.prefixes[side].len();
            self.pair.flows[side].hand_over(&self.pair.splicer, prefix_bytes)
        });
        (a_to_b, b_to_a, self.into_connections())
    }

    /// Takes the connections back from the engine in the kernel for good. Ready when they are back, or cannot
    /// be used any more.
    fn poll_unsplice(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.lifecycle.is(State::InKernel) {
            self.lifecycle.enter(State::Detaching);
        }
        match self.detach(cx) {
            Detach::Wait | Detach::Relay => Poll::Pending,
            Detach::Parted | Detach::Known | Detach::Lost => Poll::Ready(()),
        }
    }

    /// Returns owned connections and drops what is in flight between them: for after the exchange's end.
    /// `None` for one that was lent, or that tokio refused. Must be called on a runtime.
    #[must_use]
    pub fn into_connections(mut self) -> [Option<TcpStream>; 2] {
        self.wake_up();
        self.forget_watches();
        self.pair
            .legs
            .take()
            .map_or([None, None], |legs| legs.map(Leg::into_own))
    }

    /// Both connections; `None` while parked, which the exchange is not after [`run`](Exchange::run) has
    /// returned.
    #[must_use]
    pub fn connections(&self) -> Option<[&TcpStream; 2]> {
        self.pair.legs.as_ref().map(|[a, b]| [&**a, &**b])
    }
}

/// What both peers have acknowledged; `None` if that is unknown.
fn acked_bytes(sockets: [&impl AsFd; 2]) -> Option<u64> {
    let [a, b] = sockets.map(|socket| tcp::acknowledged_bytes(socket));
    Some(a? + b?)
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.stop_sleeping();
        if let Some(mut attachment) = self.attachment.take() {
            attachment.finish(&mut self.pair);
        }
        for flow in &mut self.pair.flows {
            flow.end_pace(&self.pair.splicer);
        }
        for flow in &mut self.pair.flows {
            flow.release(&self.pair.splicer);
        }
    }
}
