//! SYN, FIN and RST.

use super::lab::*;
use super::spliced::{C, DOWN, S, UP, down, spliced, up};
use super::wire::*;
use crate::engine::tc::skeleton::types::{packet_response, packet_splice, packet_state};

/// The numbers of the next packets: the client's and the server's, each with the acknowledgement of the other.
fn at(packet: &mut Packet, seq: u32, ack: u32, flags: u8) {
    packet.seq = packet.seq.wrapping_add(seq);
    packet.ack = packet.ack.wrapping_add(ack);
    packet.flags = flags;
}

/// Forwards a packet, and returns the splice's state afterwards.
fn forward(
    lab: &Lab,
    what: &str,
    before: &packet_splice,
    (packet, forwarded): (Packet, Packet),
    change: impl FnOnce(&mut packet_splice),
) -> packet_splice {
    let mut after = lab.check(
        what,
        before,
        (Arriving, &packet),
        Forwarded(forwarded),
        change,
    );
    forget_times(&mut after);
    after
}

fn end(splice: &mut packet_splice, side: usize, next: u32) {
    let way = &mut splice.ways[side];
    (way.end, way.end_of_stream, way.has_end) = (next, next, 1);
    way.packets += 1;
}

fn acked(splice: &mut packet_splice, side: usize, next: u32) {
    let way = &mut splice.ways[side];
    (way.acked, way.start, way.has_moved) = (next, next, 1);
}

#[test]
fn one_side_ends_and_then_the_other() {
    let Some(lab) = Lab::v4() else { return };
    for first in [CLIENT, SERVER] {
        let second = 1 - first;
        let packet = |side: usize, seq: u32, ack: u32, flags: u8| {
            let change = move |packet: &mut Packet| at(packet, seq, ack, flags);
            if side == CLIENT {
                up(&lab, change)
            } else {
                down(&lab, change)
            }
        };
        let next = [C + 1, S + 1];
        let splice = forward(
            &lab,
            "FIN",
            &spliced(&lab),
            packet(first, 0, 0, FIN | ACK),
            |splice| {
                end(splice, first, next[first]);
            },
        );
        let splice = forward(
            &lab,
            "ACK of FIN",
            &splice,
            packet(second, 0, 1, ACK),
            |splice| {
                splice.ways[second].packets = 1;
                acked(splice, first, next[first]);
            },
        );
        // The other side continues, and ends later.
        let (data, forwarded) = packet(second, 0, 1, ACK);
        let data = (
            data.with(|packet| packet.payload = vec![1; 10]),
            forwarded.with(|packet| packet.payload = vec![1; 10]),
        );
        let splice = forward(&lab, "data after it", &splice, data, |splice| {
            splice.ways[second].packets = 2;
            splice.ways[second].end += 10;
        });
        let splice = forward(
            &lab,
            "FIN back",
            &splice,
            packet(second, 10, 1, FIN | ACK),
            |splice| {
                end(splice, second, next[second] + 10);
            },
        );
        let splice = forward(
            &lab,
            "last ACK",
            &splice,
            packet(first, 1, 11, ACK),
            |splice| {
                splice.ways[first].packets = 2;
                acked(splice, second, next[second] + 10);
                splice.ways[second].bytes = 10;
                splice.state = ENDED;
            },
        );
        // A side that missed the last ACK retransmits its FIN, and gets the ACK again.
        let splice = forward(
            &lab,
            "FIN again",
            &splice,
            packet(second, 10, 1, FIN | ACK),
            |splice| {
                splice.ways[second].packets += 1;
            },
        );
        forward(
            &lab,
            "ACK again",
            &splice,
            packet(first, 1, 11, ACK),
            |splice| {
                splice.ways[first].packets += 1;
            },
        );
    }
}

#[test]
fn both_sides_end_at_the_same_time() {
    let Some(lab) = Lab::v4() else { return };
    let fin = |packet: &mut Packet| at(packet, 0, 0, FIN | ACK);
    let ack = |packet: &mut Packet| at(packet, 1, 1, ACK);
    let splice = forward(&lab, "FIN", &spliced(&lab), up(&lab, fin), |splice| {
        end(splice, CLIENT, C + 1);
    });
    let splice = forward(&lab, "FIN", &splice, down(&lab, fin), |splice| {
        end(splice, SERVER, S + 1);
    });
    let splice = forward(&lab, "ACK", &splice, up(&lab, ack), |splice| {
        splice.ways[CLIENT].packets = 2;
        acked(splice, SERVER, S + 1);
    });
    forward(&lab, "ACK", &splice, down(&lab, ack), |splice| {
        splice.ways[SERVER].packets = 2;
        acked(splice, CLIENT, C + 1);
        splice.state = ENDED;
    });
}

