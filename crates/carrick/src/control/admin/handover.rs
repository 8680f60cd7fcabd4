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

/// How long the draining carrick may take to answer: the machine may be busy, and without an answer the successor does not start.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Another program may listen there.
const ANSWER_BYTES_MAX: u64 = 4 << 10;

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
    answer(address, &format!("POST {PATH}")).map(|_| ())
}

/// Whether a carrick that drains has admin at this address.
pub(in crate::control) fn is_draining(address: SocketAddr) -> bool {
    answer(address, "GET /health").is_ok_and(|answer| answer.ends_with("\r\n\r\ndraining\n"))
}

fn answer(address: SocketAddr, request: &str) -> io::Result<String> {
    let at = SocketAddr::new(here(address.ip()), address.port());
    let mut stream = TcpStream::connect_timeout(&at, ANSWER_WAIT)?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    stream.write_all(format!("{request} HTTP/1.0\r\nHost: {at}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

/// An address of this machine by which a socket at `listening` is reached.
fn here(listening: IpAddr) -> IpAddr {
    match listening {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}
