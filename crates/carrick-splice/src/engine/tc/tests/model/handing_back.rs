//! Every order of a client's packets, a server's, and the steps of a process that returns connections: a server's
//! connection is given to others only when nothing is in flight on it.
//!
//! The process is a small version of `http/kernel_forward`: it reads what the kernel has noted, and decides; some time
//! later it takes the connections back. Between any two of these steps anything may happen.

use super::super::lab::{CLIENT, Lab, PROCESS};
use super::super::spliced::{C, S, UP, down, up};
use super::super::wire::{ACK, FIN, PSH, RST};
use super::programs::Verdict;
use super::unclassified::{RESPONSE, Rest};
use crate::engine::tc::command::{Answer, Command};

/// Length of the request that the model's classifier accepts.
const REQUEST_BYTES: u32 = 30;

/// The client's steps, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Say {
    /// The next request, at the next number.
    Ask,
    /// The latest request again.
    Repeat,
    /// Acknowledges everything received.
    Acknowledge,
    End,
    Reset,
}
use Say::{Acknowledge, Ask, End, Repeat, Reset};

const SCRIPTS: [&[Say]; 7] = [
    &[Ask, Acknowledge, Ask],
    &[Ask, Ask, Acknowledge],
    &[Ask, Repeat, Acknowledge, Ask],
    &[End, Ask, Ask],
    &[Reset, Ask, Ask],
    &[Ask, End, Ask],
    &[Ask, Reset, Ask, Acknowledge],
];

/// What the server does without a request, or behind its last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Acknowledges,
    /// It sends an unsolicited response.
    GoesOn,
    /// It closes its stream.
    Ends,
}

/// Number of the server's packets, and of the process's steps.
const SERVER_STEPS: usize = 3;
const PROCESS_STEPS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Client,
    Server,
    Process,
}

/// The state of the peers and the process.
struct Course<'a> {
    rest: &'a Rest,
    script: &'a [Say],
    manner: Manner,
    said: usize,
    /// The client's next number, and the latest request's.
    next: u32,
    latest: u32,
    has_ended: bool,
    /// Requests that have reached the server; responses that it has sent.
    asked: u32,
    answered: u32,
    /// The server has sent something that is not a response.
    is_spoiled: bool,
    /// The process's view: known requests, whether the response to them is to come, and whether it has decided to separate the connections.
    known: u32,
    is_pending: bool,
    is_parting: bool,
    is_parted: bool,
    begun: (u32, u64, u64),
}

