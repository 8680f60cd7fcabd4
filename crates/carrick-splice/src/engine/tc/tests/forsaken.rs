//! Abandoned splices: their fate when their peers have vanished, too.

use super::lab::*;
use super::spliced::{spliced, up};
use super::wire::*;
use crate::sys::clock::now_ns;

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * SECOND;

/// A packet to each hook: whether the splice is forgotten.
fn are_forgotten(lab: &Lab, state: u32, [seen_age, attended]: [Option<u64>; 2]) -> [bool; 2] {
    // The clock starts at boot: earlier times wrap.
    let ago = |age: Option<u64>| age.map_or(0, |age| now_ns().wrapping_sub(age));
    let mut splice = spliced(lab);
    splice.state = state;
    let packets = [
        (Arriving, up(lab, |packet| packet.payload = vec![1; 10]).0),
        (
            Leaving,
            lab.local_packet(CLIENT).with(|packet| packet.flags = SYN),
        ),
    ];
    packets.map(|(hook, packet)| {
        lab.know_flows();
        lab.set_pulse([0, ago(attended)]);
        splice.seen_ns = ago(seen_age);
        lab.set(&splice);
        let ran = lab.run(hook, &packet.bytes(), &[]);
        let is_forgotten = !lab.knows(CLIENT);
        if is_forgotten {
            assert_eq!(ran.verdict, u32::MAX, "it passes");
            assert_eq!(ran.packet, packet.bytes(), "unchanged");
        }
        assert!(lab.knows(SERVER), "its own packets determine its state");
        is_forgotten
    })
}

#[test]
fn an_unattended_splice_is_forgotten_after_hours_of_silence() {
    let Some(lab) = Lab::v4() else { return };
    let old = Some(4 * HOUR);
    assert_eq!(are_forgotten(&lab, SPLICED, [old, old]), [true, true]);
    assert_eq!(
        are_forgotten(&lab, SPLICED, [old, Some(61 * SECOND)]),
        [true, true]
    );
    // The process decides, by its own time-outs.
    assert_eq!(
        are_forgotten(&lab, SPLICED, [old, Some(30 * SECOND)]),
        [false, false]
    );
    // It ends with the process.
    assert_eq!(are_forgotten(&lab, SPLICED, [old, None]), [false, false]);
    // A process is still attending.
    assert_eq!(
        are_forgotten(&lab, SPLICED, [Some(2 * HOUR), old]),
        [false, false]
    );
    for state in [ENDED, RESET] {
        assert_eq!(are_forgotten(&lab, state, [old, old]), [true, true]);
    }
    // The local sockets are consulted.
    assert!(!are_forgotten(&lab, PROCESS, [old, old])[0]);
}

#[test]
fn the_pulse_is_felt_once_a_second() {
    let Some(lab) = Lab::v4() else { return };
    let attended = now_ns();
    let (packet, _) = up(&lab, |packet| packet.payload = vec![1; 10]);
    let forward = |before: u64| {
        lab.set_pulse([before, attended]);
        lab.set(&spliced(&lab));
        let now = now_ns();
        let ran = lab.run(Arriving, &packet.bytes(), &[]);
        assert_eq!(ran.verdict, 7, "it is forwarded");
        let [after, still] = lab.pulse();
        assert_eq!(still, attended);
        (now, after)
    };
    let (now, after) = forward(0);
    assert!(after >= now, "{after} {now}");
    // Again where a second has passed meanwhile.
    let (recent, after) = loop {
        let recent = now_ns();
        let (_, after) = forward(recent);
        if now_ns() - recent < SECOND {
            break (recent, after);
        }
    };
    assert_eq!(after, recent);
    // Packets that are not forwarded do not count.
    lab.set_pulse([0, 0]);
    let (alien, _) = up(&lab, |packet| packet.seq = packet.seq.wrapping_add(1 << 31));
    lab.run(Arriving, &alien.bytes(), &[]);
    assert_eq!(lab.pulse(), [0, 0]);
}
