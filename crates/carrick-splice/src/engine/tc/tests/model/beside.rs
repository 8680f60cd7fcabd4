//! Cases that depend on the numbers of local sockets: acknowledgement frames for them, and taking connections back.

use super::super::lab::{CLIENT, Lab, PROCESS, SERVER};
use super::super::spliced::{C, S, spliced, up};
use super::super::wire::{ACK, FIN, PSH, Packet, RST, URG, timestamps};
use super::endpoint::{START, Settings, Tcp};
use super::frame::parse;
use super::programs::{Programs, Verdict};
use super::scenario::Scenario;
use crate::engine::tc::command::{Answer, Command};

/// The local socket of a side in the table tests: it has sent 100 unacknowledged bytes.
fn local(lab: &Lab, side: usize, next_sent: u32) -> Tcp {
    let (own, peer) = lab.addresses[side];
    let [_, like, ..] = Scenario::new(0).settings;
    let before = START as u32;
    let mut tcp = Tcp::new(
        Settings {
            own,
            peer,
            own_first: next_sent.wrapping_sub(100).wrapping_sub(before),
            peer_first: [C, S][side].wrapping_sub(before),
            ..like
        },
        0,
    );
    tcp.write(&[1; 100]);
    tcp.flush(0);
    tcp
}

#[test]
fn the_frame_has_nothing_new_but_the_acknowledgement() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let mut before = spliced(&lab);
    before.ways[1].acked = S - 100;
    before.legs[CLIENT].local_acked = before.legs[CLIENT].local_end.wrapping_sub(100);
    for has_ended in [false, true] {
        let mut socket = local(&lab, CLIENT, before.legs[CLIENT].local_end);
        if has_ended {
            // It has relayed an end that had arrived before, and still waits for the acknowledgement.
            socket.shut();
        }
        for (flags, bytes) in [(ACK, 0), (ACK | PSH, 333), (ACK | FIN, 10), (ACK | URG, 1)] {
            programs.set(&before, lab.addresses);
            programs.show(&socket);
            let (packet, forwarded) = up(&lab, |packet: &mut Packet| {
                packet.flags = flags;
                packet.payload = vec![5; bytes];
                packet.options = timestamps(1, 2);
            });
            let outcome = programs.arriving(&packet.bytes());
            assert_eq!(outcome.verdict, Verdict::Forward);
            assert_eq!(parse(&outcome.frame).payload, forwarded.payload);
            let given = parse(&outcome.clone.expect("a frame for the local socket"));
            let wanted = packet.with(|packet| {
                packet.flags = ACK;
                packet.payload = Vec::new();
                packet.seq = C;
            });
            assert_eq!(given, wanted, "{has_ended}");
        }
    }
}

/// Neither local socket has an acknowledgement for its last 100 bytes. Either the peer has not sent one, or it is on its way from the hook.
#[test]
fn the_connections_come_back_though_something_is_not_acknowledged() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    // Beyond that, the client has acknowledged `acked` forwarded bytes; `ahead` more were forwarded, of which it takes `room`.
    for (acked, ahead, room) in [
        (0, 0, 0),
        (0, 700, 700),
        (500, 0, 0),
        (500, 700, 700),
        (500, 700, 699),
    ] {
        let mut before = spliced(&lab);
        let down = &mut before.ways[SERVER];
        (down.start, down.end) = (S + acked, S + acked + ahead);
        (down.acked, down.has_moved) = if acked == 0 {
            (S - 100, 0)
        } else {
            (S + acked, 1)
        };
        down.offered_end = S + acked + room;
        let expected = if room < ahead { down.acked } else { down.end };
        programs.set(&before, lab.addresses);
        for side in [CLIENT, SERVER] {
            programs.show(&local(&lab, side, before.legs[side].local_end));
        }
        let answer = programs.ask(Command::Disarm {
            is_forced: false,
            classified: 0,
        });
        assert_eq!(answer, Answer::Done);
        let after = programs.splice();
        assert_eq!(after.state, PROCESS);
        let (client, server) = (&after.legs[CLIENT], &after.legs[SERVER]);
        assert_eq!((client.receive_offset, client.send_offset), (0, acked));
        assert_eq!((server.receive_offset, server.send_offset), (acked, 0));
        assert_eq!(u32::from(client.is_ahead), u32::from(ahead > 0));
        assert_eq!(
            client.peer_next,
            expected.wrapping_add(before.ways[SERVER].delta)
        );
        let next = before.legs[CLIENT].local_end.wrapping_add(acked);
        assert_eq!(client.local_end, next);
    }
}

#[test]
fn the_connections_do_not_come_back_while_something_is_to_be_relayed() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let before = spliced(&lab);
    for side in [CLIENT, SERVER] {
        programs.set(&before, lab.addresses);
        for at in [CLIENT, SERVER] {
            let mut socket = local(&lab, at, before.legs[at].local_end);
            if at == side {
                // Not sent: it was not told to.
                socket.write(&[1; 9]);
            }
            programs.show(&socket);
        }
        let answer = programs.ask(Command::Disarm {
            is_forced: false,
            classified: 0,
        });
        assert_eq!(answer, Answer::Busy);
    }
}

