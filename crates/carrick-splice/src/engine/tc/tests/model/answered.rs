//! Tables of the state in which the kernel forwards responses: cases that the model in virtual time has found.

use super::super::lab::{CLIENT, Lab, PROCESS, SERVER};
use super::super::spliced::{C, S, UP, down, spliced, up};
use super::super::wire::{ACK, PSH, Packet, RST, sack, timestamps};
use super::endpoint::{START, Settings, Tcp};
use super::frame::{options, parse};
use super::programs::{Programs, Verdict};
use super::scenario::Scenario;
use crate::engine::tc::command::{Answer, Command, KernelRoutes};
use crate::engine::tc::skeleton::types::{packet_splice, packet_state};

/// Responses are forwarded, and nothing is in flight.
pub fn answering(lab: &Lab) -> packet_splice {
    let mut splice = spliced(lab);
    splice.state = packet_state::PACKET_RESPONSES.0;
    splice.record = 1;
    splice.left_bytes = u64::MAX;
    (splice.requests_left, splice.requests_until_ns) = (u32::MAX, u64::MAX);
    (splice.response_start, splice.armed_at) = (S, S);
    (splice.classified_start, splice.classified_end) = (C, C);
    splice.legs[CLIENT].received = C;
    splice.legs[CLIENT].local_window = 500;
    splice
}

/// The local socket of a side, idle.
pub fn quiet(lab: &Lab, side: usize, next_sent: u32) -> Tcp {
    let (own, peer) = lab.addresses[side];
    let before = START as u32;
    let settings = Settings {
        own,
        peer,
        own_first: next_sent.wrapping_sub(before),
        peer_first: [C, S][side].wrapping_sub(before),
        clock: Some((0, 1000)),
        ..Scenario::new(0).settings[1]
    };
    Tcp::new(settings, 0)
}

pub fn show(lab: &Lab, programs: &Programs, splice: &packet_splice) {
    for side in [CLIENT, SERVER] {
        programs.show(&quiet(lab, side, splice.legs[side].local_end));
    }
}

#[test]
fn fewer_bytes_than_are_kept_leave_the_last_ones_unknown() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let record = programs.record();
    programs.set(&answering(&lab), lab.addresses);
    for (at, bytes, tail) in [(0, &b"a body"[..], &b" body"[..]), (6, b"\r\n", b"")] {
        let (packet, _) = down(&lab, |packet| {
            packet.seq = packet.seq.wrapping_add(at);
            packet.flags = ACK | PSH;
            packet.payload = bytes.to_vec();
        });
        let outcome = programs.arriving(&packet.bytes());
        assert_eq!(outcome.verdict, Verdict::Forward);
        assert_eq!(record.tail(), tail);
    }
}

#[test]
fn what_of_a_head_comes_in_further_packets_is_kept_behind_the_first() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let record = programs.record();
    let long = [
        b"HTTP/1.1 103 Early Hints\r\nLink: ".as_slice(),
        &[b'a'; 600],
        b"\r\n\r\n",
    ]
    .concat();
    let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".as_slice();
    let (first, second) = (
        b"HTTP/1.1 100 Continue\r\n\r\n".as_slice(),
        b"HTTP/1.1 103 Early Hints\r\n\r\n".as_slice(),
    );
    let switched = b"HTTP/1.1 101 Switching Protocols\r\n\r\n".as_slice();
    // The packets, and the bytes kept of them.
    let cases: [(&[&[u8]], Vec<u8>); 6] = [
        (&[first, whole], [first, whole].concat()),
        (&[first, second, whole], [first, second, whole].concat()),
        (&[first, &[b'x'; 700]], [first, &[b'x'; 512]].concat()),
        (
            &[&first[..10], &first[10..], whole],
            [first, whole].concat(),
        ),
        (&[&long, whole], long.clone()),
        (&[switched, whole], [switched, whole].concat()),
    ];
    for (packets, kept) in cases {
        programs.set(&answering(&lab), lab.addresses);
        record.clear();
        record.note_request_for_tests();
        let begun_at = record.head_at();
        let mut at = 0;
        for payload in packets {
            let (packet, _) = down(&lab, |packet| {
                packet.seq = packet.seq.wrapping_add(at);
                packet.payload = payload.to_vec();
            });
            for _ in 0..2 {
                // Also if it arrives twice.
                assert_eq!(programs.arriving(&packet.bytes()).verdict, Verdict::Forward);
            }
            at += payload.len() as u32;
        }
        let text = packets[0].escape_ascii();
        assert_eq!(record.head(begun_at), kept, "{text:?}");
        // Data that the client has not acknowledged is retransmitted, also with other bytes, or in other pieces.
        let mut at = 0;
        for payload in packets {
            for (from, bytes) in [
                (at, payload.to_vec()),
                (at, vec![b'?'; payload.len()]),
                (at, vec![b'?'; payload.len() / 2]),
                (at, vec![b'?'; payload.len() + 9]),
                (at + 3, vec![b'?'; 5]),
            ] {
                let (packet, _) = down(&lab, |packet| {
                    packet.seq = packet.seq.wrapping_add(from);
                    packet.payload.clone_from(&bytes);
                });
                programs.arriving(&packet.bytes());
                assert_eq!(record.head(begun_at), kept, "{text:?}: {from}");
            }
            at += payload.len() as u32;
        }
    }
}

