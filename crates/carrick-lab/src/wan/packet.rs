//! Frames as the kernel gives and takes them: what a packet's headers say, its way to the next hop written into it.
//!
//! A frame is Ethernet, without a VLAN tag; in front of it stands a virtio-net header (`PACKET_VNET_HDR`, packet(7)),
//! which says how far checksums and segmentation are left to a device that never comes on a veth pair.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::wan::rules::Flow;

/// Length of the virtio-net header (linux/virtio_net.h, `struct virtio_net_hdr`).
pub const OFFLOAD_BYTES: usize = 10;
/// Length of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Ethernet's number for IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// Ethernet's number for ARP.
pub const TYPE_ARP: u16 = 0x0806;
/// Ethernet's number for IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Its neighbour discovery is read in `resolve`.
pub const ICMPV6: u8 = 58;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// What the emulator reads in an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Addresses and ports.
    pub flow: Flow,
    /// The protocol above IP, behind IPv6's extension headers.
    pub protocol: u8,
    /// Where that begins, from the beginning of the frame.
    pub payload_at: usize,
    /// Bytes from the IP header on.
    pub bytes: usize,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
}

/// Ethernet's number of what a frame carries.
#[must_use]
pub fn ethernet_type(frame: &[u8]) -> Option<u16> {
    u16_at(frame, 12)
}

/// Reads the headers of a frame; `None`: it is no IP packet, or is cut off within its headers.
#[must_use]
pub fn read(frame: &[u8]) -> Option<Header> {
    match ethernet_type(frame)? {
        TYPE_IPV4 => read_ipv4(frame),
        TYPE_IPV6 => read_ipv6(frame),
        _ => None,
    }
}

/// RFC 791, section 3.1.
fn read_ipv4(frame: &[u8]) -> Option<Header> {
    let packet = frame.get(ETHERNET_BYTES..)?;
    let first = *packet.first()?;
    let header_bytes = usize::from(first & 0x0f) * 4;
    let total_bytes = usize::from(u16_at(packet, 2)?);
    if first >> 4 != 4 || header_bytes < 20 || packet.len() < header_bytes {
        return None;
    }
    let is_later_fragment = u16_at(packet, 6)? & 0x1fff != 0;
    let protocol = *packet.get(9)?;
    let address = |at: usize| {
        let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(bytes)))
    };
    let payload_at = ETHERNET_BYTES + header_bytes;
    Some(Header {
        flow: Flow {
            from: address(12)?,
            to: address(16)?,
            ports: ports(frame, protocol, payload_at).filter(|_| !is_later_fragment),
        },
        protocol,
        payload_at,
        // Ethernet may pad; a total length of 0 means that segmentation offload passes more than 64 KB.
        bytes: if (header_bytes..packet.len()).contains(&total_bytes) {
            total_bytes
        } else {
            packet.len()
        },
        hop_limit: *packet.get(8)?,
    })
}

/// RFC 8200, sections 3 and 4.
fn read_ipv6(frame: &[u8]) -> Option<Header> {
    const FIXED_BYTES: usize = 40;
    /// More extension headers than anybody sends.
    const EXTENSIONS_MAX: usize = 8;
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;

    let packet = frame.get(ETHERNET_BYTES..)?;
    if packet.len() < FIXED_BYTES || packet.first()? >> 4 != 6 {
        return None;
    }
    let address = |at: usize| {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bytes)))
    };
    let mut protocol = *packet.get(6)?;
    let mut payload_at = ETHERNET_BYTES + FIXED_BYTES;
    let mut is_later_fragment = false;
    for _ in 0..EXTENSIONS_MAX {
        let extension_bytes = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION => 8 + usize::from(*frame.get(payload_at + 1)?) * 8,
            FRAGMENT => {
                is_later_fragment = u16_at(frame, payload_at + 2)? & 0xfff8 != 0;
                8
            }
            _ => break,
        };
        protocol = *frame.get(payload_at)?;
        payload_at += extension_bytes;
    }
    let total_bytes = FIXED_BYTES + usize::from(u16_at(packet, 4)?);
    Some(Header {
        flow: Flow {
            from: address(8)?,
            to: address(24)?,
            ports: ports(frame, protocol, payload_at).filter(|_| !is_later_fragment),
        },
        protocol,
        payload_at,
        bytes: if (FIXED_BYTES + 1..packet.len()).contains(&total_bytes) {
            total_bytes
        } else {
            packet.len()
        },
        hop_limit: *packet.get(7)?,
    })
}

fn ports(frame: &[u8], protocol: u8, at: usize) -> Option<[u16; 2]> {
    if protocol != TCP && protocol != UDP {
        return None;
    }
    Some([u16_at(frame, at)?, u16_at(frame, at + 2)?])
}

/// What the ACK filter reads in a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The acknowledgement number.
    pub acknowledged: u32,
    /// It acknowledges and does nothing else: no payload, no flag but ACK and PSH, no selective acknowledgement (RFC 2018).
    pub is_pure_ack: bool,
    /// SYN or RST.
    pub begins_or_aborts: bool,
    /// FIN.
    pub ends: bool,
}

