//! Packets of the peers while the kernel forwards them.

use super::lab::*;
use super::wire::*;
use crate::engine::tc::skeleton::types::packet_splice;

/// The next byte of the client, and of the server, in their own numbers.
pub const C: u32 = 100_000;
pub const S: u32 = 900_000;
/// Difference of the server's view of the client's numbers, and the reverse.
pub const UP: u32 = 4096;
pub const DOWN: u32 = 50_000_u32.wrapping_neg();
const UP_TS: u32 = 77;
const DOWN_TS: u32 = 9_u32.wrapping_neg();
/// By how much an acknowledgement may be too low: the window, and `ACKED_SLACK`.
const OLDEST: u32 = 2 * 65_535;

/// Two joined idle connections.
pub fn spliced(lab: &Lab) -> packet_splice {
    spliced_at(lab, C, S)
}

pub fn spliced_at(lab: &Lab, client: u32, server: u32) -> packet_splice {
    let mut splice = lab.in_process();
    splice.state = SPLICED;
    for (side, next, delta, ts_delta) in
        [(CLIENT, client, UP, UP_TS), (SERVER, server, DOWN, DOWN_TS)]
    {
        let way = &mut splice.ways[side];
        (way.delta, way.ts_delta) = (delta, ts_delta);
        (way.start, way.end, way.acked) = (next, next, next);
        way.window_max = 65_535;
        way.window_end = next.wrapping_add(65_535);
        way.offered_end = way.window_end;
        let receiver = &mut splice.legs[1 - side];
        receiver.local_end = next.wrapping_add(delta);
        receiver.local_acked = receiver.local_end;
    }
    splice
}

/// A packet of the client, and its form for the server, when the client is at `C` and has received everything up to `S`.
pub fn up(lab: &Lab, change: impl Fn(&mut Packet)) -> (Packet, Packet) {
    let (packet, forwarded) = lab.peer_packet(CLIENT);
    let place = |packet: &mut Packet, seq, ack| {
        (packet.seq, packet.ack) = (seq, ack);
        change(packet);
    };
    (
        packet.with(|packet| place(packet, C, S.wrapping_add(DOWN))),
        forwarded.with(|packet| place(packet, C + UP, S)),
    )
}

/// The same from the server to the client.
pub fn down(lab: &Lab, change: impl Fn(&mut Packet)) -> (Packet, Packet) {
    let (packet, forwarded) = lab.peer_packet(SERVER);
    let place = |packet: &mut Packet, seq, ack| {
        (packet.seq, packet.ack) = (seq, ack);
        change(packet);
    };
    (
        packet.with(|packet| place(packet, S, C + UP)),
        forwarded.with(|packet| place(packet, S.wrapping_add(DOWN), C)),
    )
}

#[test]
fn data_goes_to_the_other_peer_with_its_numbers() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let before = spliced(&lab);
        let (packet, forwarded) = up(&lab, |packet| {
            packet.flags = ACK | PSH;
            packet.payload = b"GET / HTTP/1.1\r\n\r\n!".to_vec();
        });
        let after = lab.check(
            "a question",
            &before,
            (Arriving, &packet),
            Forwarded(forwarded),
            |splice| {
                splice.ways[CLIENT].end = C + 19;
                splice.ways[CLIENT].packets = 1;
            },
        );
        // The answer acknowledges it.
        let (packet, forwarded) = down(&lab, |packet| {
            packet.ack += 19;
            packet.payload = vec![7; 1000];
        });
        lab.check(
            "an answer",
            &after_forward(after),
            (Arriving, &packet),
            Forwarded(forwarded),
            |splice| {
                splice.ways[SERVER].end = S + 1000;
                splice.ways[SERVER].packets = 1;
                splice.ways[CLIENT].acked = C + 19;
                splice.ways[CLIENT].start = C + 19;
                splice.ways[CLIENT].has_moved = 1;
                splice.ways[CLIENT].bytes = 19;
            },
        );
    }
}

fn after_forward(splice: packet_splice) -> packet_splice {
    packet_splice {
        seen_ns: 0,
        active_ns: 0,
        pending_ns: 0,
        noted_bytes: 0,
        noted_ns: 0,
        ..splice
    }
}

