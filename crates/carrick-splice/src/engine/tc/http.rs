//! Requests that are classified in the kernel: whether a packet is exactly one plain request without a body, and which route takes
//! it. Tables of routes, what the kernel says of requests, and what it tells of those that it has forwarded.
//!
//! The classifier is `bpf/http/classifier.h` and what it includes; `docs/internals/request-classifier.md` tells what it looks at. It decides as HTTP and the order of
//! routes have it, or not at all: then the request is up to the process.
//!
//! Beside `bpf/http/`, this is the only place in the crate that knows HTTP.

mod classifier;
mod encode;
mod event;
mod fields;
mod reason;
mod route;
mod table;
mod tables;
#[cfg(test)]
mod tests;

skeleton!("http.skel.rs");

pub use classifier::{Classifier, Verdict};
pub use event::{Events, RequestEvent};
pub use fields::RequestFields;
pub use reason::UpToProcess;
pub use route::{Cookie, Host, NotInKernel, Route, Settings};
pub use table::RequestTable;
pub use tables::{RequestCounts, RequestTables, RequestsError};

/// So many routes of a table can be classified in the kernel; those behind them are the process's.
pub const ROUTES_MAX: usize = 32;

/// Longer heads are the process's, in bytes: they may not come in one packet.
pub const HEAD_BYTES_MAX: usize = 1460;

/// So many tables there can be, one for each listener.
pub const TABLES_MAX: u32 = 64;

/// The longest path, extension with its dot, or host name (with the dot of a pattern) that the kernel compares, in bytes.
pub const TEXT_BYTES_MAX: usize = 64;

/// So many different paths, extensions and host names are in a table.
pub const TEXTS_MAX: usize = 96;

/// The longest name of a cookie that the kernel looks for, in bytes.
pub const COOKIE_BYTES_MAX: usize = 31;

/// So many different cookies are in a table.
pub const COOKIES_MAX: usize = 8;

/// Upstreams have numbers below this one.
pub const UPSTREAMS_MAX: u32 = 4096;

/// The longest text that the kernel appends to a request, in bytes.
pub const FIELDS_BYTES_MAX: usize = 256;

/// The longest host that this text may name, in bytes.
pub const HOST_BYTES_MAX: usize = 72;

/// The methods that the kernel classifies, in the order of `enum request_method`.
pub(super) const METHODS: [&str; 4] = ["GET", "HEAD", "OPTIONS", "DELETE"];

/// The length of the head at the beginning of these bytes, with its empty line.
pub(super) fn head_bytes(bytes: &[u8]) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    let end = bytes.windows(END.len()).position(|window| window == END)?;
    Some(end + END.len())
}

/// A status as the kernel notes it; `None`: it is not known.
pub(super) fn status_of(number: u32) -> Option<u16> {
    let status = u16::try_from(number).ok();
    status.filter(|status| (100..1000).contains(status))
}
