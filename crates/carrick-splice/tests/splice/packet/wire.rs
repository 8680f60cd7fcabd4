//! Segments that no TCP sends: what an interface sees, and what is put on it besides.

use crate::support::{HANG, checksum, frame_socket};
use socket2::Socket;
use std::io::Read;
use std::net::IpAddr;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Of a frame: the Ethernet header.
const ETHERNET_BYTES: usize = 14;

/// Longer than any frame, also of merged segments.
const FRAME_BYTES_MAX: usize = 1 << 17;

/// An interface of this thread's namespace.
pub struct Line(Socket);

impl Line {
    pub fn open(interface: &str) -> Line {
        let socket = frame_socket(interface);
        // All that tests send.
        socket.set_recv_buffer_size(16 << 20).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        Line(socket)
    }

    /// The segments of either direction since the last call.
    pub fn segments(&self) -> Vec<Segment> {
        self.0.set_nonblocking(true).unwrap();
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        let mut segments = Vec::new();
        while let Ok(bytes) = (&self.0).read(&mut buffer) {
            segments.extend(Segment::read(&buffer[..bytes]));
        }
        self.0.set_nonblocking(false).unwrap();
        segments
    }

    /// The next segment with data to this host, as `ask` makes it come.
    pub fn heard(&self, own_port: impl Fn(u16) -> bool, ask: impl FnOnce()) -> Segment {
        self.segments();
        ask();
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        loop {
            let bytes = (&self.0).read(&mut buffer).unwrap();
            let segment = Segment::read(&buffer[..bytes]);
            let is_meant = |one: &Segment| own_port(one.ports[1]) && !one.payload.is_empty();
            if let Some(segment) = segment.filter(is_meant) {
                return segment;
            }
        }
    }

    pub fn send(&self, frame: &[u8]) {
        assert_eq!(self.0.send(frame).unwrap(), frame.len());
    }
}

/// A TCP segment in its frame.
#[derive(Debug, Clone)]
pub struct Segment {
    ethernet: Vec<u8>,
    addresses: [IpAddr; 2],
    /// The sender's and the receiver's.
    pub ports: [u16; 2],
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub hops: u8,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Segment {
    fn read(frame: &[u8]) -> Option<Segment> {
        let (ethernet, ip) = frame.split_at_checked(ETHERNET_BYTES)?;
        let (addresses, hops, tcp) = match ip.first()? >> 4 {
            4 if ip[9] == 6 => {
                let address = |at: usize| IpAddr::from(*ip[at..].first_chunk::<4>().unwrap());
                (
                    [address(12), address(16)],
                    ip[8],
                    &ip[usize::from(ip[0] & 15) * 4..],
                )
            }
            6 if ip[6] == 6 => {
                let address = |at: usize| IpAddr::from(*ip[at..].first_chunk::<16>().unwrap());
                ([address(8), address(24)], ip[7], &ip[40..])
            }
            _ => return None,
        };
        let half = |at: usize| u16::from_be_bytes(*tcp[at..].first_chunk().unwrap());
        let word = |at: usize| u32::from_be_bytes(*tcp[at..].first_chunk().unwrap());
        let header_bytes = usize::from(tcp[12] >> 4) * 4;
        Some(Segment {
            ethernet: ethernet.to_vec(),
            addresses,
            ports: [half(0), half(2)],
            seq: word(4),
            ack: word(8),
            flags: tcp[13],
            window: half(14),
            hops,
            options: tcp[20..header_bytes].to_vec(),
            payload: tcp[header_bytes..].to_vec(),
        })
    }

    /// The shift of its sender's windows, if it is a SYN that says so.
    pub fn shift(&self) -> Option<u32> {
        let mut options = match self.flags & SYN {
            0 => return None,
            _ => &self.options[..],
        };
        loop {
            match options {
                [3, 3, shift, ..] => return Some(u32::from(*shift)),
                [1, rest @ ..] => options = rest,
                [_, bytes, ..] => options = &options[usize::from(*bytes)..],
                _ => return None,
            }
        }
    }

    /// The receiver's next one: an acknowledgement without options.
    pub fn answered(&self) -> Segment {
        let mut ethernet = self.ethernet.clone();
        ethernet[..12].rotate_left(6);
        Segment {
            ethernet,
            addresses: [self.addresses[1], self.addresses[0]],
            ports: [self.ports[1], self.ports[0]],
            seq: self.ack,
            ack: self.seq.wrapping_add(self.payload.len() as u32),
            flags: ACK,
            window: 500,
            hops: 64,
            options: Vec::new(),
            payload: Vec::new(),
        }
    }

    pub fn with(&self, change: impl FnOnce(&mut Segment)) -> Segment {
        let mut changed = self.clone();
        change(&mut changed);
        changed
    }

    /// The frame, with the right checksums.
    pub fn frame(&self) -> Vec<u8> {
        self.frame_of(0)
    }

    /// The frame as the first fragment of a longer packet (IPv4).
    pub fn first_fragment(&self) -> Vec<u8> {
        assert!(self.addresses[0].is_ipv4());
        self.frame_of(0x20)
    }

    /// The first fragment of a packet whose IPv6 extension headers go on in the next one.
    pub fn fragment_within_headers(&self) -> Vec<u8> {
        const DESTINATION: u8 = 60;
        let mut frame = self.frame();
        frame.truncate(ETHERNET_BYTES + 40);
        frame[ETHERNET_BYTES + 4..][..3].copy_from_slice(&[0, 16, 44]);
        frame.extend([DESTINATION, 0, 0, 1, 0, 0, 0, 7]);
        frame.extend([DESTINATION, 0, 1, 4, 0, 0, 0, 0]);
        frame
    }

    fn frame_of(&self, fragment: u8) -> Vec<u8> {
        let mut tcp = self.ports.map(u16::to_be_bytes).concat();
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.push(((20 + self.options.len() as u8) / 4) << 4);
        tcp.push(self.flags);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(&self.options);
        tcp.extend(&self.payload);
        let addresses = self.addresses.map(|address| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        });
        let addresses = addresses.concat();
        let mut pseudo = addresses.clone();
        pseudo.extend([0, 6]);
        pseudo.extend((tcp.len() as u16).to_be_bytes());
        pseudo.extend(&tcp);
        let right = checksum(&pseudo);
        tcp[16..18].copy_from_slice(&right.to_be_bytes());
        let mut ip = if self.addresses[0].is_ipv4() {
            let [high, low] = (20 + tcp.len() as u16).to_be_bytes();
            vec![0x45, 0, high, low, 0, 7, fragment, 0, self.hops, 6, 0, 0]
        } else {
            let [high, low] = (tcp.len() as u16).to_be_bytes();
            vec![0x60, 0, 0, 0, high, low, 6, self.hops]
        };
        ip.extend(&addresses);
        if self.addresses[0].is_ipv4() {
            let right = checksum(&ip);
            ip[10..12].copy_from_slice(&right.to_be_bytes());
        }
        [&self.ethernet[..], &ip, &tcp].concat()
    }
}

/// The right edge of the window that was advertised by the latest of these segments from a port, whose windows have this shift.
pub fn edge(segments: &[Segment], port: u16, shift: u32) -> u32 {
    let latest = segments
        .iter()
        .rfind(|one| one.ports[0] == port && one.flags & (SYN | RST) == 0)
        .unwrap();
    latest.ack.wrapping_add(u32::from(latest.window) << shift)
}
