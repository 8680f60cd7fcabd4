//! Packets from the local sockets while their connections are spliced, and packets to them.

use super::lab::*;
use super::spliced::{C, DOWN, S, UP, spliced, up};
use super::wire::*;
use std::net::{TcpListener, TcpStream};

/// A packet of the local socket of the client's leg: its state when the splice began.
fn own(lab: &Lab, change: impl FnOnce(&mut Packet)) -> Packet {
    lab.local_packet(CLIENT).with(|packet| {
        (packet.seq, packet.ack) = (S.wrapping_add(DOWN), C);
        change(packet);
    })
}

#[test]
fn local_ends_and_resets_stay_here_while_spliced() {
    let Some(lab) = Lab::v4() else { return };
    for state in [SPLICED, ENDED, RESET] {
        for flags in [RST, RST | ACK, FIN | ACK, FIN | ACK | PSH] {
            let mut before = spliced(&lab);
            before.state = state;
            let packet = own(&lab, |packet| packet.flags = flags);
            lab.check("end", &before, (Leaving, &packet), Dropped, |_| {});
        }
    }
    for state in [ENDED, RESET] {
        let mut before = spliced(&lab);
        before.state = state;
        let packet = own(&lab, |packet| packet.payload = vec![1; 9]);
        lab.check(
            "data after the end",
            &before,
            (Leaving, &packet),
            Dropped,
            |_| {},
        );
    }
}

#[test]
fn a_local_end_leaves_with_leave() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = spliced(&lab);
    before.legs[CLIENT].may_end = 1;
    let packet = own(&lab, |packet| {
        packet.flags = FIN | ACK;
        packet.payload = vec![1; 9];
    });
    let after = lab.check(
        "FIN",
        &before,
        (Leaving, &packet),
        Passed(packet.clone()),
        |splice| {
            let way = &mut splice.ways[SERVER];
            (way.end, way.end_of_stream, way.has_end) = (S + 10, S + 10, 1);
            way.start = S + 10;
            splice.legs[CLIENT].local_end = S.wrapping_add(DOWN) + 10;
        },
    );
    let packet = own(&lab, |packet| packet.flags = RST | ACK);
    lab.check("RST has none", &after, (Leaving, &packet), Dropped, |_| {});
}

#[test]
fn local_data_leaves_and_is_acknowledged_along_the_way() {
    let Some(lab) = Lab::v4() else { return };
    let before = spliced(&lab);
    let packet = own(&lab, |packet| packet.payload = vec![1; 100]);
    let after = lab.check(
        "data",
        &before,
        (Leaving, &packet),
        Passed(packet.clone()),
        |splice| {
            // The process counts them, not the kernel.
            (splice.ways[SERVER].end, splice.ways[SERVER].start) = (S + 100, S + 100);
            splice.legs[CLIENT].local_end = S.wrapping_add(DOWN) + 100;
        },
    );
    // There is no local socket to inform.
    let (packet, forwarded) = up(&lab, |packet| packet.ack += 60);
    lab.check(
        "ACK of a part",
        &after,
        (Arriving, &packet),
        Forwarded(forwarded),
        |splice| {
            splice.ways[CLIENT].packets = 1;
            splice.ways[SERVER].acked = S + 60;
            splice.legs[CLIENT].local_acked = S.wrapping_add(DOWN) + 60;
        },
    );
}

