//! Sending a request and getting to its response's head; with a body, both directions are served at the same time.
use super::answer::{pass_response, write_head};
use super::wait::{Asked, HeadWait, Interim, NoResponseHead};
use super::{Attempt, FailedAttempt, Outcome, means};
use crate::connect::tls;
use crate::http::cached;
use crate::http::kernel_forward;
use crate::http::outcome::{Failure, Passed};
use crate::http::request_body;
use crate::http::request_body::{Means, NotSent};
use crate::http::while_taken::given_up;
use crate::net::deadline::{Deadline, TimedOut, now};
use crate::net::io::{write_all, write_some};
use crate::net::scratch::Scratch;
use crate::net::transport::Transport;
use crate::net::transport::http2::server::ServerStream;
use crate::telemetry::metrics::Limit;
use crate::upstream::checkout::Checkout;
use carrick_logic::http1::{BodyLength, ResponseBody, Version};
use carrick_splice::tcp::is_hung_up;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Longer than any body takes; the body's own limits count.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long an answer is waited for from an upstream that has stopped reading the request.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A request's body of which no more is to come is read at once.
const BODY_BYTES_FEW: usize = 64 << 10;

/// What came of serving both directions at the same time.
enum SendOutcome {
    /// No response's head came.
    NoHead(NoResponseHead),
    /// The response's head came when the whole body was sent, or makes a tunnel: nothing of it is passed on yet.
    Head,
    /// The response was passed on while the body was still under way.
    Passed(Passed, bool),
}

impl Attempt<'_, '_> {
    /// Sends a request without a body, and passes its response on.
    pub(super) async fn without_body(
        mut self,
        mut checkout: Checkout,
    ) -> Result<Outcome, FailedAttempt> {
        if self.requester.is_gone(&checkout) {
            return Ok(self.leave_unasked(checkout));
        }
        if self.asking.is_none()
            && let Some(client) = self.requester.client()
        {
            kernel_forward::hold_body(client, self.scratch, &mut checkout, self.destination);
        }
        let idle = self.requester.context().live.plan().timeouts.idle;
        if let Err((error, nothing_sent)) = self.send_head(&checkout, idle).await {
            return self.not_taken(&checkout, nothing_sent, &error);
        }
        self.scratch.expect_response();
        let (context, timer, client) = self.requester.waiting();
        let mut wait = HeadWait {
            upstream: &checkout.upstream.transport,
            client,
            limits: context.live.plan().limits.head(),
            via: context.listener.via.of_responses(),
            idle,
            leave: Some((&context.worker.pacer, self.pace))
                .filter(|(pacer, pace)| pacer.waits(*pace)),
            watches_client: true,
            asked: Asked::without_body(checkout.upstream.reused, self.scratch.out.len()),
            is_acknowledged: false,
            interim: Interim::default(),
            prolongs: true,
            first_read_bytes: checkout.upstream.first_read_bytes,
        };
        let waited = wait
            .final_head(timer, &mut Deadline::after(idle), self.scratch, self.log)
            .await;
        self.is_acknowledged = wait.is_acknowledged;
        match waited {
            Ok(()) => Ok(self.answer(checkout, true).await),
            Err(NoResponseHead::Closed { started: false }) => Err(match is_refused(&checkout) {
                true => FailedAttempt::refused(),
                false => self.again(&checkout, false, "upstream_closed"),
            }),
            Err(no_head) => Ok(Outcome::Failed(self.failure(no_head, &checkout))),
        }
    }

    /// Gives a connection back on which nothing was asked.
    fn leave_unasked(&self, checkout: Checkout) -> Outcome {
        if checkout.preamble.is_empty() {
            let pool = self.requester.context().pool();
            checkout.give_back(pool, &self.destination.next_hop);
        }
        Outcome::Failed(Failure::ClientGone("client_reset"))
    }

