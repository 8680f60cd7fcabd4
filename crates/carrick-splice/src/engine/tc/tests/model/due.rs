//! Tables of the state *due*: a response goes through the process, and the kernel is to forward the rest.

use super::super::lab::{CLIENT, Lab, PROCESS, SERVER};
use super::super::spliced::{C, S, UP, down, spliced, up};
use super::super::wire::{ACK, FIN, PSH, Packet, timestamps};
use super::answered::{quiet, show};
use super::frame::{options, parse};
use super::programs::{Programs, Verdict};
use crate::engine::tc::skeleton::types::{packet_splice, packet_state};

/// Bytes of the response that are still to come.
const LEFT: u64 = 10_000;
/// The server's window, and the client's.
const ALLOWED: u32 = 20_000;
const OFFERED: u32 = 30_000;

/// The local sockets have received everything.
fn due(lab: &Lab) -> packet_splice {
    let mut splice = spliced(lab);
    splice.state = packet_state::PACKET_DUE.0;
    splice.record = 1;
    (splice.left_bytes, splice.is_measured) = (LEFT, 1);
    (splice.classified_start, splice.classified_end) = (C, C);
    splice.legs[CLIENT].received = C;
    splice.legs[SERVER].received = S;
    splice.legs[SERVER].passed_end = S;
    splice.legs[SERVER].told_end = S + ALLOWED;
    splice.ways[SERVER].window_end = S + ALLOWED;
    splice.ways[SERVER].offered_end = S + OFFERED;
    splice
}

type Change = fn(&mut packet_splice, &mut Packet);

#[test]
fn the_kernel_begins_where_nothing_is_under_way_to_the_process() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let record = programs.record();
    let table: [(&str, bool, Change); 11] = [
        ("a part of the response", true, |_, _| {}),
        ("the last one", true, |_, packet| packet.flags = ACK | PSH),
        ("nothing of it", false, |_, packet| packet.payload.clear()),
        ("its end", false, |_, packet| packet.flags = ACK | FIN),
        ("what was given to the socket before", false, |splice, _| {
            splice.legs[SERVER].passed_end = S + 100;
        }),
        ("behind what the socket has", false, |splice, packet| {
            splice.legs[SERVER].passed_end = S + 100;
            packet.seq = S + 100;
        }),
        ("nothing is the kernel's", false, |splice, _| {
            splice.left_bytes = 0
        }),
        ("the client takes less", false, |splice, _| {
            splice.ways[SERVER].offered_end = S + ALLOWED - 1;
        }),
        ("the client may have more", false, |splice, _| {
            splice.legs[CLIENT].is_ahead = 1;
        }),
        ("it is not known where the client is", false, |splice, _| {
            splice.legs[CLIENT].ifindex = 0;
        }),
        ("nothing of the client was seen", false, |splice, _| {
            splice.legs[CLIENT].was_received = 0;
        }),
    ];
    for (what, begins, change) in table {
        let mut before = due(&lab);
        let (packet, forwarded) = down(&lab, |packet| packet.payload = vec![5; 900]);
        let mut sent = packet.clone();
        change(&mut before, &mut sent);
        programs.set(&before, lab.addresses);
        record.clear();
        show(&lab, &programs, &before);
        let outcome = programs.arriving(&sent.bytes());
        let after = programs.splice();
        assert_eq!(record.has_begun(), begins, "{what}");
        if begins {
            assert_eq!(outcome.verdict, Verdict::Forward, "{what}");
            assert_eq!(parse(&outcome.frame).payload, forwarded.payload);
            assert_eq!(after.state, packet_state::PACKET_RESPONSES.0);
            assert_eq!(
                (after.left_bytes, after.ways[SERVER].start),
                (LEFT - 900, S)
            );
        } else {
            assert_eq!(outcome.verdict, Verdict::Pass, "{what}");
            assert_eq!(after.state, packet_state::PACKET_DUE.0, "{what}");
        }
    }
}

