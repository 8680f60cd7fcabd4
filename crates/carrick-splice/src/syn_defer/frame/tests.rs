//! Packets as bytes: checksums, options, and answers.

use super::*;

/// MSS 1,460, selective acknowledgements, timestamps, window scale.
const OPTIONS: [u8; 20] = [
    2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7,
];

const ENDS: [[&str; 2]; 2] = [["10.0.0.1", "192.0.2.80"], ["2001:db8::1", "2001:db8::80"]];

/// A SYN from port 4000 to port 80, number 7, without a TCP checksum.
fn packet([client, server]: [&str; 2], options: &[u8], data: &[u8]) -> Vec<u8> {
    let mut tcp = vec![15, 160, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0];
    let words = (TCP_HEADER + options.len()) as u8 / 4;
    tcp.extend_from_slice(&[words << 4, 2, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend_from_slice(options);
    tcp.extend_from_slice(data);
    let mut packet = Vec::new();
    match (client.parse().unwrap(), server.parse().unwrap()) {
        (IpAddr::V4(client), IpAddr::V4(server)) => {
            let [high, low] = ((IPV4_HEADER + tcp.len()) as u16).to_be_bytes();
            packet.extend_from_slice(&[0x45, 0, high, low, 0, 0, 0x40, 0, 64, TCP, 0, 0]);
            packet.extend_from_slice(&client.octets());
            packet.extend_from_slice(&server.octets());
        }
        (IpAddr::V6(client), IpAddr::V6(server)) => {
            let [high, low] = (tcp.len() as u16).to_be_bytes();
            packet.extend_from_slice(&[0x60, 0, 0, 0, high, low, TCP, 64]);
            packet.extend_from_slice(&client.octets());
            packet.extend_from_slice(&server.octets());
        }
        _ => unreachable!(),
    }
    packet.extend_from_slice(&tcp);
    packet
}

/// Replaces the TCP checksum.
fn put_checksum(packet: &mut [u8], sum: u16) {
    let at = Syn::read(packet).unwrap().tcp_at + CHECKSUM_AT;
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn pseudo(packet: &[u8]) -> u32 {
    let syn = Syn::read(packet).unwrap();
    pseudo_header(syn.client, syn.server, TCP, syn.tcp().len())
}

fn right_checksum(packet: &[u8]) -> u16 {
    checksum(pseudo(packet), Syn::read(packet).unwrap().tcp())
}

#[test]
fn a_checksum_that_is_left_to_the_device_is_made_and_a_wrong_one_stays_wrong() {
    for ends in ENDS {
        let mut syn = packet(ends, &OPTIONS, b"odd");
        let right = right_checksum(&syn);
        let whole = {
            let mut whole = syn.clone();
            put_checksum(&mut whole, right);
            whole
        };
        let left = fold(pseudo(&syn));
        for (sum, expected) in [
            (right, Some(&whole)),
            (left, Some(&whole)),
            (right ^ 1, None),
            (left ^ 0x100, None),
        ] {
            put_checksum(&mut syn, sum);
            let made = Syn::read(&syn).unwrap().with_checksum();
            assert_eq!(made.as_ref(), expected, "{ends:?} {sum:04x}");
        }
    }
}

#[test]
fn ends_and_segments_are_read() {
    for ends in ENDS {
        let syn = packet(ends, &OPTIONS, &[]);
        let syn = Syn::read(&syn).unwrap();
        let address = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
        assert_eq!(syn.client(), address(ends[0], 4000));
        assert_eq!(syn.server(), address(ends[1], 80));
        assert_eq!(syn.segment_bytes(), Some(1460));
    }
    for (options, expected) in [
        (&[][..], None),
        (&[1, 1, 2, 4, 2, 24, 0, 0], Some(536)),
        (&[0, 1, 2, 4, 2, 24, 0, 0], None),
        // Longer than the header, and without a length.
        (&[3, 30, 2, 4], None),
        (&[2, 4, 5, 3], Some(1283)),
        (&[3, 0, 2, 4], None),
        (&[1, 1, 1, 8], None),
    ] {
        let syn = packet(ENDS[0], options, &[]);
        let told = Syn::read(&syn).unwrap().segment_bytes();
        assert_eq!(told, expected, "{options:?}");
    }
}

#[test]
fn what_is_too_short_is_no_syn() {
    for ends in ENDS {
        let whole = packet(ends, &OPTIONS, &[]);
        for length in 0..whole.len() {
            assert!(Syn::read(&whole[..length]).is_none(), "{ends:?} {length}");
        }
    }
}

#[test]
fn answers_go_back_with_right_checksums() {
    for ends in ENDS {
        let syn = packet(ends, &OPTIONS, &[9; 1300]);
        let syn = Syn::read(&syn).unwrap();
        let header = if syn.is_ipv6() {
            IPV6_HEADER
        } else {
            IPV4_HEADER
        };
        let answers = [
            (syn.reset(), TCP),
            (
                syn.unreachable(Unreachable::Host),
                if syn.is_ipv6() { ICMPV6 } else { ICMP },
            ),
        ];
        for (answer, protocol) in answers {
            let (ip, content) = answer.split_at(header);
            let [client, server] = ends.map(|ip| ip.parse::<IpAddr>().unwrap());
            let (at, length) = if syn.is_ipv6() {
                (8, usize::from(u16::from_be_bytes([ip[4], ip[5]])) + header)
            } else {
                assert_eq!(checksum(0, ip), 0);
                (12, usize::from(u16::from_be_bytes([ip[2], ip[3]])))
            };
            assert_eq!(length, answer.len());
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            assert_eq!(ip[at..], [octets(server), octets(client)].concat());
            let pseudo = match protocol {
                ICMP => 0,
                _ => pseudo_header(server, client, protocol, content.len()),
            };
            assert_eq!(checksum(pseudo, content), 0, "{ends:?} {protocol}");
            if protocol == TCP {
                // Number 0, and everything acknowledged: 7, the SYN, and 1,300 bytes.
                assert_eq!(content[..4], [0, 80, 15, 160]);
                assert_eq!(content[4..12], [0, 0, 0, 0, 0, 0, 5, 28]);
            } else {
                // Short enough for every link, with the beginning of the original packet.
                assert_eq!(answer.len(), if syn.is_ipv6() { 1280 } else { 576 });
                assert_eq!(content[8..], syn.packet[..content.len() - 8]);
                assert_eq!(content[..2], Unreachable::Host.numbers(syn.is_ipv6()));
            }
        }
    }
}

#[test]
fn the_hop_limit_of_either_family_is_read() {
    for (ends, at) in ENDS.into_iter().zip([8, 7]) {
        let mut syn = packet(ends, &OPTIONS, b"");
        assert_eq!(Syn::read(&syn).unwrap().hop_limit(), 64);
        syn[at] = 1;
        assert_eq!(Syn::read(&syn).unwrap().hop_limit(), 1);
    }
}