    /// Sends the preamble and the head in `scratch.out`; on an error, whether nothing went out.
    async fn send_head(
        &mut self,
        checkout: &Checkout,
        idle: Duration,
    ) -> Result<(), (io::Error, bool)> {
        let (stream, timer) = (&checkout.upstream.transport, self.requester.timer());
        let head = &self.scratch.out;
        if !checkout.preamble.is_empty() {
            let sent = timer
                .within(idle, write_all(stream, &checkout.preamble))
                .await;
            sent.unwrap_or_else(stalled)
                .map_err(|error| (error, true))?;
        }
        let mut left = 0;
        let sent = timer
            .within(idle, write_some(stream, head, &mut left))
            .await;
        sent.unwrap_or_else(stalled)
            .map_err(|error| (error, left == head.len()))
    }

    /// Whether more of the request's body may be to come than a few reads bring.
    fn has_much_to_come(&self) -> bool {
        let here = self.scratch.request.len() - self.scratch.request_head.head_bytes;
        match self.scratch.request_head.body {
            BodyLength::None => false,
            BodyLength::Bytes(length) => length > (here + BODY_BYTES_FEW) as u64,
            BodyLength::Chunked => true,
        }
    }

    /// Sends a request with a body. While it goes up an early response may come down (RFC 9112 section 9.3); both are served at the same time.
    pub(super) async fn with_body(
        mut self,
        mut checkout: Checkout,
    ) -> Result<Outcome, FailedAttempt> {
        if self.requester.is_gone(&checkout) {
            return Ok(self.leave_unasked(checkout));
        }
        let has_much_to_come = self.has_much_to_come();
        let Some(client) = self.requester.client() else {
            // What is fetched for the store alone is asked for with a head.
            return Ok(Outcome::Failed(Failure::ClientGone("client_closed")));
        };
        let worker = Rc::clone(&client.context.worker);
        let pace = client.paced(self.destination.pace);
        let mut means = means(&client.context, &worker.splicer, self.destination, pace);
        let moved = Cell::new(now());
        means.moved = Some(&moved);
        if has_much_to_come {
            means.unread = client.downstream.limit_unread();
        }
        let unread_response = checkout.upstream.limit_unread();
        let upstream = &checkout.upstream.transport;
        // Of streams it is not known, which is 0.
        let asked = (checkout.upstream.reused)
            .then(|| upstream.acked_bytes())
            .filter(|bytes| upstream.server_stream().is_none() && *bytes > 0)
            .map_or(Asked::Surely, Asked::Behind);
        let mut sending = std::mem::take(&mut self.scratch.out);
        sending.splice(..0, checkout.preamble.iter().copied());
        let (body_length, head_bytes) = (
            self.scratch.request_head.body,
            self.scratch.request_head.head_bytes,
        );
        // The buffer is the body's from here on; a copy of the head stays for who looks at its fields meanwhile.
        let mut request = std::mem::take(&mut self.scratch.request);
        (self.scratch.request).extend_from_slice(request.get(..head_bytes).unwrap_or_default());
        let mut received = 0;
        let mut sent: Option<Result<(), NotSent>> = None;
        let mut is_early = false;
        self.scratch.expect_response();
        let met = {
            let (scratch, log) = (&mut *self.scratch, &mut *self.log);
            let from = &client.downstream.transport;
            let from_client = (&mut request, head_bytes);
            let mut body = pin!(async {
                tokio::select! {
                    biased;
                    sent = request_body::send(
                        means, from, upstream, &sending, from_client, body_length, &mut received
                    ) => sent,
                    () = given_up(from, upstream, means.idle) => Err(NotSent::ClientGone),
                }
            });
            let mut wait = HeadWait {
                upstream,
                client: Some(&client.downstream.transport),
                limits: client.context.live.plan().limits.head(),
                via: client.context.listener.via.of_responses(),
                idle: means.idle,
                leave: Some((&worker.pacer, self.pace)).filter(|(pacer, pace)| pacer.waits(*pace)),
                watches_client: false,
                asked,
                is_acknowledged: false,
                interim: Interim::default(),
                prolongs: true,
                first_read_bytes: checkout.upstream.first_read_bytes,
            };
            let head = loop {
                // Until the body is sent its own time limits count; the response's limit begins with the body's end.
                let limit = if sent.is_some() { means.idle } else { FOREVER };
                let mut deadline = Deadline::after(limit);
                let step = {
                    let mut waiting = pin!(wait.final_head(
                        &mut client.downstream.timer,
                        &mut deadline,
                        scratch,
                        log
                    ));
                    poll_fn(|cx| {
                        if sent.is_none()
                            && let Poll::Ready(result) = body.as_mut().poll(cx)
                        {
                            sent = Some(result);
                            return Poll::Ready(None);
                        }
                        waiting.as_mut().poll(cx).map(Some)
                    })
                    .await
                };
                match (step, &sent) {
                    (Some(head), _) => break head,
                    (None, Some(Ok(()))) => {
                        wait.watches_client = true;
                        is_early = !scratch.response.is_empty();
                    }
                    // The upstream no longer reads: it may have answered before it closed. That is waited for, shortly.
                    (
                        None,
                        Some(Err(NotSent::Upstream {
                            nothing_sent: false,
                            ..
                        })),
                    ) => {
                        wait.prolongs = false;
                        break wait
                            .final_head(
                                &mut client.downstream.timer,
                                &mut Deadline::after(LAST_WORDS),
                                scratch,
                                log,
                            )
                            .await;
                    }
                    (None, _) => {
                        if wait.interim.is_under_way() {
                            // A reply would stand in the midst of it.
                            sent = Some(Err(NotSent::ClientGone));
                        }
                        break Err(NoResponseHead::Closed { started: false });
                    }
                }
            };
            match head {
                Err(no_head) => SendOutcome::NoHead(no_head),
                Ok(()) if sent.is_some() => SendOutcome::Head,
                Ok(()) if scratch.response_head.body == ResponseBody::Tunnel => {
                    // The tunnel follows the whole request (RFC 9110 section 7.8).
                    let result = body.as_mut().await;
                    let is_whole = result.is_ok();
                    sent = Some(result);
                    match is_whole {
                        true => SendOutcome::Head,
                        false => SendOutcome::NoHead(NoResponseHead::Closed { started: true }),
                    }
                }
                Ok(()) => {
                    is_early = true;
                    // A request with a body leaves nothing in the store, but may take something out of it: before its client
                    // knows that it has been answered.
                    let changed = cached::changed(&client.context, scratch, self.destination);
                    cached::invalidate(&client.context, &changed);
                    let keep_alive = write_head(&client.context, scratch, false, None);
                    let is_http2 = matches!(from, Transport::Http2(_));
                    let mut is_lost = false;
                    let passed = {
                        let mut passing = pin!(pass_response(
                            Means {
                                unread: unread_response,
                                ..means
                            },
                            upstream,
                            &client.downstream.transport,
                            &mut client.downstream.timer,
                            scratch,
                            (keep_alive, false),
                            (&mut *log, (None, None))
                        ));
                        poll_fn(|cx| {
                            if sent.is_none()
                                && let Poll::Ready(result) = body.as_mut().poll(cx)
                            {
                                is_lost = matches!(result, Err(NotSent::ClientGone))
                                    && (is_http2 || from.socket().is_some_and(is_hung_up));
                                sent = Some(result);
                            }
                            if is_lost {
                                // It was reset: nobody reads the rest.
                                return Poll::Ready(Passed::ClientGone("client_reset"));
                            }
                            passing.as_mut().poll(cx)
                        })
                        .await
                    };
                    if sent.is_none() && passed == Passed::Whole && still_reads(scratch) {
                        sent = poll_fn(|cx| {
                            if let Poll::Ready(result) = body.as_mut().poll(cx) {
                                return Poll::Ready(Some(result));
                            }
                            // By HTTP/2 a server says that it needs no more (RFC 9113 section 8.1).
                            match upstream.server_stream() {
                                Some(stream) => stream.poll_reset(cx).map(|()| None),
                                None => Poll::Pending,
                            }
                        })
                        .await;
                    }
                    // The server may have answered others in between as before the request.
                    cached::invalidate(&client.context, &changed);
                    SendOutcome::Passed(passed, keep_alive)
                }
            }
        };
        self.scratch.request = request;
        self.log.received += received;
        let upstream = &checkout.upstream;
        let is_stream = upstream.transport.server_stream().is_some();
        // Of an HTTP/1.1 server that answers before it has the body, the rest might be taken for a request, whose response would be for the
        // connection's next one.
        let may_reuse = !is_early || is_stream || upstream.is_pinned;
        let may_reuse = may_reuse && matches!(sent, Some(Ok(())));
        match met {
            SendOutcome::Head => Ok(self.answer(checkout, may_reuse).await),
            SendOutcome::Passed(passed, keep_alive) => {
                checkout.answered(&self.destination.next_hop);
                self.log.status = self.scratch.response_head.status;
                Ok(self.conclude(checkout, passed, keep_alive, may_reuse))
            }
            // It may have a part of an interim response, which nothing else may follow.
            SendOutcome::NoHead(no_head @ NoResponseHead::ClientGone) => {
                Ok(Outcome::Failed(self.failure(no_head, &checkout)))
            }
            SendOutcome::NoHead(no_head) => match sent {
                Some(Ok(())) if let Some(whole) = taken_back(&checkout) => {
                    self.scratch.out = whole;
                    Err(FailedAttempt::refused())
                }
                // Of the body something is gone, or still to come.
                Some(Ok(()) | Err(NotSent::Upstream { .. })) | None if is_refused(&checkout) => {
                    Ok(Outcome::Failed(Failure::Refused))
                }
                Some(Err(not_sent)) => self.not_sent(not_sent, &checkout, &sending),
                Some(Ok(())) | None => Ok(Outcome::Failed(self.failure(no_head, &checkout))),
            },
        }
    }

