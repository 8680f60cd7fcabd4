//! One way: moves bytes from one connection to the other up to a boundary.

mod sockmap;

use crate::lifecycle::{Lifecycle, State};
use crate::relay::flow::{Ends, Flow, Step, TURN_BURSTS};
use crate::relay::local_copy::Sink;
use crate::relay::sockmap_splice::SockmapSplice;
use crate::relay::stalls;
use crate::relay::stalls::Stall;
use crate::relay::watch::{Alarm, ErrorWatch, InputWatch, Watch};
use crate::tcp::{self, UnreadLimit};
use crate::{
    Choice, End, Ended, Engine, Fault, HandOver, Leg, LocalCopy, PaceHandle, RateMin, Reason, Side,
    Splicer,
};
use sockmap::Leaving;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::TcpStream;

/// The order for a [`Transfer`].
pub struct Order<'a> {
    /// The engine.
    pub choice: Choice,
    /// The end.
    pub end: End,
    /// Bytes that the caller holds already. They go first, in the same segments as the first bytes of the
    /// body if these are there; they never wait for the body. They are not counted in `end` and not given to
    /// `local_copy`.
    pub prefix: &'a [u8],
    /// End when the receiver sends something, with [`Ended::Input`]. Its FIN does not count.
    pub stop_on_input: bool,
    /// At the end of the stream: `shutdown(SHUT_WR)` on the receiver's connection once everything is written.
    /// Only with [`End::EndOfStream`]: a truncated body must not look whole.
    pub pass_end: bool,
    /// Where a copy of the body goes.
    pub local_copy: LocalCopy<'a>,
    /// If the receiver fails while there is a local copy, this many more bytes are read for the copy. The
    /// transfer still ends with the receiver's [`Fault`]; the [`HandOver`] says whether the copy is complete.
    pub keep_reading_bytes_max: u64,
    /// End with [`Ended::Idle`] if no byte moves for this long. Noticed within a quarter of it.
    pub idle: Duration,
    /// End with [`Ended::TooSlow`] below this rate.
    pub rate_min: Option<RateMin>,
    /// The expected number of bytes, for [`Choice::Auto`], if `end` does not give it.
    pub expected: Option<u64>,
    /// The owner's number for this splice, which identifies it among those in the kernel.
    pub label: u64,
    /// Its pacing.
    pub pace: PaceHandle,
    /// What may queue at the sender's connection.
    pub unread: UnreadLimit,
}

impl Order<'_> {
    /// An order with `choice: Auto`, one minute of `idle`, and nothing else asked for.
    #[must_use]
    pub fn new(end: End) -> Self {
        Order {
            choice: Choice::Auto,
            end,
            prefix: &[],
            stop_on_input: false,
            pass_end: false,
            local_copy: LocalCopy::None,
            keep_reading_bytes_max: 0,
            idle: Duration::from_secs(60),
            rate_min: None,
            expected: None,
            label: 0,
            pace: PaceHandle::default(),
            unread: UnreadLimit::default(),
        }
    }
}

/// A transfer one way, made by [`Splicer::transfer`].
///
/// While it runs, it writes to the receiver's connection and watches it for input or a reset; nothing else
/// may read from the receiver meanwhile.
pub struct Transfer<'a> {
    splicer: Splicer,
    from: &'a TcpStream,
    to: &'a TcpStream,
    prefix: &'a [u8],
    flow: Flow,
    sink: Sink<'a>,
    keep_reading_bytes: u64,
    receiver_fault: Option<Fault>,
    idle: Duration,
    rate_min: Option<RateMin>,
    label: u64,
    lifecycle: Lifecycle,
    /// The splice in the kernel.
    kernel: Option<Box<SockmapSplice>>,
    /// Why the kernel is to return the connections.
    leaving: Option<Leaving>,
    watch: Watch,
    input: InputWatch,
    errors: ErrorWatch<'a>,
    stall: Option<Box<Stall>>,
}

impl Splicer {
    /// A transfer one way. Nothing happens before [`Transfer::run`].
    #[must_use]
    pub fn transfer<'a>(
        &self,
        from: &'a TcpStream,
        to: &'a TcpStream,
        order: Order<'a>,
    ) -> Transfer<'a> {
        Transfer::new(self.clone(), from, to, order)
    }
}

