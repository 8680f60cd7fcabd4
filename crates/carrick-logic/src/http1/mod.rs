//! HTTP/1.1 messages: heads, the length of bodies, and how a head changes on its way through a proxy (RFC 9110, RFC 9112).

mod chunked;
mod error_response;
mod fields;
mod forward;
mod forward_response;
mod framing;
mod hops;
mod identity;
mod lines;
mod request;
mod request_line;
mod response;
mod scan;
mod span;
mod stated;
pub(crate) mod syntax;
mod trailers;
mod user_information;

pub use chunked::{Chunked, Followed, LAST_CHUNK, Piece, write_chunk_size};
pub use error_response::{ErrorResponse, reason_phrase, write_error_response};
pub use forward::{Forwarded, NamedIn, RequestRewrite, TargetForm, write_request};
pub use forward_response::{ResponseRewrite, add_field, kept_fields, write_response};
pub use hops::{HOPS_MAX, Loop, Mark};
pub use identity::states_identity;
pub use request::{BodyLength, Method, OddNames, RequestHead, Scheme, Target, Version};
pub use response::{ResponseBody, ResponseHead};
pub use span::{Field, FieldName, Span};
pub use stated::{StatedIn, TRUSTED_HOPS_MAX};
pub use syntax::is_plain_name;
pub use trailers::may_trail_response;
pub use user_information::without_user_information;

/// The limits on a message head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most bytes of a head, first line and the final empty line included.
    pub head_bytes_max: usize,
    /// Most field lines.
    pub fields_max: usize,
}

/// What a message may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Only as RFC 9112 has senders write it, and in one reading. Every request, and what goes on as it came.
    Strict,
    /// Deviations that have one reading and are put into the usual form before they go on: responses only.
    Lenient,
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

impl Refusal {
    pub(super) const fn new(status: u16, label: &'static str, reason: &'static str) -> Self {
        Self {
            status,
            reason,
            label,
        }
    }

    pub(super) const fn bad(label: &'static str, reason: &'static str) -> Self {
        Self::new(400, label, reason)
    }

    /// The same fault in an upstream's response: the client gets 502.
    #[must_use]
    pub const fn from_upstream(self) -> Self {
        Self {
            status: 502,
            ..self
        }
    }
}