#[test]
fn a_local_acknowledgement_leaves_until_others_do() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = spliced(&lab);
    let packet = own(&lab, |packet| packet.ack = C + 500);
    // For data that had passed the hook before the splice began. The sender may send up to its window.
    lab.check(
        "new",
        &before,
        (Leaving, &packet),
        Passed(packet.clone()),
        |_| {},
    );
    let wide = packet.with(|packet| packet.window = 65_535);
    lab.check(
        "wider",
        &before,
        (Leaving, &wide),
        Passed(wide.clone()),
        |splice| {
            splice.ways[CLIENT].window_end = C + 500 + 65_535;
        },
    );
    let sack = packet.with(|packet| packet.options = sack(&[(C + 600, C + 700)]));
    lab.check("with SACK", &before, (Leaving, &sack), Dropped, |_| {});
    let older = packet.with(|packet| packet.ack = C - 1);
    lab.check("old", &before, (Leaving, &older), Dropped, |_| {});
    // Later, whatever its number: after 2 GB an old one looks new.
    before.ways[CLIENT].has_moved = 1;
    for ahead in [0, 1000, 1 << 30, 3 << 30] {
        before.ways[CLIENT].acked = C.wrapping_add(ahead);
        before.ways[CLIENT].start = C.wrapping_add(ahead);
        lab.check("later", &before, (Leaving, &packet), Dropped, |_| {});
    }
}

/// Bytes had passed the hook when the splice began, and the peer's window is closed.
#[test]
fn a_local_probe_leaves_and_is_answered() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = spliced(&lab);
    before.ways[CLIENT].has_moved = 1;
    let next = before.legs[CLIENT].local_end;
    let probe = own(&lab, |packet| packet.seq = packet.seq.wrapping_sub(1));
    let after = lab.check(
        "probe",
        &before,
        (Leaving, &probe),
        Passed(probe.clone()),
        |splice| splice.legs[CLIENT].local_acked = next.wrapping_sub(1),
    );
    // With an acknowledgement that is not new; the local socket gets it, if there is one (see `model::beside`).
    let (answer, forwarded) = up(&lab, |packet| packet.window = 77);
    let forwarded = forwarded.with(|packet| packet.window = 77);
    lab.check(
        "answer",
        &after,
        (Arriving, &answer),
        Forwarded(forwarded),
        |splice| {
            splice.ways[CLIENT].packets = 1;
            splice.legs[CLIENT].local_acked = next;
        },
    );
    let again = own(&lab, |packet| packet.payload = vec![7; 20]).with(|packet| {
        packet.seq = packet.seq.wrapping_sub(20);
    });
    lab.check(
        "what it sends again",
        &before,
        (Leaving, &again),
        Passed(again.clone()),
        |splice| splice.legs[CLIENT].local_acked = next.wrapping_sub(20),
    );
}

/// The local clock may be faster than the other peer's, whose next packets must not look old (PAWS).
#[test]
fn a_local_timestamp_is_not_ahead_of_those_that_are_forwarded() {
    let Some(lab) = Lab::v4() else { return };
    let mut before = spliced(&lab);
    (
        before.legs[CLIENT].has_tsval,
        before.legs[CLIENT].last_tsval,
    ) = (1, 5000);
    let packet = |tsval: u32| {
        own(&lab, |packet| {
            packet.ack = C + 500;
            packet.options = timestamps(tsval, 7);
        })
    };
    for (tsval, offset) in [
        (4990, 10),
        (5000, 0),
        (5001, 1_u32.wrapping_neg()),
        (9000, 4000_u32.wrapping_neg()),
    ] {
        lab.check(
            &format!("{tsval}"),
            &before,
            (Leaving, &packet(tsval)),
            Passed(packet(5000)),
            |splice| {
                splice.legs[CLIENT].ts_offset = offset;
                splice.legs[CLIENT].local_tsval = 5000;
            },
        );
    }
}

#[test]
fn before_the_splice_a_leaving_packet_shows_the_interface() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let mut before = lab.in_process();
        for side in [CLIENT, SERVER] {
            (before.legs[side].ifindex, before.legs[side].was_received) = (0, 0);
            let packet = lab.local_packet(side);
            lab.check(
                "out",
                &before,
                (Leaving, &packet),
                Passed(packet.clone()),
                |splice| {
                    splice.legs[side].ifindex = 1;
                },
            );
            let (packet, _) = lab.peer_packet(side);
            lab.check(
                "in",
                &before,
                (Arriving, &packet),
                Passed(packet.clone()),
                |splice| {
                    splice.legs[side].was_received = 1;
                },
            );
        }
    }
}

