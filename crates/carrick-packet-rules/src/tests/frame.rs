//! Ethernet frames for tests, made and checked byte by byte, with nothing of what they test.

use std::net::{IpAddr, SocketAddr};

pub const SYN: u8 = 0x02;
pub const ACK: u8 = 0x10;
pub const PUSH_ACK: u8 = 0x18;

/// What a frame carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    Tcp(Tcp),
    /// With or without a checksum.
    Udp {
        has_checksum: bool,
    },
    /// Another protocol, by its number.
    Other(u8),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tcp {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// Padded with zeros.
    pub options: Vec<u8>,
}

/// A frame before it is bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub transport: Transport,
    /// Type and number, outermost first.
    pub tags: Vec<(u16, u16)>,
    /// Of IPv4, a multiple of four.
    pub ip_options: Vec<u8>,
    /// The field of IPv4: flags and offset.
    pub fragment: u16,
    pub hops: u8,
    pub payload: Vec<u8>,
}

pub fn tcp(source: &str, destination: &str) -> Frame {
    Frame {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
        transport: Transport::Tcp(Tcp {
            seq: 0xffff_fff0,
            ack: 0x0102_0304,
            flags: PUSH_ACK,
            window: 0x1234,
            options: Vec::new(),
        }),
        tags: Vec::new(),
        ip_options: Vec::new(),
        fragment: 0x4000,
        hops: 64,
        payload: b"payload of an odd length.".to_vec(),
    }
}

pub fn udp(source: &str, destination: &str) -> Frame {
    Frame {
        transport: Transport::Udp { has_checksum: true },
        ..tcp(source, destination)
    }
}

impl Frame {
    pub fn with(mut self, change: impl FnOnce(&mut Frame)) -> Frame {
        change(&mut self);
        self
    }

    pub fn with_tcp(mut self, change: impl FnOnce(&mut Tcp)) -> Frame {
        match &mut self.transport {
            Transport::Tcp(tcp) => change(tcp),
            other => panic!("{other:?} is not TCP"),
        }
        self
    }

    /// From the IP header on.
    pub fn ip_bytes(&self) -> u64 {
        (self.bytes().len() - 14 - 4 * self.tags.len()) as u64
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for (kind, number) in &self.tags {
            frame.extend(kind.to_be_bytes());
            frame.extend(number.to_be_bytes());
        }
        let segment = self.segment();
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend([8, 0]);
                let length = 20 + self.ip_options.len() + segment.len();
                let mut header = vec![0x45 + (self.ip_options.len() / 4) as u8, 0];
                header.extend((length as u16).to_be_bytes());
                header.extend([0x77, 0x88]);
                header.extend(self.fragment.to_be_bytes());
                header.extend([self.hops, self.protocol(), 0, 0]);
                header.extend(source.octets());
                header.extend(destination.octets());
                header.extend(&self.ip_options);
                let sum = checksum(&[&header]);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                frame.extend(header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((segment.len() as u16).to_be_bytes());
                frame.extend([self.protocol(), self.hops]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            other => panic!("{other:?} are of two families"),
        }
        frame.extend(segment);
        frame
    }

    fn protocol(&self) -> u8 {
        match self.transport {
            Transport::Tcp(_) => 6,
            Transport::Udp { .. } => 17,
            Transport::Other(number) => number,
        }
    }

    fn segment(&self) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend(self.source.port().to_be_bytes());
        segment.extend(self.destination.port().to_be_bytes());
        let sum_at = match &self.transport {
            Transport::Tcp(tcp) => {
                let words = tcp.options.len().div_ceil(4);
                segment.extend(tcp.seq.to_be_bytes());
                segment.extend(tcp.ack.to_be_bytes());
                segment.extend([((5 + words) as u8) << 4, tcp.flags]);
                segment.extend(tcp.window.to_be_bytes());
                segment.extend([0; 4]);
                segment.extend(&tcp.options);
                segment.resize(20 + 4 * words, 0);
                16
            }
            _ => {
                segment.extend(((8 + self.payload.len()) as u16).to_be_bytes());
                segment.extend([0; 2]);
                6
            }
        };
        segment.extend(&self.payload);
        if self.transport
            != (Transport::Udp {
                has_checksum: false,
            })
        {
            let sum = self.segment_checksum(&segment);
            segment[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        segment
    }

    /// With the addresses, the protocol and the length (RFC 9293 section 3.1, RFC 768, RFC 8200 section 8.1).
    fn segment_checksum(&self, segment: &[u8]) -> u16 {
        let length = (segment.len() as u32).to_be_bytes();
        let protocol = [0, self.protocol()];
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let (source, destination) = (octets(self.source.ip()), octets(self.destination.ip()));
        let sum = checksum(&[&source, &destination, &length, &protocol, segment]);
        // UDP says 0 for "none".
        match (sum, &self.transport) {
            (0, Transport::Udp { .. }) => 0xffff,
            (sum, _) => sum,
        }
    }
}

/// The sum of RFC 1071, pair by pair. Each piece but the last is of an even length.
fn checksum(pieces: &[&[u8]]) -> u16 {
    let mut sum = 0_u64;
    for piece in pieces {
        for pair in piece.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
