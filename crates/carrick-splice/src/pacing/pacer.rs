//! One worker's part in pacing: whether it is runnable, which of its splices wait, and which may go.

mod admission;
mod rounds;

use super::class::{Policy, Weight};
use super::policy::{
    BURSTS_MAX, CREDIT_MAX, DeadlineControl, Interval, Latencies, Patience, Proportion,
};
use super::queue::{Place, Queue};
use super::skeleton::types::{pace_class, pace_credit, pace_worker, pace_yield};
use super::{Pacing, block::CLASSES};
use crate::sys::clock::now_ns;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::offset_of;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;

/// How often waiting times are checked, and controls take a step.
const STEP: Duration = Duration::from_millis(20);

/// Controls of deadlines take a step after so many of these: long enough for some hits.
const STEPS_PER_CONTROL: u32 = 5;

/// The heartbeat of an idle worker.
const BEAT: Duration = Duration::from_millis(500);

/// What [`Pacer::forward`] lets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    /// Everything that waits.
    Everything,
    /// What waited before the worker became runnable, or last let splices go: as if it forwarded by itself
    /// after checking its events once (Rosu 2003, Figure 3). At most 16 bursts at a time, so that its own
    /// requests do not wait for hundreds.
    BeforeActive,
}

/// A worker's part in pacing. A cheap handle; one per thread.
///
/// The thread's runtime must call [`on_thread_park`](Pacer::on_thread_park) before it waits for events and
/// [`on_thread_unpark`](Pacer::on_thread_unpark) afterwards, and must run [`keep`](Pacer::keep). Otherwise no
/// splice ever waits for the worker.
#[derive(Clone)]
pub struct Pacer(Rc<Inner>);

struct Inner {
    pacing: Pacing,
    worker: u8,
    queue: RefCell<Queue<Rc<Slot>>>,
    /// The first arrival that is not from before the worker became runnable.
    active_from: Cell<u64>,
    /// When the worker became runnable; 0: it is blocked.
    runnable_since_ns: Cell<u64>,
    /// Time since the last [`Pacer::forward`] that let something go.
    patience: Cell<Patience>,
    /// The earliest arrival of a request that is read now.
    round_ns: Cell<u64>,
    /// When the worker last polled for events.
    looked_ns: Cell<u64>,
    /// It polled without waiting, since splices were let go.
    is_busy: Cell<bool>,
    /// Whether the runtime reports when it waits.
    is_told: Cell<bool>,
    someone_waits: Notify,
    /// [`run_rounds`](Pacer::run_rounds) has something to do.
    rounds_matter: Notify,
    /// It is at it: the worker does not block meanwhile.
    runs_rounds: Cell<bool>,
    /// Time spent forwarding when the worker last polled for events.
    forwarded_before_ns: Cell<u64>,
    controls: RefCell<[Control; CLASSES]>,
    /// Whether there is a control at all.
    is_controlled: Cell<bool>,
    /// Whether one of them is a deadline: then all rounds are noted.
    has_deadline: Cell<bool>,
    latencies: RefCell<Latencies>,
    class_cache: RefCell<ClassCache>,
}

/// The queue's copy of the classes, as of a change of the control block.
struct ClassCache {
    changes: u64,
    of: [(u8, Weight); CLASSES],
}

/// What a class's policy has learned.
#[derive(Debug, Clone, Copy)]
enum Control {
    None,
    Proportional(Proportion),
    Deadline(DeadlineControl),
}

/// One that waits.
pub(super) struct Slot {
    pub(super) waker: RefCell<Option<Waker>>,
    pub(super) is_granted: Cell<bool>,
    /// What it moves is taken from the class's credit.
    pub(super) is_charged: Cell<bool>,
    pub(super) since_ns: u64,
    pub(super) hold_max_ns: u64,
    pub(super) class: u8,
}

thread_local! {
    static HERE: RefCell<Option<Pacer>> = const { RefCell::new(None) };
}

