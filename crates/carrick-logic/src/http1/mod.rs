//! HTTP/1.1 messages: heads, the length of bodies, and how a head changes on its way through a proxy (RFC 9110, RFC 9112).

mod chunked;
mod forward;
mod request;
mod response;
mod span;
mod syntax;

pub use chunked::{Chunked, Piece};
pub use forward::{Forwarded, RequestRewrite, ResponseRewrite, TargetForm, write_request, write_response};
pub use request::{BodyLength, Method, RequestHead, Target, Version};
pub use response::{ResponseBody, ResponseHead};
pub use span::{Field, FieldName, Span};

/// The limits on a message head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most bytes of a head, first line and the final empty line included.
    pub head_bytes_max: usize,
    /// Most field lines.
    pub fields_max: usize,
}

/// How far the parser came with the bytes that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The head is whole.
    Complete,
    /// What is there is right so far; more bytes are needed.
    Partial,
}

/// A message that must not be passed on.
///
/// From a client: answered with `status`, and the connection is closed. From an upstream: the client gets 502.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The status for a client's mistake: 400, 414, 417, 431, 501 or 505.
    pub status: u16,
    /// What is wrong, in words for the log and the error page; says what would be right.
    pub reason: &'static str,
    /// A short stable word for metrics, such as `repeated_content_length`.
    pub label: &'static str,
}
