//! Which Ethernet address an IP address has: questions and answers of ARP (RFC 826) and neighbour discovery (RFC 4861).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::icmpv6::{Icmpv6PayloadSlice, NdpOptionSlice};
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, ArpPacketSlice, Icmpv6Slice, Icmpv6Type, PacketBuilder,
    ip_number,
};

use crate::wan::packet::{ETHERNET_BYTES, Header, Mac, TYPE_ARP, ethernet_type};

const BROADCAST: Mac = [0xff; 6];
/// RFC 4861, section 4.6.1: the sender's Ethernet address, in units of eight bytes.
const SOURCE_ADDRESS: [u8; 2] = [1, 1];

/// A frame that asks for the Ethernet address of `target`; `None` if the families differ.
pub(crate) fn question(own_mac: Mac, own: IpAddr, target: IpAddr) -> Option<Vec<u8>> {
    match (own, target) {
        (IpAddr::V4(own), IpAddr::V4(target)) => arp_request(own_mac, own, target),
        (IpAddr::V6(own), IpAddr::V6(target)) => solicitation(own_mac, own, target),
        _ => None,
    }
}

fn arp_request(own_mac: Mac, own: Ipv4Addr, target: Ipv4Addr) -> Option<Vec<u8>> {
    let arp = ArpEthIpv4Packet {
        operation: ArpOperation::REQUEST,
        sender_mac: own_mac,
        sender_ipv4: own.octets(),
        target_mac: [0; 6],
        target_ipv4: target.octets(),
    };
    let mut frame = Vec::new();
    let packet = PacketBuilder::ethernet2(own_mac, BROADCAST).arp(arp.into());
    packet.write(&mut frame).ok()?;
    Some(frame)
}

/// RFC 4861, section 4.3, to the solicited-node multicast address (RFC 4291, section 2.7.1).
fn solicitation(own_mac: Mac, own: Ipv6Addr, target: Ipv6Addr) -> Option<Vec<u8>> {
    let [.., a, b, c] = target.octets();
    let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
    let message = [&target.octets()[..], &SOURCE_ADDRESS, &own_mac].concat();
    let mut frame = Vec::new();
    // Neighbours only believe packets that no router has passed on: the hop limit is still 255.
    let packet = PacketBuilder::ethernet2(own_mac, [0x33, 0x33, 0xff, a, b, c])
        .ipv6(own.octets(), group, 255)
        .icmpv6(Icmpv6Type::NeighborSolicitation);
    packet.write(&mut frame, &message).ok()?;
    Some(frame)
}

/// Who an ARP frame, question or answer, says that its sender is.
pub(crate) fn read_arp(frame: &[u8]) -> Option<(IpAddr, Mac)> {
    if ethernet_type(frame)? != TYPE_ARP {
        return None;
    }
    let arp = ArpPacketSlice::from_slice(frame.get(ETHERNET_BYTES..)?).ok()?;
    let arp = arp.to_packet().try_eth_ipv4().ok()?;
    let address = arp.sender_ipv4_addr();
    // A probe has no address yet (RFC 5227).
    (!address.is_unspecified()).then_some((address.into(), arp.sender_mac))
}

/// Whether a packet is neighbour discovery, and who it says that its sender (or target) is.
pub(crate) fn read_discovery(frame: &[u8], header: &Header) -> Option<Option<(IpAddr, Mac)>> {
    if header.protocol != ip_number::IPV6_ICMP.0 || !header.flow.from.is_ipv6() {
        return None;
    }
    let message = frame.get(header.payload_at..ETHERNET_BYTES + header.bytes)?;
    let message = Icmpv6Slice::from_slice(message).ok()?;
    let (address, mut options) = match message.payload_slice().ok()? {
        Icmpv6PayloadSlice::NeighborSolicitation(asks) => {
            (header.flow.from, asks.options_iterator())
        }
        Icmpv6PayloadSlice::NeighborAdvertisement(says) => {
            (says.target_address().into(), says.options_iterator())
        }
        _ => return None,
    };
    if header.hop_limit != 255 || address.is_unspecified() {
        return Some(None);
    }
    // A solicitation has the first, an advertisement the second.
    let said = options.find_map(|option| match option.ok()? {
        NdpOptionSlice::SourceLinkLayerAddress(said) => said.link_layer_address().try_into().ok(),
        NdpOptionSlice::TargetLinkLayerAddress(said) => said.link_layer_address().try_into().ok(),
        _ => None,
    });
    // An answer to a question that was sent to one neighbour alone need not repeat the address (section 4.4).
    let mac: Option<Mac> = said.or_else(|| frame.get(6..)?.first_chunk().copied());
    Some(mac.map(|mac| (address, mac)))
}

#[cfg(test)]
mod tests;
