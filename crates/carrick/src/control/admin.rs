//! The admin server: metrics, health, status, and changes to the cache and to pacing. It reads the workers' counters
//! and never makes a worker wait.
mod cache;
mod certificates;
mod handover;
mod host;
mod link;
mod pace;
mod paths;
mod slots;
mod splices;
mod status;

pub(in crate::control) use handover::is_draining;

use crate::net::bind::{FREE_WAIT, bind_when_free, choose_families};

use super::ControlState;
use crate::control::{self, Format};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use slots::{ConnectionSlot, ConnectionSlots};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Limit on reading a request's head, and on the pause between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection is closed after this time, whatever it is doing.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);

/// Pause after `accept` failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Binds the admin address; needs no runtime.
///
/// # Errors
/// The message names the address, and the remedy if it is taken.
pub(super) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let try_bind = || {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        choose_families(&socket, address)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(128)?;
        Ok(socket.into())
    };
    try_bind().map_err(|error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; does another carrick run? (Until a reload is over, a listener of this one may have it.) `[admin] listen` takes another address, or \"\" for none"
            }
            _ => "",
        };
        io::Error::new(error.kind(), format!("cannot listen on {address} for admin: {error}{hint}"))
    })
}

/// Like [`bind`], but at start: if a draining carrick has the address, it is asked to release it. One that was killed
/// releases it once the kernel has taken its memory back.
///
/// # Errors
/// See [`bind`].
pub(super) fn bind_or_take_over(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    bind(address).or_else(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            // Without an answer it may be about to be gone.
            let _ = handover::ask(address);
        }
        bind_when_free(Instant::now() + FREE_WAIT, || bind(address))
    })
}

/// A listening admin server.
#[derive(Debug)]
pub(super) struct Admin {
    task: JoinHandle<()>,
    address: SocketAddr,
}

