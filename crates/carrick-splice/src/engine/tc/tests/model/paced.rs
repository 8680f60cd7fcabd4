//! Tables of pacing by windows: the window that a sender gets, later grants, and how they reach it.

use super::super::lab::{CLIENT, Lab, SERVER, SPLICED};
use super::super::spliced::{C, S, UP, down, spliced, up};
use super::super::wire::{ACK, Packet, timestamps};
use super::frame::parse;
use super::pacing::Pace;
use super::programs::{Outcome, Programs, Verdict};
use crate::engine::tc::skeleton::types::{
    pace_block, pace_bucket, pace_class, pace_worker, packet_splice, packet_state,
};
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::SeqCst;

/// The client's window, and its longest segments.
const TOLD: u32 = 10_000;
const SEGMENT: u32 = 1000;

const RESPONSES: u32 = packet_state::PACKET_RESPONSES.0;

/// A time, in microseconds.
const NOW: u64 = 1_000_000_000;

/// The client's class's bytes per second.
const CEILING: u64 = 10_000_000;

/// A field of the control block: of the worker, the class, the client's bucket.
fn put(programs: &Programs, at: usize, value: u64) {
    programs.pace.word(at).store(value, SeqCst);
}

fn worker(field: usize) -> usize {
    offset_of!(pace_block, workers) + field
}

fn class(field: usize) -> usize {
    offset_of!(pace_block, classes) + field
}

fn bucket(field: usize) -> usize {
    offset_of!(pace_block, buckets) + field
}

/// The client's data in flight is paid for within this time, in milliseconds: beyond 20, nothing is granted.
fn owe(programs: &Programs, milliseconds: u64) {
    let due = NOW * 1000 + milliseconds * 1_000_000;
    put(
        programs,
        bucket(offset_of!(pace_bucket, ceiling_due_ns)),
        due,
    );
}

/// Two connections, of which the way from the client is paced, and an idle worker.
fn paced(lab: &Lab, programs: &Programs) -> packet_splice {
    programs.forget_held();
    programs.set_clock(NOW);
    let handles = Pace::steady(CEILING, 50_000_000).begin(programs);
    put(
        programs,
        worker(offset_of!(pace_worker, beat_ns)),
        NOW * 1000,
    );
    let mut splice = spliced(lab);
    let way = &mut splice.ways[CLIENT];
    way.pace.handle = handles[0];
    way.pace.told_end = C + TOLD;
    way.pace.segment_bytes = SEGMENT;
    way.offered_end = C + 60_000;
    splice
}

/// The server acknowledges the client's data; returns what the client gets.
fn acknowledge(
    lab: &Lab,
    programs: &Programs,
    splice: &packet_splice,
    window: u16,
) -> (Outcome, u16) {
    programs.set(splice, lab.addresses);
    let (packet, _) = down(lab, |packet| packet.window = window);
    let outcome = programs.arriving(&packet.bytes());
    let window = parse(&outcome.frame).window;
    (outcome, window)
}

#[test]
fn a_senders_window_is_what_its_rate_allows() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let told = TOLD as u16;
    // The debt, in ms; the receiver's window; the sender's window, and whether it waits.
    for (what, owed, window, expected, held) in [
        ("all of a burst", 0, 60_000, 60_000, 0),
        ("as much as is left", 16, 60_000, told + 40_000, 0),
        ("less than a piece", 19, 60_000, told, 1),
        ("less than a piece, but all", 19, told + 900, told + 900, 0),
        ("nothing", 20, 60_000, told, 1),
        ("what it was told before", 20, told, told, 0),
        ("the receiver takes less than it was told", 0, 7000, 7000, 0),
    ] {
        let before = paced(&lab, &programs);
        owe(&programs, owed);
        let (outcome, seen) = acknowledge(&lab, &programs, &before, window);
        assert_eq!((seen, programs.held()), (expected, held), "{what}");
        // A packet without news is not sent.
        let is_idle = held == 1 && u32::from(window) != before.ways[CLIENT].offered_end - C;
        let verdict = if is_idle {
            Verdict::Drop
        } else {
            Verdict::Forward
        };
        assert_eq!(outcome.verdict, verdict, "{what}");
        let after = programs.splice().ways[CLIENT].pace;
        assert_eq!(after.told_end, C + u32::from(expected).max(TOLD), "{what}");
        assert_eq!(u32::from(after.is_held), held, "{what}");
        // And it is paid for.
        let due = programs
            .pace
            .word(bucket(offset_of!(pace_bucket, ceiling_due_ns)));
        let granted = u64::from(expected.saturating_sub(told));
        let paid = due.load(SeqCst) - (NOW * 1000 + owed * 1_000_000);
        // Whoever waits has taken a turn in advance.
        let turn = u64::from(held) * CEILING / 50;
        assert_eq!(paid, (granted + turn) * 1_000_000_000 / CEILING, "{what}");
    }
}

