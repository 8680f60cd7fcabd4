//! Tables: only classified requests reach the server, whatever the client writes into its packets' headers.

use super::super::headers::{GSO_SEGS, GSO_SIZE, context};
use super::super::lab::{CLIENT, Lab, PROCESS, SERVER};
use super::super::spliced::{C, S, UP, down, up};
use super::super::wire::{ACK, ECE, FIN, PSH, Packet, RST, URG, sack, timestamps};
use super::answered::{answering, show};
use super::frame::parse;
use super::programs::{Outcome, Programs, Verdict};
use crate::engine::tc::command::{Answer, Command};
use crate::engine::tc::records::Record;
use crate::engine::tc::skeleton::types::packet_splice;

/// The request: the model's programs recognize it by its first eight bytes and its length.
pub const REQUEST: &[u8] = b"GET /abcdefghijklmnopqrstuvwxy";

/// A complete response, as the model's programs recognize it.
pub const RESPONSE: &[u8] = b"HTTP/1.1 200 OK";

/// A client whose last request the process has relayed; the response has arrived, and is acknowledged.
pub struct Rest {
    pub lab: Lab,
    pub programs: Programs,
    pub record: Record,
}

impl Rest {
    /// `None` without root.
    pub fn new(lab: fn() -> Option<Lab>) -> Option<Rest> {
        let (lab, programs) = (lab()?, Programs::load()?);
        programs.let_classify(*REQUEST.first_chunk().unwrap(), REQUEST.len() as u64);
        programs.let_measure(*b"HTTP/1.1", RESPONSE.len() as u64);
        let record = programs.record();
        Some(Rest {
            lab,
            programs,
            record,
        })
    }

    /// The initial state, with this change.
    pub fn begin(&self, change: impl FnOnce(&mut packet_splice)) {
        self.record.clear();
        self.record.settle_first();
        self.record.note_response_for_tests();
        let mut splice = answering(&self.lab);
        splice.table = 1;
        change(&mut splice);
        self.programs.set(&splice, self.lab.addresses);
        show(&self.lab, &self.programs, &splice);
    }

    /// A packet of the client with the request in it.
    pub fn request(&self, change: impl Fn(&mut Packet)) -> Packet {
        let (packet, _) = up(&self.lab, |packet| {
            packet.flags = ACK | PSH;
            packet.payload = REQUEST.to_vec();
            change(packet);
        });
        packet
    }

    pub fn arrives(&self, packet: &Packet) -> Outcome {
        self.programs.arriving(&packet.bytes())
    }

    /// The local sockets are where the kernel has put them.
    pub fn show(&self) {
        show(&self.lab, &self.programs, &self.programs.splice());
    }
}

pub fn rests() -> impl Iterator<Item = Rest> {
    [Lab::v4 as fn() -> Option<Lab>, Lab::v6]
        .into_iter()
        .filter_map(Rest::new)
}

const NOTHINGS: [u8; 4] = [1; 4];
/// TCP MD5 (RFC 2385), on a connection without signatures.
const SIGNED: [u8; 20] = {
    let mut option = [7; 20];
    (option[0], option[1], option[18], option[19]) = (19, 18, 1, 1);
    option
};
/// Loose source route (RFC 791 section 3.1).
const SOURCE_ROUTE: [u8; 8] = [131, 7, 4, 192, 0, 2, 77, 0];

