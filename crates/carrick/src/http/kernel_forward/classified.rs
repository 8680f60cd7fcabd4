//! Requests that the kernel judges and forwards itself (`requests = "kernel"`): when it may, and what the process learns of them.
use super::STATUS_UNKNOWN;
use crate::context::client::Client;
use crate::context::destination::NextHop;
use crate::context::kernel_forward::{Bound, Pending};
use crate::context::request_log::RequestLog;
use crate::telemetry::forwarded::Guest;
use crate::telemetry::job::Job;
use carrick_logic::http1::Method;
use carrick_splice::{CaughtUp, Judging};

/// By which routes the kernel may judge further requests of a client whose connection leads to `place`.
pub fn judging(client: &Client, place: &NextHop) -> Option<Judging> {
    let table = (client.live.live.judged_by).get(&client.listener.address);
    judging_by(place, client.is_trusted_proxy(), table.copied())
}

/// `table`: its place and its generation.
fn judging_by(
    place: &NextHop,
    is_trusted_proxy: bool,
    table: Option<(u32, u32)>,
) -> Option<Judging> {
    let NextHop::Group { index, .. } = place else {
        return None;
    };
    // Each of its requests may be another client's.
    if is_trusted_proxy {
        return None;
    }
    let (table, generation) = table?;
    Some(Judging {
        table,
        generation,
        upstream: u32::try_from(*index).ok()?,
    })
}

impl Bound {
    /// A request of the client's is in the server's socket: the kernel may judge the next one.
    pub(super) fn settle_request(&mut self, client: &Client, bytes: usize) {
        self.name(client);
        self.splice.settle(bytes as u64);
    }

    /// Sees to it that requests which the kernel forwards are known to be the client's.
    fn name(&mut self, client: &Client) {
        let NextHop::Group { group, .. } = &self.place else {
            return;
        };
        if self.named.is_some() || judging(client, &self.place).is_none() {
            return;
        }
        let named = client.worker.forwarded.name(Guest {
            client: client.address,
            job: Job::from(&client.listener.mode),
            upstream: Some(group.state.plan.name.clone()),
            server: self.checkout.upstream.address,
            destination: client.original,
            watch: self.splice.watch(),
        });
        self.splice.tell_as(named.name());
        self.named = Some(named);
    }

    /// Takes note of requests that the kernel has forwarded. What is pending from then on is the response to the latest of them.
    pub(super) fn catch_up(&mut self, client: &Client) {
        let Some(caught_up) = self.splice.catch_up() else {
            return;
        };
        if let Some(passed) = passed(self.pending.as_ref(), &caught_up) {
            self.conclude_as(client, "complete", passed);
        }
        // A client that does not wait for its responses may have asked in the midst of one.
        self.past.is_exact = false;
        self.checkout.resume(&self.place);
        self.pending = Some(Pending::judged(&caught_up));
    }
}

/// The end of a response behind which the kernel has forwarded another request, for the log, if nobody else writes it: bytes, status, and how
/// many bytes of them are the head.
fn passed(pending: Option<&Pending>, caught_up: &CaughtUp) -> Option<(u64, u16, u64)> {
    pending.filter(|pending| !pending.is_judged)?;
    let status = caught_up.passed_status.unwrap_or(STATUS_UNKNOWN);
    Some((caught_up.passed_bytes, status, 0))
}

impl Pending {
    /// The response to the latest of requests that the kernel has forwarded.
    fn judged(caught_up: &CaughtUp) -> Self {
        let method = match caught_up.method {
            Some("HEAD") => Method::Head,
            _ => Method::Get,
        };
        Self {
            is_judged: true,
            ..Self::new(RequestLog::begin(), method, false)
        }
    }
}

#[cfg(test)]
mod tests;