#[test]
fn a_receiver_that_takes_more_does_not_bother_a_sender_that_waits() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    for (what, change, verdict) in [
        ("nothing new", (|_| {}) as fn(&mut Packet), Verdict::Drop),
        (
            "data",
            |packet| packet.payload = vec![1; 10],
            Verdict::Forward,
        ),
        (
            "the same again",
            |packet| packet.window = 60_000,
            Verdict::Forward,
        ),
    ] {
        let before = paced(&lab, &programs);
        owe(&programs, 20);
        programs.set(&before, lab.addresses);
        let (packet, _) = down(&lab, |packet| {
            packet.window = 60_100;
            change(packet);
        });
        assert_eq!(
            programs.arriving(&packet.bytes()).verdict,
            verdict,
            "{what}"
        );
        assert_eq!(programs.held(), 1, "{what}");
    }
}

#[test]
fn what_was_told_never_moves_back() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    for shift in [0, 7, 11] {
        let mut splice = paced(&lab, &programs);
        splice.legs[CLIENT].own_shift = shift;
        splice.legs[SERVER].peer_shift = shift;
        splice.ways[CLIENT].window_end = C + (60_000 << shift);
        let unit = 1 << shift;
        let mut edge = C;
        for step in 0..200_u32 {
            // The debt varies; the client sends, and the server acknowledges, odd numbers of bytes.
            owe(&programs, u64::from(step * 7 % 25));
            let acked = step * 37;
            splice.ways[CLIENT].end = C + acked;
            programs.set(&splice, lab.addresses);
            let (packet, _) = down(&lab, |packet| {
                packet.ack = C + UP + acked;
                packet.window = 60_000 >> u16::from(shift / 2);
            });
            let outcome = programs.arriving(&packet.bytes());
            splice = programs.splice();
            if outcome.verdict == Verdict::Drop {
                continue;
            }
            let seen = parse(&outcome.frame);
            let told = C + acked + (u32::from(seen.window) << shift);
            assert!(told >= edge, "step {step}, scale {shift}: {told} < {edge}");
            assert!(told < splice.ways[CLIENT].pace.told_end + unit);
            edge = told;
        }
        assert!(edge > C + TOLD);
    }
}

