//! A client's HTTP/1 connection: request after request, answered in order, until one side is done.
//!
//! Life cycle: *idle* (no buffer held) - *head* - *decided* - *relayed* or *replied* - idle again, or closed; or a tunnel.
use super::background;
use super::cached::{self, Asking, CacheDecision};
use super::decide::{Decision, decide};
use super::head::{self, NoRequestHead};
use super::relay::{Outcome, Requester, relay, relay_for_cache};
use super::{reload, sender};
use crate::cache::memory::Object;
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::destination::Destination;
use crate::context::downstream::Downstream;
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::http::kernel_forward;
use crate::http::kernel_forward::{Interrupted, Offered, Unanswered, Waited};
use crate::http::outcome::{Failure, Passed};
use crate::net::deadline::{Deadline, now};
use crate::net::io::{Stream, is_readable, read_some, try_read_some};
use crate::net::scratch::{Lent, Scratch};
use crate::net::transport::Transport;
use crate::reply;
use crate::reply::{Asked, Reply};
use crate::tcp::tunnel;
use crate::telemetry::metrics::{CacheResult, Limit};
use crate::upstream::checkout::Checkout;
use carrick_logic::cache::Reuse;
use carrick_logic::grpc;
use carrick_logic::http1::BodyLength;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long what is left of an HTTP/2 request is read behind its response.
const REST_MAX: Duration = Duration::from_secs(1);

/// The session is over.
struct Ended;

/// What ends a wait, besides the end of the connection.
enum Woken {
    /// There is something to read.
    Request,
    /// The request before was not answered, and has to be served otherwise.
    Unanswered(Box<Unanswered>),
}

/// Serves the connection; `first` came with it already. Returns it, with what has come and when that began, if it
/// turns out to be one of HTTP/2.
pub async fn run(mut client: Client, mut first: Vec<u8>) -> Option<(Client, Vec<u8>, Instant)> {
    let mut may_be_http2 = may_be_http2(&client.context);
    // One for all waits for a request: of TLS, parts of a record may come that are nothing to read yet.
    let mut deadline = Deadline::after(client.context.live.plan().timeouts.head);
    let mut scratch = client.context.worker.scratch.take();
    scratch.request.append(&mut first);
    if scratch.request.is_empty() {
        // With `TCP_DEFER_ACCEPT` the first request has mostly come before its connection is accepted. Where it has not,
        // the runtime, which takes a new connection to be readable, knows better after this.
        let _ = try_read_some(&client.downstream.transport, &mut scratch.request);
    }
    loop {
        if scratch.request.is_empty() {
            drop(scratch);
            match wait_for_request(&mut client, &mut deadline).await {
                Some(Woken::Request) => {}
                Some(Woken::Unanswered(unanswered)) => {
                    let next = Box::pin(serve_unanswered(&mut client, unanswered)).await;
                    let Ok(kept) = end_or_go_on(&mut client, next).await else {
                        return None;
                    };
                    scratch = kept;
                    deadline = Deadline::after(client.context.live.plan().timeouts.idle);
                    continue;
                }
                None => {
                    client.downstream.transport.finish();
                    return None;
                }
            }
            scratch = client.context.worker.scratch.take();
            // What came early left a readiness behind it: there is nothing to read, and the client is as idle as before.
            let mut reading = read_some(&client.downstream.transport, &mut scratch.request);
            let read = poll_fn(|cx| Poll::Ready(Pin::new(&mut reading).poll(cx))).await;
            drop(reading);
            match read {
                Poll::Pending => continue,
                // Asked once more, the socket would only say that it has ended.
                Poll::Ready(Err(_)) => {
                    let _ = kernel_forward::serve_to_end(&mut client, true).await;
                    return None;
                }
                Poll::Ready(Ok(_)) => {}
            }
        }
        if std::mem::take(&mut may_be_http2)
            && let Some(begun) = Box::pin(head::begins_http2(&mut client, &mut scratch)).await
        {
            return Some((client, scratch.request.split_off(0), begun));
        }
        let next = serve_request(&mut client, scratch).await;
        client.context.worker.forward_if_late();
        let Ok(kept) = end_or_go_on(&mut client, next).await else {
            return None;
        };
        scratch = kept;
        deadline = Deadline::after(client.context.live.plan().timeouts.idle);
    }
}

