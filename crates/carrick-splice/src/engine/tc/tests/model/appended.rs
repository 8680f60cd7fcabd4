//! Tables: requests that get field lines on their way, and lose one. The server gets the same bytes whichever packets of the client
//! arrive, and the client sends again what the server lacks.

use super::super::lab::{CLIENT, SERVER};
use super::super::spliced::{C, S, UP, down};
use super::super::wire::ACK;
use super::frame::parse;
use super::programs::Verdict;
use super::unclassified::{REQUEST, Rest, rests};
use crate::engine::tc::http::RequestFields;

/// `Connection: keep-alive` and its line's end.
const LEFT_OUT_BYTES: usize = 24;

/// A request of the client's, and what the server gets of it.
struct Case {
    request: Vec<u8>,
    /// Offset of the line that is left out; 0: none.
    left_out_at: usize,
    arrives: Vec<u8>,
    fields: RequestFields,
}

impl Case {
    fn new(bytes: usize, left_out_at: usize, text: &str) -> Case {
        let mut request = REQUEST[..8].to_vec();
        request.extend((8..bytes - 2).map(|at| b'A' + (at % 60) as u8));
        request.extend(b"\r\n");
        let mut arrives = request[..bytes - 2].to_vec();
        if left_out_at > 0 {
            arrives.drain(left_out_at..left_out_at + LEFT_OUT_BYTES);
        }
        arrives.extend(text.as_bytes());
        arrives.extend(b"\r\n");
        let fields = RequestFields::new(format!("{text}\r\n").into(), b"").unwrap();
        Case {
            request,
            left_out_at,
            arrives,
            fields,
        }
    }

    /// The client has sent it.
    fn begin(&self, rest: &Rest) {
        self.prepare(rest);
        let outcome =
            rest.arrives(&rest.request(|packet| packet.payload.clone_from(&self.request)));
        assert_eq!(outcome.verdict, Verdict::Forward);
        let seen = parse(&outcome.frame);
        assert_eq!((seen.seq, &seen.payload), (C + UP, &self.arrives));
        rest.show();
    }

    fn prepare(&self, rest: &Rest) {
        let (bytes, left_out_at) = (self.request.len() as u64, self.left_out_at as u64);
        (rest.programs).let_classify_without(*REQUEST.first_chunk().unwrap(), bytes, left_out_at);
        rest.begin(|_| {});
        rest.record.append(&self.fields);
    }
}

/// Even and odd lengths, and the line at even and odd places, at the beginning and at the end.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for text in [
        "Via: 1.1 carrick\r\n",
        "X-Forwarded-For: 192.0.2.1\r\nVia: 1.1 a\r\n",
    ] {
        for bytes in [60, 61] {
            for left_out_at in [0, 8, 9, bytes - 2 - LEFT_OUT_BYTES] {
                cases.push(Case::new(bytes, left_out_at, text));
            }
        }
    }
    cases.push(Case::new(270, 100, &format!("A: {}\r\n", "b".repeat(240))));
    // Shorter than before.
    cases.push(Case::new(60, 20, ""));
    cases
}

#[test]
fn a_request_gets_the_field_lines_and_loses_the_one_for_this_hop() {
    for rest in rests() {
        for case in cases() {
            case.begin(&rest);
        }
    }
}

#[test]
fn whatever_part_is_sent_again_the_server_gets_the_same_bytes() {
    for rest in rests() {
        for case in cases().iter().filter(|case| case.request.len() < 100) {
            case.begin(&rest);
            let bytes = case.request.len();
            let out = case.left_out_at
                ..case.left_out_at + LEFT_OUT_BYTES * usize::from(case.left_out_at > 0);
            for (from, to) in
                (0..bytes).flat_map(|from| (from + 1..=bytes).map(move |to| (from, to)))
            {
                let packet = rest.request(|packet| {
                    packet.seq = C + from as u32;
                    packet.payload = case.request[from..to].to_vec();
                });
                let outcome = rest.arrives(&packet);
                let what = format!("{from}..{to} of {bytes}, without {out:?}");
                // The line that is left out, and a line end without its end, have nothing for the server.
                let is_nothing = |at: usize| out.contains(&at) || (at == bytes - 2 && to < bytes);
                if (from..to).all(is_nothing) {
                    assert_eq!(outcome.verdict, Verdict::Drop, "{what}");
                    continue;
                }
                assert_eq!(outcome.verdict, Verdict::Forward, "{what}");
                let seen = parse(&outcome.frame);
                let at = seen.seq.wrapping_sub(C + UP) as usize;
                let end = at + seen.payload.len();
                assert_eq!(case.arrives.get(at..end), Some(&seen.payload[..]), "{what}");
                // It begins no later than the first byte of the packet, and ends no earlier than the last.
                let before = |place: usize| place - out.len().min(place.saturating_sub(out.start));
                assert!(at <= before(from), "{what}: from {at}");
                let least = if to == bytes {
                    case.arrives.len()
                } else {
                    before(to.min(bytes - 2))
                };
                assert_eq!(end, least, "{what}");
            }
        }
    }
}