#[test]
fn whose_turn_it_is_hears_of_it_by_a_packet() {
    for lab in [Lab::v4(), Lab::v6()].into_iter().flatten() {
        let Some(programs) = Programs::load() else {
            return;
        };
        for has_timestamps in [true, false] {
            let mut before = paced(&lab, &programs);
            before.ways[CLIENT].end = C + TOLD;
            before.ways[CLIENT].acked = C + TOLD - 500;
            before.ways[CLIENT].start = C + TOLD - 500;
            before.ways[CLIENT].window_end = C + TOLD + 60_000;
            for (leg, last) in before.legs.iter_mut().zip([700, 900]) {
                (leg.has_tsval, leg.last_tsval) = (u8::from(has_timestamps), last);
            }
            owe(&programs, 22);
            programs.set(&before, lab.addresses);
            let (packet, _) = down(&lab, |packet| {
                (packet.ack, packet.window) = (C + UP + TOLD, 60_000);
            });
            let outcome = programs.arriving(&packet.bytes());
            assert_eq!(
                parse(&outcome.frame).window,
                0,
                "all that it was told is used up"
            );
            assert_eq!(programs.held(), 1);
            assert!(programs.grant().is_none(), "nothing is left");
            assert_eq!(programs.held(), 1, "it keeps waiting");
            // When what is owed now is no more than a burst.
            programs.set_clock(NOW + 2000);
            let frame = programs.grant().unwrap();
            assert_eq!(programs.held(), 0);
            let ts_delta = before.ways[SERVER].ts_delta;
            let (update, _) = down(&lab, |packet| {
                (packet.ack, packet.window, packet.flags) = (C + UP + TOLD, 60_000, ACK);
                if has_timestamps {
                    packet.options = timestamps(700_u32.wrapping_sub(ts_delta), 900);
                }
            });
            assert_eq!(parse(&frame), update, "as if the server had sent it");
            let outcome = programs.arriving(&frame);
            assert_eq!(outcome.verdict, Verdict::Forward);
            let seen = parse(&outcome.frame);
            assert_eq!(
                (seen.seq, seen.ack),
                (S.wrapping_add(super::super::spliced::DOWN), C + TOLD)
            );
            assert_eq!(seen.window, 60_000);
            assert_eq!(
                programs.held(),
                0,
                "with this packet, nothing else is asked for"
            );
        }
    }
}

#[test]
fn those_that_wait_are_served_in_the_order_of_arrival() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let due = bucket(offset_of!(pace_bucket, ceiling_due_ns));
    let before = paced(&lab, &programs);
    // Of 40 ms, the last 20 are a turn that a splice of the process has taken; and it takes another one behind this.
    owe(&programs, 40);
    acknowledge(&lab, &programs, &before, 60_000);
    programs.pace.word(due).fetch_add(20_000_000, SeqCst);
    programs.set_clock(NOW + 19_000);
    assert!(programs.grant().is_none(), "it is not its turn");
    programs.set_clock(NOW + 20_000);
    assert!(programs.grant().is_some());
    let after = programs.splice().ways[CLIENT].pace;
    assert_eq!(after.told_end, C + 60_000, "all that the receiver takes");
    // It pays for what it was granted.
    let paid = programs.pace.word(due).load(SeqCst) - (NOW * 1000 + 60_000_000);
    assert_eq!(paid, 50_000 * 1_000_000_000 / CEILING);
    let (_, seen) = acknowledge(&lab, &programs, &before, 60_000);
    assert_eq!(u32::from(seen), TOLD);
    // But if the waiters are not attended, each takes what there is.
    programs.set_clock(NOW + 300_000);
    let (_, seen) = acknowledge(&lab, &programs, &before, 60_000);
    assert_eq!(u32::from(seen), 60_000);
}

#[test]
fn a_changed_ceiling_counts_for_those_that_wait() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let due = bucket(offset_of!(pace_bucket, ceiling_due_ns));
    let before = paced(&lab, &programs);
    // A minute's worth is owed; the way's own turn is behind that, and charged.
    owe(&programs, 60_000);
    acknowledge(&lab, &programs, &before, 60_000);
    let owed = programs.pace.word(due).load(SeqCst) - NOW * 1000;
    assert_eq!(owed, 60_020_000_000);
    programs.set_clock(NOW + 1000);
    assert!(programs.grant().is_none());
    // Ten thousand times the ceiling: what is owed stays the same in bytes.
    put(
        &programs,
        bucket(offset_of!(pace_bucket, ceiling)),
        10_000 * CEILING,
    );
    let owed = programs.pace.word(due).load(SeqCst) - (NOW + 1000) * 1000;
    put(&programs, due, (NOW + 1000) * 1000 + owed / 10_000);
    assert!(programs.grant().is_none(), "nobody has said so");
    let changes = programs.pace.word(offset_of!(pace_block, changes));
    changes.fetch_add(1, SeqCst);
    assert!(programs.grant().is_some());
    let after = programs.splice().ways[CLIENT].pace;
    assert_eq!(after.told_end, C + 60_000);
}

