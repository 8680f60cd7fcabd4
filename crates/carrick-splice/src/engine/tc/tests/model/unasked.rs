//! Tables: unsolicited data from a server is not a response, and reaches no client.

use super::super::lab::{CLIENT, SERVER};
use super::super::spliced::{C, S, UP, down, up};
use super::super::wire::{ACK, FIN, RST};
use super::frame::parse;
use super::programs::Verdict;
use super::unclassified::{REQUEST, RESPONSE, rests};

/// The client would take it for the response to its next request.
#[test]
fn unrequested_data_of_a_server_is_not_forwarded() {
    let whole = RESPONSE.len() as u32;
    for rest in rests() {
        let says = |at: u32, payload: &[u8]| {
            let (packet, _) = down(&rest.lab, |packet| {
                packet.seq = S.wrapping_add(at);
                packet.ack = C + UP + REQUEST.len() as u32;
                packet.payload = payload.to_vec();
            });
            let outcome = rest.arrives(&packet);
            let seen = (outcome.verdict == Verdict::Forward).then(|| parse(&outcome.frame));
            rest.show();
            seen.map(|packet| packet.payload)
        };
        let begin = || {
            rest.begin(|_| {});
            let asked = rest.arrives(&rest.request(|_| {}));
            assert_eq!(asked.verdict, Verdict::Forward);
            rest.show();
        };
        let is_spoiled = || rest.record.has_end() && rest.programs.splice().table == 0;
        // In the same packet, and again; in the middle, and behind the end.
        for more in [1, 7, 1000] {
            let (behind, more) = (vec![b'z'; more], more as u32);
            begin();
            let both = [RESPONSE, &behind].concat();
            assert_eq!(says(0, &both).unwrap(), RESPONSE, "{more}");
            assert!(is_spoiled());
            assert_eq!(says(0, &both).unwrap(), RESPONSE, "{more}");
            assert_eq!(says(whole, &behind), None, "{more}");
            begin();
            assert_eq!(says(0, &RESPONSE[..10]).unwrap(), RESPONSE[..10]);
            assert_eq!(says(10, &both[10..]).unwrap(), RESPONSE[10..]);
            assert!(is_spoiled());
            begin();
            assert_eq!(says(0, RESPONSE).unwrap(), RESPONSE);
            assert!(!is_spoiled());
            assert_eq!(says(whole, &behind), None, "{more}");
            assert!(is_spoiled());
            // Nor does data that arrives after a request of the process.
            let mut asked = rest.lab.local_packet(SERVER);
            asked.seq = rest.programs.splice().legs[SERVER]
                .local_end
                .wrapping_sub(rest.programs.splice().legs[SERVER].send_offset);
            asked.payload = b"GET".to_vec();
            rest.programs.leaving(&asked.bytes());
            assert_eq!(says(whole + more, RESPONSE), None, "{more}");
        }
    }
}

/// Data in flight when the request was sent is not its response, whether the process or the kernel sent the request.
#[test]
fn what_a_server_sends_before_it_has_a_request_is_no_response() {
    let request = REQUEST.len() as u32;
    for rest in rests() {
        let says = |at: u32, acked: u32| {
            let (packet, _) = down(&rest.lab, |packet| {
                packet.seq = S.wrapping_add(at);
                packet.ack = (C + UP).wrapping_add(acked);
                packet.payload = RESPONSE.to_vec();
            });
            let verdict = rest.arrives(&packet).verdict;
            rest.show();
            verdict
        };
        // A request of the process in two packets; or, with `is_classified`, one that the kernel forwards.
        let ask = |is_classified: bool| {
            rest.begin(|splice| splice.request_start = C + UP);
            if is_classified {
                rest.arrives(&rest.request(|_| {}));
                rest.show();
                return;
            }
            rest.record.ask(false);
            for part in REQUEST.chunks(REQUEST.len() / 2) {
                let splice = rest.programs.splice();
                let mut asked = rest.lab.local_packet(SERVER);
                asked.seq =
                    (splice.legs[SERVER].local_end).wrapping_sub(splice.legs[SERVER].send_offset);
                asked.payload = part.to_vec();
                rest.programs.leaving(&asked.bytes());
                rest.show();
            }
        };
        // There is no request yet.
        rest.begin(|splice| splice.request_start = C + UP);
        assert_eq!(says(0, 0), Verdict::Drop);
        assert!(rest.record.is_over());
        for is_classified in [false, true] {
            // A server may answer before it has read everything.
            for (acked, wanted) in [
                (0, Verdict::Drop),
                (1, Verdict::Forward),
                (request, Verdict::Forward),
            ] {
                ask(is_classified);
                assert_eq!(says(0, acked), wanted, "{is_classified} {acked}");
                let is_refused = wanted == Verdict::Drop;
                assert_eq!(rest.record.is_over(), is_refused);
                // Behind it, the start of the response is unknown.
                assert_eq!(says(RESPONSE.len() as u32, request), Verdict::Drop);
            }
            // The local socket would not accept it: it is not the server's.
            ask(is_classified);
            assert_eq!(says(0, 0_u32.wrapping_sub(1 << 20)), Verdict::Drop);
            assert!(!rest.record.is_over());
            // The response has overtaken it.
            ask(is_classified);
            assert_eq!(says(RESPONSE.len() as u32, request), Verdict::Forward);
            assert_eq!(says(0, 0), Verdict::Drop);
            assert!(rest.record.is_over() && rest.record.has_spilt());
        }
    }
}