/// The first copy must not be lost between this host and the server's application: the client could then send another
/// one with the same numbers.
#[test]
fn a_request_that_the_server_might_not_read_as_it_was_classified_is_the_process_s() {
    type Change = fn(&mut Packet);
    let cases: [(&str, bool, Change); 17] = [
        ("as browsers send it", true, |_| {}),
        ("nothings", true, |packet| {
            packet.options = NOTHINGS.to_vec()
        }),
        ("a time", true, |packet| packet.options = timestamps(500, 7)),
        ("an earlier time", false, |packet| {
            packet.options = timestamps(499, 7);
        }),
        ("a time from long ago", false, |packet| {
            packet.options = timestamps(500_u32.wrapping_sub(1 << 30), 7);
        }),
        ("an acknowledgement from long ago", false, |packet| {
            packet.ack = packet.ack.wrapping_sub(1 << 20);
        }),
        ("urgent", false, |packet| packet.flags |= URG),
        ("congestion", false, |packet| packet.flags |= ECE),
        ("an end", false, |packet| packet.flags |= FIN),
        ("signed", false, |packet| packet.options = SIGNED.to_vec()),
        ("signed behind nothings", false, |packet| {
            packet.options = [[1; 20].as_slice(), &SIGNED].concat();
        }),
        ("two times", false, |packet| {
            packet.options = [timestamps(1, 7), timestamps(500, 7)].concat();
        }),
        ("an option of length 0", false, |packet| {
            packet.options = vec![8, 0, 0, 0];
        }),
        ("an option beyond the header", false, |packet| {
            packet.options = vec![1, 1, 5, 10];
        }),
        ("a source route", false, |packet| {
            packet.ip_options = SOURCE_ROUTE.to_vec();
        }),
        ("its last hop", false, |packet| packet.hops = 1),
        ("no hop", false, |packet| packet.hops = 0),
    ];
    for rest in rests() {
        for (what, is_forwarded, change) in cases {
            let packet = rest.request(change);
            if !packet.ip_options.is_empty() && packet.source.is_ipv6() {
                continue;
            }
            rest.begin(|splice| splice.legs[CLIENT].peer_tsval = 500);
            let outcome = rest.arrives(&packet);
            let wanted = if is_forwarded {
                Verdict::Forward
            } else {
                Verdict::Pass
            };
            assert_eq!(outcome.verdict, wanted, "{what}");
            let classified = rest.programs.splice().classified_end != C;
            assert_eq!(classified, is_forwarded, "{what}");
        }
        // Aggregated from segments, one of which may be lost.
        rest.begin(|_| {});
        let joined = context(&[(GSO_SEGS, 2), (GSO_SIZE, 20)]);
        let outcome = (rest.programs).arriving_as(&rest.request(|_| {}).bytes(), &joined);
        assert_eq!(outcome.verdict, Verdict::Pass);
        // What its length leaves out would leave, too, when it is cut into segments.
        rest.begin(|_| {});
        let mut longer = rest.request(|packet| packet.payload.clear()).bytes();
        longer.extend_from_slice(REQUEST);
        let outcome = rest.programs.arriving_as(&longer, &joined);
        assert_eq!(outcome.verdict, Verdict::Drop);
    }
}

#[test]
fn another_request_with_the_numbers_of_one_that_is_under_way_does_not_reach_the_server() {
    let of = |text: &[u8]| text.to_vec();
    let swapped = [
        &REQUEST[..4],
        &REQUEST[8..12],
        &REQUEST[4..8],
        &REQUEST[12..],
    ]
    .concat();
    let mut others = vec![
        ("another path", 0, of(b"GET /abcdefghijklmnopqrstuvwxz")),
        ("another method", 0, of(b"PUT /abcdefghijklmnopqrstuvwxy")),
        ("words in another order", 0, swapped),
        ("shorter", 0, of(b"GET /admin")),
        ("a slice", 5, of(b"admin")),
        ("the last byte", REQUEST.len() - 1, of(b"z")),
        ("with more behind", 0, [b"GET /admin", REQUEST].concat()),
        ("a byte before", usize::MAX, [b"z", REQUEST].concat()),
    ];
    for at in 0..REQUEST.len() {
        let mut text = REQUEST.to_vec();
        text[at] ^= 1;
        others.push(("one bit", 0, text));
    }
    for rest in rests() {
        for (what, at, text) in &others {
            for flags in [ACK, ACK | PSH, ACK | PSH | FIN, ACK | URG] {
                rest.begin(|_| {});
                assert_eq!(
                    rest.arrives(&rest.request(|_| {})).verdict,
                    Verdict::Forward
                );
                rest.show();
                let packet = rest.request(|packet| {
                    packet.seq = C.wrapping_add(*at as u32);
                    packet.payload.clone_from(text);
                    packet.flags = flags;
                });
                assert_ne!(
                    rest.arrives(&packet).verdict,
                    Verdict::Forward,
                    "{what}, {flags}"
                );
            }
        }
    }
}