/// The client's reset had passed the hook before the splice: its local socket is gone.
#[test]
fn the_connection_that_is_left_comes_back_by_force() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    for gone in [CLIENT, SERVER] {
        let mut before = spliced(&lab);
        (
            before.legs[gone].receive_offset,
            before.legs[gone].send_offset,
        ) = (5, 6);
        programs.set(&before, lab.addresses);
        let left = local(&lab, 1 - gone, before.legs[1 - gone].local_end);
        programs.show(&left);
        for is_forced in [false, true] {
            let mut socket = local(&lab, gone, before.legs[gone].local_end);
            socket.abort(0);
            programs.show(&socket);
            let answer = programs.ask(Command::Disarm {
                is_forced,
                classified: 0,
            });
            let wanted = if is_forced {
                Answer::Done
            } else {
                Answer::NoSocket
            };
            assert_eq!(answer, wanted);
        }
        let after = programs.splice();
        assert_eq!(after.state, PROCESS);
        let leg = &after.legs[1 - gone];
        assert_eq!((leg.receive_offset, leg.send_offset), (0, 0));
        let leg = &after.legs[gone];
        assert_eq!((leg.receive_offset, leg.send_offset), (5, 6));
    }
}

/// Bytes that had passed the hook before the splice were received and read, but cannot be relayed yet.
#[test]
fn what_the_process_still_holds_keeps_its_numbers() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let mut before = spliced(&lab);
    before.ways[SERVER].end = S + 50;
    programs.set(&before, lab.addresses);
    for side in [CLIENT, SERVER] {
        let mut socket = local(&lab, side, before.legs[side].local_end);
        if side == SERVER {
            socket.receiving.next += 50;
        }
        programs.show(&socket);
    }
    let answer = programs.ask(Command::Disarm {
        is_forced: false,
        classified: 0,
    });
    assert_eq!(answer, Answer::Done);
    for leg in programs.splice().legs {
        assert_eq!((leg.receive_offset, leg.send_offset), (0, 0));
    }
}

/// Both streams are over, as far as the client knows: it has closed, and has acknowledged a FIN that its local socket has yet to send.
#[test]
fn a_reset_after_both_ends_is_an_acknowledgement() {
    const RECEIVE: u32 = 5_000_000;
    const SEND: u32 = 70_000_u32.wrapping_neg();
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let Some(programs) = Programs::load() else {
            return;
        };
        let mut over = lab.in_process();
        let leg = &mut over.legs[CLIENT];
        let sent = spliced(&lab).legs[CLIENT].local_end;
        (leg.receive_offset, leg.send_offset) = (RECEIVE, SEND);
        leg.local_end = sent.wrapping_add(SEND);
        // Of what was forwarded, 500 bytes and the FIN are not sent again yet.
        leg.sent_end = leg.local_end.wrapping_add(501);
        (leg.peer_next, leg.is_ahead, leg.had_end) = (leg.sent_end, 1, 1);
        let say = |flags: u8, ack: u32| {
            lab.peer_packet(CLIENT).0.with(|packet| {
                (packet.seq, packet.ack) = (C + RECEIVE, ack);
                (packet.flags, packet.window) = (flags, 0);
            })
        };
        let arrives = |splice: &_, packet: &Packet, is_half_closed: bool| {
            let mut socket = local(&lab, CLIENT, sent);
            if is_half_closed {
                socket.shut();
            }
            programs.set(splice, lab.addresses);
            programs.show(&socket);
            let outcome = programs.arriving(&packet.bytes());
            assert_eq!(outcome.verdict, Verdict::Pass);
            parse(&outcome.frame)
        };
        let reset = say(RST, 0);
        for packet in [&reset, &say(RST | ACK, over.legs[CLIENT].sent_end)] {
            let acknowledgement = packet.with(|packet| {
                (packet.seq, packet.ack) = (C, sent);
                (packet.flags, packet.window) = (ACK, 0xffff);
            });
            assert_eq!(arrives(&over, packet, true), acknowledgement);
        }
        let is_reset = |what: &str, splice: &_, packet: &Packet, is_half_closed: bool| {
            let given = arrives(splice, packet, is_half_closed);
            let wanted = packet.with(|packet| {
                packet.seq -= RECEIVE;
                if packet.flags & ACK != 0 {
                    packet.ack = sent;
                }
            });
            assert_eq!(given, wanted, "{what}");
        };
        is_reset("the client has not closed", &over, &reset, false);
        for by in [1, 1_u32.wrapping_neg()] {
            let astray = reset.with(|packet| packet.seq = packet.seq.wrapping_add(by));
            is_reset("elsewhere", &over, &astray, true);
        }
        let with_text = reset.with(|packet| packet.payload = vec![b'!'; 9]);
        is_reset("with data", &over, &with_text, true);
        let behind = over.legs[CLIENT].sent_end.wrapping_sub(1);
        is_reset("the FIN is lacking", &over, &say(RST | ACK, behind), true);
        let mut before = over;
        before.legs[CLIENT].peer_next = behind;
        is_reset("the FIN was lacking", &before, &reset, true);
        before = over;
        before.legs[CLIENT].had_end = 0;
        is_reset("there was no FIN", &before, &reset, true);
        before = over;
        before.legs[CLIENT].is_ahead = 0;
        is_reset("it was sent again", &before, &reset, true);
    }
}
