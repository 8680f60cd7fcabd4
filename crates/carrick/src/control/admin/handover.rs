//! Hands admin's address from a draining carrick to its successor, which asks for it at start. Until then the draining
//! one serves it, and its `/health` answers 503 to load balancers.
use super::{ControlState, text};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Response, StatusCode};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The target of the successor's `POST`.
pub(super) const PATH: &str = "/handover";

/// How long the draining carrick may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Closes the listening socket, if this carrick drains. Open connections continue.
pub(super) fn leave(state: &ControlState) -> Response<Full<Bytes>> {
    if !state.is_draining() {
        return text(
            StatusCode::CONFLICT,
            "This carrick is not draining, so it keeps its address.\n",
        );
    }
    state.admin_left.notify_one();
    text(StatusCode::OK, "left\n")
}

/// Asks the process at this address to release it, and waits for the answer.
///
/// # Errors
/// There was none. What it says does not matter: only a draining carrick releases the address.
pub(super) fn ask(address: SocketAddr) -> io::Result<()> {
    let at = SocketAddr::new(here(address.ip()), address.port());
    let mut stream = TcpStream::connect_timeout(&at, ANSWER_WAIT)?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    stream.write_all(format!("POST {PATH} HTTP/1.0\r\nHost: {at}\r\n\r\n").as_bytes())?;
    stream.read_exact(&mut [0; 13])
}

/// An address of this machine by which a socket at `listening` is reached.
fn here(listening: IpAddr) -> IpAddr {
    match listening {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}
