//! Connecting: races several addresses of a name as in RFC 8305 ("happy eyeballs").
use super::tls::Handshake;
use crate::config::plan::ServerAddress;
use crate::connect::tcp_profile::ServerProfiles;
use crate::context::worker::Connector;
use crate::net::admission::UpstreamPlace;
use crate::net::shortage::{Shortage, connect_error};
use crate::net::transport::Network;
#[cfg(test)]
use crate::net::transport::Transport;
use crate::resolver::{NamedBy, ResolveError};
use crate::telemetry::metrics::Limit;
use crate::upstream::{Counted, Unreachable, Upstream};
use carrick_logic::access::Access;
use carrick_logic::eyeballs;
use carrick_splice::tcp::limit_segments;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use socket2::SockRef;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// Requirements for a new connection.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// The source address, which may be another machine's; an address of the other family cannot reach the server.
    pub source: Option<IpAddr>,
    /// The source port that goes with it, if it is available; otherwise the kernel chooses one.
    pub source_port: Option<u16>,
    /// The mark by which the kernel's rules recognise a connection with another machine's address.
    pub mark: Option<u32>,
    /// The largest segments that the server may send, in bytes as in TCP's option MSS.
    pub segment_bytes: Option<u32>,
    /// The TTL, or hop limit, while it connects; `None`: the system's.
    pub hop_limit: Option<u8>,
    /// An address that must not be connected to: carrick itself.
    pub itself: Option<SocketAddr>,
    /// Its TCP profiles.
    pub profiles: Option<ServerProfiles>,
    /// TLS to the server.
    pub tls: Option<Handshake>,
    /// Who named the server.
    pub named_by: NamedBy,
}

/// [`Terms`], and settings of all connections to servers.
#[derive(Debug, Clone)]
struct AllTerms {
    of_one: Terms,
    /// See [`Plan::own_mark`](crate::config::plan::Plan::own_mark).
    mark: Option<u32>,
    /// `limits.unsent`
    unsent: u32,
    /// `limits.unread`
    unread: u32,
}

/// Connects to a server by address or name, within `limit`, resolution included.
///
/// # Errors
/// See [`Unreachable`]. `access`, if given, is checked for each address before it is tried.
pub async fn dial(
    connector: &Connector,
    server: &ServerAddress,
    access: Option<&Access>,
    terms: Terms,
    limit: Duration,
) -> Result<Upstream, Unreachable> {
    let mut upstream = try_dial(connector, server, access, terms, limit).await?;
    upstream.counted = Some(Counted::on(&connector.metrics));
    Ok(upstream)
}

/// Like [`dial`]; the connection is not counted as open yet.
///
/// # Errors
/// See [`dial`].
pub async fn try_dial(
    connector: &Connector,
    server: &ServerAddress,
    access: Option<&Access>,
    mut terms: Terms,
    limit: Duration,
) -> Result<Upstream, Unreachable> {
    let handshake = terms.tls.take();
    let live = connector.live();
    let plan = live.plan();
    let terms = AllTerms {
        of_one: terms,
        mark: plan.own_mark(),
        unsent: plan.limits.unsent,
        unread: plan.limits.unread,
    };
    drop(live);
    let stage = Cell::new(Stage::Resolving);
    let connecting = async {
        let addresses = match server {
            ServerAddress::Ip(address) => {
                check(access, *address, &terms)?;
                None
            }
            ServerAddress::Name { host, .. } => {
                let named_by = terms.of_one.named_by;
                Some(connector.resolver.resolve(host, named_by).await?)
            }
        };
        stage.set(Stage::Waiting);
        let place = descriptor(connector).await;
        let trying = |address| stage.set(Stage::Connecting(address));
        let mut upstream = match server {
            ServerAddress::Ip(address) => {
                trying(*address);
                connect(&connector.network, *address, &terms)
                    .await
                    .map_err(|error| refused(*address, error))
            }
            ServerAddress::Name { port, .. } => {
                race(
                    connector,
                    addresses.as_deref().unwrap_or_default(),
                    *port,
                    access,
                    &terms,
                    trying,
                )
                .await
            }
        }?;
        upstream.place = Some(place);
        if let Some(handshake) = &handshake {
            stage.set(Stage::ShakingHands(upstream.address));
            handshake.perform(&mut upstream, &connector.metrics).await?;
        }
        Ok(upstream)
    };
    let result = match tokio::time::timeout(limit, connecting).await {
        Ok(result) => result,
        Err(_) => Err(match stage.get() {
            Stage::Resolving => ResolveError::Timeout.into(),
            Stage::Waiting => Unreachable::Shortage(Shortage::Descriptors),
            Stage::Connecting(address) => Unreachable::TimedOut(Some(address)),
            Stage::ShakingHands(address) => match &handshake {
                Some(handshake) => handshake.timed_out(address, &connector.metrics),
                None => Unreachable::TimedOut(Some(address)),
            },
        }),
    };
    match &result {
        Ok(_) => {}
        Err(Unreachable::Shortage(shortage)) => {
            connector.metrics.limits.reached(Limit::from(*shortage));
            connector.metrics.upstream_connections_failed.add(1);
        }
        Err(_) => connector.metrics.upstream_connections_failed.add(1),
    }
    result
}

