//! Which splices may continue although the worker is busy, and how far.

use super::*;
use crate::support::until;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;

#[test]
fn a_worker_that_lets_go_what_waits_does_so_for_some_at_a_time() {
    const WAITING: usize = 20;
    let classes = [ClassSettings {
        policy: Policy::Conservative,
        hold_max: Duration::from_secs(10),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let busy = Busy::new();
        let pacer = splicer.pacer().unwrap().clone();
        for _ in 0..WAITING {
            let sockets = Sockets::new().await;
            let mut sender = blocking(sockets.sender);
            sender.write_all(&[1; 1000]).unwrap();
            let paced = pacing.pace("a", client(), 0).unwrap();
            let splicer = splicer.clone();
            tokio::task::spawn_local(async move {
                let _receiver = sockets.receiver;
                let order = Order {
                    choice: Choice::Copy,
                    pace: paced.to_client(),
                    ..Order::new(End::AfterBytes(1000))
                };
                let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                transfer.run().await.unwrap();
            });
        }
        while pacing.classes()[0].yields < WAITING as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // All of them became ready after the worker had become runnable; from the second time on, before the first.
        assert_eq!(pacer.forward(Drain::BeforeActive), 0);
        assert_eq!(pacer.forward(Drain::BeforeActive), 16);
        assert_eq!(pacer.forward(Drain::BeforeActive), WAITING - 16);
        assert_eq!(pacer.forward(Drain::BeforeActive), 0);
        // It has just released the waiters, and is still busy.
        assert!(pacer.holds_back_for() < pacer.runnable_for());
        drop(busy);
    });
}

#[test]
fn a_splice_that_has_moved_everything_has_no_leave_for_what_comes_next() {
    let classes = [ClassSettings {
        policy: Policy::Conservative,
        hold_max: Duration::from_secs(10),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        for choice in [Choice::Copy, Choice::Pipe] {
            let sockets = Sockets::new().await;
            let mut sender = blocking(sockets.sender);
            let _receiver = sockets.receiver;
            let paced = pacing.pace("a", client(), 0).unwrap();
            let order = Order {
                choice,
                pace: paced.to_client(),
                ..Order::new(End::AfterBytes(60_000))
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            // The worker is blocked repeatedly.
            sender.write_all(&[1; 20_000]).unwrap();
            run_until(&mut transfer, 20_000).await;
            let busy = Busy::new();
            tokio::task::yield_now().await;
            let yields = pacing.classes()[0].yields;
            sender.write_all(&[2; 20_000]).unwrap();
            tokio::select! {
                _ = transfer.run() => panic!("{choice:?}: it did not wait"),
                () = until(|| pacing.classes()[0].yields > yields) => {}
            }
            assert_eq!(transfer.bytes(), 20_000, "{choice:?}: it did not wait");
            drop(busy);
            sender.write_all(&[3; 20_000]).unwrap();
            assert_eq!(transfer.run().await.unwrap(), Ended::Bytes, "{choice:?}");
        }
    });
}

#[test]
fn leave_that_cannot_be_used_yet_is_no_time_of_forwarding() {
    const STALL: Duration = Duration::from_secs(2);
    let classes = [ClassSettings {
        policy: Policy::Conservative,
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let sockets = Sockets::new().await;
        let body = sample(3, 20_000_000);
        let (mut sender, mut receiver) = (blocking(sockets.sender), blocking(sockets.receiver));
        let sent = body.clone();
        let sending = std::thread::spawn(move || sender.write_all(&sent).unwrap());
        let (go_on, is_to_go_on) = mpsc::channel();
        let receiving = std::thread::spawn(move || {
            is_to_go_on.recv_timeout(HANG).unwrap();
            let mut arrived = Vec::new();
            receiver.read_to_end(&mut arrived).unwrap();
            arrived
        });
        let paced = pacing.pace("a", client(), 0).unwrap();
        let order = Order {
            choice: Choice::Copy,
            pace: paced.to_client(),
            ..Order::new(End::AfterBytes(body.len() as u64))
        };
        let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
        let mut moved = None;
        while moved != Some(transfer.bytes()) || transfer.bytes() == 0 {
            moved = Some(transfer.bytes());
            let run = tokio::time::timeout(Duration::from_millis(100), transfer.run());
            assert!(
                run.await.is_err(),
                "20 MB went to a receiver that does not read"
            );
        }
        // Again where the machine keeps the worker from forwarding a little for long.
        let mut forwarding = STALL;
        while forwarding >= STALL / 2 {
            let before = pacing.worker(0).forwarding;
            let stalled = tokio::time::timeout(STALL, transfer.run()).await;
            assert!(stalled.is_err(), "{stalled:?}");
            forwarding = pacing.worker(0).forwarding - before;
        }
        go_on.send(()).unwrap();
        assert_eq!(transfer.run().await.unwrap(), Ended::Bytes);
        drop(transfer);
        drop((sockets.from, sockets.to));
        sending.join().unwrap();
        assert_same(&receiving.join().unwrap(), &body, "after the stall");
    });
}

#[test]
fn a_request_to_be_relayed_waits_for_a_worker_that_is_busy() {
    let classes = [
        ClassSettings {
            policy: Policy::Conservative,
            hold_max: Duration::from_millis(300),
            ..class("a")
        },
        class("never"),
        ClassSettings {
            policy: Policy::Conservative,
            hold_max: Duration::from_secs(10),
            ..class("patient")
        },
    ];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let pacer = splicer.pacer().unwrap().clone();
        let paced = pacing.pace("a", client(), 0).unwrap();
        let not_held = pacing.pace("never", client(), 0).unwrap();
        let patient = pacing.pace("patient", client(), 0).unwrap();
        let busy = Busy::new();
        tokio::task::yield_now().await;
        pacer.admit(not_held.to_client()).await;
        pacer.admit(PaceHandle::default()).await;
        assert!(!pacer.is_waited_for() && pacing.classes()[0].yields == 0);
        // A request that gives up no longer waits.
        let short = Duration::from_millis(10);
        let given_up = tokio::time::timeout(short, pacer.admit(patient.to_client()));
        assert!(given_up.await.is_err() && !pacer.is_waited_for());
        assert_eq!(pacing.classes()[2].yields, 1);
        // The wait is bounded.
        let asked = Instant::now();
        pacer.admit(paced.to_client()).await;
        assert!(asked.elapsed() >= Duration::from_millis(300));
        assert!(pacer.runnable_for() >= Duration::from_millis(300));
        drop(busy);
        pacer.admit(paced.to_client()).await;
        let report = &pacing.classes()[0];
        assert!(report.yields == 2 && report.overdue == 1, "{report:?}");
        assert_eq!(report.bytes, 0);
    });
}

