//! The packets of a deferred SYN: its checksum, and the answers to it, as bytes. No socket, no clock.

use std::net::{IpAddr, SocketAddr};

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Offsets of the TTL (RFC 791 section 3.1) and the hop limit (RFC 8200 section 3).
const IPV4_TTL_AT: usize = 8;
const IPV6_HOP_LIMIT_AT: usize = 7;

/// Offsets of fields of a TCP header (RFC 9293 section 3.1).
const SEQUENCE_AT: usize = 4;
const HEADER_WORDS_AT: usize = 12;
const CHECKSUM_AT: usize = 16;

/// The MSS option of a SYN (RFC 9293 section 3.7.1).
const OPTION_MSS: u8 = 2;

const FLAG_RST: u8 = 0x04;
const FLAG_ACK: u8 = 0x10;

/// The usual initial TTL of hosts.
const HOPS: u8 = 64;

/// The most bytes of an ICMP error over IPv6, headers included: every link takes it (RFC 4443 section 2.4).
const ICMPV6_BYTES_MAX: usize = 1280;

/// Likewise over IPv4 (RFC 1812 section 4.3.2.3).
const ICMP_BYTES_MAX: usize = 576;

/// Why a server cannot be reached, as ICMP says it (RFC 792, RFC 1122 section 3.2.2.1, RFC 4443 section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// There is no route to its network.
    Network,
    /// There is a route, but no host has its address.
    Host,
    /// It is forbidden on the way.
    Prohibited,
}

impl Unreachable {
    /// Type and code.
    fn numbers(self, is_ipv6: bool) -> [u8; 2] {
        match (is_ipv6, self) {
            (false, Unreachable::Network) => [3, 0],
            (false, Unreachable::Host) => [3, 1],
            (false, Unreachable::Prohibited) => [3, 13],
            (true, Unreachable::Network) => [1, 0],
            (true, Unreachable::Prohibited) => [1, 1],
            (true, Unreachable::Host) => [1, 3],
        }
    }
}

/// A SYN in an IP packet, whose bytes it borrows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Syn<'p> {
    packet: &'p [u8],
    tcp_at: usize,
    client: IpAddr,
    server: IpAddr,
}

impl<'p> Syn<'p> {
    /// Parses a packet that the kernel has checked already; `None` if it is invalid all the same.
    pub(super) fn read(packet: &'p [u8]) -> Option<Syn<'p>> {
        let (tcp_at, client, server) = if packet.first()? >> 4 == 4 {
            let address = |at: usize| <[u8; 4]>::try_from(packet.get(at..at + 4)?).ok();
            let header = usize::from(packet[0] & 15) * 4;
            (header, address(12)?.into(), address(16)?.into())
        } else {
            let address = |at: usize| <[u8; 16]>::try_from(packet.get(at..at + 16)?).ok();
            (IPV6_HEADER, address(8)?.into(), address(24)?.into())
        };
        let syn = Syn {
            packet,
            tcp_at,
            client,
            server,
        };
        (syn.tcp().len() >= TCP_HEADER && syn.header_bytes() <= syn.tcp().len()).then_some(syn)
    }

    fn tcp(&self) -> &'p [u8] {
        self.packet.get(self.tcp_at..).unwrap_or_default()
    }

    fn is_ipv6(&self) -> bool {
        self.client.is_ipv6()
    }

    fn header_bytes(&self) -> usize {
        usize::from(self.tcp()[HEADER_WORDS_AT] >> 4) * 4
    }

