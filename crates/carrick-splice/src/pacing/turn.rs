//! When one direction of a splice may go on: its rate, and its worker's turn.

use super::pacer::{Pacer, Slot, weight_of};
use super::queue::{Place, VirtualTime};
use super::skeleton::types::pace_class;
use super::{PaceHandle, Weight, bucket};
use crate::sys::clock::now_ns;
use crate::sys::tcp_info::path_of;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::mem::offset_of;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// What a splice reserves of a rate at a time: at most this much, and this many turns a second if the rate is
/// low. Small turns cost: after each, the processor idles until the next.
const QUANTUM_MAX: u64 = 256 << 10;
const QUANTUM_MIN: u64 = 4 << 10;
const TURNS_PER_SECOND: u64 = 50;

/// Splices that wait for a rate continue together, at multiples of this. A wake-up costs as much as moving
/// some ten KB, and bytes that move together are acknowledged together. The burst of a rate, ten times as
/// long (`BURST`), makes up for the longer wait.
const TOGETHER_NS: u64 = 4_000_000;

/// How often waiting splices check for a changed rate.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A splice that was held longer than this is not rated by what it moved meanwhile.
const LONG_HOLD_NS: u64 = 20_000_000;

/// How often the round-trip time is read, in turns.
const TURNS_PER_LOOK: u32 = 64;

/// Where one direction stands.
#[derive(Default)]
pub(crate) struct Turn {
    handle: PaceHandle,
    /// What the latest leave is for.
    pub(crate) allowed_bytes: u64,
    /// The latest poll ended without leave.
    pub(crate) is_held: bool,
    /// Taken from the rates, and not used yet.
    reserved: u64,
    /// The levels whose own rates that is charged to.
    paid_rates: u8,
    /// As the control block was when that was taken.
    changes: u64,
    /// When it may be used.
    go_at_ns: u64,
    timer: Option<Pin<Box<Sleep>>>,
    waits: Option<QueuedTurn>,
    /// Leave was given, for one burst.
    has_leave: bool,
    uses_credit: bool,
    leave_ns: u64,
    virtual_time: VirtualTime,
    place: Option<Place>,
    weight: u32,
    turns: u32,
    held_since_ns: u64,
    was_held_long: bool,
}

/// It is in its worker's queue.
struct QueuedTurn {
    slot: Rc<Slot>,
    place: Place,
}

impl Turn {
    pub(crate) fn new(handle: PaceHandle) -> Turn {
        Turn {
            handle,
            allowed_bytes: u64::MAX,
            weight: 1,
            ..Turn::default()
        }
    }

    pub(crate) fn handle(&self) -> PaceHandle {
        self.handle
    }

    pub(crate) fn is_paced(&self) -> bool {
        !self.handle.is_none()
    }

    /// Whether the next [`poll`](Turn::poll) would wait for the worker.
    pub(crate) fn is_about_to_ask(&self, pacer: Option<&Pacer>) -> bool {
        let Some(pacer) = pacer.filter(|_| self.is_paced()) else {
            return false;
        };
        if self.has_leave || self.waits.is_some() {
            return false;
        }
        pacer.must_wait(self.handle.class())
    }

