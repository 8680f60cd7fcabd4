//! A peer's application: it sends, pauses, reads, closes.

use super::endpoint::{Life, Tcp};
use super::random::said;

/// A step of a peer. Each is completed before the next begins; it reads all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Say(u64),
    /// Microseconds.
    Pause(u64),
    /// Until it has received this many bytes in total.
    Hear(u64),
    /// Until the other side has closed.
    HearEnd,
    End,
    Reset,
}

#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// It reads this many bytes at a time, at this interval.
    pub read_bytes: usize,
    pub read_every: u64,
    /// It does not read in this period.
    pub deaf: Option<(u64, u64)>,
}

pub struct Application {
    plan: Plan,
    side: u64,
    at: usize,
    /// Start of the step.
    since: u64,
    step_said: u64,
    pub said: u64,
    pub heard: u64,
    pub has_heard_end: bool,
    next_read: u64,
    pub wakes_at: Option<u64>,
    pub has_reset: bool,
}

impl Application {
    pub fn new(plan: Plan, side: usize) -> Application {
        Application {
            plan,
            side: side as u64,
            at: 0,
            since: 0,
            step_said: 0,
            said: 0,
            heard: 0,
            has_heard_end: false,
            next_read: 0,
            wakes_at: None,
            has_reset: false,
        }
    }

    /// Whether it has completed all steps.
    pub fn is_done(&self) -> bool {
        self.at == self.plan.steps.len()
    }

    /// Total bytes that it sends.
    pub fn will_say(&self) -> u64 {
        let bytes = self.plan.steps.iter().map(|step| match step {
            Step::Say(bytes) => *bytes,
            _ => 0,
        });
        bytes.sum()
    }

    pub fn step(&self) -> Option<Step> {
        self.plan.steps.get(self.at).copied()
    }

    /// Does what can be done now. Received bytes must be those that the other side sent; otherwise returns an error.
    /// Returns whether it resets.
    pub fn act(&mut self, now: u64, tcp: &mut Tcp) -> Result<bool, String> {
        self.wakes_at = None;
        if tcp.life == Life::Open {
            self.read(now, tcp)?;
        }
        while let Some(step) = self.step() {
            let is_over = match step {
                _ if tcp.life != Life::Open => true,
                Step::Say(bytes) => self.say(bytes, tcp),
                Step::Pause(time) => {
                    let until = self.since + time;
                    self.wake(until, now);
                    now >= until
                }
                Step::Hear(bytes) => self.heard >= bytes || self.has_heard_end,
                Step::HearEnd => self.has_heard_end,
                Step::End => {
                    tcp.shut();
                    true
                }
                Step::Reset => {
                    self.has_reset = true;
                    true
                }
            };
            if !is_over {
                break;
            }
            self.at += 1;
            self.since = now;
            self.step_said = 0;
            if step == Step::Reset && self.has_reset {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn wake(&mut self, when: u64, now: u64) {
        if when > now {
            self.wakes_at = Some(self.wakes_at.map_or(when, |other| other.min(when)));
        }
    }

    fn say(&mut self, bytes: u64, tcp: &mut Tcp) -> bool {
        let room = tcp.sending.room() as u64;
        let count = room.min(bytes - self.step_said);
        let words: Vec<u8> = (self.said..self.said + count)
            .map(|at| said(self.side, at))
            .collect();
        assert_eq!(tcp.write(&words), words.len());
        self.said += count;
        self.step_said += count;
        self.step_said == bytes
    }

    fn read(&mut self, now: u64, tcp: &mut Tcp) -> Result<(), String> {
        if let Some((from, to)) = self.plan.deaf
            && (from..to).contains(&now)
        {
            self.wake(to, now);
            return Ok(());
        }
        if self.plan.read_every > 0 && now < self.next_read {
            self.wake(self.next_read, now);
            return Ok(());
        }
        let bytes = tcp.receiving.read(self.plan.read_bytes);
        for byte in &bytes {
            if *byte != said(1 - self.side, self.heard) {
                return Err(format!("byte {} differs", self.heard));
            }
            self.heard += 1;
        }
        if !bytes.is_empty() && self.plan.read_every > 0 {
            self.next_read = now + self.plan.read_every;
            self.wake(self.next_read, now);
        }
        self.has_heard_end |= tcp.is_at_end();
        Ok(())
    }
}
