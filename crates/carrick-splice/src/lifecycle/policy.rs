//! The policy `auto`: from an exchange's state and a few facts, decides where it goes next.
//!
//! Whether a direction is copied or piped in the process is decided burst by burst (`choice`).

use super::State;
use super::chatter::Chatter;
use super::relay_cost::RelayCost;
use crate::{Choice, Engine, Reason};

/// Whether the packet engine may join two connections into one. Otherwise each has its own congestion
/// control, window and loss recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Joining {
    /// Joined if the engine is chosen, unless one leg loses so much that both do better by themselves.
    #[default]
    IfGood,
    /// Joined if the engine is chosen, however much a leg loses.
    Anyway,
    /// Never, even if `auto` would choose to.
    Never,
}

/// The facts about an exchange at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Facts {
    /// The engine that has it, or is to get it.
    engine: Option<Engine>,
    /// It exchanges small messages.
    chatters: bool,
    /// Relaying it has cost as much as attaching the packet engine does.
    pays: bool,
    /// Why the packet engine must not be chosen unless the order names it.
    obstacle: Option<Reason>,
    /// The socket engine left data to the process, and has nothing in flight.
    is_bulk: bool,
}

/// Where an exchange goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transition {
    /// It stays where it is.
    Stay,
    /// To this engine at the next rest, for this reason.
    Attach(Engine, Reason),
    /// Back to the process, for this reason.
    Detach(Reason),
    /// The packet engine would pay, but this reason prevents it.
    Forgo(Reason),
}

/// The table.
fn transition(state: State, facts: Facts) -> Transition {
    match (state, facts.engine) {
        (State::Relaying, None) if facts.pays => facts.obstacle.map_or(
            Transition::Attach(Engine::Packet, Reason::PacketPays),
            Transition::Forgo,
        ),
        (State::Relaying, None) if facts.chatters => {
            Transition::Attach(Engine::Socket, Reason::Chatter)
        }
        (State::InKernel, Some(Engine::Socket)) if facts.is_bulk => {
            Transition::Detach(Reason::Bulk)
        }
        _ => Transition::Stay,
    }
}

/// How an exchange begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Start {
    /// To this engine as soon as possible, since the order names it.
    pub(crate) engine: Option<Engine>,
    /// Why the named engine is not available.
    pub(crate) refused: Option<Reason>,
    watches_chatter: bool,
    watches_cost: bool,
}

/// The start for this choice, given which engines are loaded.
fn start(choice: Choice, has_sockmap: bool, has_tc: bool, joining: Joining) -> Start {
    let may_join = has_tc && joining != Joining::Never;
    let (engine, refused) = match choice {
        Choice::Socket if has_sockmap => (Some(Engine::Socket), None),
        Choice::Socket => (None, Some(Reason::SocketUnavailable)),
        Choice::Packet if may_join => (Some(Engine::Packet), None),
        Choice::Packet => (None, Some(Reason::PacketUnavailable)),
        Choice::Auto | Choice::Copy | Choice::Pipe => (None, None),
    };
    Start {
        engine,
        refused,
        watches_chatter: has_sockmap && matches!(choice, Choice::Auto | Choice::Packet),
        watches_cost: may_join && choice == Choice::Auto,
    }
}

/// The policy of one exchange.
pub(crate) struct EnginePolicy {
    /// Decides about the socket engine.
    chatter: Option<Chatter>,
    /// Decides about the packet engine.
    relay_cost: Option<RelayCost>,
}

impl EnginePolicy {
    /// The policy of a new exchange, and its start.
    pub(crate) fn new(
        choice: Choice,
        has_sockmap: bool,
        has_tc: bool,
        joining: Joining,
    ) -> (EnginePolicy, Start) {
        let start = start(choice, has_sockmap, has_tc, joining);
        let policy = EnginePolicy {
            chatter: start.watches_chatter.then(Chatter::default),
            relay_cost: start.watches_cost.then(RelayCost::default),
        };
        (policy, start)
    }

    /// Whether the policy may choose the socket engine.
    pub(crate) fn watches_chatter(&self) -> bool {
        self.chatter.is_some()
    }

