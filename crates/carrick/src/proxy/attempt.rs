//! One request's way to an upstream and its response's way back; sent again where that is safe.
//!
//! Safe means (RFC 9110 section 9.2.2): not a byte of the request was sent; or its method is idempotent, it has no body, and not a
//! byte of a response came.
use super::arrival::Client;
use super::decide::{Destination, Place, hash_key};
use super::request_body::{self, Means, NotSent};
use super::response_body::{Passed, Response};
use super::trace::Trace;
use super::upstream::Unreachable;
use super::upstream::checkout::{Checkout, Wanted, checkout};
use crate::config::plan::ListenerPlan;
use crate::telemetry::metrics::Limit;
use crate::worker::Worker;
use crate::worker::deadline::{TimedOut, Timer};
use crate::worker::io::{read_some, write_all};
use crate::worker::scratch::{BUFFER_BYTES, Scratch};
use carrick_logic::http1::{
    self, BodyLength, FieldName, HeadLimits, Progress, Refusal, RequestRewrite, ResponseBody,
    ResponseHead, ResponseRewrite, Version,
};
use carrick_splice::{Engine, RateMin};
use rustix::net::{RecvFlags, recv};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::net::TcpStream;

/// How a request ended.
pub enum Outcome {
    /// The response was passed on, wholly or in part; whether the client's connection can carry another request.
    Answered {
        /// How far it came.
        passed: Passed,
        /// Whether the client was told that the connection stays open.
        keep_alive: bool,
    },
    /// The connections are a tunnel from here on; the head was sent to the client.
    Tunnel(Checkout),
    /// The client has not been sent anything of a final response.
    Failed(Failure),
}

