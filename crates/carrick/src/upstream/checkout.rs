//! A checked-out connection.
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
    /// Bytes to send first: a PROXY header.
    pub preamble: Vec<u8>,
    /// The splice of the client's connection with this one, if the kernel may forward responses.
    pub splice: Option<Box<ResponseSplice>>,
    /// Whether `auto` made that splice because this client got a long response.
    pub expects_long: bool,
    pub(crate) active: Option<Active>,
}
