//! Connections that have come back: their local sockets count otherwise than their peers.

use super::lab::*;
use super::wire::*;
use crate::packet::skeleton::types::packet_splice;

const RECEIVE: u32 = 5_000_000;
const SEND: u32 = 70_000_u32.wrapping_neg();
const TS: u32 = 333;

fn came_back(lab: &Lab) -> packet_splice {
    let mut splice = lab.in_process();
    let leg = &mut splice.legs[SERVER];
    (leg.receive_offset, leg.send_offset, leg.ts_offset) = (RECEIVE, SEND, TS);
    splice
}

#[test]
fn numbers_are_translated_both_ways() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let before = came_back(&lab);
        let (packet, _) = lab.peer_packet(SERVER);
        let say = |seq: u32, ack: u32, tsecr: u32| {
            packet.with(|packet| {
                (packet.seq, packet.ack) = (seq, ack);
                packet.flags = ACK | PSH | CWR;
                packet.payload = vec![1; 33];
                packet.options = timestamps(1000, tsecr);
                packet
                    .options
                    .extend(sack(&[(ack.wrapping_add(500), ack.wrapping_add(900))]));
            })
        };
        let (seq, ack) = (RECEIVE.wrapping_add(10), SEND.wrapping_add(90_000));
        lab.check(
            "in",
            &before,
            (Arriving, &say(seq, ack, 2000 + TS)),
            Passed(say(10, 90_000, 2000)),
            |_| {},
        );
        let packet = lab.local_packet(SERVER);
        let say = |seq: u32, ack: u32, tsval: u32| {
            packet.with(|packet| {
                (packet.seq, packet.ack) = (seq, ack);
                packet.payload = vec![1; 32];
                packet.options = timestamps(tsval, 1000);
                packet
                    .options
                    .extend(sack(&[(ack.wrapping_add(500), ack.wrapping_add(900))]));
            })
        };
        lab.check(
            "out",
            &before,
            (Leaving, &say(90_000, 10, 2000)),
            Passed(say(ack, seq, 2000 + TS)),
            |_| {},
        );
    }
}

#[test]
fn an_end_and_a_reset_are_translated_too() {
    let Some(lab) = Lab::v4() else { return };
    let before = came_back(&lab);
    for flags in [FIN | ACK, RST | ACK, RST] {
        let ack = |ack: u32| if flags == RST { 0 } else { ack };
        let (packet, _) = lab.peer_packet(SERVER);
        let say = |seq, acked| {
            packet.with(|packet| (packet.seq, packet.ack, packet.flags) = (seq, ack(acked), flags))
        };
        let wire = say(RECEIVE + 7, SEND.wrapping_add(80_000));
        lab.check(
            "in",
            &before,
            (Arriving, &wire),
            Passed(say(7, 80_000)),
            |_| {},
        );
        let packet = lab.local_packet(SERVER);
        let say = |seq, acked| {
            packet.with(|packet| (packet.seq, packet.ack, packet.flags) = (seq, ack(acked), flags))
        };
        let wire = say(SEND.wrapping_add(80_000), RECEIVE + 7);
        lab.check(
            "out",
            &before,
            (Leaving, &say(80_000, 7)),
            Passed(wire),
            |_| {},
        );
    }
}

#[test]
fn local_timestamps_follow_those_of_the_other_peer() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = came_back(&lab);
    before.legs[SERVER].has_tsval = 1;
    before.legs[SERVER].last_tsval = 9000;
    let packet = |tsval: u32, is_wire: bool| {
        lab.local_packet(SERVER).with(|packet| {
            packet.seq = if is_wire { SEND } else { 0 };
            packet.ack = if is_wire { RECEIVE } else { 0 };
            packet.options = timestamps(tsval, 5);
        })
    };
    // (the local clock, what the peer gets, the offset from then on)
    for (own, wire, offset) in [
        (8000, 9000, 1000),
        (9000 - TS - 1, 9000, TS + 1),
        (9000 - TS, 9000, TS),
        (9000, 9000 + TS, TS),
    ] {
        let after = lab.check(
            &format!("{own}"),
            &before,
            (Leaving, &packet(own, false)),
            Passed(packet(wire, true)),
            |splice| {
                splice.legs[SERVER].ts_offset = offset;
                splice.legs[SERVER].last_tsval = wire;
            },
        );
        lab.check(
            "a second later",
            &after,
            (Leaving, &packet(own + 1000, false)),
            Passed(packet(wire + 1000, true)),
            |splice| splice.legs[SERVER].last_tsval = wire + 1000,
        );
    }
}