    /// What a body that did not go out, and was not answered either, means.
    fn not_sent(
        &mut self,
        not_sent: NotSent,
        checkout: &Checkout,
        sending: &[u8],
    ) -> Result<Outcome, FailedAttempt> {
        Ok(Outcome::Failed(match not_sent {
            NotSent::ClientGone if self.has_client_reset() => Failure::ClientGone("client_reset"),
            NotSent::ClientGone => Failure::ClientGone("client_closed"),
            NotSent::ClientSlow(limit) => Failure::ClientSlow(limit),
            NotSent::Refused(refusal) => Failure::BadRequest(refusal),
            // A reset that stands behind unread bytes is seen now.
            NotSent::UpstreamSlow if self.has_client_hung_up() => {
                Failure::ClientGone("client_reset")
            }
            NotSent::UpstreamSlow => self.failure(NoResponseHead::TimedOut, checkout),
            NotSent::Upstream {
                nothing_sent,
                error,
            } => {
                // The next attempt sends the same head again.
                self.scratch.out.clear();
                self.scratch
                    .out
                    .extend_from_slice(sending.get(checkout.preamble.len()..).unwrap_or_default());
                return self.not_taken(checkout, nothing_sent, &error);
            }
        }))
    }

    /// Whether a client that is gone has reset its connection, or its stream, which does not end in another way.
    fn has_client_reset(&mut self) -> bool {
        let client = self.requester.client();
        client.is_some_and(|client| matches!(client.downstream.transport, Transport::Http2(_)))
            || self.has_client_hung_up()
    }

