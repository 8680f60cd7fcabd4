//! Original destinations: where a client that was intercepted wanted to go.
use crate::config::plan::{ListenerPlan, ServerAddress};
use crate::context::destination::NextHop;
use crate::context::request_context::RequestContext;
use crate::net::transport::Transport;
use carrick_logic::access::Denied;
use std::net::{IpAddr, SocketAddr};

/// The port of URLs that name none.
const HTTP_PORT: u16 = 80;

/// Where the client wanted to go: the connection's own address on this side (`tproxy` changes nothing of a packet). `None` if
/// that is the listener itself, as its port tells: it is never one of those that are intercepted.
pub fn destination(listener: &ListenerPlan, client: &Transport) -> Option<SocketAddr> {
    // It fails for nothing but a connection that is gone.
    let local = client.local_addr()?;
    (local.port() != listener.address.port())
        .then(|| SocketAddr::new(local.ip().to_canonical(), local.port()))
}

/// Whether the client is one of these servers: a cache that asks for what it does not have. Sent to itself, its request would come back
/// without end. Of servers with names nothing is known here.
pub fn is_one_of<'s>(
    context: &RequestContext,
    servers: impl IntoIterator<Item = &'s ServerAddress>,
) -> bool {
    let is_client = |server: &ServerAddress| matches!(server, ServerAddress::Ip(server) if server.ip().to_canonical() == context.address.ip());
    context.original.is_some() && servers.into_iter().any(is_client)
}

/// The original destination as a place to connect to. `name` is what the client calls it, if it says.
///
/// # Errors
/// The name, or what it stands for, is on the listener's deny list. The address is checked when it is used.
pub fn next_hop(
    context: &RequestContext,
    destination: SocketAddr,
    name: Option<&[u8]>,
) -> Result<NextHop, Denied> {
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        let access = &context.listener.access;
        access.check_name(name, destination.port(), false)?;
    }
    let server = ServerAddress::Ip(destination);
    Ok(NextHop::Origin {
        key: idle_key(context.source(), &server.to_string()),
        server,
        parent: false,
        tls: None,
    })
}

/// The key of idle connections: those with a client's address are for that client alone.
pub fn idle_key(source: Option<IpAddr>, key: &str) -> Box<[u8]> {
    match source {
        Some(source) => format!("from {source} {key}").into_bytes().into(),
        None => key.as_bytes().into(),
    }
}

/// The host of a request that names none.
pub fn host(destination: SocketAddr) -> String {
    match (destination.port(), destination) {
        (HTTP_PORT, SocketAddr::V4(address)) => address.ip().to_string(),
        (HTTP_PORT, SocketAddr::V6(address)) => format!("[{}]", address.ip()),
        (_, other) => other.to_string(),
    }
}
