//! Devices and routes of this network namespace, as `ip -j` tells them, and which way an address is.

use std::collections::HashSet;
use std::net::IpAddr;

use serde::Deserialize;

use crate::wan::packet::Mac;
use crate::wan::spec::Subnet;

/// A device that packets come and go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// The kernel's number for it.
    pub index: u32,
    /// Its Ethernet address; none: it has no such thing.
    pub mac: Option<Mac>,
    /// Whether it is up.
    pub is_up: bool,
    /// Its addresses, with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl Device {
    /// The subnets that can be reached without a gateway.
    fn subnets(&self) -> impl Iterator<Item = Subnet> {
        self.addresses
            .iter()
            .map(|(address, bits)| subnet_of(*address, *bits))
    }

    /// Whether an address is in one of its subnets.
    #[must_use]
    pub fn is_near(&self, address: IpAddr) -> bool {
        self.subnets().any(|subnet| subnet.contains(address))
    }

    /// The address to ask a neighbour with: of its subnet, else of its family.
    #[must_use]
    pub fn own_address_for(&self, neighbour: IpAddr) -> Option<IpAddr> {
        let near = self
            .addresses
            .iter()
            .find(|(own, bits)| subnet_of(*own, *bits).contains(neighbour));
        let alike = || {
            let is_alike = |(own, _): &&(IpAddr, u8)| own.is_ipv4() == neighbour.is_ipv4();
            self.addresses.iter().find(is_alike)
        };
        near.or_else(alike).map(|(own, _)| *own)
    }
}

/// The next step of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Place in the list of devices.
    pub device: usize,
    /// The neighbour that the packet is sent to.
    pub next: IpAddr,
}

/// All that is needed to find a packet's way.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    own: HashSet<IpAddr>,
    /// Longest prefix first, then lowest metric.
    routes: Vec<Route>,
}

#[derive(Clone, Debug)]
struct Route {
    to: Subnet,
    /// `None`: a device that the emulator does not serve.
    device: Option<usize>,
    gateway: Option<IpAddr>,
    metric: u64,
}

#[derive(Deserialize)]
struct LinkJson {
    ifname: String,
    ifindex: u32,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    link_type: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    addr_info: Vec<AddressJson>,
}

#[derive(Deserialize)]
struct AddressJson {
    local: Option<IpAddr>,
    #[serde(default)]
    prefixlen: u8,
}

#[derive(Deserialize)]
struct RouteJson {
    #[serde(rename = "type")]
    kind: Option<String>,
    dst: String,
    gateway: Option<IpAddr>,
    via: Option<ViaJson>,
    dev: Option<String>,
    #[serde(default)]
    metric: u64,
    #[serde(default)]
    nexthops: Vec<HopJson>,
}

#[derive(Deserialize)]
struct ViaJson {
    host: IpAddr,
}

#[derive(Deserialize)]
struct HopJson {
    gateway: Option<IpAddr>,
    dev: Option<String>,
}

/// Reads `ip -j address show`.
///
/// # Errors
/// When it is not what iproute2 writes.
pub fn read_devices(json: &str) -> Result<Vec<Device>, serde_json::Error> {
    let links: Vec<LinkJson> = serde_json::from_str(json)?;
    Ok(links
        .into_iter()
        .map(|link| Device {
            mac: read_mac(&link.address).filter(|_| link.link_type == "ether"),
            is_up: link.flags.iter().any(|flag| flag == "UP"),
            addresses: link
                .addr_info
                .iter()
                .filter_map(|info| Some((info.local?, info.prefixlen)))
                .collect(),
            name: link.ifname,
            index: link.ifindex,
        })
        .collect())
}

fn read_mac(text: &str) -> Option<Mac> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

impl Routes {
    /// Reads `ip -j route show` and `ip -j -6 route show`. `all` are the devices of the namespace, `served` those of the
    /// emulator.
    ///
    /// # Errors
    /// When it is not what iproute2 writes.
    pub fn read(
        all: &[Device],
        served: &[Device],
        ipv4: &str,
        ipv6: &str,
    ) -> Result<Self, serde_json::Error> {
        let place_of = |name: Option<String>| {
            served
                .iter()
                .position(|device| Some(&device.name) == name.as_ref())
        };
        let mut routes = Vec::new();
        for (json, is_ipv4) in [(ipv4, true), (ipv6, false)] {
            // With IPv6 switched off, `ip` says nothing at all.
            if json.trim().is_empty() {
                continue;
            }
            for route in serde_json::from_str::<Vec<RouteJson>>(json)? {
                let Some(to) = read_destination(&route.dst, is_ipv4) else {
                    continue;
                };
                // An `unreachable` or `blackhole` hides shorter prefixes, and leads nowhere.
                let is_unicast = route.kind.as_deref().is_none_or(|kind| kind == "unicast");
                let first = route.nexthops.into_iter().next();
                let (device, gateway) = match first {
                    Some(hop) => (hop.dev, hop.gateway),
                    None => (route.dev, route.gateway.or(route.via.map(|via| via.host))),
                };
                routes.push(Route {
                    to,
                    device: place_of(device).filter(|_| is_unicast),
                    gateway,
                    metric: route.metric,
                });
            }
        }
        routes.sort_by_key(|route| (std::cmp::Reverse(route.to.bits), route.metric));
        let own = all
            .iter()
            .flat_map(|device| device.addresses.iter().map(|(address, _)| *address))
            .collect();
        Ok(Self { own, routes })
    }

    /// Whether an address is this machine's own.
    #[must_use]
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(&address)
    }

    /// Which way an address is; `None`: no served device leads there.
    #[must_use]
    pub fn find(&self, to: IpAddr) -> Option<Hop> {
        let route = self.routes.iter().find(|route| route.to.contains(to))?;
        Some(Hop {
            device: route.device?,
            next: route.gateway.unwrap_or(to),
        })
    }
}

fn read_destination(text: &str, is_ipv4: bool) -> Option<Subnet> {
    let text = match (text, is_ipv4) {
        ("default", true) => "0.0.0.0/0".to_owned(),
        ("default", false) => "::/0".to_owned(),
        (subnet, _) if subnet.contains('/') => subnet.to_owned(),
        (address, true) => format!("{address}/32"),
        (address, false) => format!("{address}/128"),
    };
    Subnet::try_from(text).ok()
}

fn subnet_of(address: IpAddr, bits: u8) -> Subnet {
    let address = match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX
                .checked_shl(32_u32.saturating_sub(bits.into()))
                .unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX
                .checked_shl(128_u32.saturating_sub(bits.into()))
                .unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    };
    Subnet { address, bits }
}

#[cfg(test)]
mod tests;