#[test]
fn what_goes_by_a_rate_of_its_own_is_charged_to_it() {
    const RATE: u64 = CEILING / 10;
    const WAITERS: u64 = 8;
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let own = bucket(offset_of!(pace_bucket, rate_due_ns));
    let above = size_of::<pace_bucket>() + bucket(offset_of!(pace_bucket, ceiling_due_ns));
    // What the class owes at its own rate, what the one above owes, in ms; which of them lets it go; and what it has paid.
    for (what, owed, owed_above, turns) in [
        ("the one above is far behind", 50, 60_000, WAITERS),
        ("its own rate is", 60_000, 50, 0),
    ] {
        let before = paced(&lab, &programs);
        let begun = [owed, owed_above].map(|owed| NOW * 1000 + owed * 1_000_000);
        for (at, value) in [
            (bucket(offset_of!(pace_bucket, rate)), RATE),
            (bucket(offset_of!(pace_bucket, ceiling)), 0),
            // The other way's bucket.
            (bucket(offset_of!(pace_bucket, parent)), 2),
            (own, begun[0]),
            (above, begun[1]),
        ] {
            put(&programs, at, value);
        }
        for _ in 0..WAITERS {
            acknowledge(&lab, &programs, &before, 60_000);
        }
        assert_eq!(u64::from(programs.held()), WAITERS, "{what}");
        // A turn is a 50th of a second of the ceiling.
        let due = |at| programs.pace.word(at).load(SeqCst);
        assert_eq!(due(own) - begun[0], turns * 200_000_000, "{what}");
        assert_eq!(due(above) - begun[1], WAITERS * 20_000_000, "{what}");
        // One gives its turn back and takes another one.
        let changes = programs.pace.word(offset_of!(pace_block, changes));
        changes.fetch_add(1, SeqCst);
        assert!(programs.grant().is_none(), "{what}");
        assert_eq!(due(own) - begun[0], turns * 200_000_000, "{what}");
        assert_eq!(due(above) - begun[1], WAITERS * 20_000_000, "{what}");
    }
}

#[test]
fn a_worker_that_works_is_waited_for() {
    const CONSERVATIVE: u64 = 1;
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let since = worker(offset_of!(pace_worker, runnable_since_ns));
    let mut before = paced(&lab, &programs);
    put(
        &programs,
        class(offset_of!(pace_class, condition)),
        CONSERVATIVE,
    );
    put(&programs, since, NOW * 1000);
    let (_, seen) = acknowledge(&lab, &programs, &before, 60_000);
    assert_eq!((u32::from(seen), programs.held()), (TOLD, 1));
    // At most as long as the class allows: then two segments may go.
    programs.set_clock(NOW + 49_000);
    assert!(programs.grant().is_none());
    programs.set_clock(NOW + 51_000);
    assert!(programs.grant().is_some());
    let after = programs.splice().ways[CLIENT].pace;
    assert_eq!(after.told_end, C + TOLD + 2 * SEGMENT);
    // As soon as it is idle, or if it hangs, no sender waits.
    for (what, runnable, now) in [("rests", 0, NOW), ("hangs", NOW * 1000, NOW + 260_000)] {
        before = paced(&lab, &programs);
        put(
            &programs,
            class(offset_of!(pace_class, condition)),
            CONSERVATIVE,
        );
        put(&programs, since, runnable);
        programs.set_clock(now);
        let (_, seen) = acknowledge(&lab, &programs, &before, 60_000);
        assert_eq!(seen, 60_000, "{what}");
    }
}

#[test]
fn a_worker_that_is_dead_bounds_nothing() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    for (since_beat, expected) in [(2_900_000, TOLD as u16), (3_100_000, 60_000)] {
        let before = paced(&lab, &programs);
        put(
            &programs,
            bucket(offset_of!(pace_bucket, ceiling_due_ns)),
            u64::MAX / 2,
        );
        programs.set_clock(NOW + since_beat);
        let (_, seen) = acknowledge(&lab, &programs, &before, 60_000);
        assert_eq!(seen, expected, "{since_beat}");
    }
}

