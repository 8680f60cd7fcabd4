//! Applies TCP profiles to connections of clients and to servers.
use crate::config::plan::{ListenerPlan, TcpProfilePlan, TcpProfileRules};
use crate::net::transport::Transport;
use carrick_splice::tcp_tuning::{LegFacts, Moment, Profile, ProfileSide, TcpTuning, facts};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// The kernel's initial window in segments (RFC 6928).
const SEGMENTS_AT_FIRST: u32 = 10;

/// The profile that all clients of a listener have, if there is one.
pub fn of_all_clients(listener: &ListenerPlan) -> Option<&TcpProfilePlan> {
    listener.tcp_profiles.as_ref()?.of_all_clients.as_deref()
}

/// Gives a listening socket that profile: clients inherit the settings that the handshake needs.
pub fn listening(service: &TcpTuning, listener: &ListenerPlan, socket: &impl AsFd) {
    if let Some(profile) = of_all_clients(listener) {
        set(service, socket, profile, Moment::Listening);
    }
}

/// Gives the client's connection its profile. No byte may have been sent on it.
pub fn accepted(service: &TcpTuning, listener: &ListenerPlan, client: &Transport) {
    let Some(TcpProfileRules { rules, .. }) = &listener.tcp_profiles else {
        return;
    };
    let Some(stream) = client.socket() else {
        return;
    };
    // The packets' destination counts, whatever a PROXY header says.
    let Ok(peer) = stream.peer_addr() else {
        return;
    };
    let wanted = rules.wants(ProfileSide::Client, peer.ip());
    let Ok(facts) = facts(stream, ProfileSide::Client, wanted) else {
        return;
    };
    if let Some(profile) = rules.choose(&facts) {
        set(service, stream, profile, Moment::Connected);
    }
}

/// Resets the initial window of a client's connection that will be joined end to end: the server's window applies then,
/// as for any other client. No byte may have been sent on it.
pub fn as_end_to_end(service: &TcpTuning, listener: &ListenerPlan, client: &Transport) {
    if listener.tcp_profiles.is_none() {
        return;
    }
    let Some(stream) = client.socket() else {
        return;
    };
    let Ok(segment_bytes) = carrick_splice::tcp::segment_bytes(stream) else {
        return;
    };
    let profile = Profile {
        initial_window_bytes: Some(SEGMENTS_AT_FIRST * segment_bytes),
        ..Profile::default()
    };
    for refused in service.set(stream, &profile, Moment::Connected).refused {
        tracing::debug!("cannot reset a client's initial window: {refused}");
    }
}

/// The profiles for connections to servers.
#[derive(Debug, Clone)]
pub struct ServerProfiles {
    service: TcpTuning,
    chosen: Chosen,
}

/// How a profile is chosen.
#[derive(Debug, Clone)]
enum Chosen {
    /// By the rules of the listener for which it is opened.
    By(Arc<ListenerPlan>),
    /// This one.
    Is(Arc<TcpProfilePlan>),
}

impl ServerProfiles {
    /// The profiles for a client's listener; `None` if it has none.
    pub fn of(service: &TcpTuning, listener: &Arc<ListenerPlan>) -> Option<Self> {
        listener.tcp_profiles.as_ref().map(|_| Self {
            service: service.clone(),
            chosen: Chosen::By(Arc::clone(listener)),
        })
    }

    /// The given profile for every server.
    pub fn always(service: &TcpTuning, profile: &Arc<TcpProfilePlan>) -> Self {
        Self {
            service: service.clone(),
            chosen: Chosen::Is(Arc::clone(profile)),
        }
    }

    fn rules(&self) -> Option<&TcpProfileRules> {
        match &self.chosen {
            Chosen::By(listener) => listener.tcp_profiles.as_ref(),
            Chosen::Is(_) => None,
        }
    }

    /// Before the handshake: applies a profile if its choice needs no facts that are known only afterwards.
    pub fn connecting(&self, socket: &impl AsFd, server: SocketAddr) {
        if let Chosen::Is(profile) = &self.chosen {
            return set(&self.service, socket, profile, Moment::Connecting);
        }
        let Some(TcpProfileRules { rules, .. }) = self.rules() else {
            return;
        };
        let peer = server.ip();
        let wanted = rules.wants(ProfileSide::Server, peer);
        if wanted.rtt || wanted.interface {
            return;
        }
        let facts = LegFacts {
            side: ProfileSide::Server,
            peer,
            interface: None,
            rtt: None,
        };
        if let Some(profile) = rules.choose(&facts) {
            set(&self.service, socket, profile, Moment::Connecting);
        }
    }

    /// After the handshake.
    pub fn connected(&self, socket: &impl AsFd, server: SocketAddr) {
        if let Chosen::Is(profile) = &self.chosen {
            return set(&self.service, socket, profile, Moment::Connected);
        }
        let Some(TcpProfileRules { rules, .. }) = self.rules() else {
            return;
        };
        let wanted = rules.wants(ProfileSide::Server, server.ip());
        let Ok(facts) = facts(socket, ProfileSide::Server, wanted) else {
            return;
        };
        if let Some(profile) = rules.choose(&facts) {
            set(&self.service, socket, profile, Moment::Connected);
        }
    }
}

/// Unsupported settings were logged at start; here they are for debugging.
fn set(service: &TcpTuning, socket: &impl AsFd, profile: &TcpProfilePlan, moment: Moment) {
    for refused in service.set(socket, &profile.profile, moment).refused {
        tracing::debug!("TCP profile \"{}\": {refused}", profile.name);
    }
}