#[test]
fn what_is_no_number_stays() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let (packet, forwarded) = up(&lab, |packet| {
            packet.flags = ACK | URG | ECE | CWR;
            packet.urgent = 3;
            packet.tos = 0xb9;
            packet.payload = b"odd".to_vec();
            // An unknown kind, at an odd offset.
            packet.options = vec![1, 253, 4, 0xca, 0xfe, 1, 1, 0];
            if packet.source.is_ipv4() {
                // Router alert (RFC 2113), padded.
                packet.ip_options = vec![0x94, 4, 0, 0];
            }
        });
        lab.check(
            "foreign fields",
            &spliced(&lab),
            (Arriving, &packet),
            Forwarded(forwarded),
            |splice| {
                splice.ways[CLIENT].end = C + 3;
                splice.ways[CLIENT].packets = 1;
            },
        );
    }
}

#[test]
fn sequence_numbers_wrap_at_4_gib() {
    let Some(lab) = Lab::v4() else { return };
    // The client's own numbers, those that the server sees, and the server's all wrap within one packet.
    let client = 10_u32.wrapping_neg();
    let client_seen = UP.wrapping_add(10).wrapping_neg();
    for (client, server) in [(client, 40_u32.wrapping_neg()), (client_seen, 49_990)] {
        let before = spliced_at(&lab, client, server);
        let at = |seq: u32, ack: u32| {
            move |packet: &mut Packet| {
                (packet.seq, packet.ack) = (seq, ack);
                packet.payload = vec![1; 20];
            }
        };
        let (packet, forwarded) = lab.peer_packet(CLIENT);
        let packet = packet.with(at(client, server.wrapping_add(DOWN)));
        let forwarded = forwarded.with(at(client.wrapping_add(UP), server));
        let after = lab.check(
            "up",
            &before,
            (Arriving, &packet),
            Forwarded(forwarded),
            |splice| {
                splice.ways[CLIENT].end = client.wrapping_add(20);
                splice.ways[CLIENT].packets = 1;
            },
        );
        let acked = client.wrapping_add(20);
        let (packet, forwarded) = lab.peer_packet(SERVER);
        let packet = packet.with(at(server, acked.wrapping_add(UP)));
        let forwarded = forwarded.with(at(server.wrapping_add(DOWN), acked));
        lab.check(
            "down",
            &after_forward(after),
            (Arriving, &packet),
            Forwarded(forwarded),
            |splice| {
                splice.ways[SERVER].end = server.wrapping_add(20);
                splice.ways[SERVER].packets = 1;
                splice.ways[CLIENT].acked = acked;
                splice.ways[CLIENT].start = acked;
                splice.ways[CLIENT].has_moved = 1;
                splice.ways[CLIENT].bytes = 20;
            },
        );
    }
}

#[test]
fn bytes_are_counted_beyond_4_gib() {
    let Some(lab) = Lab::v4() else { return };
    let mut splice = spliced(&lab);
    let step = 900_000_000_u32;
    let (mut next, mut sum) = (S, 0_u64);
    for round in 0..12 {
        // As far ahead as windows allow; the data in between is omitted here.
        splice.ways[SERVER].end = next.wrapping_add(step);
        splice.ways[SERVER].window_end = next.wrapping_add(step);
        splice.ways[SERVER].window_max = step;
        next = next.wrapping_add(step);
        sum += u64::from(step);
        let (packet, _) = up(&lab, |packet| packet.ack = next.wrapping_add(DOWN));
        lab.set(&splice);
        assert_eq!(lab.run(Arriving, &packet.bytes(), &[]).verdict, 7);
        splice = lab.splice();
        assert_eq!(splice.ways[SERVER].bytes, sum, "round {round}");
    }
}

