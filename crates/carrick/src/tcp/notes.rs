//! Bookkeeping of tunnels, with or without a link: the list of open ones, and the log.
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::request_log::RequestLog;
use crate::context::tunnels::Listed;
use crate::net::transport::Transport;
use crate::reply::unreachable_label;
use crate::telemetry::job::Job;
use crate::telemetry::metrics::WorkerMetrics;
use crate::telemetry::tunnels::About;
use crate::telemetry::tunnels::TARGET_BYTES_MAX;
use crate::upstream::Unreachable;
/// Adds a tunnel to a server, or to the far end of a link, to the list of open tunnels.
use carrick_splice::tcp::path_state;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpStream;
pub(super) fn list(
    client: &Client,
    server: SocketAddr,
    target: Box<[u8]>,
    begun: Instant,
    log: &RequestLog,
) -> Listed {
    let (context, downstream) = (&client.context, &client.downstream);
    let worker = &context.worker;
    let upstreams = &context.live.plan().upstreams;
    let about = About {
        label: worker.tunnels.label(worker.number),
        begun,
        job: Job::from(&context.listener.mode),
        listener: context.listener.address,
        client: context.who(),
        target,
        upstream: log
            .upstream
            .and_then(|index| upstreams.get(index))
            .map(Arc::clone),
        server,
        class: downstream.pace.class(&context.live).map(Into::into),
        bytes_before: [log.received, log.sent],
    };
    Listed::new(&worker.tunnels, worker.metrics(), about)
}

/// The part of a target that is kept while the tunnel is open.
pub(super) fn kept_target(target: &[u8]) -> Box<[u8]> {
    target.get(..TARGET_BYTES_MAX).unwrap_or(target).into()
}

/// Notes the TCP state of both connections before they are closed.
pub(super) fn note_paths(
    metrics: &WorkerMetrics,
    client: &Transport,
    far: &TcpStream,
    log: &mut RequestLog,
) {
    // Fails only for a closed descriptor.
    let near = client.socket();
    let (Some(Ok(near)), Ok(far)) = (near.map(path_state), path_state(far)) else {
        return;
    };
    let paths = [near, far];
    let counted = metrics
        .tunnel_rtt
        .iter()
        .zip(&metrics.tunnel_retransmissions);
    for (path, (rtt, retransmissions)) in paths.iter().zip(counted) {
        retransmissions.add(path.retransmissions.into());
        if let Some(time) = path.rtt {
            rtt.observe(time);
        }
    }
    log.paths = Some(paths);
}

pub(super) fn not_reached(
    metrics: &WorkerMetrics,
    upstream: Option<&str>,
    unreachable: &Unreachable,
    log: &mut RequestLog,
) -> Next {
    let label = unreachable_label(unreachable);
    metrics.refusals.count(label);
    tracing::debug!(upstream, "{unreachable}");
    (log.status, log.ended) = (unreachable.status(), label);
    Next::Reset
}