#[test]
fn the_same_request_reaches_the_server_again_as_a_whole_or_in_pieces() {
    for rest in rests() {
        rest.begin(|_| {});
        assert_eq!(
            rest.arrives(&rest.request(|_| {})).verdict,
            Verdict::Forward
        );
        rest.show();
        for (from, to) in [(0, 30), (0, 1), (0, 8), (7, 30), (9, 16), (29, 30)] {
            // The last one: two smaller segments that an interface or the sender has aggregated.
            for (flags, joined) in [
                (ACK, Vec::new()),
                (ACK | PSH, Vec::new()),
                (ACK | PSH | FIN, Vec::new()),
                (ACK | PSH | URG, Vec::new()),
                (ACK | PSH, context(&[(GSO_SEGS, 2), (GSO_SIZE, 15)])),
            ] {
                let again = rest.request(|packet| {
                    packet.seq = C + from;
                    packet.payload = REQUEST[from as usize..to].to_vec();
                    packet.flags = flags;
                    packet.urgent = 3;
                });
                let outcome = rest.programs.arriving_as(&again.bytes(), &joined);
                assert_eq!(outcome.verdict, Verdict::Forward, "{from} {to} {flags}");
                let seen = parse(&outcome.frame);
                assert_eq!((seen.seq, seen.urgent), (C + UP + from, 0));
                assert_eq!(seen.flags, flags & (ACK | PSH));
                assert_eq!(seen.payload, &REQUEST[from as usize..to]);
            }
        }
        // With options that the server might refuse, or at its last hop, it must be retransmitted.
        for change in [
            (|packet| packet.options = SIGNED.to_vec()) as fn(&mut Packet),
            |packet| packet.options = [sack(&[(1, 2)]), sack(&[(1, 2)])].concat(),
        ] {
            let outcome = rest.arrives(&rest.request(change));
            assert_eq!(outcome.verdict, Verdict::Drop);
        }
    }
}

/// A client that does not wait for its responses retransmits both requests as one packet.
#[test]
fn a_request_that_is_sent_again_with_more_behind_it_reaches_the_server_by_itself() {
    for rest in rests() {
        for more in [1, 2, 7, 100, 600, 1430, 3000] {
            for from in [0, 5, 29] {
                for joined in [
                    Vec::new(),
                    context(&[(GSO_SEGS, 2), (GSO_SIZE, REQUEST.len() as u32)]),
                ] {
                    rest.begin(|_| {});
                    assert_eq!(
                        rest.arrives(&rest.request(|_| {})).verdict,
                        Verdict::Forward
                    );
                    rest.show();
                    let again = |first: &[u8]| {
                        rest.request(|packet| {
                            packet.seq = C + from;
                            packet.options = timestamps(1, 7);
                            packet.payload = [&first[from as usize..], &vec![b'z'; more]].concat();
                            packet.flags = ACK | PSH | FIN;
                        })
                    };
                    let outcome = rest.programs.arriving_as(&again(REQUEST).bytes(), &joined);
                    assert_eq!(outcome.verdict, Verdict::Forward, "{from} {more}");
                    let seen = parse(&outcome.frame);
                    assert_eq!((seen.seq, seen.flags), (C + UP + from, ACK | PSH));
                    assert_eq!(seen.payload, &REQUEST[from as usize..]);
                    let other = again(b"GET /abcdefghijklmnopqrstuvwxz");
                    let outcome = rest.programs.arriving_as(&other.bytes(), &joined);
                    assert_eq!(outcome.verdict, Verdict::Drop, "{from} {more}");
                }
            }
        }
    }
}