#[test]
fn windows_are_scaled_from_one_to_the_other() {
    let Some(lab) = Lab::v4() else { return };
    // The client's scale, the scale that the server knows, the window sent, the expected window.
    for (peer, own, window, expected) in [
        (0, 0, 1234, 1234),
        (7, 7, 501, 501),
        (7, 0, 100, 12_800),
        (7, 0, 511, 65_408),
        (7, 0, 512, 65_535),
        (14, 0, 65_535, 65_535),
        (0, 7, 65_535, 511),
        (0, 7, 127, 0),
        (3, 14, 65_535, 31),
        (14, 14, 65_535, 65_535),
        (5, 9, 0, 0),
        // No kernel sets more than RFC 7323 allows.
        (2, 1, 40_000, 65_535),
    ] {
        let mut before = spliced(&lab);
        before.legs[CLIENT].peer_shift = peer;
        before.legs[SERVER].own_shift = own;
        let (packet, forwarded) = up(&lab, |packet| packet.window = window);
        let forwarded = forwarded.with(|packet| packet.window = expected);
        let offered = u32::from(window) << peer;
        lab.check(
            &format!("{window} << {peer} >> {own}"),
            &before,
            (Arriving, &packet),
            Forwarded(forwarded),
            |splice| {
                splice.ways[CLIENT].packets = 1;
                let way = &mut splice.ways[SERVER];
                way.window_end = way.window_end.max(S + offered);
                way.window_max = way.window_max.max(offered);
            },
        );
    }
}

#[test]
fn a_window_that_is_closed_is_probed() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = spliced(&lab);
    before.ways[SERVER].window_end = S;
    let one = |seq: u32, bytes: usize| {
        down(&lab, move |packet| {
            packet.seq = packet.seq.wrapping_add(seq);
            packet.payload = vec![1; bytes];
        })
    };
    let (probe, forwarded) = one(0, 1);
    lab.check(
        "a probe of one byte beyond the window",
        &before,
        (Arriving, &probe),
        Forwarded(forwarded),
        |splice| {
            splice.ways[SERVER].end = S + 1;
            splice.ways[SERVER].packets = 1;
        },
    );
    let (probe, forwarded) = one(1_u32.wrapping_neg(), 0);
    lab.check(
        "a probe by an old number, as Linux does; keep-alives likewise",
        &before,
        (Arriving, &probe),
        Forwarded(forwarded),
        |splice| splice.ways[SERVER].packets = 1,
    );
    let (probe, forwarded) = one(1_u32.wrapping_neg(), 1);
    lab.check(
        "a keep-alive with a byte of garbage (RFC 9293 section 3.8.4)",
        &before,
        (Arriving, &probe),
        Forwarded(forwarded),
        |splice| splice.ways[SERVER].packets = 1,
    );
    let (probe, _) = one(0, 2);
    lab.check(
        "two bytes",
        &before,
        (Arriving, &probe),
        Dropped,
        |splice| {
            splice.refused = 1;
        },
    );
    let (opening, forwarded) = up(&lab, |packet| packet.window = 5000);
    lab.check(
        "it opens",
        &before,
        (Arriving, &opening),
        Forwarded(forwarded),
        |splice| {
            splice.ways[SERVER].window_end = S + 5000;
            splice.ways[CLIENT].packets = 1;
        },
    );
}

