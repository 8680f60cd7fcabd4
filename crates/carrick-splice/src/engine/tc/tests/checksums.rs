//! Packets with wrong checksums, and with offloaded ones.

use super::headers::{GSO_SEGS, GSO_SIZE, context};
use super::lab::*;
use super::spliced::{C, S, spliced, up};
use super::wire::*;
use crate::engine::tc::skeleton::types::{packet_splice, packet_state};

const UNSPEC: u32 = u32::MAX;
const REDIRECT: u32 = 7;
/// Offset of IP.
const IP: usize = 14;
/// Offset within the TCP header.
const CHECKSUM: usize = 16;

/// Payload lengths around the pieces in which checksums are computed.
const LENGTHS: [usize; 11] = [0, 1, 2, 3, 5, 491, 492, 493, 1004, 1460, 3000];

/// Offset of TCP.
fn tcp_at(frame: &[u8]) -> usize {
    IP + if frame[IP] >> 4 == 4 { 20 } else { 40 }
}

fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 256) as u8 | 1).collect()
}

/// Whether the packet passes unchanged to the local stack and leaves the state unchanged, whatever its interface
/// reports about the checksum.
#[track_caller]
fn is_not_believed(lab: &Lab, what: &str, frame: &[u8]) {
    let responses = |mut splice: packet_splice| {
        splice.state = packet_state::PACKET_RESPONSES.0;
        splice.legs[CLIENT].received = C;
        (splice.classified_start, splice.classified_end) = (C, C);
        splice.response_start = S;
        splice
    };
    let mut in_process = lab.in_process();
    in_process.legs[CLIENT].was_received = 0;
    for before in [spliced(lab), in_process, responses(spliced(lab))] {
        for is_summed in [false, true] {
            lab.set(&before);
            let ran = if is_summed {
                lab.run_summed(Arriving, frame)
            } else {
                Some(lab.run(Arriving, frame, &[]))
            };
            let Some(ran) = ran else { continue };
            assert_eq!(ran.verdict, UNSPEC, "{what}, {is_summed}");
            assert!(ran.packet == frame, "{what}, {is_summed}");
            assert_eq!(
                format!("{:?}", lab.splice()),
                format!("{before:?}"),
                "{what}, {is_summed}"
            );
        }
    }
}

#[test]
fn packets_of_all_lengths_are_summed_up() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        for bytes in LENGTHS {
            let (packet, forwarded) = up(&lab, |packet| {
                packet.options = timestamps(5, 6);
                packet.payload = payload(bytes);
            });
            let mut before = spliced(&lab);
            before.ways[CLIENT].ts_delta = 0;
            before.ways[SERVER].ts_delta = 0;
            lab.check(
                &format!("{bytes} bytes"),
                &before,
                (Arriving, &packet),
                Forwarded(forwarded),
                |splice| {
                    splice.ways[CLIENT].end = C + bytes as u32;
                    splice.ways[CLIENT].packets = 1;
                    splice.legs[SERVER].last_tsval = 5;
                    splice.legs[SERVER].has_tsval = 1;
                },
            );
        }
    }
}

#[test]
fn a_broken_packet_changes_nothing_and_is_not_forwarded() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        for bytes in LENGTHS {
            let (packet, _) = up(&lab, |packet| packet.payload = payload(bytes));
            let right = packet.bytes();
            let tcp = tcp_at(&right);
            // Sequence number, acknowledgement, flags, window, checksum, urgent pointer; the payload's first and last byte.
            let mut places = vec![4, 7, 8, 11, 14, 15, 16, 17, 18];
            if bytes > 0 {
                places.extend([20, 20 + bytes / 2, 20 + bytes - 1]);
            }
            for at in places {
                let mut frame = right.clone();
                frame[tcp + at] ^= 0x10;
                is_not_believed(&lab, &format!("{bytes} bytes, {at}"), &frame);
            }
        }
    }
}

#[test]
fn a_broken_header_of_ipv4_changes_nothing() {
    let Some(lab) = Lab::v4() else { return };
    for ip_options in [vec![], vec![0x94, 4, 0, 0], vec![1; 40]] {
        let (packet, _) = up(&lab, |packet| {
            packet.payload = payload(100);
            packet.ip_options.clone_from(&ip_options);
        });
        let right = packet.bytes();
        // DSCP, identification, time to live, both bytes of the checksum; the last option.
        for at in [1, 4, 8, 10, 11]
            .into_iter()
            .chain((!ip_options.is_empty()).then_some(19 + ip_options.len()))
        {
            let mut frame = right.clone();
            frame[IP + at] ^= 0x40;
            is_not_believed(&lab, &format!("byte {at}, {ip_options:?}"), &frame);
        }
    }
}

/// Between machines that share memory, the last one computes the checksum, if any does. But only the kernel's mark
/// counts (CHECKSUM_PARTIAL, which these packets do not have): a packet that only looks like it is dropped by the next
/// host, and the client could then send other bytes.
#[test]
fn the_sum_of_the_pseudo_header_alone_is_an_error() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        for bytes in [0, 1, 1460] {
            let (packet, _) = up(&lab, |packet| packet.payload = payload(bytes));
            let right = packet.bytes();
            let tcp = tcp_at(&right);
            let addresses = if tcp == IP + 20 { IP + 12 } else { IP + 8 };
            let mut pseudo = right[addresses..tcp].to_vec();
            pseudo.extend(((right.len() - tcp) as u32).to_be_bytes());
            pseudo.extend([0, 0, 0, 6]);
            let mut frame = right.clone();
            let begun = !checksum(&pseudo);
            frame[tcp + CHECKSUM..tcp + CHECKSUM + 2].copy_from_slice(&begun.to_be_bytes());
            is_not_believed(&lab, "the beginning of a sum", &frame);
        }
    }
}

/// Aggregated segments (GSO) were verified or created by the host: their checksum is that of one of the segments to be sent.
#[test]
fn what_was_put_together_is_not_summed_up_again() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let (packet, _) = up(&lab, |packet| packet.payload = payload(3000));
        let mut frame = packet.bytes();
        let at = tcp_at(&frame) + CHECKSUM;
        frame[at] ^= 0x20;
        lab.set(&spliced(&lab));
        let large = context(&[(GSO_SEGS, 3), (GSO_SIZE, 1000)]);
        assert_eq!(lab.run(Arriving, &frame, &large).verdict, REDIRECT);
        is_not_believed(&lab, "the same as one segment", &frame);
    }
}

/// The interface's checksum includes bytes behind the end of a packet.
#[test]
fn padding_is_not_summed_up() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let (packet, _) = up(&lab, |packet| packet.payload = payload(2));
        let mut frame = packet.bytes();
        frame.resize(frame.len() + 5, 0xee);
        lab.set(&spliced(&lab));
        assert_eq!(lab.run(Arriving, &frame, &[]).verdict, REDIRECT);
        lab.set(&spliced(&lab));
        if let Some(ran) = lab.run_summed(Arriving, &frame) {
            assert_eq!(ran.verdict, REDIRECT);
        }
    }
}
