//! The programs' use of the control block (`BPF_PROG_TEST_RUN`), compared with the process's.

use super::super::block::Block;
use super::super::skeleton::types::{pace_bucket, pace_class, pace_credit, pace_worker};
use super::super::skeleton::{self, PacingSkel};
use super::super::{ClassSettings, INTERVAL, NetworkRate, Pacing, Policy, bucket};
use crate::PaceHandle;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{OpenObject, ProgramInput};
use std::mem::{MaybeUninit, offset_of};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// Runs a test with the programs on the block of `pacing`; skipped with a message if the kernel refuses.
fn with_programs(pacing: &Pacing, test: impl FnOnce(&PacingSkel<'_>)) {
    let Some(map) = pacing.map() else {
        carrick_test::skip!("the kernel does not share memory with us (root?)");
        return;
    };
    let mut object = MaybeUninit::<OpenObject>::uninit();
    let mut open = skeleton::PacingSkelBuilder::default()
        .open(&mut object)
        .unwrap();
    open.maps.pace.reuse_fd(map).unwrap();
    test(&open.load().unwrap());
}

/// Bytes that a program finds available, and takes.
fn ask(programs: &PacingSkel<'_>, handle: PaceHandle, now: u64, bytes: u64) -> u64 {
    let mut packet = vec![0_u8; 14];
    for word in [handle.to_bits(), now, bytes, 0] {
        packet.extend(word.to_ne_bytes());
    }
    let mut out = vec![0_u8; packet.len()];
    let input = ProgramInput {
        data_in: Some(&packet),
        data_out: Some(&mut out),
        ..ProgramInput::default()
    };
    let answer = programs.progs.pace_asked.test_run(input).unwrap();
    assert_eq!(answer.return_value, 0);
    u64::from_ne_bytes(out[38..46].try_into().unwrap())
}

fn paced(settings: &[ClassSettings]) -> (Pacing, super::super::Paced) {
    let pacing = Pacing::new().unwrap();
    pacing.configure(settings, INTERVAL).unwrap();
    let client = "192.0.2.1".parse().unwrap();
    let paced = pacing.pace(&settings[0].name, client, 3).unwrap();
    (pacing, paced)
}

fn set(block: &Block, field: usize, value: u64) {
    block.worker(3, field).store(value, Relaxed);
}

#[test]
fn a_rate_is_the_same_for_programs_and_process() {
    let settings = ClassSettings {
        ceiling: Some(1_000_000),
        network: Some(NetworkRate {
            ceiling: 500_000,
            prefix_v4: 24,
            prefix_v6: 64,
        }),
        ..ClassSettings::new("a")
    };
    let (pacing, paced) = paced(&[settings]);
    with_programs(&pacing, |programs| {
        let block = &pacing.0.block;
        let handle = paced.to_client();
        let of = handle.bucket().unwrap();
        let mut now = 10 * SECOND;
        let mut by_turns = 0;
        for round in 0..400_u64 {
            set(block, offset_of!(pace_worker, beat_ns), now);
            // 40 ms of 500 KB/s at most.
            let left = ask(programs, handle, now, 0);
            assert!(left <= 20_000, "{left}");
            let bytes = 1 + round * 37 % 3000;
            if left >= bytes {
                // In turn: what one has taken is not available to the other.
                if round % 2 == 0 {
                    ask(programs, handle, now, bytes);
                } else {
                    assert!(bucket::reserve(block, of, bytes, now).go_at_ns <= now);
                }
                by_turns += bytes;
                let after = ask(programs, handle, now, 0);
                assert!(
                    (left - bytes).abs_diff(after) <= 2,
                    "{left} {bytes} {after}"
                );
            }
            now += SECOND / 100;
        }
        // Four seconds at 500 KB/s.
        assert!(by_turns <= 2_020_000, "{by_turns}");
        let taken = block.bucket(of, offset_of!(pace_bucket, taken));
        assert_eq!(taken.load(Relaxed), by_turns);
    });
}

#[test]
fn urgency_counts_for_programs_too() {
    let of_line = |name, priority| ClassSettings {
        parent: Some("line".into()),
        priority,
        ..ClassSettings::new(name)
    };
    let pacing = Pacing::new().unwrap();
    let classes = [
        ClassSettings {
            ceiling: Some(1_000_000),
            ..ClassSettings::new("line")
        },
        of_line("first", 10),
        of_line("next", 20),
        of_line("last", 30),
    ];
    pacing.configure(&classes, INTERVAL).unwrap();
    let client = "192.0.2.1".parse().unwrap();
    let paced = ["first", "next", "last"].map(|name| pacing.pace(name, client, 3).unwrap());
    with_programs(&pacing, |programs| {
        let [first, next, last] = paced.each_ref().map(|paced| paced.to_client());
        let of = |handle: PaceHandle| handle.bucket().unwrap();
        let block = &pacing.0.block;
        let now = 10 * SECOND;
        set(block, offset_of!(pace_worker, beat_ns), now);
        let left = |handle| ask(programs, handle, now, 0);
        // 40 ms of 1 MB/s; a 64th less for each below.
        assert_eq!([first, next, last].map(left), [38_750, 39_375, 40_000]);
        // The last one takes everything through the process: only it waits for that.
        bucket::reserve(block, of(last), 40_000, now);
        assert_eq!([first, next, last].map(left), [38_750, 39_375, 0]);
        // Through a program: the less urgent ones wait, too.
        ask(programs, next, now, 39_375);
        assert_eq!([first, next, last].map(left), [38_750, 0, 0]);
        let go_at =
            [first, next, last].map(|handle| bucket::reserve(block, of(handle), 10, now).go_at_ns);
        assert!(
            go_at[0] <= now + 100_000 && go_at[1] <= now + 100_000,
            "{go_at:?}"
        );
        assert!(go_at[2] > now + SECOND / 50, "{go_at:?}");
        // Without priorities, all are equal.
        let alike = classes.clone().map(|settings| ClassSettings {
            priority: 100,
            ..settings
        });
        pacing.configure(&alike, INTERVAL).unwrap();
        assert_eq!([first, next, last].map(left), [0, 0, 0]);
    });
}

#[test]
fn programs_wait_for_the_worker_as_the_class_has_it() {
    let (pacing, paced) = paced(&[ClassSettings {
        policy: Policy::Conservative,
        ..ClassSettings::new("a")
    }]);
    with_programs(&pacing, |programs| {
        let block = &pacing.0.block;
        let handle = paced.to_client();
        let now = 100 * SECOND;
        set(block, offset_of!(pace_worker, beat_ns), now);
        assert_eq!(ask(programs, handle, now, 0), u64::MAX, "it is blocked");
        set(
            block,
            offset_of!(pace_worker, runnable_since_ns),
            now - 1000,
        );
        assert_eq!(ask(programs, handle, now, 0), 0, "it is runnable");
        assert_eq!(
            ask(programs, PaceHandle::default(), now, 0),
            u64::MAX,
            "not paced"
        );
        // Runnable for a second without a pause: it hangs.
        assert_eq!(ask(programs, handle, now + SECOND, 0), u64::MAX);
        // No sign of life.
        set(
            block,
            offset_of!(pace_worker, runnable_since_ns),
            now + 9 * SECOND,
        );
        assert_eq!(ask(programs, handle, now + 9 * SECOND, 0), u64::MAX);
        set(block, offset_of!(pace_worker, beat_ns), now + 9 * SECOND);
        assert_eq!(ask(programs, handle, now + 9 * SECOND, 0), 0);
        // With credit.
        let deadline = ClassSettings {
            policy: Policy::Deadline {
                target: Duration::from_millis(2),
            },
            ..ClassSettings::new("a")
        };
        pacing.configure(&[deadline], INTERVAL).unwrap();
        let class = handle.class();
        let credit = |field| block.credit(3, class, field);
        credit(offset_of!(pace_credit, given)).store(5000, Relaxed);
        let now = now + 9 * SECOND;
        assert_eq!(ask(programs, handle, now, 2000), 5000);
        assert_eq!(ask(programs, handle, now, 4000), 3000);
        assert_eq!(
            ask(programs, handle, now, 0),
            0,
            "more was taken than given"
        );
        let granted = block.class(class, offset_of!(pace_class, granted));
        assert_eq!(granted.load(Relaxed), 6000);
        let kernel_bytes = block.worker(3, offset_of!(pace_worker, kernel_bytes));
        assert_eq!(kernel_bytes.load(Relaxed), 6000);
    });
}
