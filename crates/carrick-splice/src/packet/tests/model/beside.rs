//! What a local socket is given beside what is forwarded: a frame of its own.

use super::super::lab::{CLIENT, Lab};
use super::super::spliced::{C, S, spliced, up};
use super::super::wire::{ACK, FIN, PSH, Packet, timestamps};
use super::endpoint::{START, Settings, Tcp};
use super::frame::parse;
use super::programs::{Programs, Verdict};
use super::scenario::Scenario;

/// The numbers of the table tests: the local socket towards the client has sent 100 bytes that are not acknowledged.
fn local(lab: &Lab, next_sent: u32) -> Tcp {
    let (own, peer) = lab.addresses[CLIENT];
    let [_, like, ..] = Scenario::new(0).settings;
    let before = START as u32;
    Tcp::new(
        Settings {
            own,
            peer,
            own_first: next_sent.wrapping_sub(100).wrapping_sub(before),
            peer_first: C.wrapping_sub(before),
            ..like
        },
        0,
    )
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
        let mut socket = local(&lab, before.legs[CLIENT].local_end);
        socket.write(&[1; 100]);
        if has_ended {
            // It has passed an end on that had come in before, and waits for the acknowledgement nevertheless.
            socket.shut();
        }
        for (flags, bytes) in [(ACK, 0), (ACK | PSH, 333), (ACK | FIN, 10)] {
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
                packet.flags = flags & !FIN;
                packet.seq = C.wrapping_sub(bytes as u32);
            });
            assert_eq!(given, wanted, "{has_ended}");
        }
    }
}
