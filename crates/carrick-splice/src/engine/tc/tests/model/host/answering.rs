//! The process when the kernel forwards only responses: the work of the users of `responses.rs`.

use super::super::endpoint::{Life, MILLISECOND};
use super::super::programs::Programs;
use super::super::random::said;
use super::{After, DISARM_LOOK, DISARM_LOOKS_MAX, HELD_MAX, Host, Packet, Tcp};
use crate::engine::tc::command::{Answer, Command, KernelRoutes};
use crate::engine::tc::records::Record;
use std::time::Duration;

/// How often to check whether a response has ended that delays a request.
const BODY_LOOK: u64 = 50 * MILLISECOND;

/// A request and its response.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// At least 8, which identify it.
    pub request_bytes: u64,
    pub response_bytes: u64,
    /// The kernel may forward it, if it arrives in one packet.
    pub is_plain: bool,
    /// If its response goes through the process, the kernel gets the rest as soon as possible.
    pub is_body: bool,
    /// The kernel's part is smaller than the rest by this much.
    pub cut_bytes: u64,
}

#[derive(Debug, Clone)]
pub struct Rounds {
    pub all: Vec<Round>,
    /// Responses go through the process, and the server is delayed before each.
    pub holds: bool,
    /// The kernel classifies requests.
    pub is_classified: bool,
    /// The process relays a request when all previous responses are complete; otherwise at once.
    pub is_serial: bool,
    /// When the client closes, the process takes the connections back at once.
    pub ends_at_once: bool,
    /// Longest delay, in microseconds, before the process writes after arming.
    pub pause_max: u64,
}

pub struct Answering {
    rounds: Rounds,
    record: Record,
    /// Requests that the process has begun to relay; the rest of the latest.
    begun: usize,
    latest: usize,
    left: u64,
    is_fresh: bool,
    /// The kernel has, or is to get, the rest of a response.
    is_body: bool,
    has_begun: bool,
    /// It knows which rest.
    rest_asked: bool,
    /// Requests in the record that are not ours.
    classified_before: u32,
    /// Bytes of responses that went through the process, including those before it armed.
    relayed: u64,
    /// The record's value then.
    acked_before: u64,
    sent_before: u64,
    busy_until: u64,
}

const KERNEL_ROUTES: KernelRoutes = KernelRoutes {
    table: 0,
    generation: 0,
    upstream: 0,
    requests_max: u32::MAX,
    time_max: Duration::MAX,
};

/// The first bytes that a peer sends from this position.
fn first_bytes(side: u64, at: u64) -> [u8; 8] {
    std::array::from_fn(|byte| said(side, at + byte as u64))
}

impl Answering {
    pub fn new(rounds: Rounds, programs: &Programs) -> Answering {
        let record = programs.record();
        let (mut at, mut answered) = (0, 0);
        for round in &rounds.all {
            if round.is_plain {
                programs.let_classify(first_bytes(0, at), round.request_bytes);
            }
            programs.let_measure(first_bytes(1, answered), round.response_bytes);
            at += round.request_bytes;
            answered += round.response_bytes;
        }
        Answering {
            classified_before: record.classified(),
            acked_before: record.acked_bytes(),
            sent_before: record.sent_bytes(),
            rounds,
            record,
            begun: 0,
            latest: 0,
            left: 0,
            is_fresh: false,
            is_body: false,
            has_begun: false,
            rest_asked: false,
            relayed: 0,
            busy_until: 0,
        }
    }

    fn classified(&self) -> usize {
        self.record
            .classified()
            .wrapping_sub(self.classified_before) as usize
    }

    /// The request with this beginning.
    fn find(&self, first: &[u8]) -> Option<usize> {
        let mut at = 0;
        self.rounds.all.iter().position(|round| {
            let is_it = first_bytes(0, at) == first;
            at += round.request_bytes;
            is_it
        })
    }

    /// The bytes of all responses before that to request `index`.
    fn before(&self, index: usize) -> u64 {
        let before = self.rounds.all.iter().take(index);
        before.map(|round| round.response_bytes).sum()
    }

    fn acked(&self) -> u64 {
        self.record.acked_bytes() - self.acked_before
    }

    fn sent(&self) -> u64 {
        self.record.sent_bytes() - self.sent_before
    }

