//! One thread of load: an epoll loop that carries out a driver's orders. Nothing is allocated for each request, and all
//! connections share one buffer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::io::Errno;

use crate::load::connection::{Conversation, Next, Phase};
use crate::load::drain::{DRAIN_TOKEN, Drains};
use crate::load::driver::{Driver, Order, Orders};
use crate::load::fault::Fault;
use crate::load::socket::{self, Interest, Poll, Ports};
use crate::load::tally::{Ending, Finish, Tally};
use crate::load::target::Targets;
use crate::load::work::{Lengths, Request};

/// Of the buffer that all reads go through, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;
/// How often the loop looks whether it is to stop.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// Beginnings and ends of a run, in nanoseconds from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Measuring begins.
    pub measure_from_ns: u64,
    /// Measuring ends.
    pub measure_to_ns: u64,
    /// The load ends.
    pub end_ns: u64,
}

/// What a thread needs of the plan.
#[derive(Clone, Debug)]
pub struct Setup {
    /// To connect to.
    pub address: SocketAddr,
    /// Requests as bytes.
    pub targets: Arc<Targets>,
    /// A request that takes longer has failed, in nanoseconds.
    pub timeout_ns: u64,
    /// Local ports.
    pub ports: Ports,
    /// How many requests a connection carries.
    pub lengths: Lengths,
}

/// A thread of load.
pub struct Engine<'run> {
    setup: Setup,
    driver: &'run mut dyn Driver,
    tally: &'run mut Tally,
    slots: Vec<Slot>,
    drains: Drains,
    poll: Poll,
    buffer: Vec<u8>,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    orders: Orders,
    started: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A slot's time-out.
    Slot(usize),
    /// The driver's.
    Driver(u64),
}

#[derive(Debug, Default)]
struct Slot {
    socket: Option<OwnedFd>,
    /// Counts connections, so that an event of the last one is not taken for one of this.
    generation: u32,
    conversation: Conversation,
    waits_to_send: bool,
    deadline_ns: u64,
    is_armed: bool,
}

impl<'run> Engine<'run> {
    /// A thread that has not begun; its times count from `started`.
    ///
    /// # Errors
    /// When the kernel gives no epoll.
    pub fn new(
        setup: Setup,
        driver: &'run mut dyn Driver,
        tally: &'run mut Tally,
        started: Instant,
    ) -> Result<Self> {
        let slots = driver.slots();
        Ok(Self {
            setup,
            driver,
            tally,
            slots: std::iter::repeat_with(Slot::default).take(slots).collect(),
            drains: Drains::default(),
            poll: Poll::new()?,
            buffer: vec![0; BUFFER_BYTES],
            timers: BinaryHeap::new(),
            orders: VecDeque::new(),
            started,
        })
    }

    /// Makes load until the span ends, the driver is done, or `stop` is set; returns when measuring ended.
    ///
    /// # Errors
    /// When epoll fails. What goes wrong on connections is counted.
    pub fn run(&mut self, span: Span, stop: &AtomicBool) -> Result<u64> {
        let mut ready = Vec::new();
        let mut measured_to_ns = None;
        self.driver.start(self.now(), &mut self.orders);
        loop {
            let now_ns = self.now();
            let is_over =
                now_ns >= span.end_ns || self.driver.is_done() || stop.load(Ordering::Relaxed);
            if measured_to_ns.is_none() && (now_ns >= span.measure_to_ns || is_over) {
                let to_ns = now_ns.min(span.measure_to_ns);
                measured_to_ns = Some(to_ns);
                self.tally.is_measuring = false;
                self.tally.late += self.driver.late(span.measure_from_ns, to_ns);
            } else if measured_to_ns.is_none() {
                self.tally.is_measuring = now_ns >= span.measure_from_ns;
            }
            if is_over {
                return Ok(measured_to_ns.unwrap_or(now_ns));
            }
            self.fire_timers(now_ns);
            self.carry_out();
            self.poll.wait(self.patience(&span), &mut ready)?;
            for token in &ready {
                self.handle(*token);
            }
        }
    }

    /// Nanoseconds of the run.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// How long nothing has to be done unless something comes.
    fn patience(&self, span: &Span) -> Duration {
        let now_ns = self.now();
        let ends = [span.measure_from_ns, span.measure_to_ns, span.end_ns];
        let timer = self.timers.peek().map(|Reverse((at_ns, _))| *at_ns);
        ends.into_iter()
            .filter(|end_ns| *end_ns > now_ns)
            .chain(timer)
            .chain(self.drains.next_ns())
            .map(|at_ns| Duration::from_nanos(at_ns.saturating_sub(now_ns)))
            .fold(STOP_LOOK, Duration::min)
    }