    /// Decides about the packet engine, after the process has relayed. `taken_bytes`: taken from each side so far.
    pub(crate) fn about_packets(
        &mut self,
        state: State,
        taken_bytes: [u64; 2],
        has_ended: bool,
        obstacle: impl FnOnce() -> Option<Reason>,
    ) -> Transition {
        // Only while no engine has the connections or is to get them: sockets in a SOCKMAP must not be handed
        // over.
        let Some(relay_cost) = self
            .relay_cost
            .as_mut()
            .filter(|_| state == State::Relaying)
        else {
            return Transition::Stay;
        };
        let pays = !has_ended && relay_cost.observe(taken_bytes);
        if pays || has_ended {
            self.relay_cost = None;
        }
        transition(
            state,
            Facts {
                pays,
                obstacle: if pays { obstacle() } else { None },
                ..Facts::default()
            },
        )
    }

    /// Likewise, about the socket engine, which the packet engine comes before.
    pub(crate) fn about_socket(
        &mut self,
        state: State,
        engine: Option<Engine>,
        taken_bytes: [u64; 2],
        has_ended: bool,
        is_bulk: impl FnOnce() -> bool,
    ) -> Transition {
        let Some(chatter) = self.chatter.as_mut().filter(|_| !has_ended) else {
            return Transition::Stay;
        };
        let has_sockmap = engine == Some(Engine::Socket);
        let facts = Facts {
            engine,
            // The packet engine takes precedence while it may still be chosen, but messages are counted
            // meanwhile.
            chatters: !has_sockmap && chatter.observe(taken_bytes),
            is_bulk: has_sockmap && is_bulk(),
            ..Facts::default()
        };
        let transition = transition(state, facts);
        if transition == Transition::Detach(Reason::Bulk) {
            chatter.came_back(taken_bytes);
        }
        transition
    }