    /// Completes a relayed request.
    fn settle(&mut self) {
        if std::mem::take(&mut self.is_fresh) {
            self.record.settle_first();
        } else {
            let latest = self.rounds.all[self.latest];
            self.record.settle(latest.request_bytes);
        }
    }

    /// Checks the record's view of what was forwarded.
    fn check(&self) -> Result<(), String> {
        if self.acked() > self.sent() {
            return Err("more is acknowledged than was sent".into());
        }
        if self.is_body {
            // Forwarded data may be ahead of relayed data.
            return Ok(());
        }
        let is_said = |from: u64, bytes: &[u8]| {
            let all = (from..).zip(bytes);
            all.into_iter().all(|(at, byte)| said(1, at) == *byte)
        };
        let tail = self.record.tail();
        let end = self.relayed + self.sent();
        let start = end.saturating_sub(tail.len() as u64);
        if self.sent() > 0 && !tail.is_empty() && !is_said(start, &tail) {
            return Err(format!("the last bytes differ: {tail:?}"));
        }
        let at = self.record.head_at();
        let head = self.record.head(at);
        if at >= self.sent_before && !is_said(self.relayed + at - self.sent_before, &head) {
            return Err("the head differs".into());
        }
        Ok(())
    }
}

impl Host {
    fn answering(&mut self) -> &mut Answering {
        self.answering.as_mut().unwrap()
    }

    /// One run of the process.
    pub(super) fn answer(&mut self, now: u64, programs: &Programs) -> Vec<(usize, Packet)> {
        let busy_until = self.answering().busy_until;
        if now < busy_until {
            self.wakes_at = Some(busy_until);
            return Vec::new();
        }
        if self.is_armed {
            let checked = self.answering().check();
            self.wrong = self.wrong.take().or(checked.err());
            self.note_begun();
        }
        if self.locals.iter().any(|local| local.life == Life::Reset) {
            self.part(now, programs, true);
            return self.close(now);
        }
        if let Some((after, tries)) = self.disarm.take() {
            if self.part(now, programs, false) {
                self.go_on(after);
            } else if tries < DISARM_LOOKS_MAX {
                self.disarm = Some((after, tries + 1));
                self.wakes_at = Some(now + DISARM_LOOK);
                return Vec::new();
            } else {
                self.tally.gave_up += 1;
                self.part(now, programs, true);
                return self.close(now);
            }
        }
        while self.pass_request(now, programs) | self.pass_response(now, programs) {
            if now < self.answering().busy_until {
                self.wakes_at = Some(self.answering().busy_until);
                return Vec::new();
            }
        }
        self.pass_client_end(now, programs);
        Vec::new()
    }

    /// Takes the connections back. False: a forwarded request has not arrived.
    fn part(&mut self, now: u64, programs: &Programs, is_forced: bool) -> bool {
        if !self.is_armed {
            return true;
        }
        let classified = self.answering().record.classified();
        let answer = self.ask(
            now,
            programs,
            Command::Disarm {
                is_forced,
                classified,
            },
        );
        if answer == Answer::Busy && !is_forced {
            return false;
        }
        let answering = self.answering();
        let is_back = answering.is_body && answering.record.is_back();
        if answer != Answer::Done && !is_back {
            self.wrong = Some(format!("it cannot be taken back: {answer:?}"));
        }
        self.is_armed = false;
        self.tally.disarmed += 1;
        let is_ahead = self.splice().legs.iter().any(|leg| leg.is_ahead != 0);
        self.tally.disarmed_ahead += u64::from(is_ahead);
        self.note_begun();
        let answering = self.answering();
        answering.relayed += answering.acked();
        (answering.is_fresh, answering.is_body) = (false, false);
        true
    }

    /// Whether the kernel forwards the rest of a response.
    fn note_begun(&mut self) {
        let answering = self.answering();
        let has_begun = answering.is_body && answering.record.has_begun();
        let is_news = has_begun && !std::mem::replace(&mut answering.has_begun, has_begun);
        self.tally.bodies += u64::from(is_news);
    }

    /// Bytes of responses that the client has, or will get from its local socket.
    fn answered(&mut self) -> u64 {
        let is_armed = self.is_armed;
        let answering = self.answering();
        answering.relayed + if is_armed { answering.acked() } else { 0 }
    }

