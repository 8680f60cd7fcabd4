//! The states of a splice, the moves between them, and the three calls by which an engine takes connections
//! and returns them. LIFECYCLE.md lists the obligations of each move.

mod chatter;
pub(crate) mod pair;
pub(crate) mod policy;
mod relay_cost;
pub(crate) mod sockmap;
pub(crate) mod tc;

use crate::relay::flow::{KernelPart, Step};
use crate::{Engine, Fault, Reason};
use pair::Pair;
use sockmap::Sockmap;
use std::task::Context;
use tc::Tc;

/// The state of a splice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// The process relays all bytes.
    #[default]
    Relaying,
    /// The process relays all bytes; an engine in the kernel gets the connections when they are at rest.
    Attaching,
    /// An engine in the kernel has the connections. The process does what the engine leaves to it.
    InKernel,
    /// The engine does everything, and the connections are not registered with tokio, which would wake the
    /// process for each piece. (`socket` only, and only for connections that the exchange owns.)
    Parked,
    /// The engine was asked to return the connections.
    Detaching,
    /// The splice is over: everything was moved, or a connection failed.
    Ended,
}

impl State {
    /// All states.
    #[cfg(test)]
    pub(crate) const ALL: [State; 6] = [
        State::Relaying,
        State::Attaching,
        State::InKernel,
        State::Parked,
        State::Detaching,
        State::Ended,
    ];

    /// Whether a splice may go from this state to `next` in one step.
    #[must_use]
    fn may_become(self, next: State) -> bool {
        matches!(
            (self, next),
            (State::Relaying, State::Attaching)
                | (State::Attaching, State::Relaying | State::InKernel)
                | (State::InKernel, State::Parked | State::Detaching)
                | (State::Parked, State::InKernel)
                | (State::Detaching, State::Relaying)
                | (
                    State::Relaying
                        | State::Attaching
                        | State::InKernel
                        | State::Parked
                        | State::Detaching,
                    State::Ended
                )
        )
    }
}

/// The state of one splice.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle(State);

impl Lifecycle {
    pub(crate) fn state(&self) -> State {
        self.0
    }

    pub(crate) fn is(&self, state: State) -> bool {
        self.0 == state
    }

    /// Moves to another state. Does nothing if the splice is in that state already, or has ended.
    pub(crate) fn enter(&mut self, next: State) {
        if self.0 == next || self.0 == State::Ended {
            return;
        }
        debug_assert!(
            self.0.may_become(next),
            "a splice goes from {:?} to {next:?}",
            self.0
        );
        self.0 = next;
    }
}

/// The result of [`KernelEngine::attach`].
#[derive(Debug)]
pub(crate) enum Attach {
    /// The engine has them.
    Done,
    /// Data arrived meanwhile: relay it, and ask again at once.
    Again,
    /// They are not at rest. The engine has arranged to be polled where no event reports that.
    Later,
    /// The engine will never have them: the process relays. The reason, if any, is to be counted.
    Refused(Option<Reason>),
}

/// The result of [`KernelEngine::poll`].
#[derive(Debug)]
pub(crate) enum Polled {
    /// Nothing changes.
    Going,
    /// The sockets must have them for a while.
    Astray,
    /// The engine, which was to get them, never will.
    Refused(Reason),
    /// Both peers have closed.
    Closed,
    /// A peer has reset its connection: the sender of this direction.
    Broken { a_to_b: bool, fault: Fault },
}

/// The result of [`KernelEngine::detach`].
#[derive(Debug)]
pub(crate) enum Detach {
    /// The sockets have them, with no trace of the engine. (Or one has failed, which the pair has recorded.)
    Parted,
    /// The sockets have them. The engine keeps translating their numbers, and can take them again at the next
    /// rest.
    Known,
    /// The engine cannot return them. Using them reveals their end.
    Lost,
    /// Not yet. Nothing may be relayed meanwhile.
    Wait,
    /// Not yet: a socket has something to receive or to send, which is to be relayed meanwhile.
    Relay,
}

