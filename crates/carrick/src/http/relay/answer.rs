//! Passing a response on, and what becomes of the two connections after it.
use super::{Attempt, Outcome, means};
use crate::config::plan::{ListenerPlan, Mode};
use crate::context::client::Client;
use crate::context::destination::Destination;
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::context::request_log::{IDLE_TIMEOUT, TOO_SLOW};
use crate::http::cached::{self, Asking, Tee, Verdict};
use crate::http::head::may_be_for_tunnel;
use crate::http::kernel_forward;
use crate::http::ktls;
use crate::http::outcome::{Failure, Passed};
use crate::http::prefetch::PageTap;
use crate::http::request_body::Means;
use crate::http::response_body::{Response, is_to_come};
use crate::net::deadline::Timer;
use crate::net::io::Stream;
use crate::net::scratch::Scratch;
use crate::net::transport::Transport;
use crate::reply;
use crate::telemetry::metrics::{Limit, PrefetchResult};
use crate::upstream::checkout::Checkout;
use carrick_logic::http1::{
    self, BodyLength, Refusal, ResponseBody, ResponseHead, ResponseRewrite, Version,
};
use carrick_logic::http2::reset_for_client;
use carrick_splice::Engine;
use http::{HeaderName, HeaderValue};
use std::rc::Rc;

impl Attempt<'_, '_> {
    /// Passes the response on whose head is in `scratch`.
    pub(super) async fn answer(mut self, mut checkout: Checkout, may_reuse: bool) -> Outcome {
        checkout.answered(&self.destination.next_hop);
        let response_head = &self.scratch.response_head;
        self.log.status = response_head.status;
        if let Some(downstream) = self.requester.downstream() {
            downstream.kernel_forward.note_status(response_head.status);
        }
        let bad = |reason, label| {
            Outcome::Failed(Failure::BadResponse(Refusal {
                status: 502,
                reason,
                label,
            }))
        };
        if response_head.status == 101 && !self.scratch.request_head.wants_upgrade {
            let reason = "the upstream switched protocols without being asked";
            return bad(reason, "unasked_upgrade");
        }
        if let Some(downstream) = self.requester.downstream()
            && let Transport::Http2(stream) = &downstream.transport
            && !stream.takes(response_head, &self.scratch.response)
        {
            let reason =
                "it grants a WebSocket otherwise than by 101 and the right Sec-WebSocket-Accept";
            return bad(reason, "bad_websocket");
        }
        let is_tunnel = response_head.body == ResponseBody::Tunnel;
        let mut tee = None;
        if let Some(asking) = self.asking.as_deref_mut() {
            let address = checkout.upstream.address.ip();
            asking.comes_from(&self.destination.next_hop, address);
            if let (Some(prefetch), ResponseBody::Bytes(length)) =
                (asking.prefetch(), self.scratch.response_head.body)
                && !prefetch.takes(length)
            {
                return Outcome::Kept;
            }
            let context = self.requester.context();
            match judge(context, self.scratch, self.destination, asking) {
                Verdict::PassOn => {}
                Verdict::Keep(kept) => tee = Some(kept),
                Verdict::Fill(writer, object, keep) => {
                    let filled = (writer, object, keep);
                    return Box::pin(self.fill(checkout, may_reuse, filled)).await;
                }
                Verdict::Use(object, reuse) => {
                    self.leave(checkout, may_reuse);
                    return Box::pin(self.send_stored(object, reuse)).await;
                }
                Verdict::AskAgain => return Outcome::AskAgain,
            }
        } else {
            // Other routes may have stored what the request has changed.
            let context = self.requester.context();
            cached::invalidate(
                context,
                &cached::changed(context, self.scratch, self.destination),
            );
        }
        let Some(client) = self.requester.client() else {
            if let Some(tee) = tee {
                return Box::pin(self.fetch(checkout, tee)).await;
            }
            let asking = self.asking.as_deref_mut();
            if let Some(prefetch) = asking.and_then(Asking::take_prefetch) {
                prefetch.ends(PrefetchResult::NotStored);
            }
            return Outcome::Kept;
        };
        if let Some(asking) = self.asking.as_deref_mut() {
            asking.release();
        }
        let context = &client.context;
        let mut tap = self.asking.as_deref().and_then(|asking| {
            PageTap::at_answer(context, self.scratch, self.destination, asking.fetch())
        });
        let worker = Rc::clone(&context.worker);
        let (head, here) = (&self.scratch.response_head, &self.scratch.response);
        // What is here already is not spliced, and needs no limit.
        let is_to_come = is_to_come(head, here);
        let pace = if is_to_come {
            worker.pacer.splices();
            client.paced(self.destination.pace)
        } else {
            Default::default()
        };
        let mut means = means(&client.context, &worker.splicer, self.destination, pace);
        let may_keep = may_reuse
            && !client.downstream.is_last
            && !worker.sessions.is_draining()
            && !may_be_for_tunnel(self.scratch, head.status);
        let keep_alive = begin(client, self.scratch, may_keep, self.asking.as_deref());
        // From a client that closes itself nothing more comes, which would make closing lose what is not sent yet.
        let request = &self.scratch.request_head;
        let is_last = !request.keep_alive && request.body == BodyLength::None;
        if keep_alive
            && tee.is_none()
            && tap.is_none()
            && self.scratch.response_head.body != ResponseBody::UntilClose
            && kernel_forward::arm_body(client, self.scratch, &mut checkout, self.destination)
        {
            let (destination, log) = (self.destination, &mut *self.log);
            let begun =
                kernel_forward::begin_body(client, self.scratch, checkout, destination, log).await;
            return match begun {
                Ok(()) => Outcome::LeftToKernel,
                Err((checkout, how)) => {
                    self.conclude(checkout, Passed::ClientGone(how), true, may_reuse)
                }
            };
        }
        if is_to_come {
            means.unread = checkout.upstream.limit_unread();
        }
        let upstream = &checkout.upstream.transport;
        if let ResponseBody::Bytes(length) = self.scratch.response_head.body
            && is_to_come
            && tee.is_none()
            && upstream.tcp().is_some()
        {
            ktls::before_body(client, length);
        }
        let passed = pass_response(
            means,
            upstream,
            &client.downstream.transport,
            &mut client.downstream.timer,
            self.scratch,
            (keep_alive, is_last),
            (self.log, (tee.as_deref_mut(), tap.as_deref_mut())),
        )
        .await;
        if let Some(tap) = &mut tap
            && matches!(passed, Passed::Whole | Passed::WholeAndDone)
        {
            tap.end();
        }
        match (tee, &passed) {
            (Some(tee), Passed::Whole | Passed::WholeAndDone) => tee.end(),
            (Some(_), Passed::Refused(_)) => {}
            (Some(tee), _) => Box::pin(tee.cut()).await,
            (None, _) => {}
        }
        if let Some(asking) = self.asking.as_deref_mut() {
            asking.release();
        }
        match passed {
            Passed::Whole | Passed::WholeAndDone if is_tunnel => Outcome::Tunnel(checkout),
            passed => self.conclude(checkout, passed, keep_alive, may_reuse),
        }
    }