/// Retransmissions measure a leg: a single byte may be a probe, and a bare acknowledgement is not one.
#[test]
fn what_the_server_sends_again_is_counted() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    programs.set(&answering(&lab), lab.addresses);
    // A packet's start, its length, and the number of retransmissions so far.
    let steps = [
        (0, 1000, 0),
        (1000, 500, 0),
        (0, 1000, 1),
        (1000, 1, 1),
        (1500, 0, 1),
        (1000, 1000, 2),
        (2000, 1, 2),
    ];
    for (at, bytes, again) in steps {
        let (packet, _) = down(&lab, |packet| {
            packet.seq = packet.seq.wrapping_add(at);
            packet.payload = vec![7; bytes];
        });
        programs.arriving(&packet.bytes());
        assert_eq!(programs.splice().ways[SERVER].again, again, "{at} {bytes}");
    }
}

/// Local sockets and peers have different clocks.
#[test]
fn an_echo_is_not_of_a_time_to_come() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let mut before = answering(&lab);
    for side in [CLIENT, SERVER] {
        before.legs[side].peer_tsval = 1000;
        before.ways[side].ts_delta = 77;
    }
    for (echo, wanted) in [(1050, 973), (1077, 1000), (1078, 1000), (9000, 1000)] {
        for (packet, _) in [
            down(&lab, |packet| {
                packet.payload = vec![5; 9];
                packet.options = timestamps(900, echo);
            }),
            up(&lab, |packet| packet.options = timestamps(900, echo)),
        ] {
            programs.set(&before, lab.addresses);
            let outcome = programs.arriving(&packet.bytes());
            assert_eq!(outcome.verdict, Verdict::Forward);
            let seen = options(&parse(&outcome.frame).options).timestamps;
            assert_eq!(seen, Some((977, wanted)), "{echo}");
        }
    }
}

/// Behind a later time it would drop a part (RFC 7323 section 5.3), and take another one with the same numbers instead.
#[test]
fn the_times_of_responses_do_not_go_back_for_the_client() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    programs.set(&answering(&lab), lab.addresses);
    let times = [(0, 510), (9, 505), (18, 512)].map(|(at, time)| {
        let (packet, _) = down(&lab, |packet| {
            packet.seq = packet.seq.wrapping_add(at);
            packet.payload = vec![5; 9];
            packet.options = timestamps(time, 0);
        });
        let outcome = programs.arriving(&packet.bytes());
        assert_eq!(outcome.verdict, Verdict::Forward);
        let (time, _) = options(&parse(&outcome.frame).options).timestamps.unwrap();
        time
    });
    assert_eq!([times[1] - times[0], times[2] - times[0]], [0, 2]);
    // Nor does it take one without a time.
    let (packet, _) = down(&lab, |packet| packet.payload = vec![5; 36]);
    let outcome = programs.arriving(&packet.bytes());
    assert_eq!(outcome.verdict, Verdict::Drop);
}