/// Whether a connection without TLS may begin with the preface of HTTP/2 (RFC 9113 section 3.3). What is intercepted goes to
/// servers whose version is theirs.
fn may_be_http2(context: &RequestContext) -> bool {
    context.listener.http2 && context.tls.is_none() && context.original.is_none()
}

/// Serves a stream of HTTP/2, whose request's head is in `scratch`. Whether its connection is to end.
pub async fn run_stream(client: &mut Client, scratch: Lent) -> bool {
    let (next, _) = serve_request(client, scratch).await;
    client.context.worker.forward_if_late();
    match next {
        Next::Request | Next::Close | Next::CloseGently => {
            client.downstream.transport.finish();
            discard_rest(&mut client.downstream).await;
        }
        Next::Reset => client.downstream.transport.reset_on_close(),
    }
    client.downstream.is_last
}

/// Waits for the rest of a request whose response has ended, for a while. To reset the stream at once is right (RFC 9113 section 8.1), but
/// some clients then take no response that they have not read (curl 7.88).
async fn discard_rest(downstream: &mut Downstream) {
    if let Transport::Http2(stream) = &downstream.transport {
        let rest = poll_fn(|cx| stream.poll_discard(cx));
        let _ = downstream.timer.within(REST_MAX, rest).await;
    }
}

/// Sees to the client's connection's end, if that is what follows a request; else the buffers for the next one.
async fn end_or_go_on(
    client: &mut Client,
    (next, kept): (Next, Option<Lent>),
) -> Result<Lent, Ended> {
    match next {
        Next::Request => {
            client.downstream.kernel_forward.is_persistent = true;
            return Ok(kept.unwrap_or_else(|| client.context.worker.scratch.take()));
        }
        Next::Close => client.downstream.transport.finish(),
        Next::CloseGently => reply::close_gently(&mut client.downstream).await,
        Next::Reset => client.downstream.transport.reset_on_close(),
    }
    Err(Ended)
}

/// Answers a client that may not use the listener.
pub async fn refuse_client(client: &mut Client) {
    let reply = sender::not_allowed(client.context.who().ip());
    refuse(client, &reply).await;
}

/// Answers a client before it has said anything, and closes its connection.
pub async fn refuse(client: &mut Client, reply: &Reply) {
    let mut log = RequestLog::begin();
    let is_sent = reply::send(client, reply, Asked::NOTHING, &mut log).await;
    log.finish(&client.context, &[], None);
    if is_sent {
        reply::close_gently(&mut client.downstream).await;
    }
}

/// Waits without a buffer until there is something to do; `None`: the connection is to be closed.
async fn wait_for_request(client: &mut Client, deadline: &mut Deadline) -> Option<Woken> {
    if let Some(admitted) = &client.downstream.admitted
        && client.context.stated.is_some()
    {
        // The proxy has yet to name the next request's client. The count without a client is never full.
        let _ = admitted.count_for(None);
    }
    if client.downstream.kernel_forward.pair.is_some() {
        match kernel_forward::wait(client, deadline.limit()).await {
            Waited::Request => return Some(Woken::Request),
            Waited::Detached(left) => *deadline = Deadline::after(left),
            Waited::Unanswered(unanswered) => return Some(Woken::Unanswered(unanswered)),
            Waited::End(next) => {
                let _ = end_or_go_on(client, (next, None)).await;
                return None;
            }
        }
    }
    let worker = &client.context.worker;
    let Downstream {
        transport, timer, ..
    } = &mut client.downstream;
    let readable = poll_fn(|cx| transport.poll_read_ready(cx));
    let mut waiting = std::pin::pin!(worker.sessions.wait_idle(readable));
    match timer
        .until(deadline, poll_fn(|cx| waiting.as_mut().poll(cx)))
        .await
    {
        Ok(Some(Ok(()))) => Some(Woken::Request),
        Ok(Some(Err(_)) | None) => None,
        Err(_) => {
            worker.metrics().limits.reached(Limit::IdleTimeout);
            None
        }
    }
}

