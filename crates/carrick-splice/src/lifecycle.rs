//! Where a splice stands between the process and the kernel, by which ways it may move, and the three calls by which an engine takes it
//! and gives it back. LIFECYCLE.md says what is owed to whom at each step.

mod chatter;
pub(crate) mod pair;
pub(crate) mod policy;
pub(crate) mod sockmap;
pub(crate) mod tc;
mod worth;

use crate::relay::flow::{KernelPart, Step};
use crate::{Engine, Fault, Reason};
use pair::Pair;
use sockmap::Sockmap;
use std::task::Context;
use tc::Tc;

/// Where a splice stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// All bytes go through the process.
    #[default]
    Relaying,
    /// All bytes go through the process, and an engine in the kernel gets the connections when they are at rest.
    Attaching,
    /// An engine in the kernel has the connections. The process does what the engine leaves to it.
    InKernel,
    /// The engine does everything, and the connections are out of tokio's registry, which would wake the process for each piece. (`socket`
    /// only, and only connections that the exchange owns.)
    Parked,
    /// The engine is asked to give the connections back.
    Detaching,
    /// Nothing passes any more: all that was to be moved was, or a connection has failed.
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

    /// Whether a splice may go from here to there in one step.
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

    /// Moves to another state. Nothing happens if it is there already, or has ended.
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

/// What came of an attempt to give two connections to an engine.
#[derive(Debug)]
pub(crate) enum Attach {
    /// It has them.
    Done,
    /// Something came in between: relay it, and ask again at once.
    Again,
    /// They are not at rest. The engine has seen to being polled where no event tells of that.
    Later,
    /// It never will have them: the process relays. The reason is to be counted; without one it is not worth a word.
    Refused(Option<Reason>),
}

/// What an engine says of two connections that it has, or is to have.
#[derive(Debug)]
pub(crate) enum Polled {
    /// They go on.
    Going,
    /// They must go back to their sockets for a while.
    Astray,
    /// The engine, which was to have them, never will.
    Refused(Reason),
    /// The peers have said all to each other.
    Closed,
    /// A peer has reset its connection.
    Broken(Fault),
}

/// How far an engine has given two connections back.
#[derive(Debug)]
pub(crate) enum Detach {
    /// They are as if they had never been there. (Or one has failed, of which the pair has taken note.)
    Parted,
    /// Their sockets have them. The engine goes on translating their numbers, and can have them again at the next rest.
    Known,
    /// It cannot give them back. Using them finds their end.
    Lost,
    /// Not yet. Nothing may be moved meanwhile.
    Wait,
    /// Not yet: a socket has something to receive or to send. It is to be relayed meanwhile.
    Relay,
}

/// An engine in the kernel, as an exchange sees it.
pub(crate) trait KernelEngine {
    /// Tries to give it the connections, in [`State::Attaching`] after both directions were polled with these results.
    fn attach(&mut self, cx: &mut Context<'_>, pair: &mut Pair<'_>, steps: &[Step; 2]) -> Attach;

    /// Takes note of what it has done, and sees to being polled when there is more; before the process relays what it leaves to it.
    fn poll(&mut self, cx: &mut Context<'_>, pair: &mut Pair<'_>) -> Polled;

    /// Takes the connections back, with everything that it held for the process. At once if it does not have them. It may be given up, and is to
    /// be called again while it is [`Detach::Wait`] or [`Detach::Relay`].
    fn detach(&mut self, cx: &mut Context<'_>, pair: &mut Pair<'_>) -> Detach;

    /// After the process has relayed what came from this side; where it stands with that.
    fn after_relay(
        &mut self,
        _cx: &mut Context<'_>,
        _pair: &mut Pair<'_>,
        _side: usize,
        step: Step,
    ) -> Step {
        step
    }

    /// What it does not count of both directions among its live splices; `None` if it has none of this.
    fn bytes_beside_live(&self, pair: &Pair<'_>) -> Option<[u64; 2]>;
}

/// The engine that has a pair, or is to have it.
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

    /// Before the process relays what comes from this side: where it stands, if it may not.
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

    /// What it knows of the bytes from this side that it leaves to the process.
    pub(crate) fn part(&self, side: usize) -> Option<KernelPart<'_>> {
        match self {
            Attachment::Sockmap(sockmap) => sockmap.splice()?.part(side),
            Attachment::Tc(_) => None,
        }
    }

    /// Whether the end of the stream from this side, which the process has taken, was passed on.
    pub(crate) fn has_passed_end(&self, side: usize) -> bool {
        match self {
            Attachment::Sockmap(sockmap) => sockmap
                .splice()
                .is_some_and(|splice| splice.is_end_passed(side)),
            Attachment::Tc(_) => true,
        }
    }

    /// Counts what is left to be counted, at the end.
    pub(crate) fn finish(&mut self, pair: &mut Pair<'_>) {
        if let Attachment::Sockmap(sockmap) = self {
            sockmap.finish(pair);
        }
    }

    /// Which one it is.
    pub(crate) fn name(&self) -> Engine {
        match self {
            Attachment::Sockmap(_) => Engine::Socket,
            Attachment::Tc(_) => Engine::Packet,
        }
    }
}

#[cfg(test)]
mod tests;