    /// How many bytes may be moved now. Call it when there is something to move, and report the result by
    /// [`took`](Turn::took).
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        pacer: Option<&Pacer>,
        to: &TcpStream,
    ) -> Poll<u64> {
        let Some(pacer) = pacer.filter(|_| self.is_paced()) else {
            return Poll::Ready(u64::MAX);
        };
        if self.poll_rate(cx, pacer).is_pending() {
            return Poll::Pending;
        }
        let leave = match self.poll_leave(cx, pacer, to) {
            Poll::Ready(leave) => leave,
            Poll::Pending => return Poll::Pending,
        };
        if self.held_since_ns != 0 {
            let held_ns = now_ns().saturating_sub(std::mem::take(&mut self.held_since_ns));
            self.was_held_long |= held_ns > LONG_HOLD_NS;
            let counts = pacer.pacing().counts(self.handle.class());
            counts.waited_ns.fetch_add(held_ns, Relaxed);
        }
        Poll::Ready(leave.min(self.reserved))
    }

    /// What is taken from the rates at a time: `u64::MAX` if there is none.
    pub(super) fn quantum(&self, pacer: &Pacer) -> u64 {
        let block = &pacer.pacing().0.block;
        let lowest = self
            .handle
            .bucket()
            .and_then(|of| bucket::lowest_rate(block, of));
        lowest.map_or(u64::MAX, |lowest| {
            (lowest / TURNS_PER_SECOND).clamp(QUANTUM_MIN, QUANTUM_MAX)
        })
    }

    /// What is to be taken from the rates for one burst, and waits until it may be used.
    fn poll_rate(&mut self, cx: &mut Context<'_>, pacer: &Pacer) -> Poll<()> {
        let Some(of) = self.handle.bucket() else {
            self.reserved = u64::MAX;
            return Poll::Ready(());
        };
        let block = &pacer.pacing().0.block;
        loop {
            let changes = block.changes().load(Acquire);
            if self.reserved > 0 && self.changes != changes {
                self.give_back(pacer);
            }
            let mut now = 0;
            if self.reserved == 0 {
                self.changes = changes;
                let quantum = self.quantum(pacer);
                if quantum == u64::MAX {
                    self.reserved = u64::MAX;
                    self.go_at_ns = 0;
                    return Poll::Ready(());
                }
                now = now_ns();
                let taken = bucket::reserve(block, of, quantum, now);
                (self.go_at_ns, self.paid_rates) = (taken.go_at_ns, taken.paid_rates);
                self.reserved = quantum;
                if self.go_at_ns > now {
                    self.go_at_ns = self.go_at_ns.next_multiple_of(TOGETHER_NS);
                    self.hold(now);
                    let counts = pacer.pacing().counts(self.handle.class());
                    counts.rate_waits.fetch_add(1, Relaxed);
                }
            }
            if self.go_at_ns == 0 {
                return Poll::Ready(());
            }
            if now == 0 {
                now = now_ns();
            }
            let left_ns = self.go_at_ns.saturating_sub(now);
            if left_ns == 0 {
                self.go_at_ns = 0;
                return Poll::Ready(());
            }
            let wait = Duration::from_nanos(left_ns).min(LOOK_AGAIN);
            let until = tokio::time::Instant::now() + wait;
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            timer.as_mut().reset(until);
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Waits for the worker, if the class requires it. Returns for how many bytes.
    fn poll_leave(&mut self, cx: &mut Context<'_>, pacer: &Pacer, to: &TcpStream) -> Poll<u64> {
        if self.has_leave {
            // It could not be used: what counts as forwarding begins now.
            self.leave_ns = now_ns();
            return Poll::Ready(u64::MAX);
        }
        if let Some(waits) = &self.waits {
            if !waits.slot.is_granted.get() {
                waits.slot.waker.replace(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            self.uses_credit = waits.slot.is_charged.get();
            self.waits = None;
            self.has_leave = true;
            self.leave_ns = now_ns();
            return Poll::Ready(u64::MAX);
        }
        let class = self.handle.class();
        if !pacer.must_wait(class) {
            return Poll::Ready(u64::MAX);
        }
        let now = now_ns();
        self.hold(now);
        pacer.pacing().counts(class).yields.fetch_add(1, Relaxed);
        let (priority, weight) = pacer.priority_of(class);
        self.weigh(weight, to);
        let block = &pacer.pacing().0.block;
        let hold_max = block
            .class(class, offset_of!(pace_class, hold_max_ns))
            .load(Relaxed);
        let slot = Rc::new(Slot {
            waker: RefCell::new(Some(cx.waker().clone())),
            is_granted: Cell::new(false),
            is_charged: Cell::new(false),
            since_ns: now,
            hold_max_ns: hold_max,
            class,
        });
        let place = pacer.wait(priority, self.virtual_time, Rc::clone(&slot));
        self.place = Some(place);
        self.waits = Some(QueuedTurn { slot, place });
        Poll::Pending
    }

    /// Reports bytes that were moved, with a turn or without. With 0, the turn stays.
    pub(crate) fn took(&mut self, pacer: Option<&Pacer>, bytes: u64) {
        let Some(pacer) = pacer.filter(|_| self.is_paced() && bytes > 0) else {
            return;
        };
        let class = self.handle.class();
        pacer.pacing().counts(class).bytes.fetch_add(bytes, Relaxed);
        pacer.spliced(bytes);
        if std::mem::take(&mut self.uses_credit) {
            pacer.take_credit(class, bytes);
        }
        if std::mem::take(&mut self.has_leave) {
            if let Some(place) = self.place {
                self.virtual_time.add(place, bytes, self.weight);
            }
            pacer.forwarded_for(now_ns().saturating_sub(self.leave_ns));
        }
        if self.reserved == u64::MAX {
            self.reserved = 0;
            return;
        }
        // What was moved without a reservation is charged afterwards.
        if let Some(of) = self.handle.bucket()
            && bytes > self.reserved
        {
            let block = &pacer.pacing().0.block;
            bucket::reserve(block, of, bytes - self.reserved, now_ns());
        }
        self.reserved = self.reserved.saturating_sub(bytes);
        // A rest too small for a turn of its own.
        if self.reserved < QUANTUM_MIN / 2 {
            self.give_back(pacer);
        }
    }

    /// Gives up turn and reservations.
    pub(crate) fn release(&mut self, pacer: Option<&Pacer>) {
        let Some(pacer) = pacer.filter(|_| self.is_paced()) else {
            return;
        };
        if let Some(waits) = self.waits.take() {
            pacer.leave(waits.place);
        }
        self.give_back(pacer);
    }

    /// Whether it was held so long since the last call that the bytes it moved say nothing about its
    /// connections.
    pub(crate) fn take_was_held_long(&mut self) -> bool {
        std::mem::take(&mut self.was_held_long)
    }

    fn hold(&mut self, now: u64) {
        if self.held_since_ns == 0 {
            self.held_since_ns = now;
        }
    }

    fn give_back(&mut self, pacer: &Pacer) {
        let reserved = std::mem::take(&mut self.reserved);
        if reserved != u64::MAX
            && reserved > 0
            && let Some(of) = self.handle.bucket()
        {
            bucket::give_back(&pacer.pacing().0.block, of, reserved, self.paid_rates);
        }
        self.go_at_ns = 0;
    }

    fn weigh(&mut self, weight: Weight, to: &TcpStream) {
        if weight == Weight::Even {
            self.weight = 1;
            return;
        }
        if self.turns.is_multiple_of(TURNS_PER_LOOK)
            && let Ok((rtt_us, window_bytes)) = path_of(to)
        {
            self.weight = weight_of(weight, rtt_us, window_bytes);
        }
        self.turns = self.turns.wrapping_add(1);
    }
}