/// Serves one request; what follows, and the buffers with what has come of the next request.
async fn serve_request(client: &mut Client, mut scratch: Lent) -> (Next, Option<Lent>) {
    let mut log = RequestLog::begin();
    if let Err(no_head) = head::read(client, &mut scratch, log.begun).await {
        return (
            Box::pin(refuse_head(client, &scratch, log, no_head)).await,
            None,
        );
    }
    let excluded = match reload::follow_configuration(client, &scratch.request_head).await {
        Ok(excluded) => excluded,
        Err(next) => return (next, None),
    };
    let decision = match excluded.or_else(|| sender::refuse(client, &mut scratch, &mut log)) {
        None => decide(client, &scratch, &mut log.user).await,
        Some(reply) => Decision::Reply(reply),
    };
    let mut at_hand = None;
    let mut may_forward = false;
    if !matches!(&decision, Decision::Relay(destination) if destination.cache.is_some()) {
        client.downstream.push_held();
    }
    if let Decision::Relay(destination) = &decision {
        may_forward = kernel_forward::is_eligible(client, &scratch, destination);
        match kernel_forward::offer(client, &mut scratch, destination, may_forward, &mut log).await
        {
            Offered::Sent => return sent(scratch),
            Offered::Relay(checkout) => at_hand = checkout,
            Offered::End(next) => return (next, None),
        }
    } else if let Err(next) = Box::pin(kernel_forward::leave(client)).await {
        return (next, None);
    }
    answer_decided(client, scratch, &mut log, &decision, (at_hand, may_forward)).await
}

/// The kernel forwards the response to the request in `scratch`.
fn sent(mut scratch: Lent) -> (Next, Option<Lent>) {
    scratch.request.clear();
    (Next::Request, Some(scratch))
}

/// Serves a request that was sent already and not answered, and that came alone.
async fn serve_unanswered(
    client: &mut Client,
    unanswered: Box<Unanswered>,
) -> (Next, Option<Lent>) {
    let mut scratch = client.context.worker.scratch.take();
    let mut log = unanswered.log;
    scratch.request.extend_from_slice(&unanswered.request);
    if !head::read_again(&client.context, &mut scratch) {
        return (Next::Reset, None);
    }
    if let Some(failure) = unanswered.failure {
        let next = failed(client, &scratch, &mut log, failure).await;
        return over(&client.context, scratch, &log, next);
    }
    let decision = decide(client, &scratch, &mut log.user).await;
    answer_decided(client, scratch, &mut log, &decision, (None, false)).await
}

/// Does what was decided. `at_hand` is a connection to use first; `may_forward`: the kernel may forward the response.
async fn answer_decided(
    client: &mut Client,
    scratch: Lent,
    log: &mut RequestLog,
    decision: &Decision,
    (at_hand, may_forward): (Option<Box<Checkout>>, bool),
) -> (Next, Option<Lent>) {
    let next = match decision {
        Decision::Reply(reply) => Box::pin(send_reply(client, &scratch, log, reply)).await,
        Decision::Tunnel(destination) => {
            return (
                Box::pin(tunnel::run_connect(
                    client,
                    scratch,
                    destination.clone(),
                    log.hand_over(),
                ))
                .await,
                None,
            );
        }
        Decision::Relay(destination) => {
            return relay_decided(client, scratch, log, destination, (at_hand, may_forward)).await;
        }
    };
    over(&client.context, scratch, log, next)
}

