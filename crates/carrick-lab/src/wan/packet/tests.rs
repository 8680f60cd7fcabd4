//! Headers read and changed, frames given as tables; nothing that a network sends makes them fail.

use std::net::Ipv6Addr;

use etherparse::Ipv4HeaderSlice;

use super::*;

const UDP: u8 = ip_number::UDP.0;

fn ipv4(total_bytes: u16, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut header = vec![0x45, 0];
    header.extend(total_bytes.to_be_bytes());
    header.extend([0x12, 0x34]);
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0, 10, 0, 1, 2, 10, 0, 2, 2]);
    let sum = checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    frame.extend(header);
    frame.extend(payload);
    frame
}

/// The right checksum of a header of IPv4.
fn checksum(header: &[u8]) -> u16 {
    let header = Ipv4HeaderSlice::from_slice(header).unwrap();
    header.to_header().calc_header_checksum()
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0]);
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next, 9]);
    frame.extend("fd00:1::2".parse::<Ipv6Addr>().unwrap().octets());
    frame.extend("fd00:2::2".parse::<Ipv6Addr>().unwrap().octets());
    frame.extend(payload);
    frame
}

const UDP_80_TO_7: [u8; 8] = [0, 80, 0, 7, 0, 8, 0, 0];

#[test]
fn ipv4_is_read() {
    let header = read(&ipv4(28, 0, UDP, &UDP_80_TO_7)).unwrap();
    assert_eq!(
        header,
        Header {
            flow: Flow {
                from: "10.0.1.2".parse().unwrap(),
                to: "10.0.2.2".parse().unwrap(),
                ports: Some([80, 7]),
            },
            protocol: UDP,
            payload_at: 34,
            bytes: 28,
            hop_limit: 64,
        }
    );
    let ports = |fragment, protocol| {
        read(&ipv4(28, fragment, protocol, &UDP_80_TO_7))
            .unwrap()
            .flow
            .ports
    };
    assert_eq!(
        ports(0x2000, UDP),
        Some([80, 7]),
        "the first fragment has ports"
    );
    assert_eq!(ports(0x2001, UDP), None, "a later one has not");
    assert_eq!(ports(0, 1), None, "nor has ICMP");
    // Padding does not count; what offload joins beyond 64 KB has no length.
    let mut padded = ipv4(28, 0, UDP, &UDP_80_TO_7);
    padded.extend([0; 18]);
    assert_eq!(read(&padded).unwrap().bytes, 28);
    assert_eq!(read(&ipv4(0, 0, UDP, &UDP_80_TO_7)).unwrap().bytes, 28);
}

