//! TCP packets in Ethernet frames, encoded independently: nothing here is shared with the programs.

use std::net::{IpAddr, SocketAddr};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;
pub const URG: u8 = 0x20;
/// ECN: RFC 3168 section 6.1.
pub const ECE: u8 = 0x40;
pub const CWR: u8 = 0x80;

/// The contents of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    /// Of TCP, padded to words.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    /// DSCP and ECN.
    pub tos: u8,
    /// Time to live, or hop limit.
    pub hops: u8,
    /// IPv4, padded to words.
    pub ip_options: Vec<u8>,
}

impl Packet {
    pub fn with(&self, change: impl FnOnce(&mut Packet)) -> Packet {
        let mut packet = self.clone();
        change(&mut packet);
        packet
    }

    /// Encodes it as a frame, with its checksums.
    pub fn bytes(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let (source, destination) = (octets(self.source), octets(self.destination));
        if self.source.is_ipv4() {
            frame.extend([0x08, 0x00]);
            let header_bytes = 20 + self.ip_options.len();
            let mut header = vec![0x40 | (header_bytes / 4) as u8, self.tos];
            header.extend(((header_bytes + tcp.len()) as u16).to_be_bytes());
            header.extend([0x12, 0x34, 0x40, 0, self.hops, 6, 0, 0]);
            header.extend(source);
            header.extend(destination);
            header.extend(&self.ip_options);
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend(header);
        } else {
            frame.extend([
                0x86,
                0xdd,
                0x60 | (self.tos >> 4),
                (self.tos << 4) | 1,
                2,
                3,
            ]);
            frame.extend((tcp.len() as u16).to_be_bytes());
            frame.extend([6, self.hops]);
            frame.extend(source);
            frame.extend(destination);
        }
        frame.extend(tcp);
        frame
    }

    fn tcp(&self) -> Vec<u8> {
        let header_bytes = 20 + self.options.len();
        let mut tcp = Vec::new();
        tcp.extend(self.source.port().to_be_bytes());
        tcp.extend(self.destination.port().to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.extend([(header_bytes / 4 * 16) as u8, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0, 0]);
        tcp.extend(self.urgent.to_be_bytes());
        tcp.extend(&self.options);
        tcp.extend(&self.payload);
        let mut pseudo = octets(self.source);
        pseudo.extend(octets(self.destination));
        pseudo.extend((tcp.len() as u32).to_be_bytes());
        pseudo.extend([0, 0, 0, 6]);
        pseudo.extend(&tcp);
        let sum = checksum(&pseudo);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        tcp
    }
}

/// A router's message to the sender of a packet that was too large, with the allowed size (RFC 1191, RFC 8201). The
/// packet is quoted from its IP header on.
pub fn too_long(router: SocketAddr, to: SocketAddr, quoted: &[u8], mtu: u32) -> Vec<u8> {
    let (is_v4, mut message) = match to.ip() {
        IpAddr::V4(_) => (true, vec![3, 4, 0, 0]),
        IpAddr::V6(_) => (false, vec![2, 0, 0, 0]),
    };
    message.extend(mtu.to_be_bytes());
    message.extend(quoted);
    let mut summed = Vec::new();
    if !is_v4 {
        summed.extend(octets(router));
        summed.extend(octets(to));
        summed.extend((message.len() as u32).to_be_bytes());
        summed.extend([0, 0, 0, 58]);
    }
    summed.extend(&message);
    message[2..4].copy_from_slice(&checksum(&summed).to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if is_v4 {
        let mut header = vec![0x45, 0xc0];
        header.extend((20 + message.len() as u16).to_be_bytes());
        header.extend([0x77, 0x88, 0, 0, 63, 1, 0, 0]);
        header.extend(octets(router));
        header.extend(octets(to));
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend([0x08, 0x00]);
        frame.extend(header);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 1, 2, 3]);
        frame.extend((message.len() as u16).to_be_bytes());
        frame.extend([58, 63]);
        frame.extend(octets(router));
        frame.extend(octets(to));
    }
    frame.extend(message);
    frame
}

/// RFC 7323 section 3.
pub fn timestamps(tsval: u32, tsecr: u32) -> Vec<u8> {
    let mut option = vec![1, 1, 8, 10];
    option.extend(tsval.to_be_bytes());
    option.extend(tsecr.to_be_bytes());
    option
}

/// RFC 2018 section 3.
pub fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut option = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for (left, right) in blocks {
        option.extend(left.to_be_bytes());
        option.extend(right.to_be_bytes());
    }
    option
}

fn octets(address: SocketAddr) -> Vec<u8> {
    match address.ip() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// RFC 1071.
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let mut sum: u32 = words
        .map(|word| (u32::from(word[0]) << 8) | u32::from(*word.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