    fn has_client_hung_up(&mut self) -> bool {
        let client = self.requester.client();
        let socket = client.and_then(|client| client.downstream.transport.socket());
        socket.is_some_and(is_hung_up)
    }

    /// What a request that the upstream does not take means.
    fn not_taken(
        &self,
        checkout: &Checkout,
        nothing_sent: bool,
        error: &io::Error,
    ) -> Result<Outcome, FailedAttempt> {
        tracing::debug!("send to {}: {error}", checkout.upstream.address);
        let stream = checkout.upstream.transport.server_stream();
        if let Some(refusal) = stream.and_then(ServerStream::request_refusal) {
            // That says nothing against the server.
            return Ok(Outcome::Failed(Failure::BadRequest(refusal)));
        }
        Err(self.again(checkout, nothing_sent, "upstream_reset"))
    }

    fn again(&self, checkout: &Checkout, nothing_sent: bool, how: &'static str) -> FailedAttempt {
        FailedAttempt::new(
            checkout,
            &self.destination.next_hop,
            nothing_sent,
            self.no_response(checkout, how),
        )
    }

    fn no_response(&self, checkout: &Checkout, how: &'static str) -> Failure {
        match checkout.reset_code() {
            Some(code) => Failure::Reset(code),
            None => self.refusal(checkout).unwrap_or(Failure::NoResponse(how)),
        }
    }