/// Answers from the cache, or passes the request on.
async fn relay_decided(
    client: &mut Client,
    mut scratch: Lent,
    log: &mut RequestLog,
    destination: &Destination,
    (mut at_hand, mut may_forward): (Option<Box<Checkout>>, bool),
) -> (Next, Option<Lent>) {
    let mut asking = None;
    if destination.cache.is_some() {
        // Boxed: what is not cached should not make every session larger.
        match Box::pin(ask_cache(client, &mut scratch, log, destination)).await {
            Ok(next) => {
                if let Some(checkout) = at_hand {
                    checkout.give_back(client.context.pool(), &destination.next_hop);
                }
                return over(&client.context, scratch, log, next);
            }
            Err(to_ask) => asking = to_ask,
        }
    }
    client.downstream.push_held();
    let next = loop {
        let at_hand = at_hand.take();
        let mut requester = Requester::Client(client);
        let outcome = if asking.is_some() {
            // Boxed: as above.
            let relayed = relay_for_cache(
                &mut requester,
                &mut scratch,
                destination,
                log,
                at_hand,
                may_forward,
                &mut asking,
            );
            Box::pin(relayed).await
        } else {
            relay(
                &mut requester,
                &mut scratch,
                destination,
                log,
                at_hand,
                may_forward,
                &mut asking,
            )
            .await
        };
        break match outcome {
            Outcome::Forward(checkout) => {
                let next_hop = &destination.next_hop;
                match kernel_forward::start(client, &mut scratch, checkout, next_hop, log).await {
                    Offered::Sent => return sent(scratch),
                    Offered::Relay(_) => may_forward = false,
                    Offered::End(next) => return (next, None),
                }
                continue;
            }
            Outcome::LeftToKernel => return sent(scratch),
            Outcome::Tunnel(checkout) => {
                let tunnel = tunnel::run_upgraded(
                    client,
                    scratch,
                    checkout,
                    (destination.engine, destination.pace),
                    log.hand_over(),
                );
                return (Box::pin(tunnel).await, None);
            }
            Outcome::Answered { passed, keep_alive } => {
                after_response(&client.downstream.transport, &scratch, passed, keep_alive)
            }
            // Only requests for the store alone end so.
            Outcome::Kept | Outcome::AskAgain => Next::Reset,
            Outcome::Failed(failure) => {
                if let Some(asking) = asking.as_deref_mut()
                    && !matches!(failure, Failure::ClientGone(_))
                {
                    asking.release();
                }
                let stale = (asking.as_deref()).and_then(|asking| {
                    let now = client.context.worker.clock.now();
                    Some((asking, cached::stale(&scratch, asking, now)?))
                });
                match stale {
                    Some((asking, (object, reuse))) => {
                        let stored = (asking, object, reuse);
                        Box::pin(send_stale(client, &mut scratch, stored, log)).await
                    }
                    None => Box::pin(failed(client, &scratch, log, failure)).await,
                }
            }
        };
    };
    over(&client.context, scratch, log, next)
}

/// Answers from the cache. `Err`: the origin has to be asked; what it is to be asked for the cache.
async fn ask_cache(
    client: &mut Client,
    scratch: &mut Scratch,
    log: &mut RequestLog,
    destination: &Destination,
) -> Result<Next, Option<Box<Asking>>> {
    Ok(
        match cached::begin(client, scratch, destination, background::fetch, log).await {
            CacheDecision::PassBy => return Err(None),
            CacheDecision::Ask(asking) => return Err(Some(asking)),
            CacheDecision::Stored {
                source,
                revalidation,
            } => {
                if let Some(asking) = revalidation {
                    background::revalidate(&client.context, scratch, destination, asking);
                }
                let (passed, keep_alive) = cached::send(client, scratch, &source, log).await;
                after_response(&client.downstream.transport, scratch, passed, keep_alive)
            }
            CacheDecision::ClientGone => Next::Reset,
            CacheDecision::Reply(reply) => Box::pin(send_reply(client, scratch, log, &reply)).await,
        },
    )
}

/// The origin cannot be asked, and the client gets what is stored.
async fn send_stale(
    client: &mut Client,
    scratch: &mut Scratch,
    (asking, object, reuse): (&Asking, Arc<Object>, Reuse),
    log: &mut RequestLog,
) -> Next {
    log.cache = Some(CacheResult::Stale);
    let source = asking.source(object, reuse, client.context.worker.clock.now(), None);
    let (passed, keep_alive) = cached::send(client, scratch, &source, log).await;
    after_response(&client.downstream.transport, scratch, passed, keep_alive)
}

/// The request in `scratch` is answered.
fn over(
    context: &RequestContext,
    mut scratch: Lent,
    log: &RequestLog,
    next: Next,
) -> (Next, Option<Lent>) {
    log.finish(context, &scratch.request, Some(&scratch.request_head));
    let head_bytes = scratch.request_head.head_bytes.min(scratch.request.len());
    scratch.request.drain(..head_bytes);
    (next, Some(scratch))
}

fn after_response(client: &Transport, scratch: &Scratch, passed: Passed, keep_alive: bool) -> Next {
    match passed {
        Passed::Whole | Passed::WholeAndDone if keep_alive => Next::Request,
        Passed::Whole | Passed::WholeAndDone => {
            // Closing with unread bytes makes the kernel send a reset, which can overtake the response.
            // Of a body there may be more on its way, whatever has come.
            let unread = scratch.request.len() > scratch.request_head.head_bytes
                || scratch.request_head.body != BodyLength::None
                || is_readable(client);
            match unread {
                true => Next::CloseGently,
                false => Next::Close,
            }
        }
        // A plain close would look like the end of a body that ends with the connection, also to a client that reads on late.
        Passed::ClientGone(_) | Passed::UpstreamBroke(_) | Passed::Refused(_) => Next::Reset,
    }
}