    fn pass_request(&mut self, now: u64, programs: &Programs) -> bool {
        let room = HELD_MAX - self.held[0].len();
        let more = self.locals[0].receiving.read(room);
        self.held[0].extend(&more);
        if self.answering().left == 0 && !self.begin_request(now, programs) {
            return !more.is_empty();
        }
        if now < self.answering().busy_until {
            return true;
        }
        let is_armed = self.is_armed;
        let left = self.answering().left as usize;
        let piece = left.min(self.held[0].len());
        let written = self.locals[1].write(&self.held[0][..piece]);
        self.held[0].drain(..written);
        let answering = self.answering();
        answering.left -= written as u64;
        if answering.left == 0 && is_armed {
            answering.settle();
        }
        written > 0 || !more.is_empty()
    }

    /// Whether a request is to be relayed now.
    fn begin_request(&mut self, now: u64, programs: &Programs) -> bool {
        let Some(first) = self.held[0].get(..8) else {
            return false;
        };
        let answering = self.answering.as_ref().unwrap();
        let expected = answering.begun + answering.classified();
        let Some(index) = answering.find(first) else {
            self.wrong = Some("no request has this beginning".into());
            return false;
        };
        if index != expected {
            self.wrong = Some(format!("request {index} comes where {expected} should"));
            return false;
        }
        let bytes = answering.rounds.all[index].request_bytes;
        let (is_serial, is_body) = (answering.rounds.is_serial, answering.is_body);
        let before = answering.before(index);
        let is_between = self.answered() == before;
        let is_whole = self.held[0].len() as u64 >= bytes.min(HELD_MAX as u64);
        if is_body && !is_between {
            // Its end is not reported.
            self.wakes_at = Some(now + BODY_LOOK);
            return false;
        }
        if !is_whole || (is_serial && !is_between) {
            return false;
        }
        if is_body && !self.rounds_hold() && !self.part(now, programs, false) {
            return false;
        }
        if is_between && self.is_armed {
            self.answering().record.note_whole();
        }
        let is_alone = self.held[0].len() as u64 == bytes && self.held[1].is_empty();
        if self.rounds_hold() {
            self.arm_body(now, programs, true);
        } else if is_between && is_alone && self.wants_kernel && !self.is_armed {
            self.arm_responses(now, programs);
        }
        let answering = self.answering();
        answering.record.ask(false);
        answering.begun += 1;
        answering.latest = index;
        answering.left = bytes;
        true
    }

    fn arm_responses(&mut self, now: u64, programs: &Programs) {
        if self.passed != [false; 2] {
            return;
        }
        let is_in_flight = |local: &Tcp| local.sending.una != local.sending.sent_max;
        let is_in_flight = self.locals.iter().any(is_in_flight);
        let answering = self.answering();
        let record = answering.record.number();
        let routes = answering.rounds.is_classified.then_some(KERNEL_ROUTES);
        answering.record.clear();
        let command = Command::ArmResponses {
            record,
            routes,
            pace: self.pace[1],
        };
        let answer = self.ask(now, programs, command);
        match answer {
            Answer::Done => {}
            Answer::Busy | Answer::Unseen => return,
            Answer::NoSocket => {
                self.wants_kernel = false;
                return;
            }
            other => panic!("incompatible connections: {other:?}"),
        }
        self.tally.armed_in_flight += u64::from(is_in_flight);
        self.has_armed();
        let answering = self.answering();
        answering.is_fresh = true;
        let pause = now * 7919 % (answering.rounds.pause_max + 1);
        answering.busy_until = now + pause;
    }

    fn has_armed(&mut self) {
        self.tally.armed += 1;
        self.is_armed = true;
        self.was_armed = true;
        for local in &mut self.locals {
            local.is_strict = false;
        }
        let answering = self.answering();
        answering.acked_before = answering.record.acked_bytes();
        answering.sent_before = answering.record.sent_bytes();
    }

