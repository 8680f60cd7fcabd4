//! The network interfaces of this network namespace, and which of them can carry the packet engine.

use crate::netlink::{self, Family, attribute, attributes, u16_at, u32_at};
use std::collections::HashMap;
use std::fmt;
use std::io;

/// linux/rtnetlink.h, linux/if_link.h
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFINFOMSG_BYTES: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;
/// linux/if_arp.h
const ARPHRD_ETHER: u16 = 1;

/// An interface as the kernel tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its number; never given to another one while this one exists.
    pub index: u32,
    /// Its name; may change.
    pub name: String,
    /// The kind of a virtual one (`veth`, `bridge`, `vlan`, `bond`, `tun`, ...); empty for hardware.
    pub kind: String,
    /// The interface that it is a port or member of, by name.
    pub master: Option<String>,
    /// The kind of that one.
    pub master_kind: String,
    /// An interface with addresses of its own, in this namespace, whose packets pass this one as they are: kind and name.
    pub carries: Option<(String, String)>,
    /// The XDP program on it, which sees packets before everybody else.
    pub xdp_program: Option<u32>,
    hardware: u16,
    flags: u32,
}

/// Which interfaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Interfaces {
    /// All that are up and can carry it, also those that appear later.
    #[default]
    All,
    /// Those with these names, as soon as they exist, up or not.
    Named(Vec<String>),
}

/// Why an interface is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsupported {
    /// Both ends of its connections are on this machine.
    Loopback,
    /// It is down.
    Down,
    /// Its packets do not begin with an Ethernet header, but with this (`ARPHRD_...`).
    NoEthernet(u16),
    /// It is a port of a bridge, bond or the like (kind, name): packets are seen again there, and belong to connections there.
    PortOf(String, String),
    /// The packets of another interface (kind, name) pass it, too, and would be translated twice.
    Carries(String, String),
    /// Its packets pass another one (name) that had the programs before.
    Above(String),
    /// It only leads packets to other interfaces (kind), where they are seen.
    Passage(String),
}

/// Interfaces of which others are members, where connections belong to the whole, not to the members. So are those that a driver
/// makes of two devices, which have no kind: a virtual machine's on Hyper-V (netvsc) or with a standby for virtio (`net_failover`).
const WHOLES: [&str; 5] = ["bridge", "bond", "team", "openvswitch", "hsr"];

/// Interfaces whose packets pass the one below them without a sign of whose they are. (Those of VLANs have a tag.)
const CARRIED: [&str; 2] = ["macvlan", "ipvlan"];

/// Interfaces that no connection ends at.
const PASSAGES: [&str; 2] = ["ifb", "vrf"];

impl Interface {
    /// Whether somebody has set it up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.flags & IFF_UP != 0
    }

    /// Why it is left out, if it is. With the names given, it may be down, and a port, if that is what is wanted.
    #[must_use]
    pub fn unsupported(&self, wanted: &Interfaces) -> Option<Unsupported> {
        if self.flags & IFF_LOOPBACK != 0 {
            return Some(Unsupported::Loopback);
        }
        // What is missing for others: the programs parse from the network header on, and write an Ethernet header only where
        // the way out has one (`bpf_redirect_neigh` does).
        if self.hardware != ARPHRD_ETHER {
            return Some(Unsupported::NoEthernet(self.hardware));
        }
        if let Some((kind, name)) = &self.carries {
            return Some(Unsupported::Carries(kind.clone(), name.clone()));
        }
        if matches!(wanted, Interfaces::Named(_)) {
            return None;
        }
        if let Some(master) = &self.master
            && (self.master_kind.is_empty() || WHOLES.contains(&self.master_kind.as_str()))
        {
            return Some(Unsupported::PortOf(
                self.master_kind.clone(),
                master.clone(),
            ));
        }
        if PASSAGES.contains(&self.kind.as_str()) {
            return Some(Unsupported::Passage(self.kind.clone()));
        }
        (!self.is_up()).then_some(Unsupported::Down)
    }
}

impl Unsupported {
    /// The name of the interface that is above this one, where its connections are.
    pub(super) fn above(&self) -> Option<&str> {
        match self {
            Self::Carries(_, name) | Self::PortOf(_, name) => Some(name),
            _ => None,
        }
    }
}

