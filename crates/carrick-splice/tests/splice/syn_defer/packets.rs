//! SYNs that no socket has sent, and raw packets.

use super::{Bed, Host};
use crate::support::{checksum, frame_socket};
use socket2::Socket;
use std::io::Read;
use std::net::IpAddr;
use std::time::{Duration, Instant};

pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// Offset of the flags in a TCP header.
pub const FLAGS_AT: usize = 13;

/// MSS 1,400, selective acknowledgements, timestamps, window scale 7, and a cookie of TCP Fast Open (RFC 7413).
pub const OPTIONS: [u8; 32] = [
    2, 4, 0x05, 0x78, 4, 2, 8, 10, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 1, 3, 3, 7, 34, 10, 1, 2, 3,
    4, 5, 6, 7, 8, 0, 0,
];

/// A SYN, from the IP header on.
pub fn syn(from: (IpAddr, u16), to: (IpAddr, u16), sequence: u32, data: &[u8]) -> Vec<u8> {
    let mut tcp = Vec::new();
    tcp.extend_from_slice(&from.1.to_be_bytes());
    tcp.extend_from_slice(&to.1.to_be_bytes());
    tcp.extend_from_slice(&sequence.to_be_bytes());
    tcp.extend_from_slice(&[0; 4]);
    let words = (20 + OPTIONS.len()) as u8 / 4;
    tcp.extend_from_slice(&[words << 4, SYN, 0xfa, 0xf0, 0, 0, 0, 0]);
    tcp.extend_from_slice(&OPTIONS);
    tcp.extend_from_slice(data);
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let addresses = [octets(from.0), octets(to.0)].concat();
    let pseudo = [&addresses[..], &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
    let sum = checksum(&[&pseudo[..], &tcp].concat());
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut packet = if from.0.is_ipv4() {
        let length = (20 + tcp.len()) as u16;
        let [high, low] = length.to_be_bytes();
        vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, 6, 0, 0]
    } else {
        let [high, low] = (tcp.len() as u16).to_be_bytes();
        vec![0x60, 0, 0, 0, high, low, 6, 64]
    };
    packet.extend_from_slice(&addresses);
    if from.0.is_ipv4() {
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet.extend_from_slice(&tcp);
    packet
}

/// The TCP segment in a packet, if it is one.
pub fn tcp(packet: &[u8]) -> Option<&[u8]> {
    match packet.first()? >> 4 {
        4 if packet[9] == 6 => packet.get(20..),
        6 if packet[6] == 6 => packet.get(40..),
        _ => None,
    }
}

/// An Ethernet header for packets from the client to the router's interface of this name.
pub fn header(bed: &Bed, router: &str, is_ipv6: bool) -> Vec<u8> {
    let mac = |host, device: &str| -> Vec<u8> {
        let text = bed.read(host, &format!("/sys/class/net/{device}/address"));
        let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16));
        bytes.collect::<Result<_, _>>().unwrap()
    };
    let kind = if is_ipv6 { [0x86, 0xdd] } else { [8, 0] };
    [
        mac(Host::Middle, router),
        mac(Host::Client, "c"),
        kind.to_vec(),
    ]
    .concat()
}

/// A socket that sees everything that an interface of this thread's namespace receives and sends.
pub struct Tap(Socket);

impl Tap {
    pub fn open(device: &str) -> Tap {
        Tap(frame_socket(device))
    }

    /// The next packet that matches, from the IP header on, within this time.
    pub fn next(&self, patience: Duration, is_meant: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let give_up_at = Instant::now() + patience;
        loop {
            let left = give_up_at.checked_duration_since(Instant::now())?;
            self.0
                .set_read_timeout(Some(left.max(Duration::from_millis(1))))
                .unwrap();
            let mut frame = [0; 2048];
            let Ok(length) = (&self.0).read(&mut frame) else {
                continue;
            };
            if let Some(packet) = frame[..length].get(14..).filter(|packet| is_meant(packet)) {
                return Some(packet.to_vec());
            }
        }
    }
}