#[test]
fn what_the_local_socket_has_acknowledged_stays_acknowledged() {
    let Some(lab) = Lab::v4() else { return };
    // The client has not acknowledged the last 5000 bytes of the local socket; the server knows that this host has them.
    let mut before = spliced(&lab);
    before.ways[SERVER].acked = S - 5000;
    before.legs[CLIENT].local_acked = before.legs[CLIENT].local_end.wrapping_sub(5000);
    (
        before.legs[CLIENT].peer_shift,
        before.legs[SERVER].own_shift,
    ) = (2, 3);
    // (bytes, the client's acknowledgement, its window, what the server gets)
    for (bytes, behind, window, seen_behind, seen_window) in [
        (9, 5000, 3000, 0, (12_000 - 5000) / 8),
        (9, 2000, 3000, 0, (12_000 - 2000) / 8),
        (9, 5000, 1000, 0, 0),
        (9, 0, 3000, 0, 12_000 / 8),
        (0, 5000, 3000, 5000, 12_000 / 8),
    ] {
        let (packet, forwarded) = up(&lab, |packet| packet.payload = vec![3; bytes]);
        let packet = packet.with(|packet| {
            packet.ack = packet.ack.wrapping_sub(behind);
            packet.window = window;
        });
        let forwarded = forwarded.with(|packet| {
            packet.ack -= seen_behind;
            packet.window = seen_window;
        });
        lab.check(
            &format!("{bytes} bytes, {behind} behind, window {window}"),
            &before,
            (Arriving, &packet),
            Forwarded(forwarded),
            |splice| {
                splice.ways[CLIENT].end = C + bytes as u32;
                splice.ways[CLIENT].packets = 1;
                splice.ways[SERVER].acked = S - behind;
                let leg = &mut splice.legs[CLIENT];
                leg.local_acked = leg.local_end.wrapping_sub(behind);
            },
        );
    }
}

/// Both ends of a connection on loopback, in a namespace of this thread only, so that no other program sees its packets.
fn connection(v6: bool) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(if v6 { "[::1]:0" } else { "127.0.0.1:0" }).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

#[test]
fn the_local_socket_gets_its_acknowledgement_beside() {
    for v6 in [false, true] {
        let (near, far) = connection(v6);
        let (near2, far2) = connection(v6);
        let addresses =
            [&far, &far2].map(|own| (own.local_addr().unwrap(), own.peer_addr().unwrap()));
        let Some(lab) = Lab::between(addresses) else {
            return;
        };
        let mut before = spliced(&lab);
        // 100 bytes of the local socket have not been acknowledged yet.
        before.ways[SERVER].acked = S - 100;
        before.legs[CLIENT].local_acked = before.legs[CLIENT].local_end - 100;
        for (seq, payload, flags) in [(0, 0, ACK), (0, 333, ACK | PSH), (0, 10, FIN | ACK)] {
            let (packet, forwarded) = up(&lab, |packet| {
                packet.seq += seq;
                packet.flags = flags;
                packet.payload = vec![5; payload];
                packet.options = timestamps(1, 2);
            });
            let forwarded = forwarded.with(|packet| {
                packet.options = timestamps(1 + 77, 2 + 9);
            });
            let end = C + payload as u32 + u32::from(flags & FIN != 0);
            lab.check(
                "copied",
                &before,
                (Arriving, &packet),
                Forwarded(forwarded),
                |splice| {
                    splice.legs[CLIENT].local_acked = splice.legs[CLIENT].local_end;
                    splice.legs[CLIENT].is_varied = 1;
                    splice.legs[SERVER].has_tsval = 1;
                    splice.legs[SERVER].last_tsval = 78;
                    splice.ways[SERVER].acked = S;
                    let way = &mut splice.ways[CLIENT];
                    (way.end, way.packets) = (end, 1);
                    if flags & FIN != 0 {
                        (way.has_end, way.end_of_stream) = (1, end);
                    }
                },
            );
        }
        assert_eq!(UP, 4096);
        drop((near, near2));
    }
}
