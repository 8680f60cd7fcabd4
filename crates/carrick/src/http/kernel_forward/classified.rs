//! Requests that the kernel classifies and forwards itself (`requests = "kernel"`): when it may, and what the process learns of them.
use super::STATUS_UNKNOWN;
use crate::context::destination::{Destination, NextHop};
use crate::context::kernel_forward::{Pair, Pending};
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::http::request_out::appended;
use crate::net::scratch::Scratch;
use crate::telemetry::forwarded::ForwardedClient;
use crate::telemetry::job::Job;
use carrick_logic::http1::Method;
use carrick_splice::requests::{RequestFields, UPSTREAMS_MAX};
use carrick_splice::{Arming, CaughtUp, KernelRoutes, PaceHandle, ResponseSplice};
use std::sync::Arc;
use std::time::Duration;

/// After so many requests in the kernel, the process chooses a server for the next one: as balance, weights and health want it by then. Two
/// requests of this many cost what the process costs.
const REQUESTS_MAX: u32 = 1000;

/// Likewise, after this time.
const TIME_MAX: Duration = Duration::from_secs(10);

/// By which routes the kernel may classify further requests of a client whose requests go to `next_hop`.
pub fn classifying(context: &RequestContext, next_hop: &NextHop) -> Option<KernelRoutes> {
    let table = (context.live.live.route_tables).get(&context.listener.address);
    classifying_by(next_hop, context.is_trusted_proxy(), table.copied())
}

/// Has the kernel forward what this server sends, and where it can classify the client's further requests, those for the host of the one in
/// hand. Nothing changes if it does so already.
pub(super) fn arm(
    splice: &mut ResponseSplice,
    context: &RequestContext,
    scratch: &Scratch,
    destination: &Destination,
    server: Option<usize>,
    pace: PaceHandle,
) -> Arming {
    let is_to_be_armed = !splice.is_armed() || splice.is_body();
    // It may have been marked down since it was chosen. The kernel notices only later changes.
    let is_up = destination.next_hop.is_up(server);
    let routes = classifying(context, &destination.next_hop).filter(|_| is_to_be_armed && is_up);
    let host = scratch.request_head.host_and_port.of(&scratch.request);
    match routes.and_then(|routes| Some((routes, appended(context, destination, host)?))) {
        Some((routes, fields)) => splice.arm(Some(routes), &fields, pace),
        None => splice.arm(None, &RequestFields::default(), pace),
    }
}

/// `table`: its slot and its generation.
fn classifying_by(
    next_hop: &NextHop,
    is_trusted_proxy: bool,
    table: Option<(u32, u32)>,
) -> Option<KernelRoutes> {
    let NextHop::Group { index, .. } = next_hop else {
        return None;
    };
    // Each of its requests may be another client's.
    if is_trusted_proxy {
        return None;
    }
    let (table, generation) = table?;
    Some(KernelRoutes {
        table,
        generation,
        upstream: u32::try_from(*index)
            .ok()
            .filter(|&index| index < UPSTREAMS_MAX)?,
        requests_max: REQUESTS_MAX,
        time_max: TIME_MAX,
    })
}

impl Pair {
    /// A request of the client's is in the server's socket: the kernel may classify the next one.
    pub(super) fn note_request(&mut self, context: &RequestContext, bytes: usize) {
        self.name(context);
        self.splice.settle(bytes as u64);
    }

    /// Has the kernel record the requests that it forwards under the client's name.
    fn name(&mut self, context: &RequestContext) {
        let NextHop::Group { group, .. } = &self.next_hop else {
            return;
        };
        if self.named.is_some() || classifying(context, &self.next_hop).is_none() {
            return;
        }
        let named = context.worker.telemetry.forwarded.name(ForwardedClient {
            client: context.address,
            job: Job::from(&context.listener.mode),
            upstream: Some(group.state.plan.name.clone()),
            server: self.checkout.upstream.address,
            destination: context.original,
            counters: (self.next_hop.server(self.checkout.server))
                .map(|server| Arc::clone(server) as _),
            watch: self.splice.watch(),
        });
        self.splice.tell_as(named.name());
        self.named = Some(named);
    }

    /// Notes requests that the kernel has forwarded; whether there were any. From then on the response to the latest of them is pending.
    pub(super) fn catch_up(&mut self, context: &RequestContext) -> bool {
        let Some(caught_up) = self.splice.catch_up() else {
            return false;
        };
        if let Some(passed) = passed(self.pending.as_ref(), &caught_up) {
            if let Some(pending) = &mut self.pending {
                // Some time before the request that followed it.
                pending.log.over_for = Duration::MAX;
            }
            self.conclude_as(context, "complete", passed);
        }
        // A client that pipelines may have asked in the middle of a response.
        self.past.is_exact = false;
        self.checkout.resume_forwarded(&self.next_hop);
        self.pending = Some(Pending::classified(&caught_up));
        true
    }
}

/// The end of a response after which the kernel has forwarded another request, unless the kernel's own record is logged: bytes, status, and
/// how many of the bytes are the head.
fn passed(pending: Option<&Pending>, caught_up: &CaughtUp) -> Option<(u64, u16, u64)> {
    pending.filter(|pending| !pending.is_classified)?;
    let status = caught_up.passed_status.unwrap_or(STATUS_UNKNOWN);
    Some((caught_up.passed_bytes, status, 0))
}

impl Pending {
    /// The response to the latest of requests that the kernel has forwarded.
    fn classified(caught_up: &CaughtUp) -> Self {
        let method = match caught_up.method {
            Some("HEAD") => Method::Head,
            _ => Method::Get,
        };
        Self {
            is_classified: true,
            // The kernel forwards one only when the response before is whole.
            ..Self::new(RequestLog::begin(), method, true)
        }
    }
}

#[cfg(test)]
mod tests;
