//! Requests that the kernel judges and forwards itself (`requests = "kernel"`): when it may, and what the process learns of them.
use super::{Bound, Pending};
use crate::proxy::arrival::Client;
use crate::proxy::decide::Place;
use crate::proxy::trace::Trace;
use crate::telemetry::forwarded::Guest;
use crate::telemetry::metrics::Job;
use carrick_logic::http1::Method;
use carrick_splice::Judging;

/// By which routes the kernel may judge further requests of a client whose connection leads to `place`.
pub fn judging(client: &Client, place: &Place) -> Option<Judging> {
    let Place::Group { index, .. } = place else {
        return None;
    };
    // Each of its requests may be another client's.
    if client.is_trusted_proxy() {
        return None;
    }
    let (table, generation) = client.live.live.judged_by.get(&client.listener.address)?;
    Some(Judging {
        table: *table,
        generation: *generation,
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
        let Place::Group { group, .. } = &self.place else {
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
        if self.is_asked_by_process() {
            let status = caught_up.passed_status.unwrap_or(super::STATUS_UNKNOWN);
            self.conclude_as(client, "complete", (caught_up.passed_bytes, status, 0));
        }
        // A client that does not wait for its responses may have asked in the midst of one.
        self.past.is_exact = false;
        self.checkout.resume(&self.place);
        self.pending = Some(Pending {
            trace: Trace::new(),
            method: match caught_up.method {
                Some("HEAD") => Method::Head,
                _ => Method::Get,
            },
            is_trusted: false,
            is_judged: true,
            known: None,
            relayed_bytes: 0,
        });
    }

    fn is_asked_by_process(&self) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|pending| !pending.is_judged)
    }
}