#[test]
fn an_end_in_the_midst_of_what_was_sent_is_none() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = spliced(&lab);
    before.ways[CLIENT].end = C + 5000;
    // Only behind all sent data can it be the end: it may overtake data.
    let (packet, forwarded) = up(&lab, |packet| at(packet, 1000, 0, FIN | ACK));
    lab.check(
        "FIN",
        &before,
        (Arriving, &packet),
        Forwarded(forwarded),
        |splice| {
            splice.ways[CLIENT].packets = 1;
        },
    );
}

/// An acknowledgement that overtakes, or outlives, the data sent before it, which has not reached the other peer.
#[test]
fn an_acknowledgement_does_not_say_what_was_sent() {
    let Some(lab) = Lab::v4() else { return };
    let ack = down(&lab, |packet| at(packet, 501, 0, ACK));
    let splice = forward(&lab, "ACK", &spliced(&lab), ack, |splice| {
        splice.ways[SERVER].packets = 1;
    });
    let fin = down(&lab, |packet| {
        at(packet, 0, 0, FIN | ACK);
        packet.payload = vec![1; 500];
    });
    forward(&lab, "FIN", &splice, fin, |splice| {
        end(splice, SERVER, S + 501);
    });
}

#[test]
fn only_the_next_number_resets() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let mut before = spliced(&lab);
        before.ways[CLIENT].end = C + 5000;
        before.ways[CLIENT].acked = C + 1000;
        before.ways[CLIENT].start = C + 1000;
        for flags in [RST, RST | ACK] {
            for (seq, state) in [
                // The next to be sent, or the next that the receiver expects.
                (5000, RESET),
                (1000, RESET),
                // In the window: the receiver challenges those (RFC 5961 section 3.2).
                (1001, SPLICED),
                (4999, SPLICED),
                (5001, SPLICED),
                (0, SPLICED),
            ] {
                let (packet, forwarded) = up(&lab, |packet| {
                    at(packet, seq, 0, flags);
                    if flags == RST {
                        packet.ack = 0;
                    }
                });
                lab.check(
                    &format!("RST at {seq}, {flags:x}"),
                    &before,
                    (Arriving, &packet),
                    Forwarded(forwarded),
                    |splice| {
                        splice.state = state;
                        splice.legs[CLIENT].has_reset = u8::from(state == RESET);
                    },
                );
            }
            for seq in [65_537, 70_000, 1 << 31, 65_000_u32.wrapping_neg()] {
                let (packet, _) = up(&lab, |packet| at(packet, seq, 0, flags));
                lab.check("outside", &before, (Arriving, &packet), Dropped, |splice| {
                    splice.refused = 1;
                });
            }
        }
        let (packet, _) = up(&lab, |packet| at(packet, 1000, 1, RST | ACK));
        lab.check(
            "of nothing",
            &before,
            (Arriving, &packet),
            Dropped,
            |splice| {
                splice.refused = 1;
            },
        );
    }
}

/// The sender knew a larger window before the splice. Beyond its window, the receiver would drop a reset silently. Only the
/// sender knows which number is its next.
#[test]
fn a_reset_beyond_the_receivers_window_gets_the_number_it_expects() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let mut before = spliced(&lab);
        before.ways[CLIENT].end = C + 14_480;
        before.ways[CLIENT].offered_end = C + 4344;
        before.ways[CLIENT].acked = C + 1448;
        before.ways[CLIENT].start = C + 1448;
        for (seq, told) in [(4344, 4344), (4345, 4345), (14_479, 14_479), (14_480, 1448)] {
            let (packet, mut forwarded) = up(&lab, |packet| at(packet, seq, 0, RST | ACK));
            forwarded.seq = C + UP + told;
            lab.check(
                &format!("RST at {seq}"),
                &before,
                (Arriving, &packet),
                Forwarded(forwarded),
                |splice| {
                    splice.state = if seq == 14_480 { RESET } else { SPLICED };
                    splice.legs[CLIENT].has_reset = u8::from(seq == 14_480);
                },
            );
        }
    }
}

#[test]
fn after_a_reset_both_go_on_until_they_know() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = spliced(&lab);
    before.state = RESET;
    let (packet, forwarded) = down(&lab, |packet| packet.payload = vec![1; 10]);
    lab.check(
        "data",
        &before,
        (Arriving, &packet),
        Forwarded(forwarded),
        |splice| {
            splice.ways[SERVER].end = S + 10;
            splice.ways[SERVER].packets = 1;
        },
    );
    let (packet, forwarded) = up(&lab, |packet| at(packet, 0, 0, RST));
    let packet = packet.with(|packet| packet.ack = 0);
    let forwarded = forwarded.with(|packet| packet.ack = 0);
    lab.check(
        "RST",
        &before,
        (Arriving, &packet),
        Forwarded(forwarded),
        |_| {},
    );
}