impl Interfaces {
    /// Whether an interface is asked for at all.
    #[must_use]
    pub fn names(&self, interface: &Interface) -> bool {
        match self {
            Interfaces::All => true,
            Interfaces::Named(names) => names.contains(&interface.name),
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Loopback => {
                formatter.write_str("loopback: both ends of its connections are here")
            }
            Unsupported::Down => {
                formatter.write_str("it is down (it is taken up when it comes up)")
            }
            Unsupported::NoEthernet(hardware) => write!(
                formatter,
                "its packets have no Ethernet header ({})",
                hardware_name(*hardware)
            ),
            Unsupported::PortOf(kind, name) => {
                let whole = if kind.is_empty() {
                    name.clone()
                } else {
                    format!("the {kind} {name}")
                };
                write!(
                    formatter,
                    "it is a port of {whole}, where its connections are (to use it all the same, name it)"
                )
            }
            Unsupported::Carries(kind, name) => write!(
                formatter,
                "the packets of the {kind} {name} pass it, too; connections over {name} can be forwarded in the kernel, those over this interface cannot"
            ),
            Unsupported::Above(name) => write!(
                formatter,
                "its packets pass {name}, which had the engine first (to move it here, restart carrick)"
            ),
            Unsupported::Passage(kind) => write!(
                formatter,
                "it is of kind {kind}, through which packets only pass (to use it all the same, name it)"
            ),
        }
    }
}

/// All interfaces of the calling thread's network namespace. Needs no privileges.
///
/// # Errors
/// The kernel's; a netlink socket may be forbidden (seccomp, SELinux).
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let messages = netlink::dump(Family::Route, RTM_GETLINK, &[0; IFINFOMSG_BYTES])?;
    let listed: Vec<Listed> = messages
        .iter()
        .filter(|message| message.kind == RTM_NEWLINK)
        .filter_map(|message| parse(&message.body))
        .collect();
    let names: HashMap<u32, String> = listed
        .iter()
        .map(|one| (one.interface.index, one.interface.name.clone()))
        .collect();
    let carried: HashMap<u32, (String, String)> = listed
        .iter()
        .filter(|one| one.interface.is_up() && CARRIED.contains(&one.interface.kind.as_str()))
        .filter_map(|one| {
            let (kind, name) = (one.interface.kind.clone(), one.interface.name.clone());
            Some((one.below?, (kind, name)))
        })
        .collect();
    Ok(listed
        .into_iter()
        .map(
            |Listed {
                 mut interface,
                 master,
                 ..
             }| {
                interface.master = master.and_then(|index| names.get(&index).cloned());
                interface.carries = carried.get(&interface.index).cloned();
                interface
            },
        )
        .collect())
}

/// An interface, and the numbers of others by which it is linked to them.
struct Listed {
    interface: Interface,
    master: Option<u32>,
    /// The one that its packets pass, if that is in this namespace.
    below: Option<u32>,
}

/// Reads `struct ifinfomsg` and what follows it.
fn parse(body: &[u8]) -> Option<Listed> {
    let (mut master, mut below, mut is_elsewhere) = (None, None, false);
    let mut interface = Interface {
        hardware: u16_at(body, 2)?,
        index: u32_at(body, 4)?,
        flags: u32_at(body, 8)?,
        name: String::new(),
        kind: String::new(),
        master: None,
        master_kind: String::new(),
        carries: None,
        xdp_program: None,
    };
    for (kind, value) in attributes(body.get(IFINFOMSG_BYTES..)?) {
        match kind {
            IFLA_IFNAME => interface.name = netlink::text(value),
            IFLA_LINK => below = u32_at(value, 0),
            IFLA_LINK_NETNSID => is_elsewhere = true,
            IFLA_MASTER => master = u32_at(value, 0),
            IFLA_XDP => {
                interface.xdp_program =
                    attribute(value, IFLA_XDP_PROG_ID).and_then(|id| u32_at(id, 0));
            }
            IFLA_LINKINFO => {
                let name = |wanted| {
                    attribute(value, wanted)
                        .map(netlink::text)
                        .unwrap_or_default()
                };
                interface.kind = name(IFLA_INFO_KIND);
                interface.master_kind = name(IFLA_INFO_SLAVE_KIND);
            }
            _ => {}
        }
    }
    Some(Listed {
        interface,
        master,
        below: below.filter(|_| !is_elsewhere),
    })
}

/// linux/if_arp.h
fn hardware_name(hardware: u16) -> String {
    let name = match hardware {
        32 => "InfiniBand",
        512 => "PPP",
        768 => "IP in IP",
        769 => "IP in IPv6",
        776 => "IPv6 in IP (sit)",
        778 => "GRE",
        823 => "GRE over IPv6",
        65_534 => "bare IP packets, as of tun, WireGuard, netkit",
        other => return format!("hardware type {other}"),
    };
    name.to_owned()
}
