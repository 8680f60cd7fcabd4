//! Messages of routers about packets that are too large.

use super::lab::*;
use super::spliced::{C, DOWN, S, UP, spliced};
use super::wire::*;
use crate::engine::tc::skeleton::types::{packet_splice, packet_state};
use std::net::SocketAddr;

const UNSPEC: u32 = u32::MAX;
const SHOT: u32 = 2;
const REDIRECT: u32 = 7;
/// Offset of IP.
const IP: usize = 14;
/// Most bytes of a packet that a router quotes.
const QUOTED_MAX: usize = 528;

fn labs() -> impl Iterator<Item = (Lab, SocketAddr)> {
    let routers = ["192.0.2.254:0", "[2001:db8:9::fe]:0"];
    [Lab::v4(), Lab::v6()]
        .into_iter()
        .zip(routers)
        .filter_map(|(lab, router)| Some((lab?, router.parse().unwrap())))
}

/// A long packet from this host to a side's peer, with this number, as a router quotes it.
fn sent(lab: &Lab, side: usize, seq: u32) -> Packet {
    lab.local_packet(side).with(|packet| {
        packet.seq = seq;
        packet.ack = 123_456;
        packet.options = timestamps(7, 8);
        packet.payload = vec![3; 1400];
    })
}

fn quoted(packet: &Packet, bytes: usize) -> Vec<u8> {
    packet.bytes()[IP..IP + bytes].to_vec()
}

/// The quoted packet in its sender's terms: addresses, ports and number.
fn quoted_for_sender(quoted: &[u8], packet: &Packet) -> Vec<u8> {
    let mut turned = quoted.to_vec();
    let header = if packet.source.is_ipv4() { 20 } else { 40 };
    let as_sent = packet.bytes();
    turned[..header + 8].copy_from_slice(&as_sent[IP..IP + header + 8]);
    turned
}

/// The fate of a message: a verdict, and these bytes, whatever its interface reports about the checksum; the splice stays unchanged.
#[track_caller]
fn check(lab: &Lab, what: &str, splice: &packet_splice, frame: &[u8], wanted: (u32, &[u8])) {
    lab.set(splice);
    let plain = lab.run(Arriving, frame, &[]);
    for ran in [Some(plain), lab.run_summed(Arriving, frame)]
        .into_iter()
        .flatten()
    {
        assert_eq!(ran.verdict, wanted.0, "{what}");
        assert_frame(&ran.packet, wanted.1, what);
    }
    assert_eq!(
        format!("{:?}", lab.splice()),
        format!("{splice:?}"),
        "{what}"
    );
}

/// The client has sent 5000 bytes, of which the server has acknowledged 2000.
fn under_way(lab: &Lab) -> packet_splice {
    let mut splice = spliced(lab);
    let way = &mut splice.ways[CLIENT];
    (way.acked, way.start, way.end) = (C + 2000, C + 2000, C + 5000);
    splice.legs[SERVER].send_offset = 31;
    splice
}

#[test]
fn the_sender_of_a_packet_that_is_too_long_gets_the_message() {
    for (lab, router) in labs() {
        let (own, peer) = lab.addresses[CLIENT];
        let least = if own.is_ipv4() { 28 } else { 48 };
        for bytes in [least, least + 13, QUOTED_MAX] {
            for number in [C + 2000, C + 3448, C + 4999] {
                let packet = sent(&lab, SERVER, number + UP);
                let quote = quoted(&packet, bytes);
                let as_sent = packet.with(|packet| {
                    (packet.source, packet.destination) = (peer, own);
                    packet.seq = number;
                });
                check(
                    &lab,
                    &format!("{number}, {bytes} bytes of it"),
                    &under_way(&lab),
                    &too_long(router, packet.source, &quote, 1380),
                    (
                        REDIRECT,
                        &too_long(own, peer, &quoted_for_sender(&quote, &as_sent), 1380),
                    ),
                );
            }
        }
    }
}

/// The local socket checks the number itself; its numbers differ from its peer's.
#[test]
fn a_message_about_anything_else_is_for_the_local_socket() {
    for (lab, router) in labs() {
        let mut local = under_way(&lab);
        // Its last 100 bytes are unacknowledged; the client's begin behind them.
        local.legs[SERVER].local_end = C + 2000 + UP;
        local.legs[SERVER].local_acked = C + 1900 + UP;
        let mut in_process = under_way(&lab);
        in_process.state = PROCESS;
        for (what, splice, number) in [
            ("acknowledged", under_way(&lab), C + 1999),
            ("never sent", under_way(&lab), C + 5000),
            ("far away", under_way(&lab), C.wrapping_sub(1 << 30)),
            ("of the local socket", local, C + 1900),
            ("of the local socket, the last byte", local, C + 1999),
            ("in the process' hands", in_process, C + 3000),
        ] {
            let packet = sent(&lab, SERVER, number.wrapping_add(UP));
            let quote = quoted(&packet, QUOTED_MAX);
            let as_sent = packet.with(|packet| packet.seq = packet.seq.wrapping_sub(31));
            check(
                &lab,
                what,
                &splice,
                &too_long(router, packet.source, &quote, 1380),
                (
                    UNSPEC,
                    &too_long(
                        router,
                        packet.source,
                        &quoted_for_sender(&quote, &as_sent),
                        1380,
                    ),
                ),
            );
        }
    }
}

