//! Both ways: two connections joined until both have closed, one fails, or nothing moves any more.

mod chatter;
mod joining;
mod packets;
mod path_statistics;
mod sleeping;
mod worth;

use crate::engine::tc::path_statistics::PathStatistics;
use crate::kernel::Kernel;
use crate::relay::flow::{Ends, Flow, Step};
use crate::relay::local_copy::Sink;
use crate::relay::stalls;
use crate::relay::stalls::Stall;
use crate::relay::watch::{Alarm, ErrorWatch, Watch};
use crate::tcp::UnreadLimit;
use crate::{Choice, End, Engine, Fault, HandOver, Leg, PaceHandle, Reason, Side, Splicer};
use chatter::Chatter;
use packets::Packets;
use sleeping::{Calm, Parked};
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use worth::Worth;

/// After one connection failed, the other direction may go on delivering as long as it moves; so long without a byte,
/// and it is over.
const LAST_BYTES_IDLE: Duration = Duration::from_secs(5);

/// What an [`Exchange`] is asked to do.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeOrder<'a> {
    /// The engine, for both directions. With `Auto` each direction adapts on its own.
    pub choice: Choice,
    /// Bytes that were read from `a` already: they go to `b` first.
    pub a_prefix: &'a [u8],
    /// Bytes that were read from `b` already: they go to `a` first.
    pub b_prefix: &'a [u8],
    /// End with [`ExchangeEnd::Idle`] after no byte moved either way for so long. Noticed within a quarter of it.
    pub idle: Duration,
    /// The owner's number for this splice, by which it finds it among those that are in the kernel.
    pub label: u64,
    /// How it is paced: from `a` to `b`, and from `b` to `a`.
    pub pace: [PaceHandle; 2],
    /// Whether the packet engine may make one connection of both.
    pub joining: Joining,
    /// What may wait at `a`'s connection, and at `b`'s.
    pub unread: [UnreadLimit; 2],
}

/// Whether the packet engine may make one connection of two, which both have each a control loop, a window and a recovery from loss of
/// their own otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Joining {
    /// If the engine leads there, and no leg is so bad that both do better by themselves.
    #[default]
    IfGood,
    /// If the engine leads there, however the legs fare.
    Anyway,
    /// Never, not even if the choice is left to the exchange and it would pay.
    Never,
}

/// What the packet engine has done in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forwarded {
    /// Bytes that it has forwarded and the receivers have acknowledged: from `a` to `b`, and from `b` to `a`.
    pub bytes: [u64; 2],
    /// Packets, and those of them whose data had been sent before.
    pub packets: [u64; 2],
    #[expect(missing_docs, reason = "as said above")]
    pub again: [u32; 2],
    /// For how long there was something to forward: from the moment at which it had the packets to the last acknowledgement of bytes. Of
    /// each pause in which nothing was under way, one second at most.
    pub active: Duration,
    /// When it had the packets for the first time.
    pub since: Option<Instant>,
}

impl ExchangeOrder<'_> {
    /// An order for this engine, else as the default.
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
    /// Both sides have closed, and everything that they sent was passed on, the closing included.
    Closed,
    /// No byte moved for as long as `idle` says.
    Idle,
    /// A receiver took nothing, and the owner wanted the memory back ([`Splicer::end_stalled`]).
    Stalled,
    /// One connection failed. What the other direction could still deliver was delivered. The caller should reset the
    /// other connection (see [`tcp::reset_on_close`](crate::tcp::reset_on_close)), so that its peer does not take a
    /// broken stream for a whole one.
    Fault {
        /// The direction in which it was noticed.
        a_to_b: bool,
        /// Which connection failed in this direction, and how.
        fault: Fault,
    },
}

/// A transfer both ways, made by [`Splicer::exchange`].
pub struct Exchange<'a> {
    splicer: Splicer,
    /// `a` and `b`, as long as tokio has them.
    legs: Option<[Leg<'a>; 2]>,
    /// The same, while the process sleeps.
    parked: Option<Parked>,
    calm: Calm,
    a_prefix: &'a [u8],
    b_prefix: &'a [u8],
    idle: Duration,
    label: u64,
    a_to_b: Flow,
    b_to_a: Flow,
    /// The connections are to go into the kernel's hands as soon as nothing is held.
    wants_kernel: bool,
    /// With `Auto`, or if the packets stay here: whether the kernel is to have them.
    chatter: Option<Chatter>,
    kernel: Option<Box<Kernel>>,
    /// It is to give the connections back.
    leaves_kernel: bool,
    packets: Packets,
    /// Why they stay with the local sockets, as long as nobody has asked.
    packets_refused: Option<Reason>,
    /// What the packet engine was told of both legs.
    path_statistics: Option<Box<PathStatistics>>,
    joining: Joining,
    /// Of most exchanges there is none.
    forwarded: Option<Box<Forwarded>>,
    /// What failed first; the other direction goes on for a while.
    failed: Option<(bool, Fault)>,
    is_over: bool,
    watch: Watch,
    a_errors: ErrorWatch<'a>,
    b_errors: ErrorWatch<'a>,
    stall: Option<Box<Stall>>,
}