impl Admin {
    /// Starts serving. Must be called within a runtime.
    ///
    /// # Errors
    /// The runtime cannot take the socket.
    pub fn start(listener: std::net::TcpListener, state: Arc<ControlState>) -> io::Result<Self> {
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        state.set_admin_address(Some(address));
        let task = tokio::spawn(accept(listener, state));
        Ok(Self { task, address })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the listening socket; open connections continue until they end.
    pub async fn stop(self) {
        self.task.abort();
        // The task owns the socket: it is closed once the task has ended. The result is always "cancelled".
        let _ = self.task.await;
    }
}

/// The most often that a failing `accept` is logged.
const TELL_EVERY: Duration = Duration::from_secs(60);

async fn accept(listener: TcpListener, state: Arc<ControlState>) {
    let slots = Arc::<ConnectionSlots>::default();
    let mut told: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = state.admin_left.notified() => {
                state.set_admin_address(None);
                tracing::info!("admin's address is released for the next carrick; this process continues without admin");
                return;
            }
        };
        match accepted {
            Ok((stream, _)) => {
                let (slot, is_full) = slots.take();
                if is_full {
                    state.metrics.admin_connections_full.add(1);
                }
                let state = Arc::clone(&state);
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        () = slot.connection.is_dismissed() => {}
                        () = serve(stream, state, &slot) => {}
                    }
                });
            }
            Err(error) => {
                // A shortage that lasts or recurs is logged once per interval.
                if told.is_none_or(|before| before.elapsed() >= TELL_EVERY) {
                    told = Some(Instant::now());
                    tracing::warn!("admin cannot accept a connection: {error}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<ControlState>, slot: &ConnectionSlot) {
    let asking = &slot.connection;
    let service = service_fn(|request: Request<Incoming>| {
        let state = Arc::clone(&state);
        async move {
            let path = request.uri().path();
            let response = if asking.asks(path) {
                if path != "/health" {
                    slot.turn().await;
                }
                respond(&request, &state).await
            } else {
                text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "Too many connections to admin at the moment.\n",
                )
            };
            asking.waits();
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    // A failed connection is the client's problem.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
}

async fn respond(request: &Request<Incoming>, state: &Arc<ControlState>) -> Response<Full<Bytes>> {
    if !host::is_ours(request) {
        // A web page whose name was rebound to this address must not read this (DNS rebinding).
        return text(
            StatusCode::MISDIRECTED_REQUEST,
            "Ask by address: admin answers to IP addresses and localhost only.\n",
        );
    }
    let is_reading = request.method() == Method::GET || request.method() == Method::HEAD;
    if !is_reading && host::comes_from_page(request) {
        return text(StatusCode::FORBIDDEN, host::NOT_FOR_PAGES);
    }
    if request.method() == Method::DELETE && request.uri().path() == "/cache" {
        return cache::purge(request, state).await;
    }
    if request.method() == Method::POST
        && let Some(name) = request.uri().path().strip_prefix("/pace/")
    {
        return pace::change(request, name, state);
    }
    if request.method() == Method::POST && request.uri().path() == handover::PATH {
        return handover::leave(state);
    }
    if !is_reading {
        let (methods, why) = match request.uri().path() {
            "/cache" => (
                "GET, HEAD, DELETE",
                "Only GET, HEAD and DELETE are understood here.\n",
            ),
            _ => ("GET, HEAD", "Only GET and HEAD are understood here.\n"),
        };
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, why);
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static(methods));
        return response;
    }
    match request.uri().path() {
        "/" => text(StatusCode::OK, INDEX),
        "/health" if state.is_draining() => text(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        "/health" => text(StatusCode::OK, "ok\n"),
        "/metrics" => metrics(request, state),
        "/status" => match status::json(state) {
            Ok(status) => answer(StatusCode::OK, JSON, status),
            Err(error) => failure(&error),
        },
        "/splices" => match splices::json(state) {
            Ok(splices) => answer(StatusCode::OK, JSON, splices),
            Err(error) => failure(&error),
        },
        "/pace" => match pace::json(state) {
            Ok(pace) => answer(StatusCode::OK, JSON, pace),
            Err(error) => failure(&error),
        },
        "/paths" => match paths::json(state) {
            Ok(paths) => answer(StatusCode::OK, JSON, paths),
            Err(error) => failure(&error),
        },
        "/cache" => cache::list(request, state),
        _ => text(
            StatusCode::NOT_FOUND,
            "There is no such page. / lists all pages.\n",
        ),
    }
}

/// `/metrics`, in the format that the client prefers.
fn metrics<B>(request: &Request<B>, state: &Arc<ControlState>) -> Response<Full<Bytes>> {
    let members = request.headers().get_all(ACCEPT).iter();
    let accept: Vec<&str> = members.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::asked_for(&accept.join(","));
    match control::exposition(state, format) {
        Ok(metrics) => {
            let mut response = answer(StatusCode::OK, format.content_type(), metrics);
            response
                .headers_mut()
                .insert(VARY, HeaderValue::from_static("accept"));
            response
        }
        Err(error) => failure(&error),
    }
}

const INDEX: &str = concat!(
    "carrick ",
    env!("CARGO_PKG_VERSION"),
    "\n\n/health   200 while serving, 503 while draining\n/metrics  for Prometheus\n/status   everything as JSON\n/splices  all tunnels as JSON\n/cache    stored objects as JSON; DELETE removes them\n/pace     pacing classes as JSON; POST /pace/NAME?key=value changes one\n/paths    path history of splitters, as JSON\n"
);

fn failure(error: &dyn std::error::Error) -> Response<Full<Bytes>> {
    tracing::error!("admin could not make a page: {error}");
    text(
        StatusCode::INTERNAL_SERVER_ERROR,
        "This page cannot be generated; the log says why.\n",
    )
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    answer(status, TEXT, body)
}

fn answer(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    response
}

#[cfg(test)]
mod tests;
