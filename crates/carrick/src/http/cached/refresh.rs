//! Validation in the background: somebody got an answer that is out of date, and the next one shall get a new one (RFC 5861 section 3).
use super::ask::Asking;
use crate::context::client::Client;
use crate::context::destination::Destination;
use crate::context::request_log::RequestLog;
use crate::http::head;
use crate::http::relay::relay;
use crate::net::scratch::Scratch;

/// Asks the origin for what the request in `scratch` asks for, while its client is served.
pub fn begin(client: &Client, scratch: &Scratch, destination: &Destination, asking: Asking) {
    let mut own = client.worker.scratch.take();
    let head_bytes = scratch.request_head.head_bytes;
    own.request
        .extend_from_slice(scratch.request.get(..head_bytes).unwrap_or_default());
    if !head::read_again(client, &mut own) {
        return;
    }
    let (mut errand, destination) = (client.errand(), destination.clone());
    client.worker.metrics.cache.refreshes.add(1);
    tokio::task::spawn_local(async move {
        let mut asking = Some(Box::new(asking));
        let log = &mut RequestLog::begin();
        // If it fails, the next one who gets an old answer tries again.
        let _ = relay(
            &mut errand,
            &mut own,
            &destination,
            log,
            None,
            false,
            &mut asking,
        )
        .await;
    });
}
