//! Packets that belong to no splice, or cannot be parsed.

use super::lab::*;
use super::spliced::{C, S, down, spliced, up};
use super::wire::*;
use crate::engine::tc::skeleton::types::{packet_response, packet_state};
use std::net::IpAddr;

const UNSPEC: u32 = u32::MAX;
const SHOT: u32 = 2;
const RESPONSES: u32 = packet_state::PACKET_RESPONSES.0;
const REDIRECT: u32 = 7;
/// Offset of IPv4, and of TCP behind it.
const IP: usize = 14;
const TCP: usize = 34;

/// Whether the packet passes unchanged at both hooks, and the splice's state is unchanged.
#[track_caller]
fn untouched(lab: &Lab, what: &str, frame: &[u8]) {
    for hook in [Arriving, Leaving] {
        let before = spliced(lab);
        lab.set(&before);
        let ran = lab.run(hook, frame, &[]);
        assert_eq!((ran.verdict, &ran.packet[..]), (UNSPEC, frame), "{what}");
        assert_eq!(
            format!("{:?}", lab.splice()),
            format!("{before:?}"),
            "{what}"
        );
    }
}

#[test]
fn what_is_not_whole_tcp_is_left_alone() {
    let Some(lab) = Lab::v4() else { return };
    let (packet, _) = up(&lab, |packet| packet.payload = vec![1; 40]);
    let frame = packet.bytes();
    let changed = |at: usize, value: u8| {
        let mut frame = frame.clone();
        frame[at] = value;
        frame
    };
    for (what, frame) in [
        ("the first fragment", changed(IP + 6, 0x20)),
        ("another fragment", changed(IP + 7, 0x10)),
        ("UDP", changed(IP + 9, 17)),
        ("a version that is none", changed(IP, 0x65)),
        ("an IP header too short", changed(IP, 0x44)),
        ("a TCP header too short", changed(TCP + 12, 0x40)),
        ("a TCP header longer than the packet", {
            let mut frame = up(&lab, |_| {}).0.bytes();
            frame[TCP + 12] = 0xf0;
            frame
        }),
        ("less than IP says", frame[..frame.len() - 1].to_vec()),
        ("IP says less than TCP has", {
            let mut frame = frame.clone();
            frame[IP + 2..IP + 4].copy_from_slice(&39_u16.to_be_bytes());
            frame
        }),
        ("no TCP header", frame[..TCP].to_vec()),
        ("half a TCP header", frame[..TCP + 10].to_vec()),
        ("another protocol", changed(12, 0x86)),
    ] {
        untouched(&lab, what, &frame);
    }
    // VLAN 5 inside the frame.
    let mut tagged = frame.clone();
    tagged.splice(12..12, [0x81, 0x00, 0, 5]);
    let ran = lab.run(Arriving, &tagged, &[]);
    assert_eq!(ran.verdict, UNSPEC, "VLAN");
}

#[test]
fn what_is_not_whole_tcp_over_ipv6_is_left_alone() {
    let Some(lab) = Lab::v6() else { return };
    let frame = up(&lab, |packet| packet.payload = vec![1; 40]).0.bytes();
    // Hop-by-hop options, a fragment, UDP.
    for next in [0, 44, 17] {
        let mut frame = frame.clone();
        frame[IP + 6] = next;
        untouched(&lab, &format!("next header {next}"), &frame);
    }
    untouched(&lab, "less than IP says", &frame[..frame.len() - 1]);
}

#[test]
fn addresses_of_ipv4_in_ipv6_packets_are_left_alone() {
    let Some(lab) = Lab::v4() else { return };
    let (packet, _) = up(&lab, |packet| packet.payload = vec![1; 40]);
    let mapped = packet.with(|packet| {
        for address in [&mut packet.source, &mut packet.destination] {
            let IpAddr::V4(v4) = address.ip() else {
                panic!("{address}")
            };
            address.set_ip(v4.to_ipv6_mapped().into());
        }
    });
    untouched(&lab, "mapped addresses", &mapped.bytes());
}

#[test]
fn other_connections_are_left_alone() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let (packet, _) = up(&lab, |packet| packet.payload = vec![1; 40]);
        for (what, packet) in [
            (
                "another port",
                packet.with(|packet| packet.source.set_port(1)),
            ),
            ("ours", packet.with(|packet| packet.destination.set_port(1))),
            (
                "another host",
                packet.with(|packet| packet.source.set_ip("192.0.2.7".parse().unwrap())),
            ),
            (
                "backwards at the wrong hook",
                packet.with(|packet| {
                    (packet.source, packet.destination) = (packet.destination, packet.destination);
                }),
            ),
        ] {
            if packet.source.is_ipv4() == packet.destination.is_ipv4() {
                untouched(&lab, what, &packet.bytes());
            }
        }
    }
}