impl<'a> Transfer<'a> {
    fn new(splicer: Splicer, from: &'a TcpStream, to: &'a TcpStream, order: Order<'a>) -> Self {
        splicer.counters().transfers.add(1);
        let sink = Sink::new(order.local_copy);
        let instead = match order.choice {
            Choice::Socket if sink.is_wanted() => Some(Reason::SocketLocalCopy),
            Choice::Socket if splicer.socket_engine().is_none() => Some(Reason::SocketUnavailable),
            _ => None,
        };
        let choice = instead.map_or(order.choice, |reason| {
            splicer.counters().reason(reason).add(1);
            Choice::Auto
        });
        let mut flow = Flow::new(&splicer, choice, order.end, order.expected, &sink);
        flow.set_pass_end(order.pass_end && order.end == End::EndOfStream);
        flow.set_pace(order.pace);
        flow.set_unread(order.unread);
        // The first burst takes the prefix along; the rest is for the kernel.
        flow.set_burst_by_burst(choice == Choice::Socket);
        let mut input = InputWatch::default();
        if !order.stop_on_input {
            input.ignore();
        }
        let mut lifecycle = Lifecycle::default();
        if choice == Choice::Socket {
            lifecycle.enter(State::Attaching);
        }
        Transfer {
            splicer,
            from,
            to,
            prefix: order.prefix,
            flow,
            sink,
            keep_reading_bytes: order.keep_reading_bytes_max,
            receiver_fault: None,
            idle: order.idle,
            rate_min: order.rate_min,
            label: order.label,
            lifecycle,
            kernel: None,
            leaving: None,
            watch: Watch::default(),
            input,
            errors: ErrorWatch::default(),
            stall: None,
        }
    }

    /// Moves bytes until the end. May be dropped at any time and called again: the transfer keeps the state.
    /// After [`Ended::Input`], [`Ended::Idle`] and [`Ended::TooSlow`], another call continues where this one
    /// stopped.
    ///
    /// # Errors
    /// A [`Fault`] when one of the connections fails.
    pub async fn run(&mut self) -> Result<Ended, Fault> {
        poll_fn(|cx| self.poll_run(cx)).await
    }

