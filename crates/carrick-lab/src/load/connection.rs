//! One connection at a time of a client, and the request on it: a state machine that is given what came. No socket is
//! touched here.

use crate::load::fault::{Fault, Progress};
use crate::load::response::{Expected, Response};
use crate::load::target::Targets;
use crate::load::work::Request;
use crate::origin::handshake::{Exchange, Party, Step};

/// What a read is limited to while the head of a response is awaited whose body is to be cut off in its middle, in bytes.
const ABORT_HEAD_BYTES: usize = 256;

/// Where a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// There is none.
    #[default]
    Closed,
    /// Open, and nothing under way.
    Idle,
    /// Being opened.
    Connecting,
    /// `CONNECT` was sent.
    Tunnel,
    /// In the messages of a handshake.
    Handshake,
    /// The request was sent.
    Response,
}

/// What has to be done after bytes came.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// More has to come.
    Wait,
    /// There is something to send in [`Conversation::output`]; then more may have to be taken.
    Send,
    /// The response is whole.
    Completed,
    /// The client gives up, as it was to.
    Aborted,
}

/// A conversation on a connection.
#[derive(Debug, Default)]
pub struct Conversation {
    /// Where it is.
    pub phase: Phase,
    /// What it is about.
    pub request: Request,
    /// To be sent.
    pub output: Vec<u8>,
    /// Of it, already sent.
    pub sent: usize,
    /// When the first byte of the response came; 0: not yet.
    pub first_byte_ns: u64,
    /// Requests that the connection may still carry, this one included.
    pub left: u32,
    /// Responses that it has carried.
    pub carried: u32,
    response: Response,
    expected: Expected,
    handshake: Option<Exchange>,
}