impl fmt::Debug for Pacer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pacer(worker {})", self.0.worker)
    }
}

impl Pacer {
    /// For the worker of this number, which is the calling thread.
    #[must_use]
    pub fn new(pacing: Pacing, worker: usize) -> Pacer {
        let now = now_ns();
        let pacer = Pacer(Rc::new(Inner {
            pacing,
            worker: (worker % super::WORKERS) as u8,
            queue: RefCell::default(),
            active_from: Cell::new(0),
            runnable_since_ns: Cell::new(now),
            patience: Cell::default(),
            round_ns: Cell::new(now),
            looked_ns: Cell::new(now),
            is_busy: Cell::new(false),
            is_told: Cell::new(false),
            someone_waits: Notify::new(),
            rounds_matter: Notify::new(),
            runs_rounds: Cell::new(false),
            forwarded_before_ns: Cell::new(0),
            controls: RefCell::new([Control::None; CLASSES]),
            is_controlled: Cell::new(false),
            has_deadline: Cell::new(false),
            latencies: RefCell::new(Latencies::new()),
            class_cache: RefCell::new(ClassCache {
                changes: u64::MAX,
                of: [(0, Weight::Even); CLASSES],
            }),
        }));
        pacer.0.beat(now);
        HERE.set(Some(pacer.clone()));
        pacer
    }

    /// The thread is about to wait: lets go what waits for that. For tokio's `on_thread_park`.
    pub fn on_thread_park() {
        HERE.with_borrow(|here| {
            if let Some(pacer) = here {
                pacer.0.block();
            }
        });
    }

    /// The thread has something to do again. For tokio's `on_thread_unpark`.
    pub fn on_thread_unpark() {
        HERE.with_borrow(|here| {
            if let Some(pacer) = here {
                pacer.0.unblock();
            }
        });
    }

    /// The classes.
    #[must_use]
    pub fn pacing(&self) -> &Pacing {
        &self.0.pacing
    }

    /// Lets waiting splices go, when the worker chooses to; returns how many. They move data as soon as the
    /// calling task has ended its turn.
    pub fn forward(&self, drain: Drain) -> usize {
        let inner = &*self.0;
        let (before, most) = match drain {
            Drain::Everything => (u64::MAX, usize::MAX),
            Drain::BeforeActive => (inner.active_from.get(), BURSTS_MAX),
        };
        let mut count = 0;
        while count < most && inner.grant_oldest(before) {
            count += 1;
        }
        if count < most {
            inner.active_from.set(inner.queue.borrow().next_arrival());
        }
        inner.begin_patience(now_ns());
        count
    }

