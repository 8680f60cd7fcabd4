//! Admin's address goes from a carrick that drains to the next one, which asks for it when it starts. Until then the one that
//! drains answers there: `/health` says 503 to load balancers.
use super::{ControlState, text};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Response, StatusCode};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// What the next carrick asks with `POST`.
pub(super) const PATH: &str = "/handover";

/// How long the one that drains may take for its answer.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Closes the listening socket, if this carrick drains. Connections that stand go on.
pub(super) fn leave(state: &ControlState) -> Response<Full<Bytes>> {
    if !state.is_draining() {
        return text(
            StatusCode::CONFLICT,
            "This carrick does not drain; it keeps its address.\n",
        );
    }
    state.admin_left.notify_one();
    text(StatusCode::OK, "left\n")
}

/// Asks whoever has the address to leave it; whether it does.
pub(super) fn ask(address: SocketAddr) -> bool {
    exchange(address)
        .is_ok_and(|answer| answer.starts_with(b"HTTP/1.") && answer.ends_with(b" 200 "))
}

/// The version and the status of the answer.
fn exchange(address: SocketAddr) -> io::Result<[u8; 13]> {
    let at = SocketAddr::new(here(address.ip()), address.port());
    let mut stream = TcpStream::connect_timeout(&at, ANSWER_WAIT)?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    stream.write_all(format!("POST {PATH} HTTP/1.0\r\nHost: {at}\r\n\r\n").as_bytes())?;
    let mut line = [0; 13];
    stream.read_exact(&mut line)?;
    Ok(line)
}

/// An address of this machine by which a socket at `listening` is reached.
fn here(listening: IpAddr) -> IpAddr {
    match listening {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}
