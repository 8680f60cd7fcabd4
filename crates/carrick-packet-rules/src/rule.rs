//! What a rule says: which packets it takes, and what happens to them.

use carrick_splice::hooks::Direction;
use ipnet::IpNet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// A rule: which packets, and what happens to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What errors call it. Need not be unique; may be empty.
    pub name: String,
    /// Which packets it takes, if no rule before it does.
    pub packets: Match,
    /// What happens to them.
    pub action: Action,
}

/// Which packets a rule takes. What is left as [`Match::default`] has it, takes all: TCP and UDP, both ways, from and to
/// everywhere, but only packets without a VLAN tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// What comes in at an interface, or what goes out; `None`: both.
    pub direction: Option<Direction>,
    /// The name of the interface; `None`: each that has the programs.
    pub interface: Option<String>,
    /// The number of the VLAN whose tag the packet has where it is seen, 1 to 4094. `None`: no tag, or one for priority alone.
    /// A VLAN's packets have no tag any more on the VLAN's own interface, but one on the interface below, where they
    /// are seen as well: so without this a rule meets each packet once.
    pub vlan: Option<u16>,
    /// `None`: TCP and UDP.
    pub protocol: Option<Protocol>,
    /// Where it is from. A prefix of IPv4 takes no IPv6, and the other way round.
    pub source: Option<IpNet>,
    /// Where it is going; of the same family as `source`.
    pub destination: Option<IpNet>,
    /// Ports that it is from.
    pub source_ports: RangeInclusive<u16>,
    /// Ports that it goes to.
    pub destination_ports: RangeInclusive<u16>,
}

impl Default for Match {
    fn default() -> Match {
        Match {
            direction: None,
            interface: None,
            vlan: None,
            protocol: None,
            source: None,
            destination: None,
            source_ports: 0..=u16::MAX,
            destination_ports: 0..=u16::MAX,
        }
    }
}

/// The protocols that rules know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

/// What happens to a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It goes where it was going: up to the host, or out. Other programs on the same hook see it.
    Pass,
    /// It is gone; nobody is told.
    Drop,
    /// It goes to a local TCP socket.
    Redirect(Redirect),
    /// It is changed, and goes on.
    Rewrite(Rewrite),
}

/// Gives TCP packets that come in to the socket that listens on a port of this host, whatever their destination. Nothing in them is
/// changed: the socket's own address (`getsockname(2)`) is the destination that the client asked for, and answers
/// have it as their source. A packet of a connection that stands goes to the connection's socket.
///
/// The socket is bound to no address (`0.0.0.0`, `::`), or to the packets' destination; one that is bound to `127.0.0.1` is not found.
///
/// The rule takes only packets that come in ([`Direction::Ingress`]) and are TCP. Where nobody listens, and where the kernel refuses,
/// packets are passed up unchanged, and counted as failed. Before Linux 6.6 it refuses listening sockets with `SO_REUSEPORT`.
///
/// For destinations that are addresses of this host, that is all. For others
/// - the listening socket needs `IP_TRANSPARENT` (`CAP_NET_ADMIN`);
/// - routing has to take the packets for local ones, or drops them. That is what `mark` is for:
///   `ip rule add fwmark MARK lookup TABLE`, `ip route add local default dev lo table TABLE`, and both with `ip -6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redirect {
    /// The port that the socket listens on, 1 to 65535.
    pub port: u16,
    /// The firewall mark that the packets get, not 0; `None`: they keep theirs.
    pub mark: Option<u32>,
}

/// What changes in a TCP header beside its ports. What is `None`, 0 or the default stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RewriteTcp {
    /// Added to the sequence number, modulo 2^32.
    pub sequence: u32,
    /// Added to the acknowledgement number, if there is one, and to those of SACK blocks, modulo 2^32.
    pub acknowledgement: u32,
    /// The window.
    pub window: Option<Window>,
    /// In a SYN, a maximum segment size that is larger becomes this, in bytes, at least 1.
    pub mss_max: Option<u16>,
    /// Timestamps (RFC 7323).
    pub timestamps: Timestamps,
    /// A SYN does not offer selective acknowledgements any more (RFC 2018), so that the connection has none.
    pub refuses_sack: bool,
}

/// Changes headers, and sends packets on. What is `None`, 0 or the default stays as it is. Checksums are kept right; a wrong one
/// stays wrong. Nothing is done by half: if something cannot be done the packet is dropped, and counted as failed.
///
/// A packet has no memory of its connection: for answers there must be a rule that takes everything back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rewrite {
    /// The new source, of the family that the rule takes.
    pub source: Option<IpAddr>,
    /// The new destination, likewise.
    pub destination: Option<IpAddr>,
    /// The new source port, not 0.
    pub source_port: Option<u16>,
    /// The new destination port, not 0.
    pub destination_port: Option<u16>,
    /// What changes in a TCP header otherwise; the rule must take TCP alone.
    pub tcp: RewriteTcp,
    /// The name of the interface by which it is sent on, to the next hop that the routes for its (new) destination by this
    /// interface have; a VLAN tag is taken off. No rule looks at it again, and its firewall mark is lost. If it came in, its hop limit
    /// becomes one less; if that was 1, it is dropped. The kernel drops, uncounted, what it finds no next hop for, and frames that are
    /// addressed to several hosts (broadcast, multicast). `None`: it goes where it was going; at ingress that is decided by the new destination.
    pub exit: Option<String>,
}

/// The window field: 16 bits as they are in the header, without the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// It becomes this.
    Set(u16),
    /// It becomes this if it is larger.
    AtMost(u16),
}

/// What happens to timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timestamps {
    /// Nothing.
    #[default]
    Keep,
    /// A SYN does not offer them any more, so that the connection has none.
    Refuse,
    /// To the sender's own (TSval) and, where there is an acknowledgement, to the one that it gives back (TSecr) this is added,
    /// modulo 2^32.
    Add {
        /// To TSval.
        value: u32,
        /// To TSecr.
        echo: u32,
    },
}

impl Match {
    /// The family of addresses that it takes, where it takes only one.
    pub(super) fn family(&self) -> Option<Family> {
        let prefix = self.source.or(self.destination)?;
        Some(Family::of(prefix.addr()))
    }
}

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }
}

impl Rewrite {
    /// Its new addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.source.into_iter().chain(self.destination)
    }
}

impl Rule {
    /// The names of interfaces in it.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let exit = match &self.action {
            Action::Rewrite(rewrite) => rewrite.exit.as_deref(),
            _ => None,
        };
        self.packets.interface.as_deref().into_iter().chain(exit)
    }
}