#[test]
fn options_that_are_garbage_stop_nothing() {
    let Some(lab) = Lab::v4() else { return };
    for options in [
        vec![8, 0, 0, 0],
        vec![5, 1, 0, 0],
        vec![5, 255, 0, 0],
        vec![8, 10, 0, 0],
        vec![1; 40],
        vec![1, 1, 1, 8],
        vec![0, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 0],
        vec![3; 8],
        vec![254; 40],
    ] {
        let (packet, forwarded) = up(&lab, |packet| {
            packet.options.clone_from(&options);
            packet.payload = vec![9; 5];
        });
        let what = format!("{options:?}");
        lab.check(
            &what,
            &spliced(&lab),
            (Arriving, &packet),
            Forwarded(forwarded),
            |splice| {
                splice.ways[CLIENT].end = C + 5;
                splice.ways[CLIENT].packets = 1;
            },
        );
    }
}

#[test]
fn ethernet_padding_is_no_data() {
    let Some(lab) = Lab::v4() else { return };
    let (packet, forwarded) = up(&lab, |_| {});
    lab.set(&spliced(&lab));
    let mut frame = packet.bytes();
    frame.resize(60, 0xee);
    let ran = lab.run(Arriving, &frame, &[]);
    let mut expected = forwarded.bytes();
    expected.resize(60, 0xee);
    assert_eq!((ran.verdict, ran.packet), (REDIRECT, expected));
    assert_eq!(lab.splice().ways[CLIENT].end, C);
}

/// `struct __sk_buff` of linux/bpf.h, with the few fields that a test run accepts.
pub fn context(fields: &[(usize, u32)]) -> Vec<u8> {
    let mut context = vec![0; 192];
    for (at, value) in fields {
        context[*at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    context
}

const MARK: usize = 8;
const INGRESS_IFINDEX: usize = 36;
pub const GSO_SEGS: usize = 164;
pub const GSO_SIZE: usize = 176;

/// It may come from anywhere, with a socket's addresses and any number.
#[test]
fn what_this_host_forwards_as_a_router_is_no_socket_s() {
    let Some(lab) = Lab::v4() else { return };
    let before = spliced(&lab);
    lab.set(&before);
    let frame = lab.local_packet(CLIENT).with(|packet| {
        packet.flags = ACK;
        packet.payload = vec![1; 40];
    });
    let frame = frame.bytes();
    let ran = lab.run(Leaving, &frame, &context(&[(INGRESS_IFINDEX, 1)]));
    assert_eq!((ran.verdict, ran.packet), (UNSPEC, frame));
    assert_eq!(format!("{:?}", lab.splice()), format!("{before:?}"));
}

#[test]
fn what_was_forwarded_is_not_looked_at_again() {
    let Some(lab) = Lab::v4() else { return };
    let frame = up(&lab, |packet| packet.payload = vec![1; 40]).0.bytes();
    let before = spliced(&lab);
    lab.set(&before);
    let ran = lab.run(Leaving, &frame, &context(&[(MARK, OWN_MARK)]));
    assert_eq!((ran.verdict, ran.packet), (UNSPEC, frame.clone()));
    assert_eq!(format!("{:?}", lab.splice()), format!("{before:?}"));
    // Any other mark belongs to another program.
    lab.set(&spliced(&lab));
    let ran = lab.run(Arriving, &frame, &context(&[(MARK, 1)]));
    assert_eq!(ran.verdict, REDIRECT);
}

#[test]
fn a_copy_for_a_local_socket_comes_in_without_its_payload() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        for (ip_options, options, bytes) in [
            (Vec::new(), Vec::new(), 0),
            (Vec::new(), timestamps(7, 9), 1000),
            (vec![1; 8], timestamps(7, 9), 33),
        ] {
            if lab.addresses[0].0.is_ipv6() && !ip_options.is_empty() {
                continue;
            }
            let (packet, _) = up(&lab, |packet| {
                packet.options.clone_from(&options);
                packet.ip_options.clone_from(&ip_options);
                packet.payload = vec![5; bytes];
            });
            lab.set(&spliced(&lab));
            let ran = lab.run(Arriving, &packet.bytes(), &context(&[(MARK, COPY_MARK)]));
            let mut wanted = packet.with(|packet| packet.payload.clear()).bytes();
            // IP ignores bytes behind its total length.
            wanted.extend(vec![5; bytes]);
            assert_eq!((ran.verdict, ran.packet), (UNSPEC, wanted), "{bytes}");
        }
    }
}