    /// Whether a splice waits for the worker.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        !self.0.queue.borrow().is_empty()
    }

    /// For how long the worker has been runnable now.
    #[must_use]
    pub fn runnable_for(&self) -> Duration {
        match self.0.runnable_since_ns.get() {
            0 => Duration::ZERO,
            since => Duration::from_nanos(now_ns().saturating_sub(since)),
        }
    }

    /// For how long the worker has been runnable and has not called [`forward`](Pacer::forward).
    #[must_use]
    pub fn holds_back_for(&self) -> Duration {
        match self.0.runnable_since_ns.get() {
            0 => Duration::ZERO,
            _ => self.0.patience.get().lasts(now_ns()),
        }
    }

    /// Records a request that the worker has answered itself, with its bytes. For a cache hit, its delay in
    /// the worker counts for deadlines.
    pub fn served(&self, bytes: u64, is_hit: bool) {
        let inner = &*self.0;
        inner.add(offset_of!(pace_worker, local_requests), 1);
        inner.add(offset_of!(pace_worker, local_bytes), bytes);
        if !inner.is_controlled.get() {
            return;
        }
        if is_hit {
            let delay = now_ns().saturating_sub(inner.round_ns.get());
            inner.hit_after(delay);
            inner
                .latencies
                .borrow_mut()
                .add(Duration::from_nanos(delay));
        }
        for (class, control) in (0..).zip(inner.controls.borrow().iter()) {
            if let Control::Proportional(proportion) = control {
                inner.give(class, proportion.credit(bytes));
            }
        }
        if !inner.queue.borrow().is_empty() {
            inner.rounds_matter();
        }
    }

    /// Records a request whose response is spliced.
    pub fn splices(&self) {
        self.0.add(offset_of!(pace_worker, spliced_requests), 1);
    }

    /// Releases what has waited for too long, and repeats estimates. Never ends.
    pub async fn keep(&self) {
        tokio::join!(self.keep_watch(), self.run_rounds());
    }

    async fn keep_watch(&self) {
        let inner = &*self.0;
        let mut controls = Controls::new(inner);
        let mut ticks = 0_u32;
        loop {
            if inner.queue.borrow().is_empty() && !controls.is_needed() {
                // Nothing is at stake; a beat is enough.
                tokio::select! {
                    () = inner.someone_waits.notified() => {}
                    () = tokio::time::sleep(BEAT) => {}
                }
            } else {
                tokio::time::sleep(STEP).await;
            }
            ticks = ticks.wrapping_add(1);
            let now = now_ns();
            inner.beat(now);
            inner.grant_overdue(now);
            controls.tick(inner, ticks);
        }
    }

    /// Whether splices of a class wait for the worker.
    pub(super) fn must_wait(&self, class: u8) -> bool {
        let inner = &*self.0;
        inner.is_told.get() && inner.condition(class) != u64::from(pace_yield::PACE_IMMEDIATE.0)
    }

    /// Credit was used.
    pub(super) fn take_credit(&self, class: u8, bytes: u64) {
        let block = &self.0.pacing.0.block;
        block
            .credit(self.0.worker, class, offset_of!(pace_credit, taken))
            .fetch_add(bytes, Release);
    }

    pub(super) fn wait(
        &self,
        priority: u8,
        virtual_time: super::queue::VirtualTime,
        slot: Rc<Slot>,
    ) -> Place {
        let mut queue = self.0.queue.borrow_mut();
        if queue.is_empty() {
            self.0.someone_waits.notify_one();
        }
        self.0.rounds_matter();
        queue.push(priority, virtual_time, slot)
    }

    pub(super) fn leave(&self, place: Place) {
        self.0.queue.borrow_mut().remove(place);
    }

    /// When splices of a class go, and how it weighs them.
    pub(super) fn priority_of(&self, class: u8) -> (u8, Weight) {
        let inner = &*self.0;
        let changes = inner.pacing.0.block.changes().load(Acquire);
        let mut class_cache = inner.class_cache.borrow_mut();
        if class_cache.changes != changes {
            class_cache.changes = changes;
            for (number, settings, ..) in inner.pacing.table().users() {
                class_cache.of[usize::from(number)] = (settings.priority, settings.weight);
            }
        }
        class_cache.of[usize::from(class) % CLASSES]
    }

    /// Bytes were spliced by the process.
    pub(super) fn spliced(&self, bytes: u64) {
        self.0.add(offset_of!(pace_worker, spliced_bytes), bytes);
    }

    /// The worker has forwarded for so long.
    pub(super) fn forwarded_for(&self, ns: u64) {
        self.0.add(offset_of!(pace_worker, forwarding_ns), ns);
    }
}

impl Inner {
    fn word(&self, field: usize) -> &std::sync::atomic::AtomicU64 {
        self.pacing.0.block.worker(self.worker, field)
    }