/// Why there is no response to pass on.
#[derive(Debug)]
pub enum Failure {
    /// The client went away.
    ClientGone(&'static str),
    /// The client was too slow with its body.
    ClientSlow,
    /// The request's body must not be passed on.
    BadRequest(Refusal),
    /// No connection.
    Unreachable(Unreachable),
    /// The upstream closed before its response's head was whole, or reset.
    NoResponse(&'static str),
    /// The upstream took too long.
    TimedOut,
    /// The response must not be passed on.
    BadResponse(Refusal),
}

/// What ended the wait for a response's head.
enum NoHead {
    ClientGone,
    Closed { started: bool },
    TimedOut,
    Refused(Refusal),
}

/// Passes the request in `scratch` on, and its response back.
pub async fn relay(
    client: &mut Client,
    scratch: &mut Scratch,
    destination: &Destination,
    trace: &mut Trace,
) -> Outcome {
    scratch.out.clear();
    if scratch.request_head.wants_upgrade && asks_for_other_http(scratch) {
        scratch.request_head.wants_upgrade = false;
    }
    let head = &scratch.request_head;
    http1::write_request(
        &mut scratch.out,
        &scratch.request,
        head,
        &RequestRewrite {
            form: destination.form,
            via: &client.listener.via,
            client: client.address.ip(),
            forwarded: client.listener.forwarded,
            pass_proxy_authorization: matches!(
                destination.place,
                Place::Origin { parent: true, .. }
            ),
            pass_upgrade: head.wants_upgrade,
            drop_expect: false,
        },
    );
    let mut tried = Vec::new();
    let attempts = client.live.plan().limits.attempts;
    let mut attempt = 1;
    loop {
        let replayable = head_is_replayable(scratch);
        let mut address = [0; 16];
        let key = match &destination.place {
            Place::Group { group, .. } => hash_key(
                client,
                group,
                &scratch.request,
                &scratch.request_head,
                &mut address,
            ),
            Place::Origin { .. } => None,
        };
        // The last attempt goes over a fresh connection: several idle ones may have died together.
        let reuse = attempt < attempts.max(2);
        let wanted = Wanted {
            key,
            reuse,
            make_sure: !replayable,
        };
        let checkout = match checkout(client, &destination.place, wanted, &mut tried, trace).await {
            Ok(checkout) => checkout,
            Err(unreachable) => return Outcome::Failed(Failure::Unreachable(unreachable)),
        };
        let result = if scratch.request_head.body == BodyLength::None {
            without_body(client, scratch, destination, checkout, trace).await
        } else {
            with_body(client, scratch, destination, checkout, trace).await
        };
        match result {
            Ok(outcome) => return outcome,
            Err(Again {
                nothing_sent,
                failure,
                reused,
                server,
            }) => {
                let may = nothing_sent || replayable;
                if !may || attempt >= attempts {
                    if may {
                        client.worker.metrics.limits.reached(Limit::Attempts);
                    }
                    return Outcome::Failed(failure);
                }
                // A reused connection that died says nothing about its server; a fresh one does.
                if let (false, Some(server)) = (reused, server) {
                    tried.push(server);
                }
                attempt += 1;
                client.worker.metrics.retries.add(1);
            }
        }
    }
}

/// Whether the client asks for HTTP/2 (`h2c`) or another HTTP. That is not passed on, as if it had not been asked (RFC 9110
/// section 7.8 allows it): requests inside such a tunnel would go past routes and rules.
fn asks_for_other_http(scratch: &Scratch) -> bool {
    let head = &scratch.request_head;
    let values = head
        .fields
        .iter()
        .filter(|field| field.known == FieldName::Upgrade)
        .map(|field| field.value.of(&scratch.request));
    let mut protocols = values
        .flat_map(|value| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii);
    protocols.any(|protocol| {
        let name = protocol.to_ascii_lowercase();
        name.starts_with(b"h2") || name.starts_with(b"http")
    })
}

/// An attempt that failed before a byte of a response came.
struct Again {
    nothing_sent: bool,
    failure: Failure,
    reused: bool,
    server: Option<usize>,
}

impl Again {
    fn new(checkout: &Checkout, place: &Place, nothing_sent: bool, failure: Failure) -> Self {
        checkout.failed(place);
        Self {
            nothing_sent,
            failure,
            reused: checkout.upstream.reused,
            server: checkout.server,
        }
    }
}

fn head_is_replayable(scratch: &Scratch) -> bool {
    let head = &scratch.request_head;
    head.method.is_idempotent() && head.body == BodyLength::None && !head.wants_upgrade
}

async fn without_body(
    client: &mut Client,
    scratch: &mut Scratch,
    destination: &Destination,
    checkout: Checkout,
    trace: &mut Trace,
) -> Result<Outcome, Again> {
    let place = &destination.place;
    let idle = client.live.plan().timeouts.idle;
    let stream = &checkout.upstream.stream;
    let mut nothing_sent = checkout.preamble.is_empty();
    if !nothing_sent
        && let Err(error) = client
            .timer
            .within(idle, write_all(stream, &checkout.preamble))
            .await
            .unwrap_or_else(stalled)
    {
        tracing::debug!("send to {}: {error}", checkout.upstream.address);
        return Err(Again::new(
            &checkout,
            place,
            true,
            Failure::NoResponse("upstream_reset"),
        ));
    }
    let mut left = 0;
    let sent = client
        .timer
        .within(
            idle,
            crate::worker::io::write_both(stream, &scratch.out, &[], &mut left),
        )
        .await;
    if let Err(error) = sent.unwrap_or_else(stalled) {
        nothing_sent &= left == scratch.out.len();
        tracing::debug!("send to {}: {error}", checkout.upstream.address);
        return Err(Again::new(
            &checkout,
            place,
            nothing_sent,
            Failure::NoResponse("upstream_reset"),
        ));
    }
    scratch.response.clear();
    let mut watch = Watch::On;
    let deadline = Instant::now() + idle;
    let Client {
        stream: client_stream,
        timer,
        listener,
        live,
        ..
    } = &mut *client;
    let limits = live.plan().limits.head;
    let waited = loop {
        let head = wait_for_head(
            stream,
            client_stream,
            &mut watch,
            timer,
            deadline,
            scratch,
            limits,
            trace,
        )
        .await;
        if head.is_err() || !scratch.response_head.is_interim() {
            break head;
        }
        if let Err(gone) = pass_interim(client_stream, timer, idle, &listener.via, scratch).await {
            break Err(gone);
        }
    };
    match waited {
        Ok(()) => Ok(answer(client, scratch, destination, checkout, trace, true).await),
        Err(NoHead::Closed { started: false }) => Err(Again::new(
            &checkout,
            place,
            false,
            Failure::NoResponse("upstream_closed"),
        )),
        Err(no_head) => Ok(Outcome::Failed(failure_of(
            client, no_head, &checkout, place,
        ))),
    }
}

/// While the body goes up, an early response may come down (RFC 9112 section 9.3); both are served at the same time.
async fn with_body(
    client: &mut Client,
    scratch: &mut Scratch,
    destination: &Destination,
    checkout: Checkout,
    trace: &mut Trace,
) -> Result<Outcome, Again> {
    let place = &destination.place;
    let plan = client.live.plan();
    let (idle, limits) = (plan.timeouts.idle, plan.limits.head);
    let worker = std::rc::Rc::clone(&client.worker);
    let means = means(client, &worker, destination);
    let upstream = &checkout.upstream.stream;
    let mut sending = checkout.preamble.clone();
    sending.append(&mut scratch.out);
    let mut received = 0;
    let body_length = scratch.request_head.body;
    let head_bytes = scratch.request_head.head_bytes;
    let mut request = std::mem::take(&mut scratch.request);
    let mut sent: Option<Result<(), NotSent>> = None;
    scratch.response.clear();
    let outcome = {
        let Client {
            stream: client_stream,
            timer,
            listener,
            is_last,
            ..
        } = &mut *client;
        let mut body = pin!(request_body::send(
            means,
            client_stream,
            upstream,
            &sending,
            (&mut request, head_bytes),
            body_length,
            &mut received
        ));
        let mut watch = Watch::Off;
        let head = loop {
            // Until the body is sent, its own time limits count; the response's limit begins with the body's end.
            let far = Instant::now() + if sent.is_some() { idle } else { FOREVER };
            let head = {
                let mut waiting = pin!(wait_for_head(
                    upstream,
                    client_stream,
                    &mut watch,
                    timer,
                    far,
                    scratch,
                    limits,
                    trace
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
            match (head, &sent) {
                (None, Some(Ok(()))) => watch = Watch::On,
                // The upstream no longer reads: it may have answered before it closed. That is waited for, shortly.
                (
                    None,
                    Some(Err(NotSent::Upstream {
                        nothing_sent: false,
                        ..
                    })),
                ) => {
                    let soon = Instant::now() + LAST_WORDS;
                    break wait_for_head(
                        upstream,
                        client_stream,
                        &mut watch,
                        timer,
                        soon,
                        scratch,
                        limits,
                        trace,
                    )
                    .await;
                }
                (None, _) => break Err(NoHead::Closed { started: false }),
                (Some(Ok(())), _) if scratch.response_head.is_interim() => {
                    if let Err(gone) =
                        pass_interim(client_stream, timer, idle, &listener.via, scratch).await
                    {
                        break Err(gone);
                    }
                }
                (Some(head), _) => break head,
            }
        };
        match head {
            Ok(()) => {
                checkout.answered(place);
                let body_sent = matches!(sent, Some(Ok(())));
                if is_tunnel(scratch) {
                    None
                } else {
                    let keep_alive = write_head((listener, &worker, *is_last), scratch, body_sent);
                    let mut passing = Passing::new(scratch);
                    let passed = {
                        let mut passing =
                            pin!(passing.response.pass(means, upstream, client_stream, timer));
                        poll_fn(|cx| {
                            if sent.is_none()
                                && let Poll::Ready(result) = body.as_mut().poll(cx)
                            {
                                sent = Some(result);
                            }
                            passing.as_mut().poll(cx)
                        })
                        .await
                    };
                    trace.sent += passing.response.body_bytes;
                    trace.engine = Some(passing.response.engine);
                    Some(Ok((passed, keep_alive)))
                }
            }
            Err(no_head) => Some(Err(no_head)),
        }
    };
    scratch.request = request;
    trace.received += received;
    let body_sent = matches!(sent, Some(Ok(())));
    match outcome {
        None => Ok(answer(client, scratch, destination, checkout, trace, body_sent).await),
        Some(Ok((passed, keep_alive))) => {
            trace.status = scratch.response_head.status;
            Ok(conclude(
                client,
                scratch,
                destination,
                checkout,
                trace,
                passed,
                keep_alive,
                body_sent,
            ))
        }
        Some(Err(no_head)) => match sent {
            Some(Err(NotSent::ClientGone)) => {
                Ok(Outcome::Failed(Failure::ClientGone("client_closed")))
            }
            Some(Err(NotSent::ClientSlow)) => Ok(Outcome::Failed(Failure::ClientSlow)),
            Some(Err(NotSent::Refused(refusal))) => {
                Ok(Outcome::Failed(Failure::BadRequest(refusal)))
            }
            Some(Err(NotSent::UpstreamSlow)) => Ok(Outcome::Failed(Failure::TimedOut)),
            Some(Err(NotSent::Upstream {
                nothing_sent,
                error,
            })) => {
                tracing::debug!("send to {}: {error}", checkout.upstream.address);
                scratch.out.clear();
                scratch
                    .out
                    .extend_from_slice(sending.get(checkout.preamble.len()..).unwrap_or_default());
                Err(Again::new(
                    &checkout,
                    place,
                    nothing_sent,
                    Failure::NoResponse("upstream_reset"),
                ))
            }
            Some(Ok(())) | None => Ok(Outcome::Failed(failure_of(
                client, no_head, &checkout, place,
            ))),
        },
    }
}

/// Longer than any body takes; the body's own limits count.
const FOREVER: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);

/// How long an answer is waited for from an upstream that has stopped reading the request.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(1);

/// Passes the response on whose head is in `scratch`.
async fn answer(
    client: &mut Client,
    scratch: &mut Scratch,
    destination: &Destination,
    checkout: Checkout,
    trace: &mut Trace,
    body_sent: bool,
) -> Outcome {
    checkout.answered(&destination.place);
    trace.status = scratch.response_head.status;
    if scratch.response_head.status == 101 && !scratch.request_head.wants_upgrade {
        let reason = "the upstream switched protocols without being asked";
        return Outcome::Failed(Failure::BadResponse(Refusal {
            status: 502,
            reason,
            label: "unasked_upgrade",
        }));
    }
    let worker = std::rc::Rc::clone(&client.worker);
    let means = means(client, &worker, destination);
    let Client {
        stream,
        timer,
        listener,
        is_last,
        ..
    } = &mut *client;
    let keep_alive = write_head((listener, &worker, *is_last), scratch, body_sent);
    let tunnel = is_tunnel(scratch);
    let mut passing = Passing::new(scratch);
    let passed = passing
        .response
        .pass(means, &checkout.upstream.stream, stream, timer)
        .await;
    trace.sent += passing.response.body_bytes;
    trace.engine = Some(passing.response.engine);
    if tunnel {
        return match passed {
            Passed::Whole | Passed::WholeAndDone => Outcome::Tunnel(checkout),
            passed => Outcome::Answered {
                passed,
                keep_alive: false,
            },
        };
    }
    conclude(
        client,
        scratch,
        destination,
        checkout,
        trace,
        passed,
        keep_alive,
        body_sent,
    )
}

/// What becomes of the two connections after a response.
#[expect(
    clippy::too_many_arguments,
    reason = "each is a part of one request's state that has another owner"
)]
fn conclude(
    client: &Client,
    scratch: &Scratch,
    destination: &Destination,
    checkout: Checkout,
    trace: &mut Trace,
    passed: Passed,
    keep_alive: bool,
    body_sent: bool,
) -> Outcome {
    checkout.count(trace.received, trace.sent);
    match passed {
        Passed::Whole if scratch.response_head.keep_alive && body_sent => {
            checkout.give_back(client, &destination.place)
        }
        Passed::Whole | Passed::WholeAndDone => {}
        Passed::ClientGone(how) => trace.ended = how,
        Passed::UpstreamBroke(how) => {
            trace.ended = how;
            checkout.failed(&destination.place);
        }
    }
    Outcome::Answered { passed, keep_alive }
}

fn is_tunnel(scratch: &Scratch) -> bool {
    scratch.response_head.body == ResponseBody::Tunnel
}

/// What a response's head depends on besides the two heads: the listener, the worker, whether the connection is to end.
type HeadContext<'a> = (&'a ListenerPlan, &'a Worker, bool);

/// Writes the response's head for the client to `scratch.out`; whether the client's connection stays open after it.
fn write_head(
    (listener, worker, is_last): HeadContext<'_>,
    scratch: &mut Scratch,
    body_sent: bool,
) -> bool {
    let (request, response) = (&scratch.request_head, &scratch.response_head);
    let delimited = match response.body {
        ResponseBody::None | ResponseBody::Bytes(_) => true,
        ResponseBody::Chunked => request.version == Version::Http11,
        ResponseBody::UntilClose | ResponseBody::Tunnel => false,
    };
    let keep_alive =
        request.keep_alive && body_sent && delimited && !is_last && !worker.is_draining();
    scratch.out.clear();
    http1::write_response(
        &mut scratch.out,
        &scratch.response,
        response,
        &ResponseRewrite {
            via: &listener.via,
            client_version: request.version,
            keep_alive,
            add_chunked: false,
            pass_upgrade: request.wants_upgrade,
        },
    );
    keep_alive
}

/// The parts of `scratch` that passing a response on needs.
struct Passing<'a> {
    response: Response<'a>,
}

impl<'a> Passing<'a> {
    fn new(scratch: &'a mut Scratch) -> Self {
        let Scratch {
            response,
            out,
            response_head,
            request_head,
            ..
        } = scratch;
        Self {
            response: Response {
                head: response_head,
                buffer: response,
                out,
                client_version: request_head.version,
                body_bytes: 0,
                engine: Engine::Copy,
            },
        }
    }
}

fn means<'a>(client: &Client, worker: &'a Worker, destination: &Destination) -> Means<'a> {
    let plan = client.live.plan();
    let rate_min = (plan.limits.rate_min > 0).then_some(RateMin {
        bytes_per_second: plan.limits.rate_min,
        grace: plan.timeouts.head,
    });
    Means {
        splicer: &worker.splicer,
        engine: destination.engine,
        idle: plan.timeouts.idle,
        rate_min,
    }
}