#[test]
fn ipv6_is_read_behind_its_extensions() {
    let header = read(&ipv6(UDP, &UDP_80_TO_7)).unwrap();
    assert_eq!(header.flow.ports, Some([80, 7]));
    assert_eq!(
        (header.bytes, header.hop_limit, header.payload_at),
        (48, 9, 54)
    );

    let mut hop_by_hop = vec![UDP, 1, 5, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    hop_by_hop.extend(UDP_80_TO_7);
    let header = read(&ipv6(0, &hop_by_hop)).unwrap();
    assert_eq!((header.flow.ports, header.payload_at), (Some([80, 7]), 70));

    for (offset, ports) in [([0, 1], Some([80, 7])), ([0, 8], None)] {
        let mut fragment = vec![UDP, 0, offset[0], offset[1], 0, 0, 0, 1];
        fragment.extend(UDP_80_TO_7);
        assert_eq!(read(&ipv6(44, &fragment)).unwrap().flow.ports, ports);
    }
}

#[test]
fn the_hop_limit_goes_down_and_the_checksum_stays_right() {
    let mut frame = ipv4(28, 0, UDP, &UDP_80_TO_7);
    for left in (0..64).rev() {
        decrement_hop_limit(&mut frame);
        assert_eq!(frame[ETHERNET_BYTES + 8], left);
        let header = &frame[ETHERNET_BYTES..ETHERNET_BYTES + 20];
        assert_eq!(u16_at(header, 10), Some(checksum(header)), "at {left}");
    }
    let mut frame = ipv6(UDP, &UDP_80_TO_7);
    decrement_hop_limit(&mut frame);
    assert_eq!(frame[ETHERNET_BYTES + 7], 8);
}

#[test]
fn joined_segments_count_with_a_header_each() {
    let mut tcp = vec![0; 20 + 3_000];
    tcp[12] = 5 << 4;
    let frame = ipv4(3_040, 0, TCP, &tcp);
    let header = read(&frame).unwrap();
    let joined = |size: u16| {
        let mut offload = [0; OFFLOAD_BYTES];
        offload[1] = 1;
        offload[4..6].copy_from_slice(&size.to_ne_bytes());
        Offload::read(&offload)
    };
    assert_eq!(joined(1_460).segment_bytes, Some(1_460));
    // 1,460 + 1,460 + 80 bytes, three headers of 40.
    assert_eq!(joined(1_460).bytes_on_line(&frame, &header), 3_000 + 120);
    let single = Offload::read(&[0; OFFLOAD_BYTES]);
    assert_eq!(single.segment_bytes, None);
    assert_eq!(single.bytes_on_line(&frame, &header), 3_040);
    assert_eq!(Offload::read(&[]).segment_bytes, None);
}

#[test]
fn frames_are_addressed() {
    let mut frame = ipv4(28, 0, UDP, &UDP_80_TO_7);
    address(&mut frame, [1; 6], [2; 6]);
    assert_eq!(frame[..14], [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0]);
    address(&mut [0; 3], [1; 6], [2; 6]);
}

#[test]
fn groups_and_this_machine_are_not_routed_to() {
    for (text, expected) in [
        ("10.0.0.1", true),
        ("2001:db8::1", true),
        ("224.0.0.1", false),
        ("255.255.255.255", false),
        ("127.0.0.1", false),
        ("169.254.1.1", false),
        ("ff02::1", false),
        ("fe80::1", false),
        ("::1", false),
    ] {
        assert_eq!(is_routable(text.parse().unwrap()), expected, "{text}");
    }
}

#[test]
fn whatever_comes_is_read_without_a_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut hop_by_hop = vec![UDP, 1, 5, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    hop_by_hop.extend(UDP_80_TO_7);
    let samples = [
        ipv4(28, 0, UDP, &UDP_80_TO_7),
        ipv4(40, 0, TCP, &[0; 20]),
        ipv6(0, &hop_by_hop),
        ipv6(ip_number::IPV6_ICMP.0, &[135, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for _ in 0..50_000 {
        let mut frame = samples[random.usize(..samples.len())].clone();
        frame.truncate(random.usize(0..=frame.len()));
        for _ in 0..random.usize(0..4) {
            if !frame.is_empty() {
                let at = random.usize(..frame.len());
                frame[at] = random.u8(..);
            }
        }
        if let Some(header) = read(&frame) {
            assert!(header.bytes <= frame.len() - ETHERNET_BYTES);
            let offload = Offload {
                segment_bytes: Some(random.usize(1..2_000)),
            };
            let _ = offload.bytes_on_line(&frame, &header);
            let _ = crate::wan::resolve::read_discovery(&frame, &header);
        }
        let _ = crate::wan::resolve::read_arp(&frame);
        decrement_hop_limit(&mut frame);
    }
}

/// A TCP header with these flags, options and bytes of payload, in a packet of IPv4.
fn tcp(flags: u8, options: &[u8], payload: usize) -> Vec<u8> {
    let mut segment = vec![0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 1, 2];
    segment.extend([(5 + options.len() as u8 / 4) << 4, flags, 1, 0, 0, 0, 0, 0]);
    segment.extend(options);
    segment.resize(segment.len() + payload, 7);
    let total = u16::try_from(20 + segment.len()).unwrap();
    let mut frame = ipv4(total, 0, TCP, &segment);
    // Ethernet pads short frames.
    frame.resize(frame.len().max(60), 0);
    frame
}

#[test]
fn a_pure_ack_is_one_that_does_nothing_else() {
    const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    const SELECTIVE: [u8; 12] = [1, 1, 5, 10, 0, 0, 2, 0, 0, 0, 3, 0];
    let read = |frame: &[u8]| read_tcp(frame, &read(frame).unwrap());
    let is_pure = |flags, options: &[u8], payload| {
        let segment = read(&tcp(flags, options, payload)).unwrap();
        assert_eq!(segment.acknowledged, 0x102);
        segment.is_pure_ack
    };
    assert!(is_pure(16, &[], 0));
    assert!(is_pure(16 | 8, &TIMESTAMPS, 0));
    assert!(!is_pure(16, &TIMESTAMPS, 1), "payload");
    assert!(!is_pure(16, &SELECTIVE, 0));
    assert!(
        !is_pure(16, &[8, 99, 0, 0], 0),
        "options that cannot be read"
    );
    for flags in [16 | 1, 16 | 2, 16 | 4, 16 | 32, 16 | 64, 16 | 128, 0] {
        assert!(!is_pure(flags, &[], 0), "{flags}");
    }
    let of = |flags| {
        let segment = read(&tcp(flags, &[], 0)).unwrap();
        (segment.begins_or_aborts, segment.ends)
    };
    assert_eq!(
        [of(2), of(4), of(17), of(16)],
        [(true, false), (true, false), (false, true), (false, false)]
    );
    let cut_off = &tcp(16, &TIMESTAMPS, 0)[..60];
    assert_eq!(read(cut_off), None);
    assert_eq!(read(&ipv4(28, 0, UDP, &UDP_80_TO_7)), None);
}