/// Corrects the checksum of an IPv4 header.
fn sum_header(frame: &mut [u8]) {
    if frame[12..14] == [0x08, 0x00] {
        frame[IP + 10..IP + 12].copy_from_slice(&[0, 0]);
        let sum = checksum(&frame[IP..TCP]);
        frame[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    }
}

#[test]
fn large_packets_go_whole() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        for tells_length in [true, false] {
            let (packet, forwarded) = up(&lab, |packet| packet.payload = vec![4; 3000]);
            let at = if packet.source.is_ipv4() {
                IP + 2
            } else {
                IP + 4
            };
            let frame = |packet: &Packet| {
                let mut frame = packet.bytes();
                // Packets above 64 KB have no length (BIG TCP).
                if !tells_length {
                    frame[at..at + 2].copy_from_slice(&[0, 0]);
                    sum_header(&mut frame);
                }
                frame
            };
            lab.set(&spliced(&lab));
            let ran = lab.run(
                Arriving,
                &frame(&packet),
                &context(&[(GSO_SEGS, 3), (GSO_SIZE, 1000)]),
            );
            assert_eq!(ran.verdict, REDIRECT);
            assert_eq!(ran.packet, frame(&forwarded), "{tells_length}");
            assert_eq!(lab.splice().ways[CLIENT].end, C + 3000);
            // A single packet without a length is dropped by whoever gets it.
            lab.set(&spliced(&lab));
            let ran = lab.run(Arriving, &frame(&packet), &[]);
            let wanted = if tells_length { REDIRECT } else { UNSPEC };
            assert_eq!(ran.verdict, wanted);
        }
    }
}

/// Packets as the first fragment of theirs, and as one behind IPv6 options.
fn in_parts(packet: &Packet) -> Vec<Vec<u8>> {
    let frame = packet.bytes();
    if packet.source.is_ipv4() {
        let mut first = frame;
        first[IP + 6..IP + 8].copy_from_slice(&[0x20, 0]);
        first[IP + 10..IP + 12].fill(0);
        let sum = checksum(&first[IP..TCP]);
        first[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
        return vec![first];
    }
    let behind = |kind: u8, header: [u8; 8]| {
        let mut frame = frame.clone();
        let bytes = u16::from_be_bytes([frame[IP + 4], frame[IP + 5]]) + 8;
        frame[IP + 4..IP + 6].copy_from_slice(&bytes.to_be_bytes());
        frame[IP + 6] = kind;
        frame.splice(IP + 40..IP + 40, header);
        frame
    };
    vec![
        behind(44, [6, 0, 0, 1, 0, 0, 0, 7]),
        behind(60, [6, 0, 1, 4, 0, 0, 0, 0]),
        behind(0, [6, 0, 1, 4, 0, 0, 0, 0]),
    ]
}

#[test]
fn fragments_are_lost_while_the_kernel_has_the_packets() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        for far in [0, 1_000_000] {
            let (packet, _) = up(&lab, |packet| {
                packet.seq += far;
                packet.payload = vec![1; 40];
            });
            for frame in in_parts(&packet) {
                lab.set(&spliced(&lab));
                assert_eq!(lab.run(Arriving, &frame, &[]).verdict, SHOT);
                let splice = lab.splice();
                let is_noted = u8::from(far == 0);
                assert_eq!(splice.legs[CLIENT].is_unforwardable, is_noted);
                assert_eq!(splice.legs[SERVER].is_unforwardable, 0);
                assert_eq!((splice.state, splice.refused), (SPLICED, 1));
                assert_eq!(splice.ways[CLIENT].end, C);
            }
        }
    }
}

#[test]
fn the_local_socket_gets_fragments_with_its_numbers() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let mut before = lab.in_process();
        before.legs[CLIENT].receive_offset = 70_000;
        before.legs[CLIENT].send_offset = 300;
        let (packet, _) = up(&lab, |packet| packet.payload = vec![1; 40]);
        let local = packet.with(|packet| {
            packet.seq -= 70_000;
            packet.ack -= 300;
        });
        for (frame, expected) in in_parts(&packet).into_iter().zip(in_parts(&local)) {
            lab.set(&before);
            let ran = lab.run(Arriving, &frame, &[]);
            assert_eq!((ran.verdict, &ran.packet), (UNSPEC, &expected));
            assert_eq!(lab.splice().legs[CLIENT].is_unforwardable, 1);
        }
    }
}