impl Splicer {
    /// A transfer both ways. Nothing happens before [`Exchange::run`]. The connections are lent or given for good: see
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
        let wants_kernel = order.choice == Choice::Socket && splicer.socket_engine().is_some();
        let has_packets = order.joining != Joining::Never && splicer.packet_engine().is_some();
        let wants_packets = order.choice == Choice::Packet && has_packets;
        let instead = match order.choice {
            Choice::Socket if !wants_kernel => Some(Reason::SocketUnavailable),
            Choice::Packet if !wants_packets => Some(Reason::PacketUnavailable),
            _ => None,
        };
        let choice = instead.map_or(order.choice, |reason| {
            splicer.counters().reason(reason).add(1);
            Choice::Auto
        });
        let adapts = matches!(order.choice, Choice::Auto | Choice::Packet);
        let chatter = (adapts && splicer.socket_engine().is_some()).then(Chatter::default);
        let packets = match order.choice {
            Choice::Packet if wants_packets => Packets::Wanted,
            Choice::Auto if has_packets => Packets::Watched(Worth::default()),
            _ => Packets::No,
        };
        let flow = |pace, unread| {
            let mut flow = Flow::new(&splicer, choice, End::EndOfStream, None, &Sink::none());
            flow.set_pace(pace);
            flow.set_unread(unread);
            // With the kernel's help there is more to do at the end than to pass it on.
            flow.set_pass_end(!wants_kernel);
            flow
        };
        Exchange {
            path_statistics: Exchange::path_statistics_of(&splicer, &legs),
            legs: Some(legs),
            parked: None,
            calm: Calm::default(),
            a_prefix: order.a_prefix,
            b_prefix: order.b_prefix,
            idle: order.idle,
            label: order.label,
            a_to_b: flow(order.pace[0], order.unread[0]),
            b_to_a: flow(order.pace[1], order.unread[1]),
            wants_kernel,
            chatter,
            kernel: None,
            leaves_kernel: false,
            packets,
            packets_refused: instead.filter(|_| order.choice == Choice::Packet),
            joining: order.joining,
            forwarded: None,
            failed: None,
            is_over: false,
            watch: Watch::default(),
            a_errors: ErrorWatch::default(),
            b_errors: ErrorWatch::default(),
            stall: None,
            splicer,
        }
    }

    /// Moves bytes both ways until both directions have ended, a connection fails, or nothing moves for too long. It may
    /// be dropped at any moment and called again: the state lives in the exchange.
    pub async fn run(&mut self) -> ExchangeEnd {
        poll_fn(|cx| self.poll_run(cx)).await
    }

    /// [`run`](Exchange::run), for those who poll themselves.
    pub fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEnd> {
        let end = self.poll_end(cx);
        if end.is_ready() {
            self.note_path_statistics(None);
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
            if !self.sleep(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Moves what can be moved, while tokio has the connections.
    fn poll_awake(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEnd> {
        loop {
            if self.poll_come_back(cx).is_pending() {
                return Poll::Pending;
            }
            if let Some(kernel) = self.kernel.as_mut() {
                kernel.listen(cx);
            }
            if let Poll::Ready(end) = self.poll_packets(cx) {
                return Poll::Ready(end);
            }
            let a_to_b = self.poll_flow(cx, true);
            let b_to_a = self.poll_flow(cx, false);
            if let Some(end) = self.end() {
                return Poll::Ready(end);
            }
            self.note_stall(cx, &a_to_b, &b_to_a);
            if Stall::is_ended(&self.stall) {
                return Poll::Ready(self.take_fault().unwrap_or(ExchangeEnd::Stalled));
            }
            if self.choose() {
                continue;
            }
            if matches!(a_to_b, Step::Yield) || matches!(b_to_a, Step::Yield) {
                return Poll::Pending;
            }
            if self.wants_kernel && self.join(&a_to_b, &b_to_a) {
                continue;
            }
            if self.arm(cx, &a_to_b, &b_to_a) {
                continue;
            }
            if self.poll_errors(cx, &a_to_b, &b_to_a) {
                continue;
            }
            // What is held back is not idle.
            if matches!(a_to_b, Step::Held) || matches!(b_to_a, Step::Held) {
                return Poll::Pending;
            }
            if self.a_to_b.take_was_held_long() | self.b_to_a.take_was_held_long() {
                self.watch.disarm();
            }
            let moved_bytes = self.a_to_b.moved_bytes() + self.b_to_a.moved_bytes();
            let idle = if self.failed.is_some() {
                self.idle.min(LAST_BYTES_IDLE)
            } else {
                self.idle
            };
            match self.watch.poll(cx, moved_bytes, idle, None) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Alarm::Quiet) => {
                    self.a_to_b.look_anyway();
                    self.b_to_a.look_anyway();
                }
                Poll::Ready(Alarm::Ended(_)) => return Poll::Ready(self.stalled()),
            }
        }
    }

    /// Takes note of directions that wait for their receivers.
    fn note_stall(&mut self, cx: &Context<'_>, a_to_b: &Step, b_to_a: &Step) {
        let waits = |step: &Step| matches!(step, Step::Blocked(Side::To));
        let moved_bytes = [(a_to_b, &self.a_to_b), (b_to_a, &self.b_to_a)]
            .into_iter()
            .filter(|(step, _)| waits(step))
            .map(|(_, flow)| flow.moved_bytes())
            .sum();
        let legs = &self.legs;
        let sockets = || legs.as_ref().map(|[a, b]| stalls::descriptors(a, b));
        Stall::note(
            &mut self.stall,
            &self.splicer,
            waits(a_to_b) || waits(b_to_a),
            moved_bytes,
            sockets,
            cx,
        );
    }

    /// Moves what can be moved in one direction, unless that has ended or failed.
    fn poll_flow(&mut self, cx: &mut Context<'_>, a_to_b: bool) -> Step {
        if matches!(self.failed, Some((failed_a_to_b, _)) if failed_a_to_b == a_to_b) {
            return Step::Blocked(Side::To);
        }
        if let Some(step) = self.poll_gate(cx, a_to_b) {
            return self.judge(a_to_b, step);
        }
        let side = usize::from(!a_to_b);
        let Some([from, to]) = self.ends(a_to_b) else {
            return Step::Blocked(Side::From);
        };
        let (flow, prefix, back) = if a_to_b {
            (&mut self.a_to_b, self.a_prefix, &self.b_to_a)
        } else {
            (&mut self.b_to_a, self.b_prefix, &self.a_to_b)
        };
        let step = flow.poll(
            cx,
            &Ends {
                splicer: &self.splicer,
                from: &from,
                to: &to,
                prefix,
                kernel: self.kernel.as_ref().and_then(|kernel| kernel.part(side)),
                is_from_owed: back.holds_bytes(),
            },
            &mut Sink::none(),
        );
        let step = self.after_flow(cx, a_to_b, step);
        let step = self.pass_end_beside(a_to_b, step);
        self.judge(a_to_b, step)
    }

    /// Takes note if a connection has failed.
    fn judge(&mut self, a_to_b: bool, step: Step) -> Step {
        match step {
            Step::Fault(fault) => {
                self.fail(a_to_b, fault);
                Step::Blocked(Side::To)
            }
            step => step,
        }
    }

    /// Takes note of what failed first. If that is a receiver, the other direction goes on for what its sender's queue
    /// still holds, but does not pass the end of its stream on: that would make a broken stream look whole. If it is a
    /// sender, everything it sent is delivered already, and nothing can be delivered to it.
    fn fail(&mut self, a_to_b: bool, fault: Fault) {
        if self.failed.is_some() {
            self.is_over = true;
            return;
        }
        match fault.side {
            Side::From => self.splicer.counters().faults_from.add(1),
            Side::To => self.splicer.counters().faults_to.add(1),
        }
        self.is_over = fault.side == Side::From;
        self.a_to_b.set_pass_end(false);
        self.b_to_a.set_pass_end(false);
        self.failed = Some((a_to_b, fault));
        self.watch.disarm();
    }

    /// Watches a connection that nobody reads at the moment and that somebody means to write to. True if one has failed.
    fn poll_errors(&mut self, cx: &mut Context<'_>, a_to_b: &Step, b_to_a: &Step) -> bool {
        let Some([a, b]) = self.ends(true) else {
            return false;
        };
        if self.failed.is_some() {
            return false;
        }
        let fault = |source| Fault {
            side: Side::To,
            call: "poll",
            source,
        };
        if !self.is_ended(false)
            && !matches!(a_to_b, Step::Blocked(Side::From))
            && let Poll::Ready(error) = self.a_errors.poll(cx, &a)
        {
            self.fail(false, fault(error));
            return true;
        }
        if !self.is_ended(true)
            && !matches!(b_to_a, Step::Blocked(Side::From))
            && let Poll::Ready(error) = self.b_errors.poll(cx, &b)
        {
            self.fail(true, fault(error));
            return true;
        }
        false
    }

    /// How it ended, if it did.
    fn end(&mut self) -> Option<ExchangeEnd> {
        match &self.failed {
            None if self.is_ended(true) && self.is_ended(false) => Some(ExchangeEnd::Closed),
            None => None,
            Some((a_to_b, _)) => {
                if self.is_over || self.is_ended(!*a_to_b) {
                    self.take_fault()
                } else {
                    None
                }
            }
        }
    }

    fn take_fault(&mut self) -> Option<ExchangeEnd> {
        self.failed
            .take()
            .map(|(a_to_b, fault)| ExchangeEnd::Fault { a_to_b, fault })
    }

    /// Nothing moved for too long.
    fn stalled(&mut self) -> ExchangeEnd {
        self.take_fault().unwrap_or_else(|| {
            self.splicer.counters().idle_ends.add(1);
            ExchangeEnd::Idle
        })
    }

    /// Bytes read from `a`'s connection and written to `b` so far, the prefix not counted.
    #[must_use]
    pub fn a_to_b_bytes(&self) -> u64 {
        self.a_to_b.written_bytes()
    }

    /// Bytes read from `b`'s connection and written to `a` so far, the prefix not counted.
    #[must_use]
    pub fn b_to_a_bytes(&self) -> u64 {
        self.b_to_a.written_bytes()
    }

    /// What [`SocketService::live`](crate::SocketService::live) and [`PacketService::live`](crate::PacketService::live) do not
    /// count of this exchange while it is in the kernel: bytes
    /// from `a` to `b`, and from `b` to `a`, that went through the process, or through the kernel when it was there before.
    /// `None` if it is not in the kernel: [`a_to_b_bytes`](Exchange::a_to_b_bytes) and
    /// [`b_to_a_bytes`](Exchange::b_to_a_bytes) are everything then.
    #[must_use]
    pub fn bytes_beside_live(&self) -> Option<(u64, u64)> {
        if matches!(self.packets, Packets::Placed(_)) {
            return Some((self.a_to_b.relayed_bytes(), self.b_to_a.relayed_bytes()));
        }
        let kernel = self.kernel.as_ref()?;
        Some((
            self.a_to_b.relayed_bytes() + kernel.forwarded_before(0),
            self.b_to_a.relayed_bytes() + kernel.forwarded_before(1),
        ))
    }

    /// What the packet engine has done, as it was seen last: at the end of the exchange, all of it.
    #[must_use]
    pub fn forwarded(&self) -> Forwarded {
        self.forwarded.as_deref().copied().unwrap_or_default()
    }

    /// The engines in use, or used last: from `a` to `b`, and from `b` to `a`.
    #[must_use]
    pub fn engines(&self) -> (Engine, Engine) {
        (self.a_to_b.engine(), self.b_to_a.engine())
    }

    /// Takes the connections back: what was taken from one side and not written to the other comes back, in order. First
    /// what belongs from `a` to `b`, then from `b` to `a`.
    ///
    /// With the socket engine this waits for what is on its way inside the kernel, usually for microseconds.
    pub async fn unsplice(self) -> (HandOver, HandOver) {
        let (a_to_b, b_to_a, _) = self.unsplice_own().await;
        (a_to_b, b_to_a)
    }

    /// [`unsplice`](Exchange::unsplice) for connections that were given to the exchange for good: they come back, too. `None`
    /// for one that was lent, or that tokio would not have back. To be called on a runtime.
    pub async fn unsplice_own(mut self) -> (HandOver, HandOver, [Option<TcpStream>; 2]) {
        // If tokio does not have them back, they are lost.
        self.wake_up();
        poll_fn(|cx| self.poll_leave_kernel(cx)).await;
        poll_fn(|cx| self.poll_disarm(cx)).await;
        let a_to_b = self.a_to_b.hand_over(&self.splicer, self.a_prefix.len());
        let b_to_a = self.b_to_a.hand_over(&self.splicer, self.b_prefix.len());
        (a_to_b, b_to_a, self.into_connections())
    }

    /// Gives connections back that were given to the exchange for good, and forgets what is on its way between them: for after
    /// its end. `None` for one that was lent, or that tokio would not have back. To be called on a runtime.
    #[must_use]
    pub fn into_connections(mut self) -> [Option<TcpStream>; 2] {
        self.wake_up();
        self.forget_watches();
        self.legs
            .take()
            .map_or([None, None], |legs| legs.map(Leg::into_own))
    }

    /// Both connections; `None` while the process sleeps, which it does not after [`run`](Exchange::run) has returned.
    #[must_use]
    pub fn connections(&self) -> Option<[&TcpStream; 2]> {
        self.legs.as_ref().map(|[a, b]| [&**a, &**b])
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.stop_sleeping();
        self.count_kernel();
        self.packets = Packets::No;
        self.a_to_b.end_pace(&self.splicer);
        self.b_to_a.end_pace(&self.splicer);
        self.a_to_b.release(&self.splicer);
        self.b_to_a.release(&self.splicer);
    }
}