    /// Why a server did not answer on a new connection, if it took the TLS handshake back.
    fn refusal(&self, checkout: &Checkout) -> Option<Failure> {
        let upstream = &checkout.upstream;
        let tls = upstream.transport.tls().filter(|_| !upstream.reused)?;
        let (of, server) = self.destination.next_hop.tls(checkout.server)?;
        let (error, metrics) = (tls.refusal()?.into(), self.requester.context().metrics());
        let unreachable = tls::failed((of, server), upstream.address, error, metrics);
        Some(Failure::Unreachable(unreachable))
    }

    fn failure(&self, no_head: NoResponseHead, checkout: &Checkout) -> Failure {
        if matches!(no_head, NoResponseHead::ClientGone) {
            return Failure::ClientGone("client_reset");
        }
        let next_hop = &self.destination.next_hop;
        match no_head {
            NoResponseHead::Refused(_) | NoResponseHead::Closed { started: true } => {
                checkout.failed_alive(next_hop)
            }
            NoResponseHead::TimedOut => checkout.timed_out(next_hop),
            _ => checkout.failed(next_hop),
        }
        match no_head {
            NoResponseHead::ClientGone | NoResponseHead::Closed { .. } => {
                self.no_response(checkout, "upstream_closed")
            }
            NoResponseHead::TimedOut => {
                let metrics = self.requester.context().metrics();
                metrics.limits.reached(Limit::IdleTimeout);
                Failure::TimedOut
            }
            NoResponseHead::Refused(refusal) => Failure::BadResponse(refusal),
        }
    }
}

/// Whether the server says that it has not begun with the request, which may be sent again whatever it asks for (RFC 9113 section 8.7).
fn is_refused(checkout: &Checkout) -> bool {
    let stream = checkout.upstream.transport.server_stream();
    stream.is_some_and(ServerStream::is_refused)
}

/// The whole request, if [it may be sent again](is_refused) and was short.
fn taken_back(checkout: &Checkout) -> Option<Vec<u8>> {
    let stream = checkout.upstream.transport.server_stream()?;
    stream.is_refused().then(|| stream.take_back()).flatten()
}

/// Whether the rest of a body is to be sent although its response is over. An upstream that does not read it says that it
/// closes, or refuses a client that has asked first; a body that is cut otherwise would be lost behind a good answer.
/// Clients of HTTP/1.0 may be waiting for our close, which is the end of their response.
fn still_reads(scratch: &Scratch) -> bool {
    let (request, response) = (&scratch.request_head, &scratch.response_head);
    let is_refused = request.expects_continue && response.status >= 400;
    response.keep_alive && !is_refused && request.version == Version::Http11
}

fn stalled<T>(_: TimedOut) -> io::Result<T> {
    Err(io::ErrorKind::TimedOut.into())
}
