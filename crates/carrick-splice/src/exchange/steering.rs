//! Moves an exchange between states, by what the policy says and the engine in the kernel answers.

use super::{Exchange, ExchangeEnd};
use crate::lifecycle::policy::Transition;
use crate::lifecycle::sockmap::Sockmap;
use crate::lifecycle::tc::Tc;
use crate::lifecycle::{Attach, Attachment, Detach, Polled, State};
use crate::relay::flow::Step;
use crate::{Engine, Reason};
use std::task::{Context, Poll};

impl Exchange<'_> {
    /// Asks the policy about the packet engine, after the process has relayed. True if the exchange must be
    /// polled again, which makes the connections known to the kernel: it must see packets of theirs before it
    /// takes them.
    pub(super) fn choose_packets(&mut self) -> bool {
        let engine = self.pair.splicer.packet_engine();
        let transition = self.policy.about_packets(
            self.lifecycle.state(),
            self.pair.taken_bytes(),
            self.pair.has_ended(),
            || engine.and_then(|engine| engine.obstacle()),
        );
        self.go(transition);
        matches!(transition, Transition::Attach(..))
    }

    /// Asks the policy about the socket engine, after the process has relayed. True if the exchange must be
    /// polled again.
    pub(super) fn choose_socket(&mut self) -> bool {
        if self.pair.legs.is_none() {
            return false;
        }
        let transition = self.policy.about_socket(
            self.lifecycle.state(),
            self.attachment.as_ref().map(Attachment::name),
            self.pair.taken_bytes(),
            self.pair.has_ended(),
            || match &self.attachment {
                Some(Attachment::Sockmap(sockmap)) => sockmap.is_bulk(&self.pair),
                _ => false,
            },
        );
        self.go(transition);
        matches!(transition, Transition::Detach(_))
    }

    /// Takes the course that the policy says.
    fn go(&mut self, transition: Transition) {
        match transition {
            Transition::Stay => {}
            Transition::Attach(engine, reason) => {
                self.count(reason);
                self.begin_attaching(engine);
            }
            Transition::Detach(reason) => {
                self.count(reason);
                self.lifecycle.enter(State::Detaching);
            }
            Transition::Forgo(reason) => {
                self.count(reason);
                self.packets_refused = Some(reason);
            }
        }
    }

    fn count(&self, reason: Reason) {
        self.pair.splicer.counters().reason(reason).add(1);
    }

    /// Gives this engine the connections at their next rest.
    pub(super) fn begin_attaching(&mut self, engine: Engine) {
        self.attachment = Some(match engine {
            Engine::Packet => Attachment::Tc(Tc::default()),
            _ => {
                let is_for_chatter = self.policy.watches_chatter();
                Attachment::Sockmap(Sockmap::new(&mut self.pair, is_for_chatter))
            }
        });
        self.lifecycle.enter(State::Attaching);
    }

    /// Polls the engine in the kernel, and takes the connections back if it says so. Pending while nothing
    /// may be relayed for that; ready with the end of the exchange, if it has ended.
    pub(super) fn poll_engine(&mut self, cx: &mut Context<'_>) -> Poll<Option<ExchangeEnd>> {
        let Some(attachment) = &mut self.attachment else {
            return Poll::Ready(None);
        };
        match attachment.engine_mut().poll(cx, &mut self.pair) {
            Polled::Going => {}
            Polled::Astray => self.lifecycle.enter(State::Detaching),
            Polled::Refused(reason) => self.refused(Some(reason)),
            Polled::Closed => return Poll::Ready(Some(ExchangeEnd::Closed)),
            Polled::Broken { a_to_b, fault } => {
                return Poll::Ready(Some(ExchangeEnd::Fault { a_to_b, fault }));
            }
        }
        if self.lifecycle.is(State::Detaching) {
            match self.detach(cx) {
                Detach::Wait => return Poll::Pending,
                Detach::Parted => {
                    if self.pair.failed.is_none() {
                        self.pair.relay_alone();
                    }
                    // The policy may choose the other engine now.
                    self.choose_packets();
                    return self.poll_engine(cx);
                }
                // The engine is asked again at the next rest.
                Detach::Known => self.lifecycle.enter(State::Attaching),
                Detach::Lost | Detach::Relay => {}
            }
        }
        Poll::Ready(None)
    }

    /// Takes the connections back from the engine, as far as possible now.
    pub(super) fn detach(&mut self, cx: &mut Context<'_>) -> Detach {
        let Some(attachment) = &mut self.attachment else {
            return Detach::Parted;
        };
        let detach = attachment.engine_mut().detach(cx, &mut self.pair);
        match detach {
            Detach::Parted => {
                self.attachment = None;
                self.lifecycle.enter(State::Relaying);
            }
            Detach::Known => self.lifecycle.enter(State::Relaying),
            Detach::Lost => self.lifecycle.enter(State::Ended),
            Detach::Wait | Detach::Relay => {}
        }
        detach
    }

    /// Gives the connections to the engine that is to get them. True if the exchange must be polled again.
    pub(super) fn attach(&mut self, cx: &mut Context<'_>, steps: &[Step; 2]) -> bool {
        let (true, Some(attachment)) = (
            self.lifecycle.is(State::Attaching),
            self.attachment.as_mut(),
        ) else {
            return false;
        };
        match attachment.engine_mut().attach(cx, &mut self.pair, steps) {
            Attach::Done => self.lifecycle.enter(State::InKernel),
            Attach::Again => {}
            Attach::Later => return false,
            Attach::Refused(reason) => self.refused(reason),
        }
        true
    }

    /// The engine that was to get the connections never will.
    fn refused(&mut self, reason: Option<Reason>) {
        if let Some(reason) = reason {
            self.count(reason);
        }
        if let Some(attachment) = self.attachment.take() {
            let engine = attachment.name();
            self.policy.forgo(engine);
            if engine == Engine::Packet {
                self.packets_refused = reason;
            }
        }
        self.lifecycle.enter(State::Relaying);
    }
}