#[test]
fn blocks_of_a_request_do_not_reach_the_client() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    programs.set(&answering(&lab), lab.addresses);
    let (packet, _) = down(&lab, |packet| {
        packet.payload = vec![5; 9];
        packet.options = sack(&[(C + UP - 50, C + UP), (C + UP - 90, C + UP - 70)]);
    });
    let outcome = programs.arriving(&packet.bytes());
    assert_eq!(outcome.verdict, Verdict::Forward);
    let seen = parse(&outcome.frame).options;
    assert_eq!(seen, vec![1; packet.options.len()]);
}

/// A request of 50 bytes was forwarded; the 30 bytes behind it are the process's.
fn asked(lab: &Lab) -> packet_splice {
    let mut splice = answering(lab);
    splice.classified_end = C + 50;
    splice.classified_delta = UP;
    splice.ways[CLIENT].end = C + 80;
    splice.legs[SERVER].local_end = C + UP + 80;
    splice.legs[SERVER].local_acked = C + UP + 50;
    splice
}

#[test]
fn a_request_is_acknowledged_with_what_is_behind_it() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    for acked in [10, 50, 51, 80] {
        let mut before = asked(&lab);
        before.ways[CLIENT].window_end = C + 100;
        programs.set(&before, lab.addresses);
        show(&lab, &programs, &before);
        let (packet, _) = down(&lab, |packet| packet.ack = C + UP + acked);
        let outcome = programs.arriving(&packet.bytes());
        assert_eq!(outcome.verdict, Verdict::Forward, "{acked}");
        let told = C + acked.min(50);
        let seen = parse(&outcome.frame);
        assert_eq!((seen.ack, seen.window), (told, 500));
        let after = programs.splice();
        assert_eq!(after.legs[CLIENT].received, told);
        // The client may send what its window allows.
        assert_eq!(after.ways[CLIENT].window_end, told + 500);
    }
}

#[test]
fn the_connections_do_not_come_back_before_a_request_has_arrived() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let busy = (Answer::Busy, packet_state::PACKET_RESPONSES.0);
    let done = (Answer::Done, PROCESS);
    for (received, is_forced, wanted) in [
        (0, false, busy),
        (49, false, busy),
        (49, true, done),
        (50, false, done),
    ] {
        let mut before = asked(&lab);
        before.legs[CLIENT].received += received;
        programs.set(&before, lab.addresses);
        let answer = programs.ask(Command::Disarm {
            is_forced,
            classified: 0,
        });
        assert_eq!((answer, programs.splice().state), wanted, "{received}");
    }
}

/// The request with which the process has armed is not yet in the server's socket when the client sends another one.
#[test]
fn no_request_overtakes_the_first() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let record = programs.record();
    record.clear();
    programs.let_classify(*b"GET /abc", 12);
    let mut before = answering(&lab);
    before.table = 1;
    let (packet, _): (Packet, _) = up(&lab, |packet| packet.payload = b"GET /abcdefg".to_vec());
    for wanted in [Verdict::Pass, Verdict::Forward] {
        programs.set(&before, lab.addresses);
        show(&lab, &programs, &before);
        let outcome = programs.arriving(&packet.bytes());
        assert_eq!(outcome.verdict, wanted);
        if wanted == Verdict::Pass {
            record.settle_first();
            record.settle(12);
            record.note_response_for_tests();
        }
    }
}

