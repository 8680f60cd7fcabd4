//! Splitters: decide which connections are split and which are joined end to end, and record the results.
mod activity;
mod bypass;
mod outcome;

pub use activity::Activity;
pub use outcome::{Watched, settle};

use crate::config::plan::{Mode, RoutePlan, Splitting};
use crate::connect::tcp_profile;
use crate::context::client::Client;
use crate::net::io::Stream;
use crate::path_history::PathHistory;
use crate::upstream::checkout::Checkout;
use carrick_logic::split::{Decision, FirstKnown, Purpose, Reason, Way, is_chosen};
use carrick_splice::tcp_tuning::measure;
use carrick_splice::{Choice, Joining};
use std::net::SocketAddr;
use std::rc::Rc;

/// The decision about one connection.
#[derive(Debug, Clone, Copy)]
pub struct Decided {
    client: SocketAddr,
    server: SocketAddr,
    way: Way,
    /// The initial window towards the client, in bytes.
    client_window_bytes: u64,
}

impl Decided {
    /// The engine for this connection on a route.
    #[must_use]
    pub fn engine(&self, route: &RoutePlan) -> Choice {
        match (self.way, route.engine) {
            (Way::Join, _) => Choice::Packet,
            // The configured engine may apply only to joined connections.
            (_, Choice::Packet) => Choice::Auto,
            (_, engine) => engine,
        }
    }

    /// Whether the packet engine may join it.
    #[must_use]
    pub fn joining(&self) -> Joining {
        match self.way {
            Way::Join => Joining::Anyway,
            Way::Split | Way::LeaveOut => Joining::Never,
        }
    }
}

/// The engine for a connection before its server is known: it can be joined only if each end sends segments that the other accepts.
#[must_use]
pub fn engine(mode: &Mode, route: &RoutePlan) -> Choice {
    match mode {
        Mode::Split(plan) if plan.control_group > 0 || route.split != Splitting::Always => {
            Choice::Packet
        }
        _ => route.engine,
    }
}

/// Decides about a connection whose server has accepted; `None` if its listener does not split.
#[must_use]
pub fn decide(client: &Client, route: &RoutePlan, checkout: &Checkout) -> Option<Decided> {
    let (context, downstream) = (&client.context, &client.downstream);
    let Mode::Split(plan) = &context.listener.mode else {
        return None;
    };
    let (address, server) = (context.address, checkout.upstream.address);
    // Fails only for a closed descriptor.
    let near = downstream.transport.tcp().and_then(|leg| measure(leg).ok());
    let far = (checkout.upstream.transport.tcp()).and_then(|leg| measure(leg).ok());
    let client_window_bytes = near.map_or(0, |leg| {
        u64::from(leg.congestion_window) * u64::from(leg.segment_bytes)
    });
    let path_history = &context.worker.telemetry.path_history;
    let share = f64::from(plan.control_group) / 100.0;
    let may_bypass = |client, server| {
        let networks = PathHistory::networks(client, server);
        // After a reload, the rules of this connection may hold no longer.
        Rc::ptr_eq(&context.live, &context.worker.live())
            && bypass::may_bypass(&context.listener, &context.live.plan().limits, networks)
    };
    let is_control = || is_chosen(address, server, Purpose::Control, share);
    let decision = match route.split {
        Splitting::Never => Decision {
            way: Way::Join,
            reason: Reason::Configured,
        },
        _ if is_control() => Decision {
            way: Way::Join,
            reason: Reason::Control,
        },
        Splitting::Always => Decision {
            way: Way::Split,
            reason: Reason::Configured,
        },
        Splitting::Adaptive => {
            let known = FirstKnown {
                rtt: [near, far].map(|leg| leg.and_then(|leg| leg.rtt)),
                client_window_bytes,
                can_join: context.worker.splicer.has_packet_engine(),
                can_leave_out: path_history.can_leave_out() && may_bypass(address, server),
            };
            path_history.decide(address, server, &known)
        }
    };
    match decision.way {
        Way::LeaveOut => {
            let port = context.listener.address.port();
            match path_history.leave_out(port, address, server) {
                Ok(()) => context.metrics().split.left_out.add(1),
                Err(error) => tracing::debug!(
                    "cannot exclude {address} and {server} from interception: {error}"
                ),
            }
        }
        Way::Join => {
            let service = &context.worker.connector.tcp_tuning;
            let (listener, near) = (&context.listener, &downstream.transport);
            tcp_profile::as_end_to_end(service, listener, near);
        }
        Way::Split => {}
    }
    let metrics = &context.metrics().split;
    metrics.reasons(decision.reason).add(1);
    Some(Decided {
        client: address,
        server,
        way: decision.way,
        client_window_bytes,
    })
}
