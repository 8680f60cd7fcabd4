//! Frames as the kernel gives and takes them: what a packet's headers say, its way to the next hop written into it.
//!
//! A frame is Ethernet, without a VLAN tag; in front of it stands a virtio-net header (`PACKET_VNET_HDR`, packet(7)),
//! which says how far checksums and segmentation are left to a device that never comes on a veth pair.

use std::net::IpAddr;

use etherparse::{
    IpFragOffset, Ipv6ExtensionSlice, LaxIpSlice, TcpOptionElement, TcpSlice, ip_number,
};

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

const TCP: u8 = ip_number::TCP.0;

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
    let (ip, _) = LaxIpSlice::from_slice(frame.get(ETHERNET_BYTES..)?).ok()?;
    let is_later = |offset: IpFragOffset| offset.value() != 0;
    let (kind, hop_limit, is_later_fragment) = match &ip {
        LaxIpSlice::Ipv4(ip) => {
            let header = ip.header();
            let offset = header.fragments_offset();
            (TYPE_IPV4, header.ttl(), is_later(offset))
        }
        LaxIpSlice::Ipv6(ip) => {
            let mut extensions = ip.extensions().clone().into_iter();
            let is_later_fragment = extensions.any(|extension| {
                matches!(extension, Ipv6ExtensionSlice::Fragment(part) if is_later(part.fragment_offset()))
            });
            (TYPE_IPV6, ip.header().hop_limit(), is_later_fragment)
        }
    };
    if ethernet_type(frame)? != kind {
        return None;
    }
    let above = ip.payload();
    let has_ports = matches!(above.ip_number, ip_number::TCP | ip_number::UDP);
    let ports = above
        .payload
        .first_chunk::<4>()
        .filter(|_| has_ports && !is_later_fragment);
    let payload_at = above.payload.as_ptr().addr() - frame.as_ptr().addr();
    Some(Header {
        flow: Flow {
            from: ip.source_addr(),
            to: ip.destination_addr(),
            ports: ports.map(|&[a, b, c, d]| [[a, b], [c, d]].map(u16::from_be_bytes)),
        },
        protocol: above.ip_number.0,
        payload_at,
        // Without Ethernet's padding. A length of 0 means that segmentation offload passes more than 64 KB.
        bytes: payload_at - ETHERNET_BYTES + above.payload.len(),
        hop_limit,
    })
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

/// Reads a TCP header; `None`: it is none, a later fragment, or cut off.
#[must_use]
pub fn read_tcp(frame: &[u8], header: &Header) -> Option<Segment> {
    if header.protocol != TCP || header.flow.ports.is_none() {
        return None;
    }
    let segment = frame.get(header.payload_at..ETHERNET_BYTES + header.bytes)?;
    let tcp = TcpSlice::from_slice(segment).ok()?;
    let others = [
        tcp.syn(),
        tcp.rst(),
        tcp.fin(),
        tcp.urg(),
        tcp.ece(),
        tcp.cwr(),
    ];
    let is_plain = tcp.ack() && !others.contains(&true);
    // Options that cannot be read may be anything.
    let is_selective = |option| {
        matches!(
            option,
            Ok(TcpOptionElement::SelectiveAcknowledgement(..)) | Err(_)
        )
    };
    Some(Segment {
        acknowledged: tcp.acknowledgment_number(),
        is_pure_ack: is_plain
            && tcp.payload().is_empty()
            && !tcp.options_iterator().any(is_selective),
        begins_or_aborts: tcp.syn() || tcp.rst(),
        ends: tcp.fin(),
    })
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

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A big-endian number.
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
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
