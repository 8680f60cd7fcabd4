//! Which Ethernet address an IP address has: questions and answers of ARP (RFC 826) and neighbour discovery (RFC 4861).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::wan::packet::{
    ETHERNET_BYTES, Header, ICMPV6, Mac, TYPE_ARP, TYPE_IPV6, checksum, ethernet_type,
};

const BROADCAST: Mac = [0xff; 6];
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const OPTION_SOURCE_ADDRESS: u8 = 1;
const OPTION_TARGET_ADDRESS: u8 = 2;

/// A frame that asks for the Ethernet address of `target`; `None` if the families differ.
pub(crate) fn question(own_mac: Mac, own: IpAddr, target: IpAddr) -> Option<Vec<u8>> {
    match (own, target) {
        (IpAddr::V4(own), IpAddr::V4(target)) => Some(arp_request(own_mac, own, target)),
        (IpAddr::V6(own), IpAddr::V6(target)) => Some(solicitation(own_mac, own, target)),
        _ => None,
    }
}

fn arp_request(own_mac: Mac, own: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut frame = ethernet(BROADCAST, own_mac, TYPE_ARP);
    // Ethernet and IPv4, with their lengths of address; a request.
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(own_mac);
    frame.extend(own.octets());
    frame.extend([0; 6]);
    frame.extend(target.octets());
    frame
}

/// RFC 4861, section 4.3, to the solicited-node multicast address (RFC 4291, section 2.7.1).
fn solicitation(own_mac: Mac, own: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    const MESSAGE_BYTES: u16 = 32;
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    message.extend([OPTION_SOURCE_ADDRESS, 1]);
    message.extend(own_mac);
    // RFC 8200, section 8.1: the pseudo-header.
    let mut pseudo = Vec::from(own.octets());
    pseudo.extend(group.octets());
    pseudo.extend([0, 0, 0, MESSAGE_BYTES as u8, 0, 0, 0, ICMPV6]);
    pseudo.extend(&message);
    let sum = checksum(&pseudo, 0).to_be_bytes();
    message[2..4].copy_from_slice(&sum);

    let mut frame = ethernet([0x33, 0x33, 0xff, a, b, c], own_mac, TYPE_IPV6);
    frame.extend([0x60, 0, 0, 0]);
    frame.extend(MESSAGE_BYTES.to_be_bytes());
    // Neighbours only believe packets that no router has passed on.
    frame.extend([ICMPV6, 255]);
    frame.extend(own.octets());
    frame.extend(group.octets());
    frame.extend(message);
    frame
}

fn ethernet(to: Mac, from: Mac, kind: u16) -> Vec<u8> {
    let mut frame = Vec::with_capacity(96);
    frame.extend(to);
    frame.extend(from);
    frame.extend(kind.to_be_bytes());
    frame
}

/// Who an ARP frame, question or answer, says that its sender is.
pub(crate) fn read_arp(frame: &[u8]) -> Option<(IpAddr, Mac)> {
    let message = frame.get(ETHERNET_BYTES..ETHERNET_BYTES + 28)?;
    if ethernet_type(frame)? != TYPE_ARP || message[..6] != [0, 1, 8, 0, 6, 4] {
        return None;
    }
    let mac = *message.get(8..)?.first_chunk::<6>()?;
    let address = Ipv4Addr::from(*message.get(14..)?.first_chunk::<4>()?);
    // A probe has no address yet (RFC 5227).
    (!address.is_unspecified()).then_some((address.into(), mac))
}

/// Whether a packet is neighbour discovery, and who it says that its sender (or target) is.
pub(crate) fn read_discovery(frame: &[u8], header: &Header) -> Option<Option<(IpAddr, Mac)>> {
    if header.protocol != ICMPV6 || !header.flow.from.is_ipv6() {
        return None;
    }
    let message = frame.get(header.payload_at..)?;
    let (wanted, address) = match *message.first()? {
        SOLICITATION => (OPTION_SOURCE_ADDRESS, header.flow.from),
        ADVERTISEMENT => {
            let target = *message.get(8..)?.first_chunk::<16>()?;
            (OPTION_TARGET_ADDRESS, Ipv6Addr::from(target).into())
        }
        _ => return None,
    };
    if header.hop_limit != 255 || address.is_unspecified() {
        return Some(None);
    }
    let mut options = message.get(24..).unwrap_or_default();
    while let [kind, length, ..] = *options {
        let bytes = usize::from(length) * 8;
        if kind == wanted && length == 1 {
            let mac = options.get(2..).and_then(|rest| rest.first_chunk::<6>());
            return Some(mac.map(|mac| (address, *mac)));
        }
        if bytes == 0 {
            break;
        }
        options = options.get(bytes..).unwrap_or_default();
    }
    // An answer to a question that was sent to one neighbour alone need not repeat the address (section 4.4).
    let source = frame.get(6..).and_then(|rest| rest.first_chunk::<6>());
    Some(source.map(|mac| (address, *mac)))
}

#[cfg(test)]
mod tests;
