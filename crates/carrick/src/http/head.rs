//! Reading a request's head: from the first byte to the empty line, within the limits on size, fields and time.
use super::sender;
use crate::context::client::Client;
use crate::context::request_context::RequestContext;
use crate::net::deadline::{Deadline, now};
use crate::net::io::read_rest;
use crate::net::scratch::{BUFFER_BYTES, Scratch};
use crate::telemetry::metrics::Limit;
use carrick_logic::http1::{Method, Progress, Refusal, RequestHead};
use carrick_logic::http2::is_preface;
use std::time::Instant;

/// Why there is no request.
#[derive(Debug)]
pub enum NoRequestHead {
    /// The client closed, between requests or in the middle of a head.
    Closed {
        /// Whether part of a head had come.
        half_written: bool,
        /// Whether its connection was reset.
        is_reset: bool,
    },
    /// The head took longer than `[timeouts] head`.
    TimedOut,
    /// It must not be passed on.
    Refused(Refusal),
}

/// Whether the connection is one of HTTP/2, by what it begins with, of which at least a byte is in `scratch.request`; when
/// that was.
pub async fn begins_http2(client: &mut Client, scratch: &mut Scratch) -> Option<Instant> {
    let begun = now();
    let mut deadline = Deadline::at(begun + client.context.live.plan().timeouts.head);
    let downstream = &mut client.downstream;
    loop {
        if let Some(is_so) = is_preface(&scratch.request) {
            return is_so.then_some(begun);
        }
        let reading = read_rest(&downstream.transport, &mut scratch.request);
        // An end is found by the next read.
        if !matches!(
            downstream.timer.until(&mut deadline, reading).await,
            Ok(Ok(1..))
        ) {
            return None;
        }
    }
}

/// Reads until `scratch.request` begins with a whole head, parsed into `scratch.request_head`.
pub async fn read(
    client: &mut Client,
    scratch: &mut Scratch,
    begun: Instant,
) -> Result<(), NoRequestHead> {
    let (context, downstream) = (&client.context, &mut client.downstream);
    let plan = context.live.plan();
    // The parser was another request's before, whose head may never have become whole.
    scratch.request_head.restart();
    scratch.request_head.scheme = context.scheme();
    scratch.request_head.is_http2 = context.is_http2;
    let (limits, mut deadline) = (plan.limits.head(), Deadline::at(begun + plan.timeouts.head));
    let mut may_be_empty = 2 * RequestHead::EMPTY_LINES_MAX;
    loop {
        let empty = RequestHead::leading_empty_lines(&scratch.request).min(may_be_empty);
        if empty > 0 {
            scratch.request.drain(..empty);
            may_be_empty -= empty;
        }
        if !scratch.request.is_empty() {
            match scratch.request_head.parse(&scratch.request, &limits) {
                Ok(Progress::Complete) => return Ok(()),
                Ok(Progress::Partial) => {}
                Err(refusal) => return Err(NoRequestHead::Refused(refusal)),
            }
        }
        if scratch.request.len() == scratch.request.capacity() {
            scratch
                .request
                .reserve(scratch.request.len().max(BUFFER_BYTES));
        }
        downstream.push_held();
        match downstream
            .timer
            .until(
                &mut deadline,
                read_rest(&downstream.transport, &mut scratch.request),
            )
            .await
        {
            Ok(read @ (Ok(0) | Err(_))) => {
                return Err(NoRequestHead::Closed {
                    half_written: !scratch.request.is_empty(),
                    is_reset: read.is_err(),
                });
            }
            Ok(Ok(_)) => {}
            Err(_) => {
                context.metrics().limits.reached(Limit::HeadTimeout);
                return Err(NoRequestHead::TimedOut);
            }
        }
    }
}

/// Parses the head in `scratch.request` once more, which was read, or written, before. `false`: it is none, by the present limits.
pub fn read_again(context: &RequestContext, scratch: &mut Scratch) -> bool {
    let limits = context.live.plan().limits.head();
    let head = &mut scratch.request_head;
    head.scheme = context.scheme();
    head.is_http2 = context.is_http2;
    matches!(
        head.parse(&scratch.request, &limits),
        Ok(Progress::Complete)
    ) && sender::check_fields(
        &context.listener,
        context.is_trusted_proxy(),
        head,
        &scratch.request,
    )
    .is_ok()
}

/// Whether what follows a CONNECT that is answered with this status may be meant for the tunnel: where there is none, it must not be taken
/// for a request. Only credentials are asked for on the same connection, unless bytes have come already.
pub fn may_be_for_tunnel(scratch: &Scratch, status: u16) -> bool {
    let head = &scratch.request_head;
    head.method == Method::Connect && (status != 407 || scratch.request.len() > head.head_bytes)
}