#[test]
fn more_than_the_rest_is_not_forwarded() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let record = programs.record();
    for (bytes, is_back) in [(100, false), (101, true)] {
        let mut before = due(&lab);
        before.state = packet_state::PACKET_RESPONSES.0;
        before.left_bytes = 100;
        programs.set(&before, lab.addresses);
        record.clear();
        show(&lab, &programs, &before);
        let (packet, _) = down(&lab, |packet| packet.payload = vec![5; bytes]);
        let outcome = programs.arriving(&packet.bytes());
        let after = programs.splice();
        assert_eq!(record.is_back(), is_back);
        assert_eq!(after.state == PROCESS, is_back);
        if is_back {
            // The local socket gets the whole packet.
            assert_eq!(outcome.verdict, Verdict::Pass);
            assert_eq!(parse(&outcome.frame), packet);
            assert_eq!(after.legs[SERVER].passed_end, S + 101);
        } else {
            assert_eq!((outcome.verdict, after.left_bytes), (Verdict::Forward, 0));
        }
    }
}

#[test]
fn the_server_may_send_what_the_client_takes() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    // The client's window, whether there are timestamps, and the window that the server gets.
    for (offered, has_timestamps, told) in [
        (OFFERED, true, OFFERED),
        (OFFERED, false, OFFERED),
        (5000, true, 5000),
        // It could not be known that the server received it.
        (5000, false, ALLOWED),
    ] {
        let mut before = due(&lab);
        before.ways[SERVER].offered_end = S + offered;
        programs.set(&before, lab.addresses);
        let packet = lab.local_packet(SERVER).with(|packet| {
            (packet.seq, packet.ack, packet.window) = (C + UP, S, 60_000);
            if has_timestamps {
                packet.options = timestamps(700, 5);
            }
        });
        let outcome = programs.leaving(&packet.bytes());
        assert_eq!(outcome.verdict, Verdict::Pass);
        let seen = parse(&outcome.frame);
        assert_eq!(u32::from(seen.window), told, "{offered}");
        let after = programs.splice();
        let is_less = told < ALLOWED;
        assert_eq!(after.legs[SERVER].told_end, S + told);
        assert_eq!(after.legs[SERVER].is_told_less != 0, is_less);
        // Until the server has received it, it may use its previous window.
        assert_eq!(after.ways[SERVER].window_end, S + told.max(ALLOWED));
        if has_timestamps {
            let tsval = 700 + u32::from(is_less);
            assert_eq!(options(&seen.options).timestamps, Some((tsval, 5)));
        }
        if !is_less {
            continue;
        }
        for (echo, has_heard) in [(700, false), (701, true)] {
            programs.set(&after, lab.addresses);
            show(&lab, &programs, &after);
            let (packet, _) = down(&lab, |packet| packet.options = timestamps(9, echo));
            assert_eq!(programs.arriving(&packet.bytes()).verdict, Verdict::Pass);
            let heard = programs.splice();
            assert_eq!(heard.legs[SERVER].is_told_less == 0, has_heard, "{echo}");
            let end = if has_heard { S + told } else { S + ALLOWED };
            assert_eq!(heard.ways[SERVER].window_end, end);
        }
    }
}

#[test]
fn the_server_hears_that_the_client_takes_more() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    for is_clamped in [0, 1] {
        let mut before = due(&lab);
        before.legs[SERVER].is_clamped = is_clamped;
        before.legs[SERVER].told_end = S + 500;
        before.ways[SERVER].window_end = S + 500;
        programs.set(&before, lab.addresses);
        programs.show(&quiet(&lab, CLIENT, before.legs[CLIENT].local_end));
        let (packet, forwarded) = up(&lab, |packet| packet.window = 8000);
        let outcome = programs.arriving(&packet.bytes());
        let after = programs.splice();
        if is_clamped == 0 {
            // The local socket has nothing more to send.
            assert_eq!(outcome.verdict, Verdict::Pass);
            assert_eq!(after.legs[SERVER].told_end, S + 500);
            continue;
        }
        assert_eq!(outcome.verdict, Verdict::Forward);
        assert_eq!(parse(&outcome.frame), forwarded);
        assert_eq!(after.legs[SERVER].told_end, S + 8000);
        assert_eq!(after.ways[SERVER].window_end, S + 8000);
        let given = parse(&outcome.clone.expect("a frame for the local socket"));
        assert_eq!((given.ack, given.window), (packet.ack, 8000));
    }
}
