//! Returned connections: the numbers of their local sockets differ from their peers'.

use super::lab::*;
use super::wire::*;
use crate::engine::tc::skeleton::types::packet_splice;

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
            |splice| splice.legs[SERVER].passed_end = seq + 33,
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
            |splice| {
                let end = RECEIVE + 7 + u32::from(flags & FIN != 0);
                splice.legs[SERVER].passed_end = end;
            },
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
                (
                    splice.legs[SERVER].last_tsval,
                    splice.legs[SERVER].local_tsval,
                ) = (wire, wire);
            },
        );
        lab.check(
            "a second later",
            &after,
            (Leaving, &packet(own + 1000, false)),
            Passed(packet(wire + 1000, true)),
            |splice| {
                splice.legs[SERVER].last_tsval = wire + 1000;
                splice.legs[SERVER].local_tsval = wire + 1000;
            },
        );
    }
}

/// The server has 1000 bytes that the client's kernel sent, and more are in flight; the local socket is at the last
/// acknowledgement, at 90,000 of its own numbers.
fn came_back_behind(lab: &Lab) -> packet_splice {
    let mut splice = came_back(lab);
    let leg = &mut splice.legs[SERVER];
    leg.is_ahead = 1;
    leg.local_end = wire(90_000);
    (leg.sent_end, leg.peer_next) = (wire(93_000), wire(93_000));
    splice
}

fn wire(own: u32) -> u32 {
    SEND.wrapping_add(own)
}

#[test]
fn a_peer_that_has_more_is_understood() {
    let Some(lab) = Lab::v4() else { return };
    let before = came_back_behind(&lab);
    let (packet, _) = lab.peer_packet(SERVER);
    let blocks = |base: u32| sack(&[(base.wrapping_add(2000), base.wrapping_add(2500))]);
    let say = |seq: u32, ack: u32, base: u32| {
        packet.with(|packet| {
            (packet.seq, packet.ack) = (seq, ack);
            packet.options = blocks(base);
            packet.payload = vec![1; 50];
        })
    };
    lab.check(
        "more than the local socket has sent",
        &before,
        (Arriving, &say(RECEIVE + 5, wire(91_000), wire(90_000))),
        Passed(say(5, 90_000, 90_000)),
        |splice| {
            splice.legs[SERVER].peer_next = wire(91_000);
            splice.legs[SERVER].passed_end = RECEIVE + 55;
        },
    );
    lab.check(
        "less",
        &before,
        (Arriving, &say(RECEIVE + 5, wire(89_000), wire(90_000))),
        Passed(say(5, 89_000, 90_000)),
        |splice| {
            splice.legs[SERVER].peer_next = wire(89_000);
            splice.legs[SERVER].passed_end = RECEIVE + 55;
        },
    );
    lab.check(
        "more than either side has sent",
        &before,
        (Arriving, &say(RECEIVE + 5, wire(93_001), wire(90_000))),
        Passed(say(5, 93_001, 90_000)),
        |splice| splice.legs[SERVER].passed_end = RECEIVE + 55,
    );
}

#[test]
fn a_peer_that_has_more_understands() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = came_back_behind(&lab);
    before.legs[SERVER].peer_next = wire(91_000);
    let say = |seq: u32, ack: u32, flags: u8, bytes: usize| {
        lab.local_packet(SERVER).with(|packet| {
            (packet.seq, packet.ack, packet.flags) = (seq, ack, flags);
            packet.payload = vec![6; bytes];
        })
    };
    let first = before;
    let check = |what: &str, own: Packet, on_wire: Packet, change: &dyn Fn(&mut packet_splice)| {
        lab.check(what, &first, (Leaving, &own), Passed(on_wire), change)
    };
    let ack = RECEIVE + 5;
    check(
        "an acknowledgement gets the number that is expected",
        say(90_000, 5, ACK, 0),
        say(wire(91_000), ack, ACK, 0),
        &|_| {},
    );
    check(
        "a probe stays one number behind",
        say(89_999, 5, ACK, 0),
        say(wire(90_999), ack, ACK, 0),
        &|_| {},
    );
    check(
        "data keeps its own",
        say(90_000, 5, ACK, 400),
        say(wire(90_000), ack, ACK, 400),
        &|splice| splice.legs[SERVER].local_end = wire(90_400),
    );
    check(
        "a reset",
        say(90_000, 5, RST | ACK, 0),
        say(wire(91_000), ack, RST | ACK, 0),
        &|_| {},
    );
    check(
        "an end before all was sent again is a reset",
        say(90_000, 5, FIN | ACK, 0),
        say(wire(91_000), ack, RST | ACK, 0),
        &|_| {},
    );
    check(
        "also behind some data",
        say(90_000, 5, FIN | ACK | PSH, 2999),
        say(wire(91_000), ack, RST | ACK, 2999),
        &|_| {},
    );
    check(
        "behind all data it is one",
        say(90_000, 5, FIN | ACK, 3000),
        say(wire(90_000), ack, FIN | ACK, 3000),
        &|splice| {
            splice.legs[SERVER].local_end = wire(93_001);
            splice.legs[SERVER].is_ahead = 0;
        },
    );
    let after = check(
        "when all was sent again",
        say(90_000, 5, ACK, 3000),
        say(wire(90_000), ack, ACK, 3000),
        &|splice| {
            splice.legs[SERVER].local_end = wire(93_000);
            splice.legs[SERVER].is_ahead = 0;
        },
    );
    // The end of the stream was sent to the peer.
    before.legs[SERVER].had_end = 1;
    lab.check(
        "an end that was sent",
        &before,
        (Leaving, &say(90_000, 5, FIN | ACK, 2999)),
        Passed(say(wire(90_000), ack, FIN | ACK, 2999)),
        |splice| {
            splice.legs[SERVER].local_end = wire(93_000);
            splice.legs[SERVER].is_ahead = 0;
        },
    );
    lab.check(
        "one before it",
        &before,
        (Leaving, &say(90_000, 5, FIN | ACK, 2998)),
        Passed(say(wire(91_000), ack, RST | ACK, 2998)),
        |_| {},
    );
    let (own, on_wire) = (say(90_500, 5, ACK, 0), say(wire(90_500), ack, ACK, 0));
    lab.check(
        "it is over",
        &after,
        (Leaving, &own),
        Passed(on_wire),
        |_| {},
    );
}