async fn refuse_head(
    client: &mut Client,
    scratch: &Scratch,
    mut log: RequestLog,
    no_head: NoRequestHead,
) -> Next {
    let detached = match no_head {
        NoRequestHead::Closed { is_reset, .. } => {
            match kernel_forward::serve_to_end(client, is_reset).await {
                Ok(()) => Ok(()),
                Err(Interrupted::End(next)) => Err(next),
                // It was the client's last request: nothing has to wait for it.
                Err(Interrupted::Unanswered(unanswered)) => {
                    match Box::pin(serve_unanswered(client, unanswered)).await.0 {
                        Next::Request => Ok(()),
                        next => Err(next),
                    }
                }
            }
        }
        NoRequestHead::TimedOut | NoRequestHead::Refused(_) => kernel_forward::leave(client).await,
    };
    if let Err(next) = detached {
        return next;
    }
    let reply = match no_head {
        NoRequestHead::Closed {
            half_written: false,
            ..
        } => return Next::Close,
        NoRequestHead::Closed {
            half_written: true, ..
        } => {
            log.ended = "client_closed";
            log.finish(&client.context, &scratch.request, None);
            return Next::Close;
        }
        NoRequestHead::TimedOut => {
            log.ended = "head_timeout";
            Reply::new(
                408,
                "head_timeout",
                "The request's head did not arrive in time.",
            )
        }
        NoRequestHead::Refused(refusal) => sender::refused(client.context.metrics(), refusal),
    };
    let is_call = client.context.is_http2 && begins_call(&scratch.request);
    let asked = Asked {
        is_late_call: is_call.then_some(false),
        ..Asked::NOTHING
    };
    let sent = reply::send(client, &reply, asked, &mut log).await;
    log.finish(&client.context, &scratch.request, None);
    if sent { Next::CloseGently } else { Next::Close }
}

/// Sends a reply of carrick's own in the place of a response.
async fn send_reply(
    client: &mut Client,
    scratch: &Scratch,
    log: &mut RequestLog,
    reply: &Reply,
) -> Next {
    let head = &scratch.request_head;
    // An unread body would be taken for the next request.
    let keep_alive = head.keep_alive
        && head.body == BodyLength::None
        && !head::may_be_for_tunnel(scratch, reply.status)
        && !client.downstream.is_last
        && !client.context.worker.sessions.is_draining();
    let asked = Asked {
        method: head.method,
        version: head.version,
        keep_alive,
        is_late_call: is_late_call(&client.context, scratch, log),
    };
    match reply::send(client, reply, asked, log).await {
        false => Next::Close,
        true if keep_alive => Next::Request,
        true => Next::CloseGently,
    }
}

/// Whether a request is a call of gRPC, and if so whether its deadline is over. Its client is told so in its own words.
fn is_late_call(context: &RequestContext, scratch: &Scratch, log: &RequestLog) -> Option<bool> {
    let field = |name| scratch.request_head.field(&scratch.request, name);
    let is_call = context.is_http2 && field("content-type").is_some_and(grpc::is_grpc);
    is_call.then(|| {
        let deadline = field("grpc-timeout").and_then(grpc::timeout);
        deadline.is_some_and(|limit| now().saturating_duration_since(log.begun) >= limit)
    })
}

/// Whether a head that was refused, in carrick's own writing, says as far as it was read that it is one of gRPC.
fn begins_call(head: &[u8]) -> bool {
    let mut lines = (head.split(|&byte| byte == b'\n')).take_while(|line| *line != b"\r");
    lines.any(|line| {
        let value = line.strip_prefix(b"content-type: ");
        value.is_some_and(|value| grpc::is_grpc(value.trim_ascii_end()))
    })
}

/// Answers a request that got no response.
async fn failed(
    client: &mut Client,
    scratch: &Scratch,
    log: &mut RequestLog,
    failure: Failure,
) -> Next {
    if failure.is_told_by_reset(&client.downstream.transport, log) {
        return Next::Reset;
    }
    match failure.reply(&client.context, log) {
        Some(reply) => send_reply(client, scratch, log, &reply).await,
        None => Next::Close,
    }
}