    /// What becomes of the two connections after a response.
    pub(super) fn conclude(
        self,
        mut checkout: Checkout,
        passed: Passed,
        keep_alive: bool,
        may_reuse: bool,
    ) -> Outcome {
        let context = self.requester.context();
        checkout.count(context.metrics(), self.log.received, self.log.sent);
        match passed {
            Passed::Whole if self.scratch.response_head.keep_alive && may_reuse => {
                checkout.upstream.expect_like(self.log.sent);
                let next_hop = &self.destination.next_hop;
                let parted = match self.requester.client() {
                    Some(client) if keep_alive => {
                        let kernel_forward = &mut client.downstream.kernel_forward;
                        kernel_forward::keep(kernel_forward, checkout, next_hop)
                    }
                    _ => Some(checkout),
                };
                if let Some(checkout) = parted {
                    let pool = self.requester.context().pool();
                    checkout.give_back_after(self.is_acknowledged, pool, next_hop);
                }
            }
            Passed::Whole if may_reuse => checkout.close(),
            Passed::Whole | Passed::WholeAndDone => {}
            Passed::ClientGone(how) => {
                self.log.ended = how;
                self.count_limit(how);
            }
            Passed::UpstreamBroke(how) => {
                self.log.ended = how;
                self.count_limit(how);
                if let Some(code) = checkout.reset_code()
                    && let Some(client) = self.requester.client()
                    && let Transport::Http2(stream) = &client.downstream.transport
                {
                    stream.set_reset_code(reset_for_client(code.into()).into());
                }
                checkout.failed_alive(&self.destination.next_hop);
            }
            Passed::Refused(refusal) => {
                checkout.failed_alive(&self.destination.next_hop);
                return Outcome::Failed(Failure::BadResponse(refusal));
            }
        }
        Outcome::Answered { passed, keep_alive }
    }

    fn count_limit(&self, how: &str) {
        let limits = &self.requester.context().metrics().limits;
        match how {
            TOO_SLOW => limits.reached(Limit::RateMin),
            IDLE_TIMEOUT => limits.reached(Limit::IdleTimeout),
            _ => {}
        }
    }
}

/// What is done with the answer whose head is in `scratch`; a prefetch is noted if it is stored.
fn judge(
    context: &RequestContext,
    scratch: &Scratch,
    destination: &Destination,
    asking: &mut Asking,
) -> Verdict {
    let verdict = cached::judge(context, scratch, destination, asking);
    if !matches!(verdict, Verdict::PassOn | Verdict::AskAgain) {
        asking.note_prefetch();
    }
    verdict
}

