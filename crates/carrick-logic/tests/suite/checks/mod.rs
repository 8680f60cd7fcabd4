//! Properties that must hold for any bytes. The fuzz targets and the tests of this crate both include these files.
use carrick_logic::http1::HeadLimits;

mod cache;
mod chunked;
mod first_bytes;
mod heads;
mod http2;
mod rewriting;

pub use cache::cache;
pub use chunked::chunked;
pub use first_bytes::{client_hello, proxy_protocol};
pub use heads::{request_head, response_head};
pub use http2::{http2_request, http2_response};
pub use rewriting::{rewrite_request, rewrite_response};

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 4096,
    fields_max: 64,
};

/// Lengths at which a stream of this many bytes is cut: every one for short streams.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    let step = 1 + length / 600;
    (0..length).step_by(step).chain([length])
}