#[test]
fn a_response_in_fragments_goes_back_to_the_process_or_gets_no_further() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let (packet, _) = down(&lab, |packet| packet.payload = vec![1; 40]);
        for (left_bytes, is_back) in [(u64::MAX, 0), (1000, 1)] {
            let mut before = spliced(&lab);
            (before.state, before.record, before.left_bytes) = (RESPONSES, 1, left_bytes);
            before.ways[SERVER].end = S + 40;
            // Others may have sent these.
            for (seq, ack) in [
                (1, 0),
                (39, 0),
                (41, 0),
                (0, 1),
                (0, 70_000_u32.wrapping_neg()),
            ] {
                let forged = packet.with(|packet| {
                    packet.seq += seq;
                    packet.ack = packet.ack.wrapping_add(ack);
                });
                for frame in in_parts(&forged) {
                    lab.set(&before);
                    lab.set_record(&packet_response::default());
                    assert_eq!(lab.run(Arriving, &frame, &[]).verdict, SHOT);
                    let (splice, record) = (lab.splice(), lab.record());
                    assert_eq!((record.is_back, record.is_stuck), (0, 0), "{seq} {ack}");
                    assert_eq!(splice.legs[SERVER].is_unforwardable, 0);
                    assert_eq!(splice.state, RESPONSES);
                }
            }
            // The first that the client has not acknowledged, or the next.
            let next = packet.with(|packet| packet.seq += 40);
            for frame in [in_parts(&packet), in_parts(&next)].concat() {
                lab.set(&before);
                lab.set_record(&packet_response::default());
                let verdict = lab.run(Arriving, &frame, &[]).verdict;
                let (splice, record) = (lab.splice(), lab.record());
                assert_eq!(splice.legs[SERVER].is_unforwardable, 1);
                let is_stuck = 2 * (1 - is_back);
                assert_eq!((record.is_back, record.is_stuck), (is_back, is_stuck));
                match is_back {
                    1 => assert_eq!((splice.state, verdict), (PROCESS, UNSPEC)),
                    _ => assert_eq!((splice.state, verdict), (RESPONSES, SHOT)),
                }
            }
        }
    }
}

#[test]
fn a_request_in_fragments_is_for_the_process_and_ends_classifying() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let (packet, _) = up(&lab, |packet| packet.payload = vec![1; 40]);
        // Behind a request that was forwarded as a whole, and ends there.
        let run = |frame: &[u8], end: u32| {
            let mut before = spliced(&lab);
            (before.state, before.record, before.table) = (RESPONSES, 1, 1);
            (before.classified_start, before.classified_end) = (C, end);
            before.legs[CLIENT].received = C;
            lab.set(&before);
            lab.set_record(&packet_response::default());
            let verdict = lab.run(Arriving, frame, &[]).verdict;
            (verdict, lab.splice(), lab.record().is_stuck)
        };
        // Its first fragment may have only bytes that were received before.
        let old = packet.with(|packet| {
            packet.seq -= 4;
            packet.payload = vec![1; 4];
        });
        for frame in [in_parts(&packet), in_parts(&old)].concat() {
            let (verdict, splice, is_stuck) = run(&frame, C);
            assert_eq!((verdict, is_stuck), (UNSPEC, 0));
            assert_eq!((splice.state, splice.table), (RESPONSES, 0));
            assert_eq!(splice.legs[CLIENT].is_unforwardable, 1);
            assert_eq!(lab.record().passed_bytes, 0);
        }
        // It has been forwarded already: to the local socket it would be another one.
        for frame in in_parts(&packet) {
            let (verdict, _, is_stuck) = run(&frame, C + 40);
            assert_eq!((verdict, is_stuck), (SHOT, 1));
        }
        // These are not the client's numbers: anybody may have sent them, and they change nothing.
        let far = 1_u32 << 20;
        for (seq, ack) in [
            (far, 0),
            (far.wrapping_neg(), 0),
            (0, 1),
            (0, far.wrapping_neg()),
        ] {
            let forged = packet.with(|packet| {
                packet.seq = packet.seq.wrapping_add(seq);
                packet.ack = packet.ack.wrapping_add(ack);
            });
            for frame in in_parts(&forged) {
                for end in [C, C + 40] {
                    let (verdict, splice, is_stuck) = run(&frame, end);
                    assert_eq!((verdict, is_stuck), (SHOT, 0), "{seq} {ack}");
                    assert_eq!((splice.table, splice.refused), (1, 1), "{seq} {ack}");
                    assert_eq!(splice.legs[CLIENT].is_unforwardable, 0);
                }
            }
        }
        // A repetition may be as old as the largest window, also one that only the local socket has advertised.
        let mut before = spliced(&lab);
        (before.state, before.record, before.table) = (RESPONSES, 1, 1);
        (before.classified_start, before.classified_end) = (C, C);
        before.legs[CLIENT].received = C;
        before.ways[CLIENT].window_max = 10;
        lab.set(&before);
        let own = lab.local_packet(CLIENT).with(|packet| packet.window = 1000);
        assert_eq!(lab.run(Leaving, &own.bytes(), &[]).verdict, UNSPEC);
        assert_eq!(lab.splice().ways[CLIENT].window_max, 1000);
    }
}