    fn fire_timers(&mut self, now_ns: u64) {
        self.drains.expire(now_ns);
        while let Some(Reverse((at_ns, timer))) = self.timers.peek().copied()
            && at_ns <= now_ns
        {
            self.timers.pop();
            match timer {
                Timer::Driver(token) => self.driver.woken(token, now_ns, &mut self.orders),
                Timer::Slot(number) => {
                    let slot = &mut self.slots[number];
                    slot.is_armed = false;
                    if slot.conversation.is_busy() && slot.deadline_ns <= now_ns {
                        self.expire(number, self.setup.timeout_ns);
                    } else if slot.conversation.is_busy() {
                        self.arm(number);
                    }
                }
            }
        }
    }

    /// Carries out all orders, and those that come of them.
    fn carry_out(&mut self) {
        while let Some(order) = self.orders.pop_front() {
            match order {
                Order::Begin(slot, request) => self.begin(slot, request),
                Order::Expire(slot, limit_ns) => {
                    if self.slots[slot].conversation.is_busy() {
                        self.expire(slot, limit_ns);
                    }
                }
                Order::Close(slot) => self.close(slot),
                Order::Wake(at_ns, token) => {
                    self.timers.push(Reverse((at_ns, Timer::Driver(token))));
                }
            }
        }
    }

    fn begin(&mut self, number: usize, request: Request) {
        let now_ns = self.now();
        let slot = &mut self.slots[number];
        slot.deadline_ns = now_ns.saturating_add(self.setup.timeout_ns);
        let can_go_on = slot.conversation.phase == Phase::Idle
            && slot.conversation.left > 0
            && slot.socket.is_some()
            && !request.is_alone;
        if can_go_on {
            slot.conversation.ask(request, &self.setup.targets);
        } else {
            self.close(number);
            let length = self.setup.lengths.draw();
            self.slots[number].conversation.connecting(request, length);
            if let Err((call, error)) = self.connect(number) {
                let words = format!("{call} to {}: {error}", self.setup.address);
                self.fail(number, Fault::Connect(error.kind(), words));
                return;
            }
        }
        self.arm(number);
        if can_go_on {
            self.send(number);
        }
    }

    fn connect(&mut self, number: usize) -> Result<(), (&'static str, Errno)> {
        let socket = socket::open(self.setup.address, &mut self.setup.ports)?;
        let slot = &mut self.slots[number];
        slot.generation = slot.generation.wrapping_add(1);
        slot.waits_to_send = true;
        self.poll
            .watch(&socket, token(number, slot.generation), Interest::Send)
            .map_err(|error| ("epoll_ctl", error))?;
        slot.socket = Some(socket);
        Ok(())
    }

    /// Something is to be done on a socket.
    fn handle(&mut self, token: u64) {
        if token & DRAIN_TOKEN != 0 {
            if let Some((request, surplus)) =
                self.drains.look(token & !DRAIN_TOKEN, &mut self.buffer)
            {
                self.tally.failed(&request, &Fault::Surplus(surplus));
            }
            return;
        }
        let number = usize::try_from(token & 0xffff_ffff).unwrap_or(usize::MAX);
        let Some(slot) = self.slots.get(number) else {
            return;
        };
        if u64::from(slot.generation) & 0x7fff_ffff != token >> 32 || slot.socket.is_none() {
            return;
        }
        if slot.conversation.phase == Phase::Connecting {
            self.finish_connecting(number);
        } else if slot.waits_to_send {
            self.send(number);
        } else {
            self.receive(number);
        }
        self.carry_out();
    }

    fn finish_connecting(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        let Some(socket) = &slot.socket else { return };
        if let Err(error) = socket::connected(socket) {
            let words = format!("connect to {}: {error}", self.setup.address);
            return self.fail(number, Fault::Connect(error.kind(), words));
        }
        self.tally.opened();
        slot.conversation.connected(&self.setup.targets);
        self.send(number);
    }

    /// Sends what is in the output, and what follows it.
    fn send(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        let Some(socket) = &slot.socket else { return };
        let conversation = &mut slot.conversation;
        loop {
            while conversation.sent < conversation.output.len() {
                match socket::transmit(socket, &conversation.output[conversation.sent..]) {
                    Ok(0) => return self.want(number, true),
                    Ok(bytes) => conversation.sent += bytes,
                    Err(error) => {
                        let fault = Fault::Reset {
                            error: format!("send: {error}"),
                            progress: conversation.progress(),
                        };
                        return self.fail(number, fault);
                    }
                }
            }
            if !conversation.said(&self.setup.targets) {
                return self.want(number, false);
            }
        }
    }

    /// Waits for room to send, or else for something to receive.
    fn want(&mut self, number: usize, to_send: bool) {
        let slot = &mut self.slots[number];
        let Some(socket) = &slot.socket else { return };
        if slot.waits_to_send == to_send {
            return;
        }
        slot.waits_to_send = to_send;
        let interest = if to_send {
            Interest::Send
        } else {
            Interest::Receive
        };
        if let Err(error) = self
            .poll
            .change(socket, token(number, slot.generation), interest)
        {
            let fault = Fault::Reset {
                error: format!("epoll_ctl: {error}"),
                progress: slot.conversation.progress(),
            };
            self.fail(number, fault);
        }
    }