/// The packet before it was lost, and is retransmitted.
#[test]
fn an_end_that_overtakes_what_is_before_it_is_no_end_yet() {
    for rest in rests() {
        rest.begin(|_| {});
        let _ = rest.arrives(&rest.request(|_| {}));
        rest.show();
        let whole = RESPONSE.len() as u32;
        let says = |flags, at: u32, payload: &[u8]| {
            let (packet, _) = down(&rest.lab, |packet| {
                (packet.flags, packet.seq) = (flags, S.wrapping_add(at));
                packet.ack = C + UP + REQUEST.len() as u32;
                packet.payload = payload.to_vec();
            });
            rest.arrives(&packet).verdict
        };
        let hears = |bytes: u32| {
            let (packet, _) = up(&rest.lab, |packet| {
                packet.seq = C + REQUEST.len() as u32;
                packet.ack = packet.ack.wrapping_add(bytes);
            });
            rest.arrives(&packet);
            (rest.record.has_end(), rest.record.is_over())
        };
        assert_eq!(says(ACK, 0, &RESPONSE[..10]), Verdict::Forward);
        assert_eq!(says(ACK | FIN, whole, b""), Verdict::Drop);
        assert_eq!(hears(10), (true, false));
        assert_eq!(says(ACK, 10, &RESPONSE[10..]), Verdict::Forward);
        assert_eq!(hears(10), (true, false));
        assert_eq!(hears(whole), (true, true));
        assert_eq!(says(ACK | FIN, whole, b""), Verdict::Pass);
    }
}

/// The server has sent more than the client takes, and the client has dropped that; a number there would not be heard.
#[test]
fn what_the_local_socket_says_to_a_client_is_in_its_window() {
    for rest in rests() {
        let sent = 14_480;
        for (taken, offered, taken_next, within) in [
            (0, 4344, 0, 4344),
            (1448, 2896, 1448, 2896),
            (0, sent, sent, sent),
            (sent, sent + 9, sent, sent),
        ] {
            let reset = (RST | ACK, RST | ACK, taken_next);
            let end = (FIN | ACK, RST | ACK, taken_next);
            for says_first in [(ACK, ACK, within), reset, end] {
                let mut first = 0;
                rest.begin(|splice| {
                    let down = &mut splice.ways[SERVER];
                    down.end = down.start.wrapping_add(sent);
                    first = down.start.wrapping_add(down.delta);
                });
                let (says_so, _) = up(&rest.lab, |packet| {
                    packet.ack = packet.ack.wrapping_add(taken);
                    packet.window = (offered - taken) as u16;
                });
                rest.arrives(&says_so);
                rest.show();
                let leg = rest.programs.splice().legs[CLIENT];
                let mut packet = rest.lab.local_packet(CLIENT);
                packet.seq = leg.local_end.wrapping_sub(leg.send_offset);
                // Behind a reset or an end, the process has the connections.
                for (flags, says, number) in [says_first, reset] {
                    packet.flags = flags;
                    let outcome = rest.programs.leaving(&packet.bytes());
                    assert_ne!(outcome.verdict, Verdict::Drop);
                    let seen = parse(&outcome.frame);
                    assert_eq!((seen.flags, seen.seq.wrapping_sub(first)), (says, number));
                }
            }
        }
    }
}