#[test]
fn what_was_told_before_is_paid_for_when_it_is_sent() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    let due = bucket(offset_of!(pace_bucket, ceiling_due_ns));
    // The sender's window; the unpaid part of it; bytes sent; bytes paid.
    for (told, unpaid, sent, paid) in [
        (TOLD, 0, 1000, 0),
        (TOLD, TOLD, 1000, 1000),
        (TOLD, 500, 1000, 500),
        // A window probe.
        (700, 0, 701, 1),
        (700, 700, 701, 701),
    ] {
        let mut before = paced(&lab, &programs);
        before.ways[CLIENT].pace.told_end = C + told;
        before.ways[CLIENT].pace.unpaid = unpaid;
        owe(&programs, 0);
        programs.set(&before, lab.addresses);
        let (packet, _) = up(&lab, |packet| packet.payload = vec![1; sent]);
        assert_eq!(programs.arriving(&packet.bytes()).verdict, Verdict::Forward);
        let bytes = (programs.pace.word(due).load(SeqCst) - NOW * 1000) * CEILING / 1_000_000_000;
        assert_eq!(bytes, paid, "{unpaid} {sent}");
    }
}

#[test]
fn a_sender_cannot_ignore_its_window() {
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    for (shift, sent, verdict) in [
        (0, TOLD + 1, Verdict::Forward),
        (0, TOLD + 2, Verdict::Drop),
        // Whatever the unit of its window.
        (4, TOLD + 1, Verdict::Forward),
        (4, TOLD + 2, Verdict::Drop),
        (4, TOLD + 16, Verdict::Drop),
    ] {
        let mut before = paced(&lab, &programs);
        before.legs[CLIENT].own_shift = shift;
        before.ways[CLIENT].window_end = C + 60_000;
        programs.set(&before, lab.addresses);
        let (packet, _) = up(&lab, |packet| {
            packet.seq = C + sent - 1000;
            packet.payload = vec![1; 1000];
        });
        assert_eq!(
            programs.arriving(&packet.bytes()).verdict,
            verdict,
            "{shift} {sent}"
        );
        let after = programs.splice();
        let is_dropped = verdict == Verdict::Drop;
        assert_eq!(after.refused - before.refused, u64::from(is_dropped));
        if is_dropped {
            assert_eq!(after.ways[CLIENT].end, before.ways[CLIENT].end);
        }
    }
}

/// What it sends beyond its window does not become its window, in tunnels and in responses.
#[test]
fn a_sender_does_not_open_its_window_by_what_it_sends() {
    const UNIT: u32 = 1 << 7;
    let (Some(lab), Some(programs)) = (Lab::v4(), Programs::load()) else {
        return;
    };
    for (side, state) in [(CLIENT, SPLICED), (SERVER, SPLICED), (SERVER, RESPONSES)] {
        let mut before = paced(&lab, &programs);
        let start = [C, S][side];
        before.state = state;
        before.left_bytes = u64::MAX;
        before.legs[side].own_shift = 7;
        before.ways[side].pace = before.ways[CLIENT].pace;
        before.ways[side].pace.told_end = start + TOLD;
        before.ways[side].window_end = start + 60_000;
        owe(&programs, 20);
        programs.set(&before, lab.addresses);
        for number in 0..50 {
            let change = |packet: &mut Packet| {
                packet.seq = packet.seq.wrapping_add(TOLD + number * UNIT);
                packet.payload = vec![1; UNIT as usize];
            };
            let (packet, _) = match side {
                CLIENT => up(&lab, change),
                _ => down(&lab, change),
            };
            let outcome = programs.arriving(&packet.bytes());
            assert_eq!(outcome.verdict, Verdict::Drop, "{side}, {state}: {number}");
        }
        assert_eq!(programs.splice().ways[side].pace.told_end, start + TOLD);
    }
}