    fn receive(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        let Some(socket) = &slot.socket else { return };
        let most = slot.conversation.receive_bytes_max().min(BUFFER_BYTES);
        let received = socket::receive(socket, &mut self.buffer[..most]);
        let now_ns = self.now();
        match received {
            Ok(None) => {}
            Ok(Some(0)) => self.ended_by_server(number, now_ns),
            Ok(Some(bytes)) => self.take(number, bytes, now_ns),
            Err(_) if self.slots[number].conversation.phase == Phase::Idle => self.close(number),
            Err(error) => {
                let fault = Fault::Reset {
                    error: error.to_string(),
                    progress: self.slots[number].conversation.progress(),
                };
                self.fail(number, fault);
            }
        }
    }

    fn ended_by_server(&mut self, number: usize, now_ns: u64) {
        let conversation = &mut self.slots[number].conversation;
        if conversation.phase == Phase::Idle {
            // As it may, between requests.
            return self.close(number);
        }
        match conversation.end() {
            Ok(()) => {
                self.close_socket(number);
                self.finish(number, now_ns, Ok(Finish::Completed));
            }
            Err(fault) => self.fail(number, fault),
        }
    }

    /// Takes what is in the buffer.
    fn take(&mut self, number: usize, bytes: usize, now_ns: u64) {
        let conversation = &mut self.slots[number].conversation;
        let before = conversation.body_bytes();
        let was_idle = conversation.phase == Phase::Idle;
        let class = conversation.request.class;
        let mut input = &self.buffer[..bytes];
        let next = conversation.take(&mut input, now_ns, &self.setup.targets);
        if !was_idle {
            let after = conversation.body_bytes();
            self.tally.received(class, after.saturating_sub(before));
        }
        match next {
            Ok(Next::Wait) => {}
            Ok(Next::Send) => self.send(number),
            Ok(Next::Completed) => {
                if self.slots[number].conversation.left == 0 {
                    self.drain(number, now_ns);
                }
                self.finish(number, now_ns, Ok(Finish::Completed));
            }
            Ok(Next::Aborted) => {
                self.close(number);
                self.finish(number, now_ns, Ok(Finish::Aborted));
            }
            Err(fault) if was_idle => {
                let request = self.slots[number].conversation.request;
                self.close(number);
                self.tally.failed(&request, &fault);
            }
            Err(fault) => self.fail(number, fault),
        }
    }

    /// The connection carries no more requests: what may still come on it is waited out, on the side.
    fn drain(&mut self, number: usize, now_ns: u64) {
        let slot = &mut self.slots[number];
        slot.conversation.phase = Phase::Closed;
        slot.generation = slot.generation.wrapping_add(1);
        let Some(socket) = slot.socket.take() else {
            return;
        };
        let request = slot.conversation.request;
        let surplus = self
            .drains
            .add(socket, request, now_ns, &self.poll, &mut self.buffer);
        if let Some(bytes) = surplus {
            self.tally.failed(&request, &Fault::Surplus(bytes));
        }
    }

    fn expire(&mut self, number: usize, limit_ns: u64) {
        let fault = Fault::Timeout {
            limit_seconds: limit_ns as f64 / 1e9,
            progress: self.slots[number].conversation.progress(),
        };
        self.fail(number, fault);
    }

    fn fail(&mut self, number: usize, fault: Fault) {
        self.close(number);
        self.finish(number, self.now(), Err(fault));
    }

    fn finish(&mut self, number: usize, ended_ns: u64, result: Result<Finish, Fault>) {
        let conversation = &self.slots[number].conversation;
        let request = conversation.request;
        let ending = Ending {
            first_byte_ns: conversation.first_byte_ns,
            ended_ns,
            result,
        };
        self.driver
            .ended(number, &request, ending, self.tally, &mut self.orders);
    }

    /// Closes the slot's connection, whatever is under way on it.
    fn close(&mut self, number: usize) {
        self.close_socket(number);
        self.slots[number].conversation.phase = Phase::Closed;
    }

    fn close_socket(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        slot.generation = slot.generation.wrapping_add(1);
        slot.socket = None;
        if slot.conversation.phase == Phase::Idle {
            slot.conversation.phase = Phase::Closed;
        }
    }

    /// Sets the slot's time-out. One timer for each slot is enough: it is set again when it fires too early.
    fn arm(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        if !slot.is_armed {
            slot.is_armed = true;
            self.timers
                .push(Reverse((slot.deadline_ns, Timer::Slot(number))));
        }
    }
}

/// What comes with a slot's events.
fn token(number: usize, generation: u32) -> u64 {
    (u64::from(generation) & 0x7fff_ffff) << 32 | number as u64
}