    fn port(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.tcp()[at], self.tcp()[at + 1]])
    }

    pub(super) fn client(&self) -> SocketAddr {
        SocketAddr::new(self.client, self.port(0))
    }

    pub(super) fn server(&self) -> SocketAddr {
        SocketAddr::new(self.server, self.port(2))
    }

    /// Its TTL or hop limit.
    pub(super) fn hop_limit(&self) -> u8 {
        let at = if self.is_ipv6() {
            IPV6_HOP_LIMIT_AT
        } else {
            IPV4_TTL_AT
        };
        self.packet[at]
    }

    /// The longest segment that the client takes, if it says.
    pub(super) fn segment_bytes(&self) -> Option<u16> {
        let mut options = self.tcp().get(TCP_HEADER..self.header_bytes())?;
        loop {
            match *options {
                [1, ref rest @ ..] => options = rest,
                [OPTION_MSS, 4, high, low, ..] => return Some(u16::from_be_bytes([high, low])),
                [kind, length, ..] if kind > 1 && length >= 2 => {
                    options = options.get(usize::from(length)..)?;
                }
                _ => return None,
            }
        }
    }

    /// The packet with its full TCP checksum. Local senders on virtual interfaces leave it to the device,
    /// with only the pseudo header's sum in place (`CHECKSUM_PARTIAL`). `None`: it is wrong, and no host
    /// would accept the packet.
    pub(super) fn with_checksum(&self) -> Option<Vec<u8>> {
        let mut packet = self.packet.to_vec();
        let field = self.tcp_at + CHECKSUM_AT;
        let pseudo = pseudo_header(self.client, self.server, TCP, self.tcp().len());
        if checksum(pseudo, self.tcp()) == 0 {
            return Some(packet);
        }
        let told = u16::from_be_bytes([packet[field], packet[field + 1]]);
        if told != fold(pseudo) {
            return None;
        }
        packet[field..field + 2].fill(0);
        let sum = checksum(pseudo, &packet[self.tcp_at..]);
        packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        Some(packet)
    }

    /// The reset of a host without a listener on the port (RFC 9293 section 3.10.7.1).
    pub(super) fn reset(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let sequence = u32::from_be_bytes([
            tcp[SEQUENCE_AT],
            tcp[SEQUENCE_AT + 1],
            tcp[SEQUENCE_AT + 2],
            tcp[SEQUENCE_AT + 3],
        ]);
        // The SYN takes one number, and its TCP Fast Open data one per byte.
        let taken = 1 + (tcp.len() - self.header_bytes()) as u32;
        let mut answer = Vec::with_capacity(TCP_HEADER);
        answer.extend_from_slice(&tcp[2..4]);
        answer.extend_from_slice(&tcp[0..2]);
        answer.extend_from_slice(&[0; 4]);
        answer.extend_from_slice(&sequence.wrapping_add(taken).to_be_bytes());
        answer.extend_from_slice(&[(TCP_HEADER as u8 / 4) << 4, FLAG_RST | FLAG_ACK]);
        answer.extend_from_slice(&[0; 6]);
        self.answer(TCP, &mut answer, CHECKSUM_AT)
    }

    /// The ICMP error of a router that cannot forward, in the server's name: of all addresses on the path,
    /// only the server's is known to reach the client.
    pub(super) fn unreachable(&self, why: Unreachable) -> Vec<u8> {
        let (protocol, bytes_max) = if self.is_ipv6() {
            (ICMPV6, ICMPV6_BYTES_MAX - IPV6_HEADER)
        } else {
            (ICMP, ICMP_BYTES_MAX - IPV4_HEADER)
        };
        let mut answer = why.numbers(self.is_ipv6()).to_vec();
        answer.extend_from_slice(&[0; 6]);
        let quoted = self.packet.len().min(bytes_max - answer.len());
        answer.extend_from_slice(&self.packet[..quoted]);
        self.answer(protocol, &mut answer, 2)
    }

    /// A packet from the server to the client. `content` has its checksum at `checksum_at`, which is 0 still.
    fn answer(&self, protocol: u8, content: &mut [u8], checksum_at: usize) -> Vec<u8> {
        let pseudo = if protocol == ICMP {
            0
        } else {
            pseudo_header(self.server, self.client, protocol, content.len())
        };
        let sum = checksum(pseudo, content);
        content[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
        let mut packet = Vec::with_capacity(IPV6_HEADER + content.len());
        match (self.server, self.client) {
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                packet.extend_from_slice(&[0x60, 0, 0, 0]);
                packet.extend_from_slice(&(content.len() as u16).to_be_bytes());
                packet.extend_from_slice(&[protocol, HOPS]);
                packet.extend_from_slice(&from.octets());
                packet.extend_from_slice(&to.octets());
            }
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let length = (IPV4_HEADER + content.len()) as u16;
                packet.extend_from_slice(&[0x45, 0]);
                packet.extend_from_slice(&length.to_be_bytes());
                // Never fragmented, so its identification is meaningless (RFC 6864).
                packet.extend_from_slice(&[0, 0, 0x40, 0, HOPS, protocol, 0, 0]);
                packet.extend_from_slice(&from.octets());
                packet.extend_from_slice(&to.octets());
                let sum = checksum(0, &packet);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            _ => {}
        }
        packet.extend_from_slice(content);
        packet
    }
}

/// The sum of a pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1).
fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, bytes: usize) -> u32 {
    let words = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    words(from) + words(to) + u32::from(protocol) + bytes as u32
}

/// The sum of 16-bit words, not folded; of packets, it does not overflow.
fn sum(bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks(2);
    pairs
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// The checksum of the Internet (RFC 1071), with a sum that counts, too; 0 if the bytes have the right one in them.
fn checksum(more: u32, bytes: &[u8]) -> u16 {
    !fold(more + sum(bytes))
}

#[cfg(test)]
mod tests;