/// `recv()` skips an urgent byte: the server would read a request other than the classified one.
#[test]
fn urgent_data_is_not_passed_on() {
    for rest in rests() {
        rest.begin(|_| {});
        rest.record.note_request_for_tests();
        for flags in [ACK | URG, ACK | URG | ECE] {
            let (packet, _) = up(&rest.lab, |packet| {
                (packet.flags, packet.urgent) = (flags, 6);
            });
            let outcome = rest.arrives(&packet);
            assert_eq!(outcome.verdict, Verdict::Forward);
            let seen = parse(&outcome.frame);
            assert_eq!((seen.flags, seen.urgent), (flags & !URG, 0));
        }
        let (packet, _) = down(&rest.lab, |packet| {
            (packet.flags, packet.urgent) = (ACK | URG, 1);
            packet.payload = b"HTTP/1.1 200 OK".to_vec();
        });
        let seen = parse(&rest.arrives(&packet).frame);
        assert_eq!((seen.flags, seen.urgent), (ACK, 0));
    }
}

/// They count no bytes: the data behind them would be taken for the next request.
#[test]
fn nothing_is_classified_behind_an_end_or_a_reset() {
    for rest in rests() {
        for (flags, seq) in [
            (ACK | FIN, C),
            (RST, C),
            (RST | ACK, C),
            // With another number the local socket sends a challenge, with an unknown result.
            (RST, C + 1000),
            (RST, C.wrapping_sub(1_000_000)),
        ] {
            for next in [C, C + 1] {
                rest.begin(|_| {});
                let (end, _) = up(&rest.lab, |packet| {
                    (packet.flags, packet.seq) = (flags, seq)
                });
                assert_eq!(rest.arrives(&end).verdict, Verdict::Pass, "{flags}");
                let outcome = rest.arrives(&rest.request(|packet| packet.seq = next));
                assert_eq!(outcome.verdict, Verdict::Pass, "{flags} {next}");
                assert_eq!(rest.programs.splice().table, 0);
            }
        }
    }
}

/// Data that only the local socket may accept is not counted: nothing behind it is classified.
#[test]
fn nothing_is_classified_behind_bytes_that_are_not_believed() {
    for rest in rests() {
        for (what, change) in [
            (
                "beyond the window",
                (|packet| packet.payload = vec![1; 1400]) as fn(&mut Packet),
            ),
            ("options", |packet| packet.options = SIGNED.to_vec()),
        ] {
            rest.begin(|splice| splice.ways[CLIENT].window_end = C + 1000);
            assert_eq!(
                rest.arrives(&rest.request(change)).verdict,
                Verdict::Pass,
                "{what}"
            );
            assert_eq!(
                rest.arrives(&rest.request(|_| {})).verdict,
                Verdict::Pass,
                "{what}"
            );
        }
    }
}

/// Otherwise it would be unknown where the next response begins, and when the server's connection is idle.
#[test]
fn a_request_is_the_process_s_until_the_last_response_is_whole() {
    for rest in rests() {
        for (bytes, wanted) in [
            (1, Verdict::Pass),
            (RESPONSE.len() - 1, Verdict::Pass),
            (RESPONSE.len(), Verdict::Forward),
            // The server has sent more than it should.
            (RESPONSE.len() + 1, Verdict::Pass),
        ] {
            rest.begin(|_| {});
            let asked = REQUEST.len() as u32;
            assert_eq!(
                rest.arrives(&rest.request(|_| {})).verdict,
                Verdict::Forward
            );
            let (response, _) = down(&rest.lab, |packet| {
                packet.ack = C + UP + asked;
                packet.payload = [RESPONSE, b"more"].concat()[..bytes].to_vec();
            });
            assert_eq!(rest.arrives(&response).verdict, Verdict::Forward);
            rest.show();
            let next = rest.request(|packet| {
                packet.seq = C + asked;
                packet.ack = packet.ack.wrapping_add(bytes as u32);
            });
            assert_eq!(rest.arrives(&next).verdict, wanted, "{bytes}");
        }
    }
}