/// What the limit applies to at the moment.
#[derive(Clone, Copy)]
enum Stage {
    Resolving,
    Waiting,
    /// To this address last.
    Connecting(SocketAddr),
    ShakingHands(SocketAddr),
}

/// A descriptor for a connection to a server. If there is none, this worker closes an idle connection at once, others
/// do at their next periodic check, and no more are kept. Admission leaves one descriptor per client.
async fn descriptor(connector: &Connector) -> UpstreamPlace {
    match connector.admission.take_upstream() {
        Some(place) => place,
        None => {
            let make_room = || connector.close_idle(1);
            connector.admission.upstream(make_room).await
        }
    }
}

/// The same, if there is one without waiting.
fn spare_descriptor(connector: &Connector) -> Option<UpstreamPlace> {
    let admission = &connector.admission;
    admission.take_upstream().or_else(|| {
        connector.close_idle(1);
        admission.take_upstream()
    })
}

fn check(
    access: Option<&Access>,
    address: SocketAddr,
    terms: &AllTerms,
) -> Result<(), Unreachable> {
    let canonical = SocketAddr::new(address.ip().to_canonical(), address.port());
    if terms.of_one.itself == Some(canonical) {
        return Err(Unreachable::Itself(address));
    }
    access
        .map_or(Ok(()), |access| access.check_address(address.ip()))
        .map_err(Unreachable::from)
}

/// Tries the addresses in RFC 8305's order, a new one every 250 ms or as soon as one has failed; the first that answers wins.
async fn race(
    connector: &Connector,
    addresses: &[IpAddr],
    port: u16,
    access: Option<&Access>,
    terms: &AllTerms,
    trying: impl Fn(SocketAddr),
) -> Result<Upstream, Unreachable> {
    let mut last = Unreachable::NoServer;
    let mut waiting = Vec::with_capacity(eyeballs::ATTEMPTS_MAX);
    for address in eyeballs::order(addresses) {
        let address = SocketAddr::new(address, port);
        match check(access, address, terms) {
            Ok(()) => waiting.push(address),
            Err(refused) => last = refused,
        }
    }
    if let [only] = waiting.as_slice() {
        trying(*only);
        return connect(&connector.network, *only, terms)
            .await
            .map_err(|error| refused(*only, error));
    }
    let mut waiting = waiting.into_iter();
    let mut attempts = JoinSet::new();
    loop {
        // One at a time has the caller's descriptor; another beside it is made if there is one more.
        let is_alone = attempts.is_empty();
        let place = (!is_alone && waiting.len() > 0).then(|| spare_descriptor(connector));
        let place = place.flatten();
        let next = (is_alone || place.is_some()).then(|| waiting.next());
        let more = match next.flatten() {
            Some(address) => {
                trying(address);
                let (network, terms) = (connector.network.clone(), terms.clone());
                attempts.spawn_local(async move {
                    let _place = place;
                    (address, connect(&network, address, &terms).await)
                });
                waiting.len() > 0
            }
            None if attempts.is_empty() => return Err(last),
            // Without a descriptor for it. There may be one the next time.
            None => waiting.len() > 0,
        };
        let ended = if more {
            tokio::time::timeout(eyeballs::ATTEMPT_DELAY, attempts.join_next()).await
        } else {
            Ok(attempts.join_next().await)
        };
        match ended {
            Ok(Some(Ok((_, Ok(upstream))))) => return Ok(upstream),
            Ok(Some(Ok((address, Err(error))))) => last = refused(address, error),
            Ok(Some(Err(_)) | None) | Err(_) => {}
        }
    }
}

fn refused(address: SocketAddr, error: io::Error) -> Unreachable {
    let error = connect_error(address, error);
    match Shortage::of(&error) {
        Some(shortage) => Unreachable::Shortage(shortage),
        None => Unreachable::Connect { address, error },
    }
}

