//! Parses frames, and verifies their checksums.

use super::super::wire::{ACK, FIN, PSH, Packet, RST, SYN, checksum};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Options of a packet.
#[derive(Debug, Default)]
pub struct Options {
    pub timestamps: Option<(u32, u32)>,
    pub blocks: Vec<(u32, u32)>,
}

/// The end of a frame according to IP.
pub fn end(frame: &[u8]) -> usize {
    let u16_at = |at: usize| usize::from(u16::from_be_bytes(*frame[at..].first_chunk().unwrap()));
    if u16_at(12) == 0x0800 {
        14 + u16_at(16)
    } else {
        54 + u16_at(18)
    }
}

/// Parses a frame. Encoding it again must give the same bytes, checksums included.
pub fn parse(frame: &[u8]) -> Packet {
    let u16_at = |at: usize| u16::from_be_bytes(*frame[at..].first_chunk().unwrap());
    let (source, destination, tcp_at): (IpAddr, IpAddr, _) = if u16_at(12) == 0x0800 {
        let address = |at: usize| Ipv4Addr::from(*frame[at..].first_chunk::<4>().unwrap()).into();
        (address(26), address(30), 34)
    } else {
        let address = |at: usize| Ipv6Addr::from(*frame[at..].first_chunk::<16>().unwrap()).into();
        (address(22), address(38), 54)
    };
    let tcp = &frame[tcp_at..end(frame)];
    let header_bytes = usize::from(tcp[12] >> 4) * 4;
    let packet = Packet {
        source: SocketAddr::new(source, u16_at(tcp_at)),
        destination: SocketAddr::new(destination, u16_at(tcp_at + 2)),
        seq: word(&tcp[4..]),
        ack: word(&tcp[8..]),
        flags: tcp[13],
        window: u16_at(tcp_at + 14),
        urgent: u16_at(tcp_at + 18),
        options: tcp[20..header_bytes].to_vec(),
        payload: tcp[header_bytes..].to_vec(),
        tos: 0,
        hops: frame[if u16_at(12) == 0x0800 { 22 } else { 21 }],
        ip_options: Vec::new(),
    };
    let mut again = packet.bytes();
    // In packets that the programs create, the identification or flow label is 0.
    if packet.source.is_ipv4() {
        again[18..20].copy_from_slice(&frame[18..20]);
        again[24..26].fill(0);
        let sum = checksum(&again[14..34]);
        again[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        again[15..18].copy_from_slice(&frame[15..18]);
    }
    // The checksums of the header and the segment; the programs do not change the rest of the header.
    assert_eq!(frame[14..], again[14..], "checksums of {packet:?}");
    packet
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(*bytes.first_chunk().unwrap())
}

pub fn options(bytes: &[u8]) -> Options {
    let mut found = Options::default();
    let mut rest = bytes;
    while let [kind, more @ ..] = rest {
        if *kind < 2 {
            rest = more;
            continue;
        }
        let (option, further) = rest.split_at(usize::from(more[0]));
        match kind {
            8 => found.timestamps = Some((word(&option[2..]), word(&option[6..]))),
            5 => {
                let blocks = option[2..].chunks(8);
                found.blocks = blocks
                    .map(|block| (word(block), word(&block[4..])))
                    .collect();
            }
            _ => panic!("unexpected option {kind}"),
        }
        rest = further;
    }
    found
}

/// A packet as one line; numbers relative to where both sides began.
pub fn describe(packet: &Packet, seq_first: u32, ack_first: u32) -> String {
    let names = [
        (SYN, "SYN"),
        (FIN, "FIN"),
        (RST, "RST"),
        (PSH, "PSH"),
        (ACK, "ACK"),
    ];
    let flags = names.iter().filter(|(bit, _)| packet.flags & bit != 0);
    let flags: Vec<&str> = flags.map(|(_, name)| *name).collect();
    let read = options(&packet.options);
    let from = |number: u32, first: u32| i64::from(number.wrapping_sub(first) as i32);
    let mut line = format!(
        "{} seq {}+{} ack {} win {}",
        flags.join("|"),
        from(packet.seq, seq_first),
        packet.payload.len(),
        from(packet.ack, ack_first),
        packet.window
    );
    if let Some((tsval, tsecr)) = read.timestamps {
        line += &format!(" ts {tsval} {tsecr}");
    }
    for (left, right) in read.blocks {
        line += &format!(" [{}..{})", from(left, ack_first), from(right, ack_first));
    }
    line
}