/// Reads a TCP header (RFC 9293, section 3.1); `None`: it is none, a later fragment, or cut off.
#[must_use]
pub fn read_tcp(frame: &[u8], header: &Header) -> Option<Segment> {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const PSH: u8 = 8;
    const ACK: u8 = 16;
    if header.protocol != TCP || header.flow.ports.is_none() {
        return None;
    }
    let tcp = frame.get(header.payload_at..)?;
    let header_bytes = usize::from(*tcp.get(12)? >> 4) * 4;
    let flags = *tcp.get(13)?;
    let options = tcp.get(20..header_bytes)?;
    let before = header.payload_at - ETHERNET_BYTES + header_bytes;
    let is_plain = flags & !PSH == ACK;
    Some(Segment {
        acknowledged: u32::from_be_bytes(*tcp.get(8..)?.first_chunk::<4>()?),
        is_pure_ack: is_plain && header.bytes == before && !has_selective(options),
        begins_or_aborts: flags & (SYN | RST) != 0,
        ends: flags & FIN != 0,
    })
}

/// Whether TCP options have a selective acknowledgement; also if they cannot be read.
fn has_selective(mut options: &[u8]) -> bool {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const SELECTIVE: u8 = 5;
    loop {
        match *options {
            [] | [END, ..] => return false,
            [NOTHING, ..] => options = options.get(1..).unwrap_or_default(),
            [SELECTIVE, ..] => return true,
            [_, length, ..] if length >= 2 && usize::from(length) <= options.len() => {
                options = options.get(usize::from(length)..).unwrap_or_default();
            }
            _ => return true,
        }
    }
}

/// What is left to a device to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// Bytes of payload in each segment, if several are joined.
    pub segment_bytes: Option<usize>,
}

impl Offload {
    /// Reads a virtio-net header.
    #[must_use]
    pub fn read(header: &[u8]) -> Self {
        let kind = header.get(1).copied().unwrap_or_default();
        let size = header.get(4..6).and_then(|bytes| bytes.try_into().ok());
        Self {
            segment_bytes: size
                .map(|bytes| usize::from(u16::from_ne_bytes(bytes)))
                .filter(|size| kind != 0 && *size > 0),
        }
    }

    /// Bytes that a packet will be on a line, where each segment has headers of its own.
    #[must_use]
    pub fn bytes_on_line(&self, frame: &[u8], header: &Header) -> usize {
        let Some(segment_bytes) = self.segment_bytes else {
            return header.bytes;
        };
        let transport_bytes = match header.protocol {
            TCP => frame
                .get(header.payload_at + 12)
                .map_or(20, |offset| usize::from(offset >> 4) * 4),
            _ => 8,
        };
        let headers = header.payload_at - ETHERNET_BYTES + transport_bytes;
        let payload = header.bytes.saturating_sub(headers);
        payload + payload.div_ceil(segment_bytes).max(1) * headers
    }
}

/// Takes one off the hop limit, and corrects IPv4's checksum (RFC 1624, equation 3). The packet was read by [`read`].
pub fn decrement_hop_limit(frame: &mut [u8]) {
    match ethernet_type(frame) {
        Some(TYPE_IPV4) => {
            let (word_at, checksum_at) = (ETHERNET_BYTES + 8, ETHERNET_BYTES + 10);
            let (Some(old), Some(checksum)) = (u16_at(frame, word_at), u16_at(frame, checksum_at))
            else {
                return;
            };
            let new = old.wrapping_sub(0x0100);
            let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
            put_u16(frame, word_at, new);
            put_u16(frame, checksum_at, !fold(sum));
        }
        Some(TYPE_IPV6) => {
            if let Some(hop_limit) = frame.get_mut(ETHERNET_BYTES + 7) {
                *hop_limit = hop_limit.wrapping_sub(1);
            }
        }
        _ => {}
    }
}

/// Writes who sends the frame, and to whom.
pub fn address(frame: &mut [u8], to: Mac, from: Mac) {
    if let Some(addresses) = frame.first_chunk_mut::<12>() {
        addresses[..6].copy_from_slice(&to);
        addresses[6..].copy_from_slice(&from);
    }
}

/// Whether a router may send packets on to an address at all.
#[must_use]
pub fn is_routable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !(address.is_multicast()
                || address.is_broadcast()
                || address.is_loopback()
                || address.is_unspecified()
                || address.is_link_local())
        }
        IpAddr::V6(address) => {
            !(address.is_multicast()
                || address.is_loopback()
                || address.is_unspecified()
                || address.is_unicast_link_local())
        }
    }
}

/// The Internet checksum of some bytes (RFC 1071), begun with `sum`.
#[must_use]
pub fn checksum(bytes: &[u8], sum: u32) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or_default();
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    !fold(sum + words.sum::<u32>())
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A big-endian number.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(pair) = bytes.get_mut(at..at + 2) {
        pair.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