#[test]
fn hits_of_a_worker_that_never_blocks_wait_for_its_rounds() {
    let classes = [ClassSettings {
        policy: Policy::Deadline {
            target: Duration::from_millis(2),
        },
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let pacer = splicer.pacer().unwrap().clone();
        let busy = Busy::new();
        let mut p99 = Duration::MAX;
        // Counted from the last time it was blocked, nearly all hits would have waited for longer than a second from then on.
        while p99 > Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
            pacer.served(1000, true);
            tokio::task::yield_now().await;
            if pacer.runnable_for() >= Duration::from_secs(2) {
                p99 = pacing.worker(0).hits_p99.unwrap();
            }
        }
        assert!(p99 > Duration::from_millis(1), "{p99:?}");
        drop(busy);
    });
}

#[test]
fn credit_is_used_behind_the_workers_own_work() {
    let classes = [ClassSettings {
        policy: Policy::Deadline {
            target: Duration::from_secs(10),
        },
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        for choice in [Choice::Copy, Choice::Pipe] {
            let sockets = Sockets::new().await;
            let mut sender = blocking(sockets.sender);
            sender.write_all(&[1; 1000]).unwrap();
            sockets.from.readable().await.unwrap();
            let paced = pacing.pace("a", client(), 0).unwrap();
            let done = Rc::new(RefCell::new(Vec::new()));
            let (splicer, splice_done) = (splicer.clone(), Rc::clone(&done));
            // Its turn is before all others.
            let splice = tokio::task::spawn_local(async move {
                let _receiver = sockets.receiver;
                let order = Order {
                    choice,
                    pace: paced.to_client(),
                    ..Order::new(End::AfterBytes(1000))
                };
                let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                assert_eq!(transfer.run().await.unwrap(), Ended::Bytes, "{choice:?}");
                splice_done.borrow_mut().push("spliced");
            });
            for _ in 0..3 {
                let done = Rc::clone(&done);
                tokio::task::spawn_local(async move { done.borrow_mut().push("own") });
            }
            splice.await.unwrap();
            assert_eq!(
                *done.borrow(),
                ["own", "own", "own", "spliced"],
                "{choice:?}"
            );
        }
    });
}

#[test]
fn a_worker_that_never_blocks_lets_splices_go_as_far_as_it_has_earned() {
    const BYTES: usize = 300_000;
    let classes = [ClassSettings {
        policy: Policy::Proportional,
        hold_max: Duration::from_secs(10),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let pacer = splicer.pacer().unwrap().clone();
        let sockets = Sockets::new().await;
        let sending = send(
            blocking(sockets.sender),
            blocking(sockets.receiver),
            BYTES as u64,
        );
        let busy = tokio::task::spawn_local(async move {
            loop {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_micros(100) {
                    std::hint::spin_loop();
                }
                pacer.served(50_000, true);
                tokio::task::yield_now().await;
            }
        });
        tokio::task::yield_now().await;
        let paced = pacing.pace("a", client(), 0).unwrap();
        let order = Order {
            choice: Choice::Copy,
            pace: paced.to_client(),
            ..Order::new(End::AfterBytes(BYTES as u64))
        };
        let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
        assert_eq!(transfer.run().await.unwrap(), Ended::Bytes);
        drop(transfer);
        drop((sockets.from, sockets.to));
        busy.abort();
        let report = &pacing.classes()[0];
        assert!(report.yields > 0 && report.overdue == 0, "{report:?}");
        joined(vec![sending]).await;
    });
}
