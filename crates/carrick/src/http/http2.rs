//! A client's HTTP/2 connection (RFC 9113): each stream is served as a connection of HTTP/1.1 with one request.
use super::stream_tasks;
use crate::config::plan::Mode;
use crate::context::client::Client;
use crate::net::deadline::{Deadline, now};
use crate::net::transport::Transport;
use crate::net::transport::http2::{
    FIELD_BYTES, Gather, Http2Connection, Http2Io, Http2Stream, Incoming, Outgoing, Piece,
    SMALL_FRAMES_BYTES, websocket_accept,
};
use crate::net::unread::Unread;
use crate::reply::{LINGER, end_gently};
use crate::telemetry::metrics::Limit;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use carrick_logic::http1::Method;
use carrick_logic::http2::{
    Malformed, Pseudo, RequestBody, RequestForm, RequestTranslation, write_request,
};
use h2::ext::Protocol;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response, StatusCode};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Streams of a connection that are served at the same time.
const STREAMS_MAX: usize = 128;

/// The same, with those that the client has reset, which have their place until their session has ended, as when its server is connected to.
const PLACES_MAX: usize = 2 * STREAMS_MAX;

/// Bytes of the heads of requests that are served at the same time, unless it is one. Each is kept more than once, and costs the client next
/// to nothing if fields repeat.
const HEADS_BYTES_MAX: usize = 1 << 20;

/// Unread bytes of a request's body, per stream and per connection: a few servers that do not read hold up nobody else's.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 16 * STREAM_WINDOW_BYTES;

/// Unsent bytes of a response's body, per stream.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Mistakes of a client that the library answers with a reset of their stream; one more, and the connection is closed. A
/// balancer's connection lives long.
const MISTAKES_MAX: usize = 1024;

/// Streams that were reset are remembered so long, and so many.
const RESET_STREAMS_KEPT: Duration = Duration::from_secs(30);
const RESET_STREAMS_MAX: usize = 4 * STREAMS_MAX;

/// How much of a nuisance a malformed request is.
const MALFORMED_NUISANCE: u32 = 10;

/// The library's part of a connection.
type Framing = h2::server::Connection<Http2Io, Piece>;

/// A connection after its handshake.
struct Connection {
    client: Client,
    shared: Rc<Http2Connection>,
    /// Whether the client was told to open another connection.
    is_last: bool,
    /// Whether there was a request.
    has_asked: bool,
    /// Whether the sessions of streams that were just reset had a turn to end.
    has_yielded: bool,
}

/// What is next.
enum Event {
    /// The client has closed, or made a mistake.
    Ended(Option<h2::Error>),
    /// It has sent too much that is good for nothing.
    Flooded,
    /// No further requests are to be taken.
    Last,
    /// The load or the deadline may be another one.
    Changed,
    /// Idle clients are dismissed.
    Dismissed,
    /// Nothing was asked for too long.
    TimedOut,
}

/// Serves the connection, which began at `begun`; `first` came with it already.
pub async fn serve(mut client: Client, first: Vec<u8>, begun: Instant) {
    let transport = client.downstream.transport.take();
    let metrics = Arc::clone(client.context.metrics());
    let when_full = move || metrics.limits.reached(Limit::Http2Unsent);
    let shared = Rc::new(Http2Connection::new(transport, when_full));
    // Boxed: the connection has no need of its room.
    let Some(mut framing) = Box::pin(begin(&mut client, &shared, first, begun)).await else {
        return;
    };
    client.context.metrics().http2_connections.add(1);
    client.context.is_http2 = true;
    let mut connection = Connection {
        client,
        shared,
        is_last: false,
        has_asked: false,
        has_yielded: false,
    };
    let reason = connection.run(&mut framing, begun).await;
    Box::pin(connection.close(framing, reason)).await;
}