async fn connect(network: &Network, address: SocketAddr, terms: &AllTerms) -> io::Result<Upstream> {
    match network {
        Network::Kernel => {}
        #[cfg(test)]
        Network::Memory(servers) => {
            let transport = Transport::Memory(servers.connect(address).await?);
            return Ok(Upstream::new(transport, address, terms.unread));
        }
    }
    if let Some(port) = terms.of_one.source_port {
        match connect_from(address, terms, port).await {
            // The port is in use by an earlier connection to this server, or privileged.
            Err(error) if cannot_be_had(&error) => {}
            connected => return connected,
        }
    }
    connect_from(address, terms, 0).await
}

fn cannot_be_had(port_error: &io::Error) -> bool {
    matches!(
        port_error.kind(),
        io::ErrorKind::AddrInUse
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::PermissionDenied
    )
}

/// Connects from `port`; 0: the kernel chooses.
async fn connect_from(address: SocketAddr, terms: &AllTerms, port: u16) -> io::Result<Upstream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_nodelay(true)?;
    // As for clients (`accept::listen`).
    SockRef::from(&socket).set_out_of_band_inline(true)?;
    // Without a mark it would be intercepted like connections of local programs.
    if let Some(mark) = terms.of_one.mark.or(terms.mark) {
        SockRef::from(&socket).set_mark(mark)?;
    }
    if terms.unsent > 0 {
        carrick_splice::tcp::limit_unsent(&socket, terms.unsent)?;
    }
    let Terms {
        source,
        segment_bytes,
        hop_limit,
        profiles,
        ..
    } = &terms.of_one;
    if let Some(source) = source {
        take_address(&socket, address, SocketAddr::new(*source, port))?;
    }
    if let Some(profiles) = profiles {
        profiles.connecting(&socket, address);
    }
    if let Some(hops) = hop_limit {
        set_hop_limit(&socket, address, u32::from(*hops))?;
    }
    let stream = match segment_bytes {
        Some(bytes) => connect_for(socket, address, *bytes).await?,
        None => socket.connect(address).await?,
    };
    if hop_limit.is_some() {
        set_hop_limit(&stream, address, SYSTEM_HOP_LIMIT)?;
    }
    if let Some(profiles) = profiles {
        profiles.connected(&stream, address);
    }
    Ok(Upstream::new(stream, address, terms.unread))
}

/// To the kernel -1 (ip(7), `IP_TTL`).
const SYSTEM_HOP_LIMIT: u32 = u32::MAX;

fn set_hop_limit(socket: &impl AsFd, server: SocketAddr, hops: u32) -> io::Result<()> {
    let socket = SockRef::from(socket);
    if server.is_ipv4() {
        socket.set_ttl_v4(hops)
    } else {
        socket.set_unicast_hops_v6(hops)
    }
}

/// Connects, and limits the segments that the server may send. The limit does not apply to what this host sends, unless
/// the server is so near that its answer arrives before the first call of `connect(2)` returns.
async fn connect_for(socket: TcpSocket, address: SocketAddr, bytes: u32) -> io::Result<TcpStream> {
    let same = socket.as_fd().try_clone_to_owned()?;
    // The connection works without the limit.
    let _ = limit_segments(&same, bytes);
    let mut connecting = pin!(socket.connect(address));
    let first = poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx))).await;
    let _ = limit_segments(&same, 0);
    drop(same);
    match first {
        Poll::Ready(result) => result,
        Poll::Pending => connecting.await,
    }
}

/// Gives a socket the address of another machine (ip(7), `IP_TRANSPARENT`). Without a port, the kernel chooses one when
/// it connects, so the ports of a client's connections must differ only per server.
fn take_address(socket: &TcpSocket, server: SocketAddr, own: SocketAddr) -> io::Result<()> {
    let source = own.ip();
    let failed = |call: &str, error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("keep_client_address: cannot connect as {source}: {call}: {error}"),
        )
    };
    let kernel = SockRef::from(socket);
    match (source, server) {
        (IpAddr::V4(_), SocketAddr::V4(_)) => kernel
            .set_ip_transparent_v4(true)
            .map_err(|error| failed("setsockopt IP_TRANSPARENT", error))?,
        (IpAddr::V6(_), SocketAddr::V6(_)) => kernel
            .set_ip_transparent_v6(true)
            .map_err(|error| failed("setsockopt IPV6_TRANSPARENT", error))?,
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "keep_client_address: the client's address, {source}, is of the other family"
                ),
            ));
        }
    }
    if own.port() == 0 {
        setsockopt(socket, IpBindAddressNoPort, &true)
            .map_err(|error| failed("setsockopt IP_BIND_ADDRESS_NO_PORT", error.into()))?;
    } else {
        // Connections to other servers may have the same port.
        socket
            .set_reuseaddr(true)
            .map_err(|error| failed("setsockopt SO_REUSEADDR", error))?;
    }
    socket.bind(own).map_err(|error| failed("bind", error))
}