    /// In the middle of a response that goes through the process: the kernel is to get the rest.
    fn arm_body(&mut self, now: u64, programs: &Programs, is_before: bool) {
        let answering = self.answering();
        if is_before && answering.is_body && !answering.record.has_begun() {
            return;
        }
        let Some(asked) = answering.rounds.all.get(answering.latest) else {
            return;
        };
        let is_wanted = asked.is_body && answering.left == 0;
        let rest = (answering.before(answering.latest + 1)).saturating_sub(answering.relayed);
        let is_under_way = rest > 0;
        let cut = asked.cut_bytes.min(rest);
        // A part of what was read is not written yet.
        let is_latest = answering.begun + answering.classified() == answering.latest + 1;
        let record = answering.record.number();
        let held_bytes = self.held[1].len() as u64;
        let rest_bytes = (rest - cut).saturating_sub(held_bytes);
        let may = self.wants_kernel && !self.locals[1].is_at_end() && self.passed == [false; 2];
        let is_now = is_wanted && is_under_way && is_latest;
        if !(may && (is_now || is_before)) {
            return;
        }
        let (held_bytes, rest_bytes) = if is_before {
            (0, 0)
        } else {
            (held_bytes, rest_bytes)
        };
        if self.answering().is_body && self.answering().record.is_back() {
            self.is_armed = false;
            let answering = self.answering();
            answering.relayed += answering.acked();
            answering.is_body = false;
        }
        let answering = self.answering();
        let acked = if answering.is_body {
            answering.acked()
        } else {
            0
        };
        answering.record.clear();
        let held_bytes = held_bytes as u32;
        let command = Command::ArmBody {
            record,
            held_bytes,
            rest_bytes,
            pace: self.pace[1],
        };
        match self.ask(now, programs, command) {
            Answer::Done => {}
            Answer::Busy => return,
            Answer::NoSocket => {
                self.wants_kernel = false;
                return;
            }
            other => panic!("incompatible connections: {other:?}"),
        }
        self.has_armed();
        let answering = self.answering();
        answering.relayed += acked;
        (answering.is_body, answering.has_begun) = (true, false);
        answering.rest_asked = !is_before;
    }

    /// Whether the server is delayed before each response.
    fn rounds_hold(&mut self) -> bool {
        self.answering().rounds.holds
    }

    fn pass_response(&mut self, now: u64, programs: &Programs) -> bool {
        if self.is_armed {
            let is_body = self.answering().is_body;
            if !is_body && !self.locals[1].receiving.ready.is_empty() {
                self.wrong = Some("a response reaches the server's local socket".into());
            }
            let answering = self.answering();
            let has_ended = answering.record.has_end() && answering.acked() == answering.sent();
            let has_ended = has_ended || self.locals[1].is_at_end();
            // No further request will come.
            if has_ended && self.part(now, programs, false) {
                self.go_on(After::Process);
            } else if has_ended || !is_body {
                return false;
            }
        }
        let before = self.moved;
        let has_moved = self.relay(now, programs, 1);
        let moved = self.moved - before;
        self.answering().relayed += moved;
        let answering = self.answering();
        let is_asked = answering.is_body && answering.rest_asked;
        if moved > 0 && (!self.is_armed || (self.rounds_hold() && !is_asked)) {
            self.arm_body(now, programs, false);
        }
        has_moved
    }

    fn pass_client_end(&mut self, now: u64, programs: &Programs) {
        let is_at_end = self.held[0].is_empty() && self.locals[0].is_at_end();
        if !is_at_end || self.passed[0] {
            return;
        }
        if self.answering().rounds.ends_at_once {
            if !self.part(now, programs, false) {
                self.wakes_at = Some(now + DISARM_LOOK);
                return;
            }
            self.go_on(After::Process);
        }
        self.passed[0] = true;
        self.locals[1].shut();
    }

    /// Everything was sent: checks that the records agree.
    pub fn check_end(&mut self, said_bytes: u64) -> Result<(), String> {
        if self.answering.is_none() {
            return Ok(());
        }
        let answered = self.answered();
        let answering = self.answering();
        let (passed, classified) = (answering.begun, answering.classified());
        let asked = answering.rounds.all.len();
        self.tally.classified += classified as u64;
        if answered != said_bytes || passed + classified != asked {
            return Err(format!(
                "{answered} of {said_bytes} bytes are counted, {passed} and {classified} of {asked} requests"
            ));
        }
        Ok(())
    }
}