/// The kernel has forwarded and reported a request. The process's next request ends its response.
#[test]
fn what_was_told_of_ends_where_another_request_follows() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let record = programs.record();
    record.clear();
    record.settle_first();
    record.note_response_for_tests();
    programs.let_classify(*b"GET /abc", 12);
    let mut before = answering(&lab);
    before.table = 1;
    programs.set(&before, lab.addresses);
    show(&lab, &programs, &before);
    let (request, _) = up(&lab, |packet| packet.payload = b"GET /abcdefg".to_vec());
    let respond = |at, text: &[u8]| {
        let (response, _) = down(&lab, |packet| {
            (packet.seq, packet.ack) = (S.wrapping_add(at), C + UP + 12);
            packet.payload = text.to_vec();
        });
        assert_eq!(
            programs.arriving(&response.bytes()).verdict,
            Verdict::Forward
        );
    };
    let told = |status, is_over| {
        let told = record.watch().told();
        assert_eq!((told.status, told.is_over), (status, is_over));
        told.end
    };
    assert_eq!(
        programs.arriving(&request.bytes()).verdict,
        Verdict::Forward
    );
    let start = told(None, false);
    respond(0, b"HTTP/1.1 203 x");
    assert_eq!(told(Some(203), false), start + 14);
    let passed = lab.local_packet(SERVER).with(|packet| {
        (packet.seq, packet.ack) = (C + UP, S);
        packet.payload = b"POST /abc".to_vec();
    });
    // Retransmitted, it changes nothing.
    for _ in 0..2 {
        assert_eq!(programs.leaving(&passed.bytes()).verdict, Verdict::Pass);
        respond(14, b"HTTP/1.1 404 not here");
        assert_eq!(told(Some(203), true), start + 14);
    }
}

/// An earlier splice had a faster clock.
#[test]
fn timestamps_go_on_from_an_earlier_splice() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let routes: Option<KernelRoutes> = None;
    let responses = Command::ArmResponses {
        record: 1,
        routes,
        pace: 0,
    };
    for command in [Command::Arm { pace: [0; 2] }, responses] {
        let mut before = lab.in_process();
        for leg in &mut before.legs {
            (leg.has_tsval, leg.last_tsval, leg.ts_offset) = (1, 5000, 7);
        }
        programs.set(&before, lab.addresses);
        programs.set_clock(1_000_000);
        show(&lab, &programs, &before);
        assert_eq!(programs.ask(command), Answer::Done);
        let after = programs.splice();
        for leg in after.legs {
            assert_eq!((leg.last_tsval, leg.local_tsval), (5000, 5000));
            assert_eq!(leg.ts_offset, 4000);
        }
    }
}

/// Data before the server's reset is lost: the local socket sends a challenge.
#[test]
fn a_reset_that_comes_too_early_is_asked_about() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let question = lab.local_packet(SERVER).with(|packet| {
        (packet.seq, packet.ack) = (C + UP, S);
    });
    for (early, answers) in [
        (0, [Verdict::Drop, Verdict::Drop]),
        (9, [Verdict::Pass, Verdict::Drop]),
    ] {
        programs.set(&answering(&lab), lab.addresses);
        let (packet, _) = down(&lab, |packet| {
            packet.flags = RST | ACK;
            packet.seq += early;
        });
        assert_eq!(programs.arriving(&packet.bytes()).verdict, Verdict::Pass);
        for answer in answers {
            let outcome = programs.leaving(&question.bytes());
            assert_eq!(outcome.verdict, answer, "{early}");
        }
    }
}

/// It was another client's: the server has missed its acknowledgement, which the local socket repeats, once.
#[test]
fn what_the_server_sends_again_from_before_the_splice_reaches_no_client() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let acknowledgement = lab.local_packet(SERVER).with(|packet| {
        (packet.seq, packet.ack) = (C + UP, S);
    });
    // How long before the splice it begins, and its length: behind that, the server retransmits the rest.
    for (before, bytes) in [(1000, 1000), (1000, 400), (1, 1), (400, 1000)] {
        programs.set(&answering(&lab), lab.addresses);
        let (packet, _) = down(&lab, |packet| {
            packet.seq = packet.seq.wrapping_sub(before);
            packet.payload = vec![b'a'; bytes];
        });
        let outcome = programs.arriving(&packet.bytes());
        assert_eq!(outcome.verdict, Verdict::Pass, "{before} {bytes}");
        let payload = parse(&outcome.frame).payload;
        assert_eq!(payload.len(), bytes.min(before as usize));
        for verdict in [Verdict::Pass, Verdict::Drop] {
            let outcome = programs.leaving(&acknowledgement.bytes());
            assert_eq!(outcome.verdict, verdict, "{before} {bytes}");
        }
    }
}