/// Whether the client's connection is watched while a response is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// A reset ends the wait.
    On,
    /// The client has sent more or has ended its side; or its body is under way.
    Off,
}

/// Waits until `scratch.response` begins with a whole head, parsed into `scratch.response_head`.
#[expect(
    clippy::too_many_arguments,
    reason = "each is a part of one request's state that has another owner"
)]
async fn wait_for_head(
    upstream: &TcpStream,
    client: &TcpStream,
    watch: &mut Watch,
    timer: &mut Timer,
    deadline: Instant,
    scratch: &mut Scratch,
    limits: HeadLimits,
    trace: &mut Trace,
) -> Result<(), NoHead> {
    let Scratch {
        response,
        response_head,
        request_head,
        ..
    } = scratch;
    loop {
        if !response.is_empty() {
            match response_head.parse(response, request_head.method, &limits) {
                Ok(Progress::Complete) => return Ok(()),
                Ok(Progress::Partial) => {}
                Err(refusal) => return Err(NoHead::Refused(refusal)),
            }
        }
        if response.len() == response.capacity() {
            response.reserve(response.len().max(BUFFER_BYTES));
        }
        let started = !response.is_empty();
        let read = {
            let mut reading = read_some(upstream, response);
            let either = poll_fn(|cx| {
                if let Poll::Ready(read) = std::pin::Pin::new(&mut reading).poll(cx) {
                    return Poll::Ready(Some(read));
                }
                if *watch == Watch::On && poll_gone(client, watch, cx) {
                    Poll::Ready(None)
                } else {
                    Poll::Pending
                }
            });
            timer.until(deadline, either).await
        };
        match read {
            Ok(None) => return Err(NoHead::ClientGone),
            Ok(Some(Ok(0) | Err(_))) => return Err(NoHead::Closed { started }),
            Ok(Some(Ok(_))) => {
                if !started && trace.first_byte.is_none() {
                    trace.first_byte = Some(trace.begun.elapsed());
                }
            }
            Err(TimedOut) => return Err(NoHead::TimedOut),
        }
    }
}