/// The receiver may have dropped the end, as one whose options it does not know.
#[test]
fn behind_an_end_nothing_new_is_forwarded() {
    let Some(lab) = Lab::v4() else { return };
    for (state, side, is_forwarded) in [
        (RESET, CLIENT, false),
        (RESET, SERVER, true),
        (ENDED, CLIENT, false),
        (ENDED, SERVER, false),
    ] {
        let mut before = spliced(&lab);
        before.state = state;
        before.legs[CLIENT].has_reset = u8::from(state == RESET);
        for (seq, bytes, is_new) in [(0, 1, true), (10_u32.wrapping_neg(), 10, false)] {
            let change = |packet: &mut Packet| {
                packet.seq = packet.seq.wrapping_add(seq);
                packet.payload = vec![1; bytes];
            };
            let (packet, forwarded) = match side {
                CLIENT => up(&lab, change),
                _ => down(&lab, change),
            };
            let what = format!("{state}, {side}: {seq}");
            if is_forwarded || !is_new {
                forward(&lab, &what, &before, (packet, forwarded), |splice| {
                    let way = &mut splice.ways[side];
                    way.packets = 1;
                    (way.end, way.again) = (way.end + u32::from(is_new), u32::from(!is_new));
                });
            } else {
                lab.check(&what, &before, (Arriving, &packet), Dropped, |splice| {
                    splice.refused = 1;
                });
            }
        }
        // Nor may the other peer send more than before.
        let (packet, forwarded) = down(&lab, |packet| packet.window = u16::MAX);
        before.ways[CLIENT].window_end = C + 100;
        forward(
            &lab,
            "a larger window",
            &before,
            (packet, forwarded),
            |splice| {
                splice.ways[SERVER].packets = 1;
            },
        );
    }
}

/// A packet of an unknown connection: the start of a new one.
fn first(lab: &Lab, side: usize, flags: u8) -> (Packet, Packet) {
    let (packet, forwarded) = lab.peer_packet(side);
    let begin = |packet: &mut Packet| (packet.seq, packet.flags) = (77, flags);
    (packet.with(begin), forwarded.with(begin))
}

#[test]
fn a_peer_that_begins_anew_while_spliced_is_answered_by_the_other() {
    let Some(lab) = Lab::v4() else { return };
    let before = spliced(&lab);
    let (packet, forwarded) = first(&lab, CLIENT, SYN);
    let packet = packet.with(|packet| packet.window = 64_240);
    let forwarded = forwarded.with(|packet| {
        packet.seq += UP;
        packet.window = 64_240;
    });
    lab.check(
        "SYN",
        &before,
        (Arriving, &packet),
        Forwarded(forwarded),
        |_| {},
    );
    // No data passes with it.
    let packet = packet.with(|packet| packet.payload = vec![1; 100]);
    lab.check("data", &before, (Arriving, &packet), Dropped, |splice| {
        splice.refused = 1;
    });
    // The server sends its state; the client, which does not know it, resets.
    let (packet, forwarded) = down(&lab, |_| {});
    let splice = forward(&lab, "challenge", &before, (packet, forwarded), |splice| {
        splice.ways[SERVER].packets = 1;
    });
    let (packet, forwarded) = up(&lab, |packet| (packet.flags, packet.ack) = (RST, 0));
    let splice = forward(&lab, "RST", &splice, (packet, forwarded), |splice| {
        splice.state = RESET;
        splice.legs[CLIENT].has_reset = 1;
    });
    // The SYN again: that is another connection.
    let (packet, _) = first(&lab, CLIENT, SYN);
    lab.check(
        "SYN again",
        &splice,
        (Arriving, &packet),
        Passed(packet.clone()),
        |splice| splice.legs[CLIENT].ifindex = 0,
    );
    assert!(!lab.knows(CLIENT) && lab.knows(SERVER));
}