/// Begins the response in `scratch`: sends its head to a client's stream of HTTP/2, which leaves `scratch.out` empty, or
/// [writes](write_head) it there to be sent with what follows. `asking` has the value of `Cache-Status`.
fn begin(client: &Client, scratch: &mut Scratch, may_keep: bool, asking: Option<&Asking>) -> bool {
    let context = &client.context;
    let status = asking.and_then(Asking::status_value);
    let status = status.as_deref();
    if let Transport::Http2(stream) = &client.downstream.transport {
        let how = rewrite(context, scratch, may_keep);
        let head = (&scratch.response_head, scratch.response.as_slice());
        let is_sent = stream.send_head(head, &how, |fields| {
            add_fields(context, head, status, |name, value| {
                if let (Ok(name), Ok(value)) = (
                    HeaderName::from_bytes(name.as_bytes()),
                    HeaderValue::from_bytes(value.as_bytes()),
                ) {
                    fields.append(name, value);
                }
            });
        });
        if is_sent {
            scratch.out.clear();
            return how.keep_alive;
        }
    }
    write_head(context, scratch, may_keep, status)
}

/// Writes the response's head for the client to `scratch.out`. `may_keep`: nothing but the two heads speaks against keeping
/// the client's connection; `status`: the value of `Cache-Status`. Returns whether it stays open.
pub(super) fn write_head(
    context: &RequestContext,
    scratch: &mut Scratch,
    may_keep: bool,
    status: Option<&str>,
) -> bool {
    let how = rewrite(context, scratch, may_keep);
    let Scratch {
        out,
        response,
        response_head,
        ..
    } = scratch;
    out.clear();
    http1::write_response(out, response, response_head, &how);
    add_fields(context, (response_head, response), status, |name, value| {
        http1::add_field(out, name, value);
    });
    how.keep_alive
}

/// How the head changes on its way to the client.
fn rewrite<'c>(
    context: &'c RequestContext,
    scratch: &Scratch,
    may_keep: bool,
) -> ResponseRewrite<'c> {
    let listener = &context.listener;
    let (request, response) = (&scratch.request_head, &scratch.response_head);
    let is_delimited = match response.body {
        ResponseBody::None | ResponseBody::Bytes(_) => true,
        ResponseBody::Chunked => request.version == Version::Http11,
        ResponseBody::UntilClose => is_framed(listener, request.version),
        ResponseBody::Tunnel => false,
    };
    let keep_alive = may_keep && request.keep_alive && is_delimited;
    ResponseRewrite {
        via: listener.via.of_responses(),
        client_version: request.version,
        keep_alive,
        add_chunked: keep_alive && response.body == ResponseBody::UntilClose,
        pass_upgrade: request.wants_upgrade,
    }
}

/// What carrick says in the head besides. `status`: the value of `Cache-Status`.
fn add_fields(
    context: &RequestContext,
    (head, bytes): (&ResponseHead, &[u8]),
    status: Option<&str>,
    mut add: impl FnMut(&str, &str),
) {
    if !head.has_date() {
        context.worker.clock.with_date(|date| add("Date", date));
    }
    if let Some(hsts) = reply::hsts(context)
        && head.field(bytes, "strict-transport-security").is_none()
    {
        add(reply::HSTS, hsts);
    }
    if let Some(status) = status {
        add("Cache-Status", status);
    }
}

/// Whether a body that the upstream ends with its connection is given frames, so that the client's connection stays. Behind a proxy
/// clients may be far from it, and the next connection costs them a round trip; and what breaks off is not taken for whole. A switch
/// stands beside its servers, and splices such bodies.
fn is_framed(listener: &ListenerPlan, version: Version) -> bool {
    let is_proxy = matches!(listener.mode, Mode::Forward(_)) || listener.interception.is_some();
    is_proxy && version == Version::Http11
}

/// Sends the head in `scratch.out`, unless it [is sent](begin), and passes the body on. `keep_alive`: the client's connection stays open;
/// `is_last`: it is closed right after, without waiting for anything.
pub(super) async fn pass_response(
    means: Means<'_>,
    upstream: &Transport,
    client: &Transport,
    timer: &mut Timer,
    scratch: &mut Scratch,
    (keep_alive, is_last): (bool, bool),
    (log, (tee, tap)): (&mut RequestLog, (Option<&mut Tee>, Option<&mut PageTap>)),
) -> Passed {
    let response = Response {
        head: &scratch.response_head,
        buffer: &mut scratch.response,
        out: &mut scratch.out,
        client_version: scratch.request_head.version,
        body_bytes: 0,
        engine: Engine::Copy,
        is_framed: keep_alive && scratch.response_head.body == ResponseBody::UntilClose,
        is_last,
        tee,
        tap,
    };
    let mut logged = Logged { response, log };
    (logged.response).pass(means, upstream, client, timer).await
}

/// Logs what was passed on, however that ends: it may be given up.
struct Logged<'a, 'l> {
    response: Response<'a>,
    log: &'l mut RequestLog,
}

impl Drop for Logged<'_, '_> {
    fn drop(&mut self) {
        self.log.sent += self.response.body_bytes;
        self.log.engine = Some(self.response.engine);
    }
}