/// Whether the client has reset its connection. One that only ended its side still waits for its response (RFC 9112 section 9.6).
fn poll_gone(client: &TcpStream, watch: &mut Watch, cx: &mut Context<'_>) -> bool {
    while client.poll_read_ready(cx).is_ready() {
        let mut byte = [0];
        let peeked = client.try_io(tokio::io::Interest::READABLE, || {
            Ok(recv(
                client,
                &mut byte,
                RecvFlags::PEEK | RecvFlags::DONTWAIT,
            )?)
        });
        match peeked {
            Ok(_) => {
                *watch = Watch::Off;
                return false;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
    }
    false
}

/// Passes a 1xx response on to a client that knows them (RFC 9110 section 15.2) and removes it from `scratch.response`.
async fn pass_interim(
    client: &TcpStream,
    timer: &mut Timer,
    idle: std::time::Duration,
    via: &str,
    scratch: &mut Scratch,
) -> Result<(), NoHead> {
    let head: &ResponseHead = &scratch.response_head;
    if scratch.request_head.version == Version::Http11 {
        let mut out = Vec::with_capacity(256);
        let how = ResponseRewrite {
            via,
            client_version: Version::Http11,
            keep_alive: true,
            add_chunked: false,
            pass_upgrade: false,
        };
        http1::write_response(&mut out, &scratch.response, head, &how);
        match timer.within(idle, write_all(client, &out)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(TimedOut) => return Err(NoHead::ClientGone),
        }
    }
    let head_bytes = head.head_bytes;
    scratch.response.drain(..head_bytes);
    Ok(())
}

fn failure_of(client: &Client, no_head: NoHead, checkout: &Checkout, place: &Place) -> Failure {
    match no_head {
        NoHead::ClientGone => Failure::ClientGone("client_reset"),
        NoHead::Closed { .. } => {
            checkout.failed(place);
            Failure::NoResponse("upstream_closed")
        }
        NoHead::TimedOut => {
            client.worker.metrics.limits.reached(Limit::IdleTimeout);
            checkout.failed(place);
            Failure::TimedOut
        }
        NoHead::Refused(refusal) => {
            checkout.failed(place);
            Failure::BadResponse(refusal)
        }
    }
}

fn stalled<T>(_: TimedOut) -> io::Result<T> {
    Err(io::ErrorKind::TimedOut.into())
}