#[test]
fn another_connection_with_the_same_addresses_forgets_one_that_ended() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        for state in [ENDED, RESET] {
            for side in [CLIENT, SERVER] {
                let mut before = spliced(&lab);
                before.state = state;
                lab.know_flows();
                let (packet, _) = first(&lab, side, SYN);
                lab.check(
                    "SYN",
                    &before,
                    (Arriving, &packet),
                    Passed(packet.clone()),
                    |splice| splice.legs[side].ifindex = 0,
                );
                assert!(!lab.knows(side) && lab.knows(1 - side));
                lab.know_flows();
                let own = lab.local_packet(side).with(|packet| packet.flags = SYN);
                let mut after = lab.check(
                    "SYN out",
                    &before,
                    (Leaving, &own),
                    Passed(own.clone()),
                    |splice| splice.legs[side].ifindex = 0,
                );
                assert!(!lab.knows(side) && lab.knows(1 - side));
                // That connection gets nothing of the other one's, not even a SYN. The kernel resets the other one, for
                // which it has no socket.
                forget_times(&mut after);
                for flags in [ACK, FIN | ACK, RST | ACK, SYN | ACK] {
                    let change = |packet: &mut Packet| packet.flags = flags;
                    let (packet, _) = match side {
                        CLIENT => down(&lab, change),
                        _ => up(&lab, change),
                    };
                    lab.check(
                        "the other's",
                        &after,
                        (Arriving, &packet),
                        Passed(packet.clone()),
                        |splice| splice.legs[1 - side].ifindex = 0,
                    );
                    assert!(!lab.knows(1 - side));
                }
            }
        }
    }
}

#[test]
fn the_addresses_of_a_splice_are_not_reused() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        for side in [CLIENT, SERVER] {
            // The process has died, the kernel has dropped its sockets, and another program gets the same port.
            let own = lab.local_packet(side).with(|packet| packet.flags = SYN);
            lab.check("SYN out", &spliced(&lab), (Leaving, &own), Dropped, |_| {});
            assert!(lab.knows(side) && lab.knows(1 - side));
        }
    }
}

#[test]
fn a_connection_that_begins_has_numbers_of_its_own() {
    let Some(lab) = Lab::v4() else { return };
    // They were spliced and returned, with other numbers. Then the client opens a new connection.
    let mut before = lab.in_process();
    (
        before.legs[CLIENT].receive_offset,
        before.legs[CLIENT].send_offset,
    ) = (5, 6);
    before.legs[CLIENT].ts_offset = 7;
    let (syn, _) = first(&lab, CLIENT, SYN);
    let syn = syn.with(|packet| packet.options = timestamps(50, 0));
    lab.check(
        "SYN",
        &before,
        (Arriving, &syn),
        Passed(syn.clone()),
        |_| {},
    );
    assert!(lab.knows(CLIENT), "the old connection may live");
    let answer = lab.local_packet(CLIENT).with(|packet| {
        (packet.seq, packet.ack, packet.flags) = (900, 78, SYN | ACK);
        packet.options = timestamps(60, 50);
    });
    lab.check(
        "SYN-ACK",
        &before,
        (Leaving, &answer),
        Passed(answer.clone()),
        |splice| splice.legs[CLIENT].ifindex = 0,
    );
    assert!(!lab.knows(CLIENT));
}

/// Regression test: they passed, with numbers that may not be their receiver's.
#[test]
fn packets_whose_slot_was_given_away_since_it_was_looked_up_are_lost() {
    let Some(lab) = Lab::v4() else { return };
    let mut others = spliced(&lab);
    for leg in &mut others.legs {
        leg.flow.peer_port ^= 1;
    }
    let (packet, _) = up(&lab, |packet| packet.payload = vec![1; 4]);
    let own = lab.local_packet(SERVER).with(|packet| packet.seq = DOWN);
    for before in [packet_splice::default(), others] {
        lab.check("in", &before, (Arriving, &packet), Dropped, |_| {});
        lab.check("out", &before, (Leaving, &own), Dropped, |_| {});
    }
}

#[test]
fn what_a_client_that_is_gone_does_not_acknowledge_is_not_lost() {
    let Some(lab) = Lab::v4() else { return };
    for is_gone in [false, true] {
        let mut before = spliced(&lab);
        (before.state, before.record, before.left_bytes) =
            (packet_state::PACKET_RESPONSES.0, 1, u64::MAX);
        lab.set(&before);
        lab.set_record(&packet_response::default());
        if is_gone {
            let (reset, _) = up(&lab, |packet| packet.flags = RST | ACK);
            lab.run(Arriving, &reset.bytes(), &[]);
        }
        let (data, _) = down(&lab, |packet| packet.payload = vec![1; 40]);
        for _ in 0..2 {
            lab.run(Arriving, &data.bytes(), &[]);
        }
        let down = lab.splice().ways[SERVER];
        assert_eq!((down.packets, down.again), (2, u32::from(!is_gone)));
    }
}