/// Regression test: the message went to a peer of the connections that have the slot now.
#[test]
fn a_message_whose_slot_was_given_away_since_it_was_looked_up_is_lost() {
    for (lab, router) in labs() {
        let mut others = under_way(&lab);
        for leg in &mut others.legs {
            leg.flow.peer_port ^= 1;
        }
        let packet = sent(&lab, SERVER, C + 3000 + UP);
        let frame = too_long(router, packet.source, &quoted(&packet, QUOTED_MAX), 1380);
        for before in [packet_splice::default(), others] {
            check(&lab, "of others", &before, &frame, (SHOT, &frame));
        }
    }
}

#[test]
fn messages_about_responses_go_to_the_server_and_about_requests_to_the_client() {
    for (lab, router) in labs() {
        let mut splice = spliced(&lab);
        splice.state = packet_state::PACKET_RESPONSES.0;
        let down = &mut splice.ways[SERVER];
        (down.acked, down.start, down.end) = (S, S, S + 9000);
        // A request of 2000 bytes was forwarded, behind others of the process.
        let delta = 77_000;
        (
            splice.classified_start,
            splice.classified_end,
            splice.classified_delta,
        ) = (C + 500, C + 2500, delta);
        splice.ways[CLIENT].end = C + 2500;
        splice.legs[CLIENT].received = C + 500;
        splice.legs[SERVER].send_offset = 64;
        splice.legs[SERVER].local_end = C + 2500 + delta;
        splice.legs[SERVER].local_acked = splice.legs[SERVER].local_end;
        for (what, side, sent_as, number) in [
            (
                "a response",
                CLIENT,
                S.wrapping_add(1400).wrapping_add(DOWN),
                S + 1400,
            ),
            ("a request", SERVER, C + 500 + delta, C + 500),
        ] {
            let (own, peer) = lab.addresses[1 - side];
            let packet = sent(&lab, side, sent_as);
            let quote = quoted(&packet, QUOTED_MAX);
            let as_sent = packet.with(|packet| {
                (packet.source, packet.destination) = (peer, own);
                packet.seq = number;
            });
            check(
                &lab,
                what,
                &splice,
                &too_long(router, packet.source, &quote, 1300),
                (
                    REDIRECT,
                    &too_long(own, peer, &quoted_for_sender(&quote, &as_sent), 1300),
                ),
            );
        }
        // The process has sent that one.
        let packet = sent(&lab, SERVER, C + 499 + delta);
        let quote = quoted(&packet, QUOTED_MAX);
        let as_sent = packet.with(|packet| packet.seq -= 64);
        check(
            &lab,
            "a request of the process",
            &splice,
            &too_long(router, packet.source, &quote, 1300),
            (
                UNSPEC,
                &too_long(
                    router,
                    packet.source,
                    &quoted_for_sender(&quote, &as_sent),
                    1300,
                ),
            ),
        );
    }
}

#[test]
fn other_messages_are_left_alone() {
    for (lab, router) in labs() {
        let packet = sent(&lab, SERVER, C + 3000 + UP);
        let to = packet.source;
        let right = too_long(router, to, &quoted(&packet, QUOTED_MAX), 1380);
        let (header, protocol_at) = if to.is_ipv4() { (20, 9) } else { (40, 6) };
        let quoted_at = IP + header + 8;
        let changed = |at: usize, value: u8| {
            let mut frame = right.clone();
            frame[at] = value;
            frame
        };
        let mut elsewhere = to;
        elsewhere.set_ip(router.ip());
        for (what, frame) in [
            ("another type", changed(IP + header, 1)),
            ("UDP was too long", changed(quoted_at + protocol_at, 17)),
            ("UDP", changed(IP + protocol_at, 17)),
            ("another port", changed(quoted_at + header + 1, 7)),
            ("to another port", changed(quoted_at + header + 3, 7)),
            ("for another connection", {
                too_long(router, elsewhere, &quoted(&packet, QUOTED_MAX), 1380)
            }),
            (
                "too little is quoted",
                right[..quoted_at + header + 7].to_vec(),
            ),
            ("nothing is quoted", right[..quoted_at].to_vec()),
        ] {
            check(&lab, what, &under_way(&lab), &frame, (UNSPEC, &frame));
        }
        if to.is_ipv4() {
            for (what, frame) in [
                ("another code", changed(IP + header + 1, 3)),
                ("a fragment", changed(IP + 7, 1)),
                ("about a later fragment", changed(quoted_at + 7, 1)),
                ("an IP header too short", changed(IP, 0x44)),
                ("its IP header too short", changed(quoted_at, 0x44)),
            ] {
                check(&lab, what, &under_way(&lab), &frame, (UNSPEC, &frame));
            }
        }
    }
}
