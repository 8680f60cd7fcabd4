//! Packets whose time to live ends at this host.

use super::lab::*;
use super::spliced::{C, spliced, up};
use super::wire::*;

const SHOT: u32 = 2;
const REDIRECT: u32 = 7;

/// Offset of IP, and the length of its header.
const IP: usize = 14;

#[test]
fn a_packet_that_expires_here_is_answered_as_by_a_router_and_not_forwarded() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        for hops in [0, 1] {
            let (packet, _) = up(&lab, |packet| {
                packet.hops = hops;
                packet.options = timestamps(3, 4);
                packet.payload = vec![7; 100];
            });
            let frame = packet.bytes();
            let is_v4 = packet.source.is_ipv4();
            let (ip_bytes, kind) = if is_v4 { (20, 11) } else { (40, 3) };
            lab.set(&spliced(&lab));
            // Another one may have been answered on this CPU just now.
            let ran = loop {
                let ran = lab.run(Arriving, &frame, &[]);
                if ran.verdict == REDIRECT {
                    break ran.packet;
                }
                assert_eq!(ran.verdict, SHOT);
            };
            let (ip, icmp) = ran[IP..].split_at(ip_bytes);
            assert_eq!((&ran[..6], &ran[6..12]), (&frame[6..12], &frame[..6]));
            assert_eq!(ran[12..IP], frame[12..IP]);
            assert_eq!(icmp[..2], [kind, 0]);
            // The original headers of IP and TCP.
            assert_eq!(icmp[8..], frame[IP..IP + ip_bytes + 20]);
            let (addresses, length_at) = if is_v4 { (12, 2) } else { (8, 4) };
            let size = (ip_bytes - addresses) / 2;
            let came = &frame[IP + addresses..IP + ip_bytes];
            assert_eq!(ip[addresses..addresses + size], came[size..]);
            assert_eq!(ip[addresses + size..], came[..size]);
            let length = u16::from_be_bytes(*ip[length_at..].first_chunk().unwrap());
            if is_v4 {
                assert_eq!(checksum(ip), 0);
                assert_eq!(checksum(icmp), 0);
                assert_eq!(usize::from(length), ip.len() + icmp.len());
            } else {
                let mut summed = ip[8..].to_vec();
                summed.extend((icmp.len() as u32).to_be_bytes());
                summed.extend([0, 0, 0, 58]);
                summed.extend(icmp);
                assert_eq!(checksum(&summed), 0);
                assert_eq!(usize::from(length), icmp.len());
            }
        }
        // So it changes nothing: neither a reset nor an end.
        for flags in [RST | ACK, FIN | ACK] {
            let before = spliced(&lab);
            let (packet, _) = up(&lab, |packet| (packet.hops, packet.flags) = (1, flags));
            lab.set(&before);
            lab.run(Arriving, &packet.bytes(), &[]);
            let mut after = lab.splice();
            forget_times(&mut after);
            assert_eq!(format!("{after:?}"), format!("{before:?}"));
        }
        // For a local socket it has arrived.
        let mut before = lab.in_process();
        before.legs[CLIENT].receive_offset = 5;
        lab.set(&before);
        let (packet, _) = up(&lab, |packet| (packet.hops, packet.seq) = (1, C));
        assert_eq!(lab.run(Arriving, &packet.bytes(), &[]).verdict, u32::MAX);
    }
}