impl Conversation {
    /// Whether a request is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Closed | Phase::Idle)
    }

    /// A new connection is being opened for this request.
    pub fn connecting(&mut self, request: Request, left: u32) {
        self.request = request;
        self.phase = Phase::Connecting;
        self.left = if request.is_alone { 1 } else { left };
        self.carried = 0;
        self.first_byte_ns = 0;
        self.output.clear();
        self.sent = 0;
    }

    /// The connection is open: puts what has to be sent first into `output`.
    pub fn connected(&mut self, targets: &Targets) {
        match self.request.handshake {
            None => self.ask(self.request, targets),
            Some(_) if !targets.connect().is_empty() => {
                self.phase = Phase::Tunnel;
                self.put(targets.connect());
                self.response.begin();
                self.expected = Expected {
                    to_connect: true,
                    ..Expected::default()
                };
            }
            Some(_) => self.begin_handshake(targets),
        }
    }

    /// Puts a request into `output`.
    pub fn ask(&mut self, request: Request, targets: &Targets) {
        self.request = request;
        self.phase = Phase::Response;
        self.first_byte_ns = 0;
        let mut output = std::mem::take(&mut self.output);
        targets.write(&request, self.left <= 1, &mut output);
        self.output = output;
        self.sent = 0;
        self.response.begin();
        self.expected = targets.expected(&request);
    }

    /// How much may be received at once: where the client is to give up in the middle of a body, what follows stays unread.
    #[must_use]
    pub fn receive_bytes_max(&self) -> usize {
        match self.request.abort_at {
            Some(at) if self.phase == Phase::Response => {
                if self.response.has_head() {
                    let missing = at.saturating_sub(self.response.body_bytes()).max(1);
                    usize::try_from(missing).unwrap_or(usize::MAX)
                } else {
                    ABORT_HEAD_BYTES
                }
            }
            _ => usize::MAX,
        }
    }

    /// Takes what came: calls it again with what it left, after sending, while it says [`Next::Send`].
    ///
    /// # Errors
    /// When what came is wrong.
    pub fn take(
        &mut self,
        input: &mut &[u8],
        now_ns: u64,
        targets: &Targets,
    ) -> Result<Next, Fault> {
        match self.phase {
            Phase::Closed | Phase::Connecting | Phase::Idle => {
                let surplus = input.len() as u64;
                *input = &[];
                Err(Fault::Surplus(surplus))
            }
            Phase::Tunnel => {
                let taken = self.response.take(input, &self.expected)?;
                *input = &input[taken..];
                if !self.response.is_done() {
                    return Ok(Next::Wait);
                }
                // In a tunnel, the client speaks first.
                no_surplus(input)?;
                self.begin_handshake(targets);
                Ok(Next::Send)
            }
            Phase::Handshake => self.take_handshake(input, targets),
            Phase::Response => {
                if self.first_byte_ns == 0 {
                    self.first_byte_ns = now_ns;
                }
                let taken = self.response.take(input, &self.expected)?;
                *input = &input[taken..];
                if let Some(at) = self.request.abort_at
                    && self.response.has_head()
                    && self.response.body_bytes() >= at
                {
                    return Ok(Next::Aborted);
                }
                if !self.response.is_done() {
                    return Ok(Next::Wait);
                }
                no_surplus(input)?;
                self.completed();
                Ok(Next::Completed)
            }
        }
    }

    /// The server has closed the connection.
    ///
    /// # Errors
    /// When that is no proper end of what is under way.
    pub fn end(&mut self) -> Result<(), Fault> {
        match self.phase {
            Phase::Response => {
                self.response
                    .end(&self.expected)
                    .map_err(|fault| match fault {
                        Fault::ClosedEarly(_) => Fault::ClosedEarly(self.progress()),
                        other => other,
                    })?;
                self.completed();
                self.left = 0;
                Ok(())
            }
            _ => Err(Fault::ClosedEarly(self.progress())),
        }
    }

    /// Bytes of the body until now.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        if self.phase == Phase::Tunnel || self.phase == Phase::Handshake {
            0
        } else {
            self.response.body_bytes()
        }
    }

    /// How far the response is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let mut progress = if self.phase == Phase::Response {
            self.response.progress()
        } else {
            Progress::default()
        };
        progress.reused = self.carried > 0;
        progress
    }

    fn completed(&mut self) {
        self.carried += 1;
        self.left -= 1;
        if !self.response.keeps_alive() {
            self.left = 0;
        }
        self.phase = Phase::Idle;
    }

    fn begin_handshake(&mut self, targets: &Targets) {
        self.phase = Phase::Handshake;
        self.handshake = self
            .request
            .handshake
            .map(|handshake| Exchange::new(handshake, Party::Client));
        self.say(targets);
    }

    fn take_handshake(&mut self, input: &mut &[u8], targets: &Targets) -> Result<Next, Fault> {
        let Some(exchange) = &mut self.handshake else {
            return Err(Fault::Garbled(String::from(
                "a handshake that was not begun",
            )));
        };
        let taken = exchange
            .received(input)
            .map_err(|mismatch| Fault::Garbled(mismatch.to_string()))?;
        *input = &input[taken..];
        if matches!(exchange.step(), Step::Receive(_)) {
            return Ok(Next::Wait);
        }
        no_surplus(input)?;
        self.say(targets);
        Ok(Next::Send)
    }

    /// Puts the next message of the handshake into `output`, or the request after the last.
    fn say(&mut self, targets: &Targets) {
        let step = self.handshake.as_ref().map(Exchange::step);
        match step {
            Some(Step::Send(message)) => {
                self.put(&message);
                if let Some(exchange) = &mut self.handshake {
                    exchange.sent();
                }
            }
            Some(Step::Receive(_)) => {
                self.output.clear();
                self.sent = 0;
            }
            Some(Step::Done) | None => self.ask(self.request, targets),
        }
    }

    /// After all of `output` was sent: whether there is more, which is then in it.
    pub fn said(&mut self, targets: &Targets) -> bool {
        if self.phase != Phase::Handshake
            || matches!(
                self.handshake.as_ref().map(Exchange::step),
                Some(Step::Receive(_))
            )
        {
            return false;
        }
        self.say(targets);
        true
    }

    fn put(&mut self, bytes: &[u8]) {
        self.output.clear();
        self.output.extend_from_slice(bytes);
        self.sent = 0;
    }
}

fn no_surplus(rest: &[u8]) -> Result<(), Fault> {
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Fault::Surplus(rest.len() as u64))
    }
}