    /// [`run`](Transfer::run), for callers that poll.
    ///
    /// # Errors
    /// A [`Fault`] when one of the connections fails.
    pub fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<Result<Ended, Fault>> {
        let end = self.poll_end(cx);
        if matches!(
            end,
            Poll::Ready(Ok(Ended::Bytes | Ended::EndOfStream) | Err(_))
        ) {
            self.lifecycle.enter(State::Ended);
        }
        end
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<Ended, Fault>> {
        loop {
            match ready!(self.poll_come_back(cx)) {
                Some(Step::Ended(ended)) => return Poll::Ready(Ok(ended)),
                Some(Step::Fault(fault)) => return Poll::Ready(Err(fault)),
                _ => {}
            }
            if self.receiver_fault.is_some() {
                return self.poll_copy_only(cx);
            }
            if !self.input.is_deaf() {
                match self.input.poll(cx, self.to) {
                    Poll::Ready(Ok(())) => {
                        self.leaving = Some(Leaving::Pause(Ended::Input));
                        continue;
                    }
                    Poll::Ready(Err(source)) => {
                        self.receiver_failed(Fault::new(Side::To, "recv", source));
                        continue;
                    }
                    Poll::Pending => {}
                }
            }
            let step = match self.poll_flow(cx) {
                Step::Blocked(Side::From) if self.lifecycle.is(State::Attaching) => {
                    match self.join() {
                        Ok(()) => continue,
                        Err(fault) => Step::Fault(fault),
                    }
                }
                step => step,
            };
            if self.leaving.is_some() {
                continue;
            }
            self.note_stall(cx, &step);
            if Stall::is_ended(&self.stall) {
                self.leaving = Some(Leaving::Pause(Ended::Stalled));
                continue;
            }
            match step {
                Step::Ended(ended) => return Poll::Ready(Ok(ended)),
                Step::Fault(fault) if fault.side == Side::To => self.receiver_failed(fault),
                Step::Fault(fault) => return Poll::Ready(Err(fault)),
                Step::Yield => return Poll::Pending,
                Step::Held if self.poll_receiver(cx) => {}
                Step::Held => return Poll::Pending,
                Step::Blocked(Side::From) if self.poll_receiver(cx) => {}
                Step::Blocked(side) => {
                    if self.flow.take_was_held_long() {
                        self.watch.disarm();
                    }
                    let progress = (self.flow.moved_bytes(), side);
                    let acked = || tcp::acknowledged_bytes(self.to);
                    match (self.watch).poll(cx, progress, acked, self.idle, self.rate_min) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Alarm::Quiet) => self.flow.look_anyway(),
                        Poll::Ready(Alarm::Ended(ended)) => {
                            self.count_slow_end(ended);
                            self.leaving = Some(Leaving::Pause(ended));
                        }
                    }
                }
            }
        }
    }

    /// Moves what can be moved by the process.
    fn poll_flow(&mut self, cx: &mut Context<'_>) -> Step {
        if let Some(step) = self.poll_gate(cx) {
            return step;
        }
        let ends = Ends {
            splicer: &self.splicer,
            from: self.from,
            to: self.to,
            prefix: self.prefix,
            kernel: self.kernel.as_ref().and_then(|kernel| kernel.part(0)),
            is_from_owed: false,
        };
        let step = self.flow.poll(cx, &ends, &mut self.sink);
        self.after_flow(cx, step)
    }

    fn note_stall(&mut self, cx: &Context<'_>, step: &Step) {
        let waits = matches!(step, Step::Blocked(Side::To));
        let moved_bytes = self.flow.moved_bytes();
        let sockets = || Some(stalls::descriptors(self.from, self.to));
        Stall::note(
            &mut self.stall,
            self.splicer.stalls(),
            waits,
            moved_bytes,
            sockets,
            cx,
        );
    }

    /// Watches the receiver while nothing is written to it. True if it has failed.
    fn poll_receiver(&mut self, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(source) = self.errors.poll(cx, &Leg::from(self.to)) else {
            return false;
        };
        self.receiver_failed(Fault::new(Side::To, "poll", source));
        true
    }

    /// The receiver is gone.
    fn receiver_failed(&mut self, fault: Fault) {
        self.leaving = Some(Leaving::ReceiverFailed(fault));
    }

    fn poll_copy_only(&mut self, cx: &mut Context<'_>) -> Poll<Result<Ended, Fault>> {
        let ends = Ends {
            splicer: &self.splicer,
            from: self.from,
            to: self.to,
            prefix: self.prefix,
            kernel: None,
            is_from_owed: false,
        };
        let mut pieces = 0;
        while self.sink.is_wanted() && self.keep_reading_bytes > 0 && !self.flow.is_all_taken() {
            pieces += 1;
            if pieces > TURN_BURSTS {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self
                .flow
                .poll_copy_only(cx, &ends, &mut self.sink, self.keep_reading_bytes)
            {
                Poll::Ready(Ok(bytes)) => self.keep_reading_bytes -= bytes as u64,
                Poll::Ready(Err(_)) => break,
                Poll::Pending => {
                    let progress = (self.sink.copied_bytes(), Side::From);
                    match (self.watch).poll(cx, progress, || None, self.idle, self.rate_min) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Alarm::Quiet) => {}
                        Poll::Ready(Alarm::Ended(_)) => break,
                    }
                }
            }
        }
        self.keep_reading_bytes = 0;
        self.splicer.counters().faults_to.add(1);
        let gone = || Fault::new(Side::To, "poll", io::ErrorKind::NotConnected.into());
        Poll::Ready(Err(self
            .receiver_fault
            .replace(gone())
            .unwrap_or_else(gone)))
    }

    fn count_slow_end(&self, ended: Ended) {
        match ended {
            Ended::TooSlow => self.splicer.counters().slow_ends.add(1),
            _ => self.splicer.counters().idle_ends.add(1),
        }
    }

    /// Input from the receiver no longer ends the transfer.
    pub fn ignore_input(&mut self) {
        self.input.ignore();
    }

    /// Bytes of the body written to the receiver so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.flow.written_bytes()
    }

    /// Bytes of the body taken from the sender so far, whether or not they were written.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.flow.taken_bytes() + self.flow.forwarded_bytes()
    }

    /// Whether it waits for pacing: time in which it is not idle.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.flow.is_held()
    }

    /// Bytes of the body in the local copy so far.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.sink.copied_bytes()
    }

    /// The error that ended the local copy early, if its file failed. The transfer itself goes on.
    #[must_use]
    pub fn copy_error(&self) -> Option<&io::Error> {
        self.sink.fault()
    }

    /// The engine in use, or used last.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.flow.engine()
    }

    /// Whether bytes behind the body were taken with it; [`unsplice`](Transfer::unsplice) returns them.
    #[must_use]
    pub fn has_surplus(&self) -> bool {
        self.flow.has_surplus()
    }

    /// Takes the connections back: returns what was taken from the sender and not written, in order.
    ///
    /// With the socket engine, this waits for data in flight inside the kernel, usually for microseconds.
    pub async fn unsplice(mut self) -> HandOver {
        // If it does not come back whole, both connections are reset on close.
        let _ = poll_fn(|cx| self.poll_leave_kernel(cx)).await;
        let hand_over = self.flow.hand_over(&self.splicer, self.prefix.len());
        HandOver {
            copied_bytes: self.sink.copied_bytes(),
            copy_complete: self.sink.is_wanted()
                && self.flow.is_copy_complete(self.sink.copied_bytes()),
            ..hand_over
        }
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        if let Some(mut kernel) = self.kernel.take() {
            kernel.finish(&mut [&mut self.flow], self.splicer.counters());
        }
        self.flow.end_pace(&self.splicer);
        self.flow.release(&self.splicer);
        self.splicer
            .counters()
            .local_copy_bytes
            .add(self.sink.copied_bytes());
    }
}