#[test]
fn what_is_sent_again_goes_again() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = spliced(&lab);
    before.ways[CLIENT].end = C + 3000;
    before.ways[CLIENT].acked = C + 1000;
    before.ways[CLIENT].start = C + 1000;
    for (from, bytes) in [(0, 1000), (1000, 1000), (500, 2500), (2000, 1000)] {
        let (packet, forwarded) = up(&lab, |packet| {
            packet.seq += from;
            packet.payload = vec![3; bytes];
        });
        lab.check(
            &format!("{bytes} from {from} on"),
            &before,
            (Arriving, &packet),
            Forwarded(forwarded),
            |splice| {
                splice.ways[CLIENT].packets = 1;
                splice.ways[CLIENT].again = 1;
            },
        );
    }
    // A single byte may probe a window.
    let (packet, forwarded) = up(&lab, |packet| {
        packet.seq += 1999;
        packet.payload = vec![3; 1];
    });
    lab.check(
        "a probe",
        &before,
        (Arriving, &packet),
        Forwarded(forwarded),
        |splice| splice.ways[CLIENT].packets = 1,
    );
    // As far back as a window, not farther.
    before.ways[CLIENT].window_max = 1000;
    let (packet, _) = up(&lab, |packet| {
        packet.seq -= 1;
        packet.payload = vec![3; 500];
    });
    lab.check("older", &before, (Arriving, &packet), Dropped, |splice| {
        splice.refused = 1;
    });
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let Some(lab) = Lab::v4() else { return };
    type Change = fn(&mut Packet);
    let cases: [(&str, Change); 8] = [
        ("data beyond the window", |packet| {
            packet.seq += 65_000;
            packet.payload = vec![1; 537];
        }),
        ("a number far ahead", |packet| packet.seq += 70_000),
        ("a number far behind", |packet| packet.seq -= 65_536),
        ("an acknowledgement of what was never sent", |packet| {
            packet.ack += 1
        }),
        ("one by half of all numbers", |packet| {
            packet.ack = packet.ack.wrapping_add(1 << 31);
        }),
        ("one that is too old", |packet| {
            packet.ack = packet.ack.wrapping_sub(OLDEST + 1);
        }),
        ("neither ACK nor RST", |packet| packet.flags = 0),
        ("FIN beyond the window", |packet| {
            packet.seq += 65_537;
            packet.flags |= FIN;
        }),
    ];
    for (what, change) in cases {
        let (packet, _) = up(&lab, change);
        lab.check(
            what,
            &spliced(&lab),
            (Arriving, &packet),
            Dropped,
            |splice| {
                splice.refused = 1;
            },
        );
    }
    let (packet, forwarded) = up(&lab, |packet| packet.ack = packet.ack.wrapping_sub(OLDEST));
    lab.check(
        "the oldest acknowledgement",
        &spliced(&lab),
        (Arriving, &packet),
        Forwarded(forwarded),
        |splice| splice.ways[CLIENT].packets = 1,
    );
}

#[test]
fn blocks_of_sack_are_translated() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let mut before = spliced(&lab);
        before.ways[SERVER].end = S + 9000;
        let blocks = [(1000, 2000), (3000, 4000), (5000, 6000), (7000, 8000)];
        for count in 1..=4 {
            for with_timestamps in [false, true] {
                let options = |base: u32, ts: (u32, u32)| {
                    let mut options = Vec::new();
                    let mut count = count;
                    if with_timestamps {
                        options.extend(timestamps(ts.0, ts.1));
                        count = count.min(3);
                    }
                    let moved: Vec<_> = blocks[..count]
                        .iter()
                        .map(|(left, right)| (base.wrapping_add(*left), base.wrapping_add(*right)))
                        .collect();
                    options.extend(sack(&moved));
                    options
                };
                let (packet, forwarded) = up(&lab, |_| {});
                let packet = packet.with(|packet| {
                    packet.options = options(S.wrapping_add(DOWN), (5000, 6000));
                });
                let forwarded = forwarded.with(|packet| {
                    let ts = (5000 + UP_TS, 6000_u32.wrapping_sub(DOWN_TS));
                    packet.options = options(S, ts);
                });
                lab.check(
                    &format!("{count} blocks, timestamps: {with_timestamps}"),
                    &before,
                    (Arriving, &packet),
                    Forwarded(forwarded),
                    |splice| {
                        splice.ways[CLIENT].packets = 1;
                        if with_timestamps {
                            splice.legs[SERVER].has_tsval = 1;
                            splice.legs[SERVER].last_tsval = 5000 + UP_TS;
                        }
                    },
                );
            }
        }
    }
}

#[test]
fn a_block_of_what_came_twice_is_translated() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = spliced(&lab);
    (before.ways[SERVER].end, before.ways[SERVER].acked) = (S + 5000, S + 4000);
    before.ways[SERVER].start = S + 4000;
    // RFC 2883: the first block is below the acknowledgement; it may be older than all spliced data.
    let (packet, forwarded) = up(&lab, |packet| {
        packet.ack = packet.ack.wrapping_add(4000);
    });
    let base = S.wrapping_add(DOWN);
    let packet = packet.with(|packet| {
        packet.options = sack(&[
            (base.wrapping_sub(100), base + 900),
            (base + 4500, base + 5000),
        ])
    });
    let forwarded =
        forwarded.with(|packet| packet.options = sack(&[(S - 100, S + 900), (S + 4500, S + 5000)]));
    lab.check(
        "D-SACK",
        &before,
        (Arriving, &packet),
        Forwarded(forwarded),
        |splice| {
            splice.ways[CLIENT].packets = 1;
        },
    );
}