#[test]
fn headers_that_cannot_be_read_do_not_reach_local_sockets() {
    if let Some(lab) = Lab::v4() {
        let (packet, _) = up(&lab, |packet| packet.payload = vec![1; 40]);
        let mut frame = in_parts(&packet).remove(0);
        // Eight bytes of TCP.
        frame.truncate(TCP + 8);
        frame[IP + 2..IP + 4].copy_from_slice(&28_u16.to_be_bytes());
        lab.set(&spliced(&lab));
        assert_eq!(lab.run(Arriving, &frame, &[]).verdict, SHOT);
    }
    if let Some(lab) = Lab::v6() {
        let (packet, _) = up(&lab, |packet| packet.payload = vec![1; 40]);
        let mut frame = packet.bytes();
        for _ in 0..8 {
            frame.splice(IP + 40..IP + 40, [60, 0, 1, 4, 0, 0, 0, 0]);
        }
        frame[IP + 40 + 56] = 6;
        frame[IP + 6] = 60;
        let bytes = (frame.len() - IP - 40) as u16;
        frame[IP + 4..IP + 6].copy_from_slice(&bytes.to_be_bytes());
        lab.set(&spliced(&lab));
        assert_eq!(lab.run(Arriving, &frame, &[]).verdict, SHOT);
        // A first fragment that ends within its extension headers, and the same in no fragment, which Linux drops itself.
        for (kind, verdict) in [(44, SHOT), (60, UNSPEC)] {
            let mut frame = packet.bytes();
            frame.truncate(IP + 40);
            frame[IP + 4..IP + 7].copy_from_slice(&[0, 16, kind]);
            frame.extend([60, 0, 0, 1, 0, 0, 0, 7, 60, 0, 1, 4, 0, 0, 0, 0]);
            lab.set(&spliced(&lab));
            assert_eq!(lab.run(Arriving, &frame, &[]).verdict, verdict, "{kind}");
        }
    }
}

#[test]
fn what_the_client_may_drop_is_not_taken_for_its_response() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let (head, _) = down(&lab, |packet| packet.payload = vec![1; 40]);
        let mut before = spliced(&lab);
        (before.state, before.record, before.left_bytes) = (RESPONSES, 1, u64::MAX);
        lab.set_record(&packet_response::default());
        // At its last hop it is answered.
        lab.set(&before);
        let expired = head.with(|packet| packet.hops = 1);
        lab.run(Arriving, &expired.bytes(), &[]);
        assert_eq!(
            (lab.splice().ways[SERVER].end, lab.record().sent_bytes),
            (S, 0)
        );
        // A signature (RFC 2385).
        let signed =
            head.with(|packet| packet.options = [vec![1, 1, 19, 18], vec![7; 16]].concat());
        lab.set(&before);
        assert_eq!(lab.run(Arriving, &signed.bytes(), &[]).verdict, SHOT);
        let splice = lab.splice();
        assert_eq!((splice.ways[SERVER].end, lab.record().sent_bytes), (S, 0));
        assert_eq!((splice.refused, splice.legs[SERVER].is_odd), (1, 1));
        // The same without.
        lab.set(&splice);
        assert_eq!(lab.run(Arriving, &head.bytes(), &[]).verdict, REDIRECT);
        assert_eq!(lab.record().sent_bytes, 40);
    }
}
