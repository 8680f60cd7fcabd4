//! carrick's own responses: refusals and errors, with advice.
use crate::config::plan::Mode;
use crate::context::client::Client;
use crate::context::downstream::Downstream;
use crate::context::request_context::RequestContext;
use crate::context::request_log::{COMPLETE, RequestLog};
use crate::net::deadline::{Deadline, Timer};
use crate::net::io::{read_some, write_all};
use crate::net::transport::Transport;
use crate::upstream::Unreachable;
use carrick_logic::grpc;
use carrick_logic::http1::{self, ErrorResponse, Method, Version};
use std::borrow::Cow;
use std::time::Duration;

/// How long the rest of a refused request is read, so that a reset does not destroy the response (RFC 9112 section 9.6).
pub const LINGER: Duration = Duration::from_secs(2);

/// Most bytes of it that are read.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// A response of carrick's own.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// What is wrong and what would be right.
    pub detail: String,
    /// A further field line, such as `Proxy-Authenticate`.
    pub field: Option<(&'static str, Cow<'static, str>)>,
    /// Whether the text is the whole body, without the status before it.
    pub is_bare: bool,
    /// The code with which a server has reset the request's stream of HTTP/2.
    pub reset_code: Option<u32>,
    /// The stable label for metrics and the log.
    pub label: &'static str,
}

impl Reply {
    /// A response with this status.
    pub fn new(status: u16, label: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            field: None,
            is_bare: false,
            reset_code: None,
            label,
        }
    }
}

/// What a reply depends on in its request.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The method; `Other` if no request could be read.
    pub method: Method,
    /// The client's version.
    pub version: Version,
    /// Whether another request may follow on this connection.
    pub keep_alive: bool,
    /// Whether it is a call of gRPC, and if so whether its deadline is over.
    pub is_late_call: Option<bool>,
}

impl Asked {
    /// No request could be read, so the connection ends.
    pub const NOTHING: Self = Self {
        method: Method::Other,
        version: Version::Http11,
        keep_alive: false,
        is_late_call: None,
    };
}

/// Sends a reply and notes it in `log`; `false` if it could not be sent.
pub async fn send(client: &mut Client, reply: &Reply, asked: Asked, log: &mut RequestLog) -> bool {
    let (context, downstream) = (&client.context, &mut client.downstream);
    context.metrics().refusals.count(reply.label);
    let mut out = Vec::with_capacity(512);
    let date = context.worker.clock.with_date(str::to_owned);
    let mut fields = Vec::new();
    fields.extend(reply.field.iter().map(|(name, value)| (*name, &**value)));
    fields.extend(hsts(context).map(|value| (HSTS, value)));
    let response = ErrorResponse {
        status: reply.status,
        detail: &reply.detail,
        is_bare: reply.is_bare,
        method: asked.method,
        client_version: asked.version,
        keep_alive: asked.keep_alive,
        date: Some(&date),
        extra_fields: &fields,
    };
    match asked.is_late_call {
        None => http1::write_error_response(&mut out, &response),
        Some(is_late) => {
            let mut lines = format!("Date: {date}\r\n");
            for (name, value) in &fields {
                lines += &format!("{name}: {value}\r\n");
            }
            let status = match reply.reset_code {
                Some(code) => grpc::status_of_reset(code, is_late),
                None => grpc::status(reply.status, is_late),
            };
            grpc::write_status(&mut out, status, &reply.detail, lines.as_bytes());
        }
    }
    let head_bytes = memchr::memmem::find(&out, b"\r\n\r\n").map_or(out.len(), |end| end + 4);
    log.status = reply.status;
    if reply.status >= 400 && log.ended == COMPLETE {
        log.ended = reply.label;
    }
    let limit = context.live.plan().timeouts.idle;
    let sent = downstream
        .timer
        .within(limit, write_all(&downstream.transport, &out))
        .await;
    let is_sent = matches!(sent, Ok(Ok(())));
    if is_sent {
        log.sent = (out.len() - head_bytes) as u64;
        context.worker.pacer.served(log.sent, false);
    } else {
        log.ended = "client_reset";
    }
    is_sent
}

/// The name of [`hsts`].
pub const HSTS: &str = "Strict-Transport-Security";

/// What clients of a listener with TLS are told of its future (RFC 6797); never by plain HTTP.
#[must_use]
pub fn hsts(context: &RequestContext) -> Option<&str> {
    let hsts = context.listener.hsts.as_deref();
    hsts.filter(|_| context.tls.is_some())
}

/// Closes after a refusal: ends the sending direction and reads for a moment what the client still sends, since the
/// kernel's reset would destroy the reply.
pub async fn close_gently(client: &mut Downstream) {
    end_gently(&client.transport, &mut client.timer).await;
}

/// The same for a transport. Fails only if it is broken.
pub async fn end_gently(transport: &Transport, timer: &mut Timer) {
    if transport.end().is_err() {
        return;
    }
    let mut deadline = Deadline::after(LINGER);
    let mut unwanted = Vec::with_capacity(4096);
    let mut read_bytes = 0;
    while read_bytes < LINGER_BYTES_MAX {
        unwanted.clear();
        let reading = read_some(transport, &mut unwanted);
        match timer.until(&mut deadline, reading).await {
            Ok(Ok(count)) if count > 0 => read_bytes += count,
            _ => return,
        }
    }
}

/// The reply when there is no connection to the upstream.
pub fn unreachable_reply(unreachable: &Unreachable, mode: &Mode) -> Reply {
    let reason = match (mode, unreachable.address()) {
        // Clients of a switch are not told of its servers.
        (Mode::Switch(_), Some(address)) => match unreachable.cause() {
            Unreachable::Tls { .. } => "the TLS handshake with the server failed".to_owned(),
            cause => cause
                .to_string()
                .replace(&address.to_string(), "the server"),
        },
        _ => unreachable.to_string(),
    };
    Reply::new(
        unreachable.status(),
        unreachable_label(unreachable),
        format!("Cannot reach the upstream: {reason}."),
    )
}

/// The label for metrics and the log.
pub fn unreachable_label(unreachable: &Unreachable) -> &'static str {
    match unreachable {
        Unreachable::NoServer => "no_server",
        Unreachable::Resolve(_) => "resolve",
        Unreachable::Denied(_) => "denied_address",
        Unreachable::Connect { .. } => "connect",
        Unreachable::Tls { .. } => "upstream_tls",
        Unreachable::TlsTimedOut(_) => "upstream_tls_timeout",
        Unreachable::TimedOut(_) => "connect_timeout",
        Unreachable::Itself(_) => "loop",
        Unreachable::Http2 { .. } => "upstream_http2",
        Unreachable::Http2TimedOut(_) => "upstream_http2_timeout",
        Unreachable::NoWebSocket(_) => "upstream_no_websocket",
        Unreachable::Shared(other) => unreachable_label(other),
        Unreachable::Shortage(shortage) => shortage.label(),
    }
}
