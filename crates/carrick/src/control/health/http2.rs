//! A check by HTTP/2: a GET, or a question of the health checking protocol of gRPC.
use super::check_error::CheckError;
use crate::config::plan::HealthPlan;
use crate::upstream::state::ServerState;
use bytes::Bytes;
use carrick_logic::grpc::{self, Health};
use h2::client::Builder;
use h2::{Reason, RecvStream};
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

/// Most bytes of a head.
const HEAD_BYTES_MAX: u32 = 16 * 1024;

/// Most bytes of a message.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The method of the protocol (the gRPC document "GRPC Health Checking Protocol").
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// What is asked.
#[derive(Debug)]
pub(super) enum Question {
    /// A GET.
    Get(Request<()>),
    /// A call, with its message.
    Grpc(Request<()>, Bytes),
}

impl Question {
    /// `None`: a connection is enough, or the path or host cannot be sent so.
    pub fn of(health: &HealthPlan, server: &ServerState, has_tls: bool) -> Option<Self> {
        let path = match (&health.grpc, &health.path) {
            (Some(_), _) => CHECK,
            (None, path) => path.as_deref()?,
        };
        let uri = Uri::builder()
            .scheme(if has_tls { "https" } else { "http" })
            .authority(health.host.as_deref().unwrap_or(&server.label))
            .path_and_query(path);
        let mut request = Request::new(());
        *request.uri_mut() = uri.build().ok()?;
        let fields = request.headers_mut();
        let agent = concat!("carrick/", env!("CARGO_PKG_VERSION"));
        fields.insert(USER_AGENT, HeaderValue::from_static(agent));
        let Some(service) = &health.grpc else {
            return Some(Self::Get(request));
        };
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        fields.insert(TE, HeaderValue::from_static("trailers"));
        *request.method_mut() = Method::POST;
        Some(Self::Grpc(request, grpc::health_request(service).into()))
    }
}

/// Asks on a new connection.
pub(super) async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    question: &Question,
) -> Result<(), CheckError> {
    let lost = |error: h2::Error| match error.reason() {
        Some(Reason::FRAME_SIZE_ERROR | Reason::PROTOCOL_ERROR) if error.is_library() => {
            CheckError::NotHttp2
        }
        _ => CheckError::Http2(error.to_string()),
    };
    let handshake = Builder::new()
        .enable_push(false)
        .max_header_list_size(HEAD_BYTES_MAX)
        .handshake(stream);
    let (sender, connection) = handshake.await.map_err(lost)?;
    // Dropped with the check.
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    let mut sender = sender.ready().await.map_err(lost)?;
    let (request, message) = match question {
        Question::Get(request) => (request, None),
        Question::Grpc(request, message) => (request, Some(message)),
    };
    let sent = sender.send_request(request.clone(), message.is_none());
    let (response, mut body) = sent.map_err(lost)?;
    if let Some(message) = message {
        body.send_data(message.clone(), true).map_err(lost)?;
    }
    let response = response.await.map_err(lost)?;
    let status = response.status();
    match message {
        None if status.is_success() || status.is_redirection() => Ok(()),
        Some(_) if status.is_success() => health(response).await,
        _ => Err(CheckError::Status(status.as_u16())),
    }
}

/// Reads what a call was answered.
async fn health(response: Response<RecvStream>) -> Result<(), CheckError> {
    let lost = |error: h2::Error| CheckError::Http2(error.to_string());
    let (head, mut stream) = response.into_parts();
    let mut message = Vec::new();
    while let Some(data) = stream.data().await {
        message.extend_from_slice(&data.map_err(lost)?);
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(CheckError::Grpc("the message is too long".to_owned()));
        }
    }
    let trailers = stream.trailers().await.map_err(lost)?;
    let trailers = trailers.unwrap_or(head.headers);
    let code = text(&trailers, "grpc-status");
    if code != "0" {
        let what = match (code, text(&trailers, "grpc-message")) {
            ("5", _) => "the server does not know the service",
            ("12", _) => "the server does not have the health checking protocol",
            (_, message) => message,
        };
        return Err(CheckError::Grpc(format!("status {code}: {what}")));
    }
    let said = match grpc::health(&message) {
        Some(Health::Serving) => return Ok(()),
        Some(Health::NotServing) => "NOT_SERVING",
        Some(Health::ServiceUnknown) => "SERVICE_UNKNOWN",
        Some(Health::Unknown) => "UNKNOWN",
        None => "a message that is none",
    };
    Err(CheckError::Grpc(format!("the server says {said}")))
}

fn text<'a>(fields: &'a HeaderMap, name: &str) -> &'a str {
    let value = fields.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or("missing")
}
