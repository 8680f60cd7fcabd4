//! Applies TCP profiles to connections of clients and to servers.
use crate::config::plan::{LegPlan, LegRules, ListenerPlan};
use crate::context::client::Client;
use crate::net::io::Stream;
use carrick_splice::tcp_tuning::{Facts, LegService, LegSide, Moment, Profile, facts};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// The kernel's initial window in segments (RFC 6928).
const SEGMENTS_AT_FIRST: u32 = 10;

/// Gives a listening socket the profile that all of its clients have, if there is one: they inherit the settings that the handshake needs.
pub fn listening(service: &LegService, listener: &ListenerPlan, socket: &impl AsFd) {
    let legs = listener.legs.as_ref();
    if let Some(leg) = legs.and_then(|legs| legs.of_all_clients.as_ref()) {
        set(service, socket, leg, Moment::Listening);
    }
}

/// Gives the client's connection its profile. No byte may have been sent on it.
pub fn accepted(client: &Client) {
    let Some(LegRules { rules, .. }) = &client.listener.legs else {
        return;
    };
    let Some(stream) = client.transport.tcp() else {
        return;
    };
    // The packets' destination counts, whatever a PROXY header says.
    let Ok(peer) = stream.peer_addr() else {
        return;
    };
    let wanted = rules.wants(LegSide::Client, peer.ip());
    let Ok(facts) = facts(stream, LegSide::Client, wanted) else {
        return;
    };
    if let Some(leg) = rules.choose(&facts) {
        let service = &client.worker.connector.legs;
        set(service, stream, leg, Moment::Connected);
    }
}

/// Resets the initial window of a client's connection that will be joined end to end: the server's window applies then,
/// as for any other client. No byte may have been sent on it.
pub fn as_end_to_end(client: &Client) {
    if client.listener.legs.is_none() {
        return;
    }
    let Some(stream) = client.transport.tcp() else {
        return;
    };
    let Ok(segment_bytes) = carrick_splice::tcp::segment_bytes(stream) else {
        return;
    };
    let profile = Profile {
        initial_window_bytes: Some(SEGMENTS_AT_FIRST * segment_bytes),
        ..Profile::default()
    };
    let service = &client.worker.connector.legs;
    for refused in service.set(stream, &profile, Moment::Connected).refused {
        tracing::debug!("cannot reset a client's initial window: {refused}");
    }
}

/// The profiles for connections to servers.
#[derive(Debug, Clone)]
pub struct ServerLegs {
    service: LegService,
    chosen: Chosen,
}

/// How a profile is chosen.
#[derive(Debug, Clone)]
enum Chosen {
    /// By the rules of the listener for which it is opened.
    By(Arc<ListenerPlan>),
    /// This one.
    Is(Arc<LegPlan>),
}

impl ServerLegs {
    /// The profiles for a client's listener; `None` if it has none.
    pub fn of(service: &LegService, listener: &Arc<ListenerPlan>) -> Option<Self> {
        listener.legs.as_ref().map(|_| Self {
            service: service.clone(),
            chosen: Chosen::By(Arc::clone(listener)),
        })
    }

    /// The given profile for every server.
    pub fn always(service: &LegService, leg: &Arc<LegPlan>) -> Self {
        Self {
            service: service.clone(),
            chosen: Chosen::Is(Arc::clone(leg)),
        }
    }

    fn rules(&self) -> Option<&LegRules> {
        match &self.chosen {
            Chosen::By(listener) => listener.legs.as_ref(),
            Chosen::Is(_) => None,
        }
    }

    /// Before the handshake: applies a profile if its choice needs no facts that are known only afterwards.
    pub fn connecting(&self, socket: &impl AsFd, server: SocketAddr) {
        if let Chosen::Is(leg) = &self.chosen {
            return set(&self.service, socket, leg, Moment::Connecting);
        }
        let Some(LegRules { rules, .. }) = self.rules() else {
            return;
        };
        let peer = server.ip();
        let wanted = rules.wants(LegSide::Server, peer);
        if wanted.rtt || wanted.interface {
            return;
        }
        let facts = Facts {
            side: LegSide::Server,
            peer,
            interface: None,
            rtt: None,
        };
        if let Some(leg) = rules.choose(&facts) {
            set(&self.service, socket, leg, Moment::Connecting);
        }
    }

    /// After the handshake.
    pub fn connected(&self, socket: &impl AsFd, server: SocketAddr) {
        if let Chosen::Is(leg) = &self.chosen {
            return set(&self.service, socket, leg, Moment::Connected);
        }
        let Some(LegRules { rules, .. }) = self.rules() else {
            return;
        };
        let wanted = rules.wants(LegSide::Server, server.ip());
        let Ok(facts) = facts(socket, LegSide::Server, wanted) else {
            return;
        };
        if let Some(leg) = rules.choose(&facts) {
            set(&self.service, socket, leg, Moment::Connected);
        }
    }
}

/// Unsupported settings were logged at start; here they are for debugging.
fn set(service: &LegService, socket: &impl AsFd, leg: &LegPlan, moment: Moment) {
    for refused in service.set(socket, &leg.profile, moment).refused {
        tracing::debug!("leg profile \"{}\": {refused}", leg.name);
    }
}
