//! A connection that has been checked out.
use super::Upstream;
use super::group::Active;
use carrick_splice::ResponseSplice;

/// A connection that is in use for a request or a tunnel.
#[derive(Debug)]
pub struct Checkout {
    /// The connection.
    pub upstream: Upstream,
    /// The server's index in its group.
    pub server: Option<usize>,
    /// Bytes that must go before anything else: a PROXY header.
    pub preamble: Vec<u8>,
    /// The client's connection and this one, if the kernel may forward responses from this one to it.
    pub splice: Option<Box<ResponseSplice>>,
    /// Whether that is so because `auto` has seen a long response to this client.
    pub expects_long: bool,
    pub(crate) active: Option<Active>,
}