#[test]
fn the_client_learns_that_a_byte_has_arrived_only_once_it_has() {
    for rest in rests() {
        for case in cases().iter().filter(|case| case.request.len() < 100) {
            let (bytes, arrives) = (case.request.len(), case.arrives.len());
            for acked in 1..=arrives + 1 {
                case.begin(&rest);
                let (packet, _) = down(&rest.lab, |packet| {
                    (packet.flags, packet.seq) = (ACK, S);
                    packet.ack = (C + UP).wrapping_add(acked as u32);
                });
                let outcome = rest.arrives(&packet);
                let splice = rest.programs.splice();
                let received = splice.legs[CLIENT].received.wrapping_sub(C) as usize;
                let what = format!("{acked} of {arrives}, {received} of {bytes}");
                if acked > arrives {
                    assert_eq!((outcome.verdict, received), (Verdict::Drop, 0), "{what}");
                    continue;
                }
                assert_eq!(received == bytes, acked == arrives, "{what}");
                if received == bytes {
                    continue;
                }
                // What it sends again begins where the server lacks something.
                let again = rest.request(|packet| {
                    packet.seq = C + received as u32;
                    packet.payload = case.request[received..].to_vec();
                });
                let seen = parse(&rest.arrives(&again).frame);
                let at = seen.seq.wrapping_sub(C + UP) as usize;
                let left_out = LEFT_OUT_BYTES * usize::from(case.left_out_at > 0);
                assert_eq!(at, acked.min(bytes - 2 - left_out), "{what}");
            }
        }
    }
}

#[test]
fn the_next_request_follows_with_the_servers_numbers() {
    for rest in rests() {
        for case in cases() {
            case.begin(&rest);
            let (sent, got) = (case.request.len() as u32, case.arrives.len() as u32);
            let splice = rest.programs.splice();
            assert_eq!(splice.legs[SERVER].local_end, (C + UP).wrapping_add(got));
            assert_eq!(splice.ways[CLIENT].end, C + sent);
            assert_eq!(splice.requests_left, u32::MAX - 1);
        }
    }
}

#[test]
fn what_the_servers_segments_have_no_room_for_is_the_process_s() {
    for rest in rests() {
        let case = Case::new(
            1400,
            0,
            "Via: 1.1 carrick, a name that takes room, and more of it\r\n",
        );
        case.prepare(&rest);
        let outcome =
            rest.arrives(&rest.request(|packet| packet.payload.clone_from(&case.request)));
        assert_eq!(outcome.verdict, Verdict::Pass);
    }
}

#[test]
fn after_so_many_requests_or_so_long_the_process_chooses_a_server_again() {
    for rest in rests() {
        for (left, until, is_forwarded) in [(1, 6_000, true), (0, 6_000, false), (1, 5_000, false)]
        {
            rest.record.append(&RequestFields::default());
            rest.programs
                .let_classify(*REQUEST.first_chunk().unwrap(), REQUEST.len() as u64);
            rest.programs.set_clock(5);
            rest.begin(|splice| (splice.requests_left, splice.requests_until_ns) = (left, until));
            let outcome = rest.arrives(&rest.request(|_| {}));
            assert_eq!(outcome.verdict == Verdict::Forward, is_forwarded);
        }
        rest.programs.set_clock(0);
    }
}