    /// Adds to a number that only this thread writes.
    fn add(&self, field: usize, count: u64) {
        let word = self.word(field);
        word.store(word.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// When splices of a class wait for the worker (`enum pace_yield`).
    fn condition(&self, class: u8) -> u64 {
        self.pacing
            .0
            .block
            .class(class, offset_of!(pace_class, condition))
            .load(Relaxed)
    }

    fn beat(&self, now: u64) {
        self.word(offset_of!(pace_worker, beat_ns))
            .store(now, Relaxed);
    }

    fn block(&self) {
        self.is_told.set(true);
        let now = now_ns();
        self.beat(now);
        let since = self.runnable_since_ns.replace(0);
        if since != 0 {
            self.add(
                offset_of!(pace_worker, runnable_ns),
                now.saturating_sub(since),
            );
        }
        self.word(offset_of!(pace_worker, runnable_since_ns))
            .store(0, Release);
        let first = self.queue.borrow_mut().pop();
        self.is_busy.set(first.is_some());
        if let Some(slot) = first {
            slot.grant();
        }
    }

    fn unblock(&self) {
        let now = now_ns();
        self.beat(now);
        self.runnable_since_ns.set(now);
        self.begin_patience(now);
        // What came while a splice was let go has waited since then.
        let looked_ns = self.looked_ns.replace(now);
        self.round_ns
            .set(if self.is_busy.get() { looked_ns } else { now });
        self.active_from.set(self.queue.borrow().next_arrival());
        self.word(offset_of!(pace_worker, runnable_since_ns))
            .store(now, Release);
        self.begin_round();
        if self.has_deadline.get() || !self.queue.borrow().is_empty() {
            self.rounds_matter();
        }
    }

    fn begin_patience(&self, now: u64) {
        let mut patience = self.patience.get();
        patience.begin(now);
        self.patience.set(patience);
    }

    /// What a class has credit for with this worker.
    fn credit(&self, class: u8) -> u64 {
        let of = |field| self.pacing.0.block.credit(self.worker, class, field);
        let given = of(offset_of!(pace_credit, given)).load(Acquire);
        given.saturating_sub(of(offset_of!(pace_credit, taken)).load(Acquire))
    }

    fn give(&self, class: u8, bytes: u64) {
        let credit = |field| self.pacing.0.block.credit(self.worker, class, field);
        let taken = credit(offset_of!(pace_credit, taken)).load(Acquire);
        let given = credit(offset_of!(pace_credit, given));
        let next = (given.load(Relaxed) + bytes).min(taken + CREDIT_MAX);
        given.store(next, Release);
    }

    fn grant_oldest(&self, before: u64) -> bool {
        let oldest = self.queue.borrow_mut().pop_oldest(before);
        oldest.is_some_and(|slot| {
            slot.grant();
            true
        })
    }

    /// What the worker has done so far.
    fn done(&self) -> Interval {
        let of = |field| self.word(field).load(Relaxed);
        Interval {
            local_requests: of(offset_of!(pace_worker, local_requests)),
            local_bytes: of(offset_of!(pace_worker, local_bytes)),
            spliced_requests: of(offset_of!(pace_worker, spliced_requests)),
        }
    }

    /// Nothing waits forever: a policy can slow a transfer, not stop it.
    fn grant_overdue(&self, now: u64) {
        for _ in 0..BURSTS_MAX {
            let is_overdue = self.queue.borrow().oldest().and_then(|slot| {
                let waited = now.saturating_sub(slot.since_ns);
                (waited >= slot.hold_max_ns).then_some(slot.class)
            });
            let Some(class) = is_overdue else { return };
            self.pacing.counts(class).overdue.fetch_add(1, Relaxed);
            self.grant_oldest(u64::MAX);
        }
    }
}

impl Slot {
    fn grant(&self) {
        self.is_granted.set(true);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// What the policies of all classes have learned, and when they learn more.
struct Controls {
    changes: u64,
    interval: Duration,
    begun_ns: u64,
    begun: Interval,
    is_needed: bool,
}

impl Controls {
    fn new(inner: &Inner) -> Controls {
        let mut controls = Controls {
            changes: u64::MAX,
            interval: super::INTERVAL,
            begun_ns: now_ns(),
            begun: inner.done(),
            is_needed: false,
        };
        controls.follow(inner);
        controls
    }

    /// Whether steps must be taken although nothing waits.
    fn is_needed(&self) -> bool {
        self.is_needed
    }

    fn tick(&mut self, inner: &Inner, ticks: u32) {
        self.follow(inner);
        if self.is_needed && ticks.is_multiple_of(STEPS_PER_CONTROL) {
            let p99 = inner.latencies.borrow_mut().take_p99();
            if let Some(p99) = p99 {
                inner
                    .word(offset_of!(pace_worker, hits_p99_ns))
                    .store(p99.as_nanos() as u64, Relaxed);
            }
            for control in inner.controls.borrow_mut().iter_mut() {
                if let Control::Deadline(deadline) = control {
                    deadline.step(p99);
                }
            }
            self.show(inner);
        }
        let now = now_ns();
        if now.saturating_sub(self.begun_ns) >= self.interval.as_nanos() as u64 {
            let (done, begun) = (inner.done(), self.begun);
            let interval = Interval {
                local_requests: done.local_requests - begun.local_requests,
                local_bytes: done.local_bytes - begun.local_bytes,
                spliced_requests: done.spliced_requests - begun.spliced_requests,
            };
            (self.begun, self.begun_ns) = (done, now);
            for control in inner.controls.borrow_mut().iter_mut() {
                if let Control::Proportional(proportion) = control {
                    proportion.end_interval(&interval);
                }
            }
            self.show(inner);
        }
    }

    /// Adopts a changed configuration.
    fn follow(&mut self, inner: &Inner) {
        let changes = inner.pacing.0.block.changes().load(Acquire);
        if changes == self.changes {
            return;
        }
        self.changes = changes;
        let (classes, interval) = {
            let table = inner.pacing.table();
            let policies = table.users().into_iter();
            let policies: Vec<_> = policies
                .map(|(number, settings, ..)| (number, settings.policy))
                .collect();
            (policies, table.interval)
        };
        self.interval = interval;
        let mut controls = inner.controls.borrow_mut();
        let mut next = [Control::None; CLASSES];
        for (number, policy) in classes {
            let place = usize::from(number);
            next[place] = match (policy, controls[place]) {
                (Policy::Immediate | Policy::Conservative, _) => Control::None,
                (Policy::Proportional, known @ Control::Proportional(_)) => known,
                (Policy::Proportional, _) => Control::Proportional(Proportion::new()),
                (Policy::Deadline { target }, Control::Deadline(known))
                    if known.target() == target =>
                {
                    Control::Deadline(known)
                }
                (Policy::Deadline { target }, _) => Control::Deadline(DeadlineControl::new(target)),
            };
        }
        *controls = next;
        self.is_needed = controls
            .iter()
            .any(|control| !matches!(control, Control::None));
        inner.is_controlled.set(self.is_needed);
        let mut controls = controls.iter();
        let has_deadline = controls.any(|control| matches!(control, Control::Deadline(_)));
        inner.has_deadline.set(has_deadline);
    }

    fn show(&self, inner: &Inner) {
        for (class, control) in (0..).zip(inner.controls.borrow().iter()) {
            let credit = match control {
                Control::None => 0,
                Control::Proportional(proportion) => proportion.per_thousand(),
                Control::Deadline(deadline) => deadline.budget(),
            };
            inner.pacing.counts(class).credit.store(credit, Relaxed);
        }
    }
}

/// How a class weighs its splices.
pub(super) fn weight_of(weight: Weight, rtt_us: u32, window_bytes: u32) -> u32 {
    match weight {
        Weight::Even => 1,
        // In milliseconds, from one to a second.
        Weight::Rtt => (rtt_us / 1000).clamp(1, 1000),
        // In units of 16 KB.
        Weight::Window => (window_bytes >> 14).clamp(1, 1000),
    }
}