#[test]
fn timestamps_never_go_back() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = spliced(&lab);
    before.legs[SERVER].has_tsval = 1;
    before.legs[SERVER].last_tsval = 8000 + UP_TS;
    // Older packets that arrive later are forwarded unchanged, for the receiver to check.
    for (tsval, last) in [(7999, 8000), (8000, 8000), (8001, 8001)] {
        let (packet, forwarded) = up(&lab, |_| {});
        let packet = packet.with(|packet| packet.options = timestamps(tsval, 3));
        let forwarded = forwarded.with(|packet| {
            packet.options = timestamps(tsval + UP_TS, 3_u32.wrapping_sub(DOWN_TS));
        });
        lab.check(
            &format!("{tsval}"),
            &before,
            (Arriving, &packet),
            Forwarded(forwarded),
            |splice| {
                splice.ways[CLIENT].packets = 1;
                splice.legs[SERVER].last_tsval = last + UP_TS;
            },
        );
    }
    // Without ACK the echo is 0 and stays 0 (RFC 7323 section 3.2).
    let (packet, forwarded) = up(&lab, |packet| (packet.flags, packet.ack) = (RST, 0));
    let packet = packet.with(|packet| packet.options = timestamps(9000, 0));
    let forwarded = forwarded.with(|packet| packet.options = timestamps(9000 + UP_TS, 0));
    lab.check(
        "RST",
        &before,
        (Arriving, &packet),
        Forwarded(forwarded),
        |splice| {
            splice.state = RESET;
            splice.legs[CLIENT].has_reset = 1;
        },
    );
}

#[test]
fn old_bytes_are_not_taken_for_those_of_the_local_socket() {
    let Some(lab) = Lab::v4() else { return };
    // The server has not acknowledged 500 bytes of the local socket. The client's last bytes before the splice, which
    // may differ, have the same numbers.
    let mut before = spliced(&lab);
    before.ways[CLIENT].acked = C - 500;
    before.legs[SERVER].local_acked = C + UP - 500;
    for (from, bytes) in [(200, 200), (100, 300), (500, 0)] {
        let (packet, forwarded) = up(&lab, |packet| {
            packet.seq -= from;
            packet.payload = vec![1; bytes];
        });
        if bytes == 0 {
            lab.check(
                "none",
                &before,
                (Arriving, &packet),
                Forwarded(forwarded),
                |splice| {
                    splice.ways[CLIENT].packets = 1;
                },
            );
        } else {
            let what = format!("{bytes} from -{from} on");
            lab.check(&what, &before, (Arriving, &packet), Dropped, |splice| {
                splice.refused = 1;
            });
        }
    }
    // A server that has reset its connection tells the client, however old that is.
    before.state = RESET;
    let (packet, forwarded) = up(&lab, |packet| {
        packet.seq -= 200;
        packet.payload = vec![1; 200];
    });
    lab.check(
        "after a reset",
        &before,
        (Arriving, &packet),
        Forwarded(forwarded),
        |splice| {
            splice.ways[CLIENT].packets = 1;
            splice.ways[CLIENT].again = 1;
        },
    );
    // As soon as the server has those, it recognizes the old ones as old.
    before.state = SPLICED;
    before.ways[CLIENT].acked = C;
    let (packet, forwarded) = up(&lab, |packet| {
        packet.seq -= 200;
        packet.payload = vec![1; 300];
    });
    lab.check(
        "later",
        &before,
        (Arriving, &packet),
        Forwarded(forwarded),
        |splice| {
            splice.ways[CLIENT].packets = 1;
            splice.ways[CLIENT].end = C + 100;
            splice.ways[CLIENT].again = 1;
        },
    );
}