#[test]
fn a_request_is_the_process_s_as_long_as_nothing_of_the_last_response_has_come() {
    for rest in rests() {
        rest.begin(|_| {});
        assert_eq!(
            rest.arrives(&rest.request(|_| {})).verdict,
            Verdict::Forward
        );
        // The server has it.
        let (acknowledgement, _) = down(&rest.lab, |packet| {
            packet.ack = C + UP + REQUEST.len() as u32
        });
        rest.arrives(&acknowledgement);
        rest.show();
        let next = rest.request(|packet| packet.seq = C + REQUEST.len() as u32);
        assert_eq!(rest.arrives(&next).verdict, Verdict::Pass);
    }
}

#[test]
fn a_request_that_is_too_long_for_the_server_s_segments_is_the_process_s() {
    for rest in rests() {
        for (mss, wanted) in [(30, Verdict::Forward), (29, Verdict::Pass)] {
            rest.begin(|_| {});
            let mut server = super::answered::quiet(
                &rest.lab,
                SERVER,
                rest.programs.splice().legs[SERVER].local_end,
            );
            (server.settings.mss, server.settings.clock) = (mss, None);
            rest.programs.show(&server);
            assert_eq!(rest.arrives(&rest.request(|_| {})).verdict, wanted, "{mss}");
        }
    }
}

#[test]
fn what_is_forwarded_lives_a_hop_less() {
    for rest in rests() {
        rest.begin(|_| {});
        rest.record.note_request_for_tests();
        for hops in [255, 64, 2] {
            let (packet, _) = down(&rest.lab, |packet| {
                packet.hops = hops;
                packet.payload = vec![1; 9];
            });
            let outcome = rest.arrives(&packet);
            assert_eq!(parse(&outcome.frame).hops, hops - 1);
        }
    }
}

/// Otherwise the server's connection would be given to others with a response in flight.
#[test]
fn the_connections_stay_in_the_kernel_while_the_process_does_not_know_of_a_request() {
    for rest in rests() {
        let before = rest.record.classified();
        let ask = |classified, is_forced| {
            let classified = before.wrapping_add(classified);
            rest.programs.ask(Command::Disarm {
                is_forced,
                classified,
            })
        };
        rest.begin(|_| {});
        assert_eq!(
            rest.arrives(&rest.request(|_| {})).verdict,
            Verdict::Forward
        );
        rest.show();
        assert_eq!(ask(0, false), Answer::Behind);
        assert_eq!(ask(2, false), Answer::Behind);
        // The server has not acknowledged it.
        assert_eq!(ask(1, false), Answer::Busy);
        let (response, _) = down(&rest.lab, |packet| {
            (packet.seq, packet.ack) = (S, C + UP + REQUEST.len() as u32);
            packet.payload = vec![1; 9];
        });
        assert_eq!(rest.arrives(&response).verdict, Verdict::Forward);
        assert_eq!(ask(0, false), Answer::Behind);
        assert_eq!(ask(1, false), Answer::Done);
        assert_eq!(rest.programs.splice().state, PROCESS);
        assert_eq!(rest.arrives(&rest.request(|_| {})).verdict, Verdict::Pass);
    }
}

/// The process asks another server for it, by the kernel's copy.
#[test]
fn a_client_is_taken_back_from_a_server_that_has_missed_its_request() {
    for rest in rests() {
        let classified = rest.record.classified().wrapping_add(1);
        let ask = |command| rest.programs.ask(command);
        let at_rest = Command::Disarm {
            is_forced: false,
            classified,
        };
        rest.begin(|_| {});
        assert_eq!(
            rest.arrives(&rest.request(|_| {})).verdict,
            Verdict::Forward
        );
        let behind = classified.wrapping_sub(1);
        assert_eq!(
            ask(Command::TakeClient { classified: behind }),
            Answer::Behind
        );
        assert_eq!(ask(at_rest), Answer::Busy);
        assert_eq!(ask(Command::TakeClient { classified }), Answer::Done);
        assert_eq!(rest.programs.splice().state, PROCESS);
        // Old data to the local socket, which acknowledges it.
        let again = rest.arrives(&rest.request(|_| {}));
        assert_eq!(again.verdict, Verdict::Pass);
    }
}