/// Exchanges prefaces.
async fn begin(
    client: &mut Client,
    shared: &Rc<Http2Connection>,
    first: Vec<u8>,
    begun: Instant,
) -> Option<Box<Framing>> {
    let plan = client.context.live.plan();
    let limits = plan.limits.head();
    // Twice the limits: of what is beyond them, too, the session gets to know, which answers and counts it.
    let head_bytes = 2 * (limits.head_bytes_max + limits.fields_max * FIELD_BYTES);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(u32::try_from(STREAMS_MAX).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .max_local_error_reset_streams(Some(MISTAKES_MAX))
        // How many requests a client may begin in vain, is for the budget of nuisances.
        .max_pending_accept_reset_streams(STREAMS_MAX)
        // Content of streams that were reset comes for a while, and would count as the client's mistake.
        .max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .reset_stream_duration(RESET_STREAMS_KEPT)
        .data_frame_budget(SMALL_FRAMES_BYTES)
        .enable_connect_protocol();
    let mut handshake = pin!(builder.handshake(Http2Io::new(Rc::clone(shared), first)));
    let shaking = poll_fn(|cx| {
        let polled = handshake.as_mut().poll(cx);
        // If it fails, the handshake does so next.
        let _ = shared.send_written(cx);
        polled
    });
    let mut deadline = Deadline::at(begun + plan.timeouts.head);
    match client.downstream.timer.until(&mut deadline, shaking).await {
        Ok(Ok(framing)) => Some(Box::new(framing)),
        Ok(Err(error)) => {
            tracing::debug!("{}: HTTP/2: {error}", client.context.address);
            end_gently(shared.transport(), &mut client.downstream.timer).await;
            None
        }
        Err(_) => {
            client.context.metrics().limits.reached(Limit::HeadTimeout);
            None
        }
    }
}

impl Connection {
    /// Serves it; with what it is to be closed. `None`: by the client, or by the library.
    async fn run(&mut self, framing: &mut Framing, begun: Instant) -> Option<Reason> {
        // The first request has what its preface has left.
        let mut idle_since = begun;
        let mut was_served = false;
        loop {
            let load = Load::of(&self.shared, framing);
            let is_served = load == Load::Served;
            if was_served && !is_served {
                idle_since = now();
            }
            was_served = is_served;
            let event = match is_served {
                true => self.next_of_served(framing).await,
                false => self.next_of_others(framing, load, idle_since).await,
            };
            match event {
                Event::Changed => {}
                Event::Last => {
                    framing.graceful_shutdown();
                    self.is_last = true;
                }
                Event::Ended(error) => {
                    if let Some(error) = error {
                        if error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM) {
                            let limits = &self.client.context.metrics().limits;
                            limits.reached(Limit::Http2Flood);
                        }
                        tracing::debug!("{}: HTTP/2: {error}", self.client.context.address);
                    }
                    return None;
                }
                Event::Flooded => {
                    self.client
                        .context
                        .metrics()
                        .limits
                        .reached(Limit::Http2Flood);
                    return Some(Reason::ENHANCE_YOUR_CALM);
                }
                Event::TimedOut => {
                    let limit = match self.has_asked {
                        true => Limit::IdleTimeout,
                        false => Limit::HeadTimeout,
                    };
                    self.client.context.metrics().limits.reached(limit);
                    return Some(Reason::NO_ERROR);
                }
                Event::Dismissed => return Some(Reason::NO_ERROR),
            }
        }
    }

    /// Sends the last frames, and waits for the streams, which see that the connection is gone.
    async fn close(self, mut framing: Box<Framing>, reason: Option<Reason>) {
        let Self {
            mut client, shared, ..
        } = self;
        let timer = &mut client.downstream.timer;
        if let Some(reason) = reason {
            framing.abrupt_shutdown(reason);
            let closed = poll_fn(|cx| framing.poll_closed(cx));
            let _ = timer.within(LINGER, closed).await;
        }
        drop(framing);
        shared.finish();
        // The kernel's reset, which unread bytes lead to, could destroy the last word.
        if reason.is_none_or(|reason| reason != Reason::NO_ERROR) {
            end_gently(shared.transport(), timer).await;
        }
        poll_fn(|cx| {
            shared.register(cx);
            match shared.streams() {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
    }

    /// The next event while streams are served. Each has its own time limits.
    async fn next_of_served(&mut self, framing: &mut Framing) -> Event {
        let worker = Rc::clone(&self.client.context.worker);
        let is_last = self.is_last;
        let next = self.next(framing, Load::Served);
        let event = worker.sessions.wait_while_serving(next, is_last).await;
        event.unwrap_or(Event::Last)
    }

    /// The next event while none is.
    async fn next_of_others(
        &mut self,
        framing: &mut Framing,
        load: Load,
        idle_since: Instant,
    ) -> Event {
        let context = &self.client.context;
        let worker = Rc::clone(&context.worker);
        let timeouts = &context.live.plan().timeouts;
        let limit = match self.has_asked {
            true => timeouts.idle,
            false => timeouts.head,
        };
        let (shared, is_last) = (Rc::clone(&self.shared), self.is_last);
        // What the streams have left behind may take its time, as long as it moves.
        let ends_at = || idle_since.max(shared.moved_at()) + limit;
        let mut deadline = Deadline::at(ends_at());
        let mut timer = std::mem::take(&mut self.client.downstream.timer);
        let waited = {
            let next = self.next(framing, load);
            let sessions = &worker.sessions;
            let mut serving = pin!(sessions.wait_while_serving(next, is_last));
            let waiting = pin!(async {
                match load {
                    Load::Idle => sessions.wait_idle(serving).await,
                    Load::Sending | Load::Served => Some(serving.as_mut().await),
                }
            });
            timer.until(&mut deadline, waiting).await
        };
        self.client.downstream.timer = timer;
        match waited {
            Ok(Some(event)) => event.unwrap_or(Event::Last),
            Ok(None) => Event::Dismissed,
            Err(_) if now() < ends_at() => Event::Changed,
            Err(_) => Event::TimedOut,
        }
    }

    /// The next event, as the frames and the streams have it. Requests that come before it are served.
    fn next(&mut self, framing: &mut Framing, load: Load) -> impl Future<Output = Event> + Unpin {
        poll_fn(move |cx| {
            self.shared.register(cx);
            loop {
                if self.shared.is_flooded() {
                    return Poll::Ready(Event::Flooded);
                }
                if self.shared.has_ended() && !self.is_last {
                    return Poll::Ready(Event::Last);
                }
                let yields = self.shared.streams() >= STREAMS_MAX && !self.has_yielded;
                let polled = match yields {
                    true => framing.poll_closed(cx).map(|closed| closed.err().map(Err)),
                    false => framing.poll_accept(cx),
                };
                if polled.is_pending() {
                    self.has_yielded = yields;
                    if yields {
                        cx.waker().wake_by_ref();
                    }
                    if self.shared.send_written(cx).is_err() {
                        return Poll::Ready(Event::Ended(None));
                    }
                }
                return match polled {
                    Poll::Ready(Some(Ok(request))) => {
                        self.start(request);
                        if load == Load::Served {
                            continue;
                        }
                        Poll::Ready(Event::Changed)
                    }
                    Poll::Ready(Some(Err(error))) => Poll::Ready(Event::Ended(Some(error))),
                    Poll::Ready(None) => Poll::Ready(Event::Ended(None)),
                    Poll::Pending if self.shared.is_flooded() => Poll::Ready(Event::Flooded),
                    Poll::Pending if Load::of(&self.shared, framing) != load => {
                        Poll::Ready(Event::Changed)
                    }
                    Poll::Pending => Poll::Pending,
                };
            }
        })
    }

    /// Serves a stream.
    fn start(&mut self, (request, mut respond): (Request<RecvStream>, SendResponse<Piece>)) {
        if self.is_last && self.shared.has_ended() {
            // It was told; what is refused so may be asked again elsewhere.
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        self.has_asked = true;
        let context = &self.client.context;
        if self.shared.streams() >= PLACES_MAX {
            context.metrics().limits.reached(Limit::Http2Streams);
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        context.metrics().http2_requests.add(1);
        let (head, body) = request.into_parts();
        let is_whole = body.is_end_stream();
        let websocket = head
            .extensions
            .get::<Protocol>()
            .map(|_| WebSocketKey::new());
        let mut scratch = context.worker.scratch.take();
        let text = &mut scratch.request;
        let written = self.translate(&head, is_whole, websocket.as_ref(), text);
        let framing = match written {
            Ok(framing) => framing,
            Err(Malformed::Protocol) => {
                context.metrics().refusals.count("http2_protocol");
                let mut refusal = Response::new(());
                *refusal.status_mut() = StatusCode::NOT_IMPLEMENTED;
                // Fails only if the client is gone.
                let _ = respond.send_response(refusal, true);
                return;
            }
            Err(malformed) => {
                context.metrics().refusals.count("http2_malformed");
                tracing::debug!("{}: HTTP/2: {malformed}", context.address);
                self.shared.spend(MALFORMED_NUISANCE);
                respond.send_reset(Reason::PROTOCOL_ERROR);
                return;
            }
        };
        let head_bytes = text.len();
        if self.shared.streams() > 0 && self.shared.head_bytes() + head_bytes > HEADS_BYTES_MAX {
            context.metrics().limits.reached(Limit::Http2Streams);
            // It may be asked again by another connection.
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        let method = match (framing, &head.method) {
            (RequestBody::Tunnel, _) => Method::Connect,
            (_, &http::Method::HEAD) => Method::Head,
            _ => Method::Other,
        };
        let accept = match framing {
            RequestBody::WebSocket => websocket.map(|key| key.accept),
            _ => None,
        };
        let request = match is_whole {
            true => Incoming::ended(framing, body),
            false => Incoming::new(framing, body),
        };
        let stream = Rc::new(Http2Stream::new(
            Rc::clone(&self.shared),
            request,
            Outgoing::new(respond, method, accept),
        ));
        if !is_whole {
            let watched: Weak<dyn Gather> = Rc::downgrade(&stream) as _;
            self.shared.watch(watched);
        }
        let is_tunnel = matches!(framing, RequestBody::Tunnel | RequestBody::WebSocket);
        let client = self.client_of(stream, is_tunnel);
        let place = self.shared.place(head_bytes);
        if context.is_trusted_proxy() {
            // Of its many clients some give up.
            self.shared.allow_reset();
        }
        if self.shared.streams() == STREAMS_MAX {
            context.metrics().limits.reached(Limit::Http2Streams);
        }
        stream_tasks::serve(client, scratch, place);
    }

    /// Writes the request's head as HTTP/1.1 has it.
    fn translate(
        &self,
        head: &http::request::Parts,
        is_whole: bool,
        websocket: Option<&WebSocketKey>,
        text: &mut Vec<u8>,
    ) -> Result<RequestBody, Malformed> {
        let context = &self.client.context;
        let protocol = head.extensions.get::<Protocol>();
        let pseudo = Pseudo {
            method: head.method.as_str().as_bytes(),
            scheme: head.uri.scheme_str().map(str::as_bytes),
            authority: head.uri.authority().map(|one| one.as_str().as_bytes()),
            path: head.uri.path_and_query().map(|one| one.as_str().as_bytes()),
            protocol: protocol.map(|one| one.as_str().as_bytes()),
        };
        let fields = || {
            let fields = head.headers.iter();
            fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
        };
        let how = RequestTranslation {
            form: match context.listener.mode {
                Mode::Forward(_) => RequestForm::Absolute,
                // Before a plain listener there may be one that decrypts.
                _ => RequestForm::Origin {
                    http: context.tls.is_none(),
                    https: true,
                },
            },
            is_whole,
            websocket_key: websocket.map_or("", |websocket| &websocket.key),
        };
        write_request(text, &pseudo, fields, &how)
    }

    /// What a session has instead of a connection.
    fn client_of(&self, stream: Rc<Http2Stream>, is_tunnel: bool) -> Client {
        let context = &self.client.context;
        let mut client = Client::new(
            Rc::clone(&context.worker),
            Rc::clone(&context.live),
            Arc::clone(&context.listener),
            (Transport::Http2(stream), context.address),
        );
        client.context.tls.clone_from(&context.tls);
        client.context.original = context.original;
        client.context.destination.clone_from(&context.destination);
        client.context.is_http2 = true;
        // The window of HTTP/2 limits what waits unread.
        client.downstream.unread.set(Unread::new(0));
        // A trusted proxy names a client for each request; and a tunnel has a connection to a server for as long as the client likes.
        if is_tunnel || context.is_trusted_proxy() {
            let admitted = self.client.downstream.admitted.as_ref();
            client.downstream.admitted = admitted.map(|admitted| Rc::new(admitted.beside()));
        }
        client
    }
}

/// What a connection has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Nothing.
    Idle,
    /// The client has yet to take the rest of responses.
    Sending,
    /// There are requests.
    Served,
}

impl Load {
    fn of(shared: &Http2Connection, framing: &Framing) -> Self {
        match shared.streams() {
            0 if framing.has_streams() => Self::Sending,
            0 => Self::Idle,
            _ => Self::Served,
        }
    }
}

/// What an upgrade asks with, and what it is to be answered with (RFC 6455 section 4.2.2).
struct WebSocketKey {
    key: String,
    accept: Box<str>,
}

impl WebSocketKey {
    fn new() -> Self {
        let mut random = [0; 16];
        // Not a secret: without random numbers it is a key like another.
        let _ = getrandom::fill(&mut random);
        let key = STANDARD.encode(random);
        Self {
            accept: websocket_accept(key.as_bytes()),
            key,
        }
    }
}