    /// The engine has refused the exchange, and is not chosen again. (The packet engine is chosen at most
    /// once.)
    pub(crate) fn forgo(&mut self, engine: Engine) {
        if engine == Engine::Socket {
            self.chatter = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Transition::{Attach, Detach, Forgo, Stay};
    use super::*;
    use State::{Attaching, Detaching, Ended, InKernel, Parked, Relaying};

    const NOTHING: Facts = Facts {
        engine: None,
        chatters: false,
        pays: false,
        obstacle: None,
        is_bulk: false,
    };

    const BY_SOCKMAP: Facts = Facts {
        engine: Some(Engine::Socket),
        ..NOTHING
    };

    const BY_TC: Facts = Facts {
        engine: Some(Engine::Packet),
        ..NOTHING
    };

    #[test]
    fn where_an_exchange_goes() {
        let pays = Facts {
            pays: true,
            ..NOTHING
        };
        let chatters = Facts {
            chatters: true,
            ..NOTHING
        };
        let in_the_way = Facts {
            obstacle: Some(Reason::PacketNetfilter),
            ..pays
        };
        for (state, facts, goes) in [
            (Relaying, NOTHING, Stay),
            (Relaying, pays, Attach(Engine::Packet, Reason::PacketPays)),
            (Relaying, in_the_way, Forgo(Reason::PacketNetfilter)),
            (Relaying, chatters, Attach(Engine::Socket, Reason::Chatter)),
            // The packet engine takes precedence.
            (
                Relaying,
                Facts {
                    chatters: true,
                    ..pays
                },
                Attach(Engine::Packet, Reason::PacketPays),
            ),
            // One engine at a time.
            (
                Attaching,
                Facts {
                    chatters: true,
                    ..BY_TC
                },
                Stay,
            ),
            (
                Attaching,
                Facts {
                    pays: true,
                    ..BY_SOCKMAP
                },
                Stay,
            ),
            (
                InKernel,
                Facts {
                    chatters: true,
                    ..BY_TC
                },
                Stay,
            ),
            (InKernel, BY_SOCKMAP, Stay),
            (
                InKernel,
                Facts {
                    is_bulk: true,
                    ..BY_SOCKMAP
                },
                Detach(Reason::Bulk),
            ),
            (
                InKernel,
                Facts {
                    is_bulk: true,
                    ..BY_TC
                },
                Stay,
            ),
            (
                Parked,
                Facts {
                    is_bulk: true,
                    ..BY_SOCKMAP
                },
                Stay,
            ),
            (
                Detaching,
                Facts {
                    is_bulk: true,
                    ..BY_SOCKMAP
                },
                Stay,
            ),
            (Ended, pays, Stay),
            (Ended, chatters, Stay),
        ] {
            assert_eq!(transition(state, facts), goes, "{state:?} {facts:?}");
        }
    }

    #[test]
    fn every_course_is_an_allowed_move() {
        for state in State::ALL {
            for bits in 0..16_u8 {
                let is = |bit: u8| bits & (1 << bit) != 0;
                for engine in [None, Some(Engine::Socket), Some(Engine::Packet)] {
                    let facts = Facts {
                        engine,
                        chatters: is(0),
                        pays: is(1),
                        obstacle: is(2).then_some(Reason::PacketMarks),
                        is_bulk: is(3),
                    };
                    match transition(state, facts) {
                        Attach(..) => assert!(state.may_become(Attaching), "{state:?} {facts:?}"),
                        Detach(_) => assert!(state.may_become(Detaching), "{state:?} {facts:?}"),
                        Stay | Forgo(_) => {}
                    }
                }
            }
        }
    }

    #[test]
    fn how_an_exchange_begins() {
        let (on, off, good, never) = (true, false, Joining::IfGood, Joining::Never);
        let begins = |choice, sockmap, tc, joining| {
            let start = start(choice, sockmap, tc, joining);
            (
                start.engine,
                start.refused,
                start.watches_chatter,
                start.watches_cost,
            )
        };
        let (socket, packet) = (Some(Engine::Socket), Some(Engine::Packet));
        let unavailable = Some(Reason::PacketUnavailable);
        for (choice, sockmap, tc, joining, expected) in [
            (Choice::Auto, on, on, good, (None, None, on, on)),
            (Choice::Auto, on, on, Joining::Anyway, (None, None, on, on)),
            (Choice::Auto, on, on, never, (None, None, on, off)),
            (Choice::Auto, on, off, good, (None, None, on, off)),
            (Choice::Auto, off, on, good, (None, None, off, on)),
            (Choice::Auto, off, off, good, (None, None, off, off)),
            (Choice::Copy, on, on, good, (None, None, off, off)),
            (Choice::Pipe, on, on, good, (None, None, off, off)),
            (Choice::Socket, on, on, good, (socket, None, off, off)),
            (
                Choice::Socket,
                off,
                on,
                good,
                (None, Some(Reason::SocketUnavailable), off, off),
            ),
            (Choice::Packet, on, on, good, (packet, None, on, off)),
            (
                Choice::Packet,
                off,
                on,
                Joining::Anyway,
                (packet, None, off, off),
            ),
            (Choice::Packet, on, on, never, (None, unavailable, on, off)),
            (Choice::Packet, on, off, good, (None, unavailable, on, off)),
        ] {
            assert_eq!(
                begins(choice, sockmap, tc, joining),
                expected,
                "{choice:?} {sockmap} {tc} {joining:?}"
            );
        }
    }

    #[test]
    fn an_exchange_that_returns_is_observed_anew() {
        let (mut policy, _) = EnginePolicy::new(Choice::Auto, true, false, Joining::IfGood);
        let mut talk = |state, engine, from: u64| {
            (1..1000).find_map(|turn: u64| {
                let taken = [from + turn / 2 * 10, from + turn.div_ceil(2) * 10];
                let transition = policy.about_socket(state, engine, taken, false, || true);
                (transition != Stay).then_some((turn, transition))
            })
        };
        let first = talk(Relaying, None, 0).unwrap();
        assert_eq!(first.1, Attach(Engine::Socket, Reason::Chatter));
        assert_eq!(
            talk(InKernel, Some(Engine::Socket), 100_000),
            Some((1, Detach(Reason::Bulk)))
        );
        let second = talk(Relaying, None, 200_000).unwrap();
        assert!(second.0 > first.0, "{first:?} {second:?}");
    }
}