/// An engine in the kernel, as an exchange sees it.
pub(crate) trait KernelEngine {
    /// Tries to give the engine the connections, in [`State::Attaching`], after both directions were polled
    /// with these results.
    fn attach(&mut self, cx: &mut Context<'_>, pair: &mut Pair<'_>, steps: &[Step; 2]) -> Attach;

    /// Records what the engine has done, and arranges to be polled when there is more. Called before the
    /// process relays what the engine leaves to it.
    fn poll(&mut self, cx: &mut Context<'_>, pair: &mut Pair<'_>) -> Polled;

    /// Takes the connections back, with everything the engine held for the process. Returns at once if it
    /// does not have them. May be dropped; to be called again while it returns [`Detach::Wait`] or
    /// [`Detach::Relay`].
    fn detach(&mut self, cx: &mut Context<'_>, pair: &mut Pair<'_>) -> Detach;

    /// Called after the process has relayed what came from `side`. Returns the flow's step, which it may
    /// replace.
    fn after_relay(
        &mut self,
        _cx: &mut Context<'_>,
        _pair: &mut Pair<'_>,
        _side: usize,
        step: Step,
    ) -> Step {
        step
    }

    /// Bytes of both directions that the engine's live splices do not count; `None` if it does not have this
    /// one.
    fn bytes_beside_live(&self, pair: &Pair<'_>) -> Option<[u64; 2]>;
}

/// The engine that has a pair, or is to get it.
pub(crate) enum Attachment {
    Sockmap(Sockmap),
    Tc(Tc),
}

impl Attachment {
    pub(crate) fn engine(&self) -> &dyn KernelEngine {
        match self {
            Attachment::Sockmap(sockmap) => sockmap,
            Attachment::Tc(tc) => tc,
        }
    }

    pub(crate) fn engine_mut(&mut self) -> &mut dyn KernelEngine {
        match self {
            Attachment::Sockmap(sockmap) => sockmap,
            Attachment::Tc(tc) => tc,
        }
    }

    /// Called before the process relays what comes from `side`. `Some` step if it may not.
    pub(crate) fn before_relay(
        &mut self,
        cx: &mut Context<'_>,
        pair: &mut Pair<'_>,
        side: usize,
    ) -> Option<Step> {
        match self {
            Attachment::Sockmap(sockmap) => sockmap.before_relay(cx, pair, side),
            Attachment::Tc(_) => None,
        }
    }

    /// The engine's state for the bytes from `side` that it leaves to the process.
    pub(crate) fn part(&self, side: usize) -> Option<KernelPart<'_>> {
        match self {
            Attachment::Sockmap(sockmap) => sockmap.splice()?.part(side),
            Attachment::Tc(_) => None,
        }
    }

    /// Whether the FIN from `side`, which the process has read, was passed on.
    pub(crate) fn has_passed_end(&self, side: usize) -> bool {
        match self {
            Attachment::Sockmap(sockmap) => sockmap
                .splice()
                .is_some_and(|splice| splice.is_end_passed(side)),
            Attachment::Tc(_) => true,
        }
    }

    /// Whether the engine has nothing in flight.
    pub(crate) fn is_quiet(&self, pair: &Pair<'_>) -> bool {
        match self {
            Attachment::Sockmap(sockmap) => sockmap.is_quiet(pair),
            Attachment::Tc(tc) => tc.is_quiet(),
        }
    }

    /// Counts the rest, at the end.
    pub(crate) fn finish(&mut self, pair: &mut Pair<'_>) {
        if let Attachment::Sockmap(sockmap) = self {
            sockmap.finish(pair);
        }
    }

    /// The engine's name.
    pub(crate) fn name(&self) -> Engine {
        match self {
            Attachment::Sockmap(_) => Engine::Socket,
            Attachment::Tc(_) => Engine::Packet,
        }
    }
}

#[cfg(test)]
mod tests;