impl<'a> Course<'a> {
    fn begin(rest: &'a Rest, script: &'a [Say], manner: Manner) -> Course<'a> {
        rest.begin(|_| {});
        let record = &rest.record;
        Course {
            rest,
            script,
            manner,
            said: 0,
            next: C,
            latest: C,
            has_ended: false,
            asked: 0,
            answered: 0,
            is_spoiled: false,
            known: record.classified(),
            is_pending: false,
            is_parting: false,
            is_parted: false,
            begun: (
                record.classified(),
                record.sent_bytes(),
                record.acked_bytes(),
            ),
        }
    }

    fn step(&mut self, who: Who) -> Result<(), String> {
        match who {
            Who::Client => self.say(),
            Who::Server => self.answer(),
            Who::Process => self.process(),
        }
    }

    fn say(&mut self) -> Result<(), String> {
        let Some(say) = self.script.get(self.said).copied() else {
            return Ok(());
        };
        self.said += 1;
        let (flags, seq) = match say {
            Ask => (ACK | PSH, self.next),
            Repeat => (ACK | PSH, self.latest),
            Acknowledge => (ACK, self.next),
            End => (ACK | FIN, self.next),
            Reset => (RST, self.next),
        };
        let got = S.wrapping_add(self.answered * RESPONSE.len() as u32);
        let (mut packet, _) = up(&self.rest.lab, |packet| {
            (packet.flags, packet.seq) = (flags, seq);
            packet.ack = packet.ack.wrapping_add(got.wrapping_sub(S));
        });
        if matches!(say, Ask | Repeat) {
            packet.payload = self.rest.request(|_| {}).payload;
        }
        let before = self.rest.programs.splice();
        let outcome = self.rest.arrives(&packet);
        let is_forwarded = outcome.verdict == Verdict::Forward && !packet.payload.is_empty();
        if is_forwarded && (self.has_ended || self.is_parted) {
            return Err("a request was forwarded behind the end".into());
        }
        if is_forwarded && seq == before.ways[CLIENT].end {
            self.asked += 1;
        }
        if say == Ask {
            self.latest = seq;
            self.next = seq.wrapping_add(REQUEST_BYTES);
        }
        self.has_ended |= matches!(say, End | Reset);
        self.rest.show();
        Ok(())
    }

    /// The server answers a request, or does what its manner says.
    fn answer(&mut self) -> Result<(), String> {
        if self.is_parted || (self.is_spoiled && self.manner == Manner::Ends) {
            return Ok(());
        }
        let is_answer = self.answered < self.asked && !self.is_spoiled;
        self.is_spoiled |= !is_answer && self.manner != Manner::Acknowledges;
        let (packet, _) = down(&self.rest.lab, |packet| {
            packet.seq = S.wrapping_add(self.answered * RESPONSE.len() as u32);
            packet.ack = C + UP + self.asked * REQUEST_BYTES;
            if is_answer || self.manner == Manner::GoesOn {
                packet.payload = RESPONSE.to_vec();
            } else if self.manner == Manner::Ends {
                packet.flags |= FIN;
            }
        });
        let outcome = self.rest.arrives(&packet);
        if !is_answer && outcome.verdict == Verdict::Forward && !packet.payload.is_empty() {
            return Err("the client gets what it has not asked for".into());
        }
        self.answered += u32::from(is_answer);
        self.rest.show();
        Ok(())
    }

    fn process(&mut self) -> Result<(), String> {
        let record = &self.rest.record;
        if self.is_parted {
            return Ok(());
        }
        if !self.is_parting {
            // `catch_up`, and `look`.
            let classified = record.classified();
            self.is_pending |= classified != self.known;
            self.known = classified;
            let sent = record.sent_bytes() - record.head_at();
            let is_whole = sent == RESPONSE.len() as u64
                && record.acked_bytes() - self.begun.2 == record.sent_bytes() - self.begun.1;
            self.is_pending &= !is_whole;
            self.is_parting = !self.is_pending;
            return Ok(());
        }
        self.is_parting = false;
        let answer = self.rest.programs.ask(Command::Disarm {
            is_forced: false,
            classified: self.known,
        });
        match answer {
            Answer::Done => {
                self.is_parted = true;
                let is_closed = record.has_end();
                if self.is_spoiled && !is_closed {
                    return Err("the server's state is unknown".into());
                }
                if self.asked != self.answered && !is_closed {
                    return Err(format!(
                        "the server's connection goes to others: {} asked, {} answered",
                        self.asked, self.answered
                    ));
                }
                if self.rest.programs.splice().state != PROCESS {
                    return Err("the kernel continues".into());
                }
            }
            Answer::Behind | Answer::Busy => {}
            other => return Err(format!("{other:?}")),
        }
        Ok(())
    }
}

/// Calls `visit` with each order of the given numbers of steps.
fn orders(left: [usize; 3], order: &mut Vec<Who>, visit: &mut impl FnMut(&[Who])) {
    if left == [0; 3] {
        return visit(order);
    }
    for (index, who) in [Who::Client, Who::Server, Who::Process]
        .into_iter()
        .enumerate()
    {
        if left[index] == 0 {
            continue;
        }
        let mut rest = left;
        rest[index] -= 1;
        order.push(who);
        orders(rest, order, visit);
        order.pop();
    }
}

#[test]
fn a_server_s_connection_goes_to_others_only_at_rest_in_whatever_order_things_happen() {
    let Some(rest) = Rest::new(Lab::v4) else {
        return;
    };
    let (mut count, mut parted, mut asked) = (0, 0, 0);
    let plain = SCRIPTS.map(|script| (script, Manner::Acknowledges));
    let others = [Manner::GoesOn, Manner::Ends].map(|manner| (SCRIPTS[0], manner));
    for (script, manner) in plain.into_iter().chain(others) {
        let steps = [script.len(), SERVER_STEPS, PROCESS_STEPS];
        orders(steps, &mut Vec::new(), &mut |order| {
            let mut course = Course::begin(&rest, script, manner);
            for who in order {
                if let Err(what) = course.step(*who) {
                    panic!("{what}: {script:?}, {manner:?} in the order {order:?}");
                }
            }
            count += 1;
            parted += u32::from(course.is_parted);
            asked += course.asked;
        });
    }
    // Without events, the test would prove nothing.
    assert!(
        parted > count / 2 && asked > count / 2,
        "{count} {parted} {asked}"
    );
}
