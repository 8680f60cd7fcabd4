//! Tests of arrivals in virtual time: a driver, and a server whose times a function says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;
use crate::load::outcome::LoadOutcome;
use crate::load::plan::Kind as ClassKind;
use crate::load::tally::Finish;
use crate::load::tally::tests::tally;
use crate::load::work::tests::{class, plan};

const MS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ended(usize, u64),
    Woken(u64),
}

/// What happened.
#[derive(Default)]
struct World {
    /// Times of beginnings, in ms, with slot and request.
    begun: Vec<(f64, usize, Request)>,
    busy: Vec<Option<(Request, u64)>>,
    most_busy: usize,
    closed: usize,
    expired: usize,
}

/// Runs until `end_ms`; `serve` says when a request begun at a time on a slot is answered, or why not.
fn simulate(
    plan: &LoadPlan,
    end_ms: u64,
    mut serve: impl FnMut(u64, usize, &Request) -> (u64, Result<Finish, Fault>),
) -> (World, LoadOutcome) {
    let mut driver = driver(plan, 0, 1);
    let mut tally = tally(plan);
    tally.is_measuring = true;
    let mut world = World {
        busy: vec![None; driver.slots()],
        ..World::default()
    };
    let mut results = std::collections::BTreeMap::new();
    let mut heap = BinaryHeap::new();
    let mut orders = Orders::new();
    let mut serial = 0;
    let mut now = 0;
    driver.start(0, &mut orders);
    loop {
        while let Some(order) = orders.pop_front() {
            match order {
                Order::Begin(slot, request) => {
                    assert!(world.busy[slot].is_none(), "slot {slot} has two requests");
                    serial += 1;
                    world.busy[slot] = Some((request, serial));
                    world.begun.push((now as f64 / MS as f64, slot, request));
                    let (at, result) = serve(now, slot, &request);
                    results.insert(serial, result);
                    heap.push(Reverse((at, Event::Ended(slot, serial))));
                }
                Order::Wake(at, token) => heap.push(Reverse((at, Event::Woken(token)))),
                Order::Close(slot) => {
                    world.closed += 1;
                    world.busy[slot] = None;
                }
                Order::Expire(slot, limit_ns) => {
                    world.expired += 1;
                    let (request, _) = world.busy[slot].take().unwrap();
                    let fault = Fault::Timeout {
                        limit_seconds: limit_ns as f64 / 1e9,
                        progress: Default::default(),
                    };
                    let ending = Ending {
                        first_byte_ns: now,
                        ended_ns: now,
                        result: Err(fault),
                    };
                    driver.ended(slot, &request, ending, &mut tally, &mut orders);
                }
            }
        }
        world.most_busy = world.most_busy.max(world.busy.iter().flatten().count());
        let Some(Reverse((at, event))) = heap.pop() else {
            break;
        };
        if at > end_ms * MS {
            break;
        }
        assert!(at >= now, "time goes on");
        now = at;
        match event {
            Event::Woken(token) => driver.woken(token, now, &mut orders),
            Event::Ended(slot, serial) => {
                let Some((request, current)) = world.busy[slot] else {
                    continue;
                };
                if current != serial {
                    continue;
                }
                world.busy[slot] = None;
                let ending = Ending {
                    first_byte_ns: now,
                    ended_ns: now,
                    result: results.remove(&serial).unwrap(),
                };
                driver.ended(slot, &request, ending, &mut tally, &mut orders);
            }
        }
    }
    tally.late += driver.late(0, end_ms * MS);
    (world, tally.outcome(end_ms as f64 / 1e3))
}

fn with(arrival: Arrival) -> LoadPlan {
    plan(arrival, vec![class("a", ClassKind::NonCacheable, 1.0)])
}

fn after(ms: u64) -> impl FnMut(u64, usize, &Request) -> (u64, Result<Finish, Fault>) {
    move |now, _, _| (now + ms * MS, Ok(Finish::Completed))
}

#[test]
fn closed_clients_think_between_requests() {
    let (world, outcome) = simulate(
        &with(Arrival::Closed {
            clients: 3,
            think_ms: 7.0,
        }),
        100,
        after(3),
    );
    let starts: Vec<f64> = world
        .begun
        .iter()
        .filter(|(_, slot, _)| *slot == 1)
        .map(|(at, ..)| *at)
        .collect();
    assert_eq!(
        starts,
        [
            0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0
        ]
    );
    assert_eq!(outcome.classes[0].completed, 30);
}

#[test]
fn a_dead_server_is_not_asked_in_a_tight_loop() {
    let refuse = |now, _: usize, _: &Request| {
        (
            now,
            Err(Fault::Connect(
                std::io::ErrorKind::ConnectionRefused,
                String::new(),
            )),
        )
    };
    for arrival in [
        Arrival::Closed {
            clients: 2,
            think_ms: 0.0,
        },
        Arrival::Open {
            rate: 1e5,
            clients_max: 2,
        },
        Arrival::Batches {
            clients: 1,
            batch: 2,
            timeout_ms: 50.0,
        },
        Arrival::Pages {
            clients: 2,
            embedded: 3,
            parallel: 2,
            persistent: false,
        },
    ] {
        let (_, outcome) = simulate(&with(arrival), 1000, refuse);
        let failures = outcome.classes[0].failed["connect"];
        assert!(
            (90..=110).contains(&failures),
            "{arrival:?}: {failures} in 50 pauses of 20 ms each, by two"
        );
    }
}

#[test]
fn an_open_loop_keeps_its_rhythm() {
    let (world, outcome) = simulate(
        &with(Arrival::Open {
            rate: 1000.0,
            clients_max: 50,
        }),
        2000,
        after(5),
    );
    for (number, (at, _, request)) in world.begun.iter().enumerate() {
        assert!((at - number as f64).abs() < 1e-6 && request.begun_ns == number as u64 * MS);
    }
    assert_eq!(
        (world.begun.len(), world.most_busy, outcome.late),
        (2001, 5, 0)
    );
    assert!((outcome.classes[0].latency.max_ms - 5.0).abs() < 0.01);
}

#[test]
fn what_cannot_be_sent_waits_and_its_waiting_counts() {
    // Two at a time with 10 ms each are 200 in a second; 300 are due.
    let (_, outcome) = simulate(
        &with(Arrival::Open {
            rate: 300.0,
            clients_max: 2,
        }),
        1000,
        after(10),
    );
    let class = &outcome.classes[0];
    assert_eq!(
        class.completed, 199,
        "the second begins when the second request is due"
    );
    assert!((98..=100).contains(&outcome.late), "{}", outcome.late);
    assert!(
        (class.latency.max_ms - 340.0).abs() < 10.0,
        "{}",
        class.latency.max_ms
    );
}

/// Coordinated omission: of ten seconds at 1000 requests per second the server stalls for one. A tenth of all requests were
/// due in it, so percentiles 90 and above must show it; a closed loop of few clients hardly notices, as it stops asking.
#[test]
fn a_stall_shows_in_the_percentiles_of_an_open_loop() {
    let stall = |now: u64, _: usize, _: &Request| {
        let at = if (3000 * MS..4000 * MS).contains(&now) {
            4000 * MS
        } else {
            now
        };
        (at + MS, Ok(Finish::Completed))
    };
    let (_, open) = simulate(
        &with(Arrival::Open {
            rate: 1000.0,
            clients_max: 10,
        }),
        10_000,
        stall,
    );
    let latency = &open.classes[0].latency;
    // The waiting are served by ten at a time and 1 ms each: within 110 ms after the stall's end.
    assert!(
        (9_990..=10_001).contains(&latency.count),
        "{}",
        latency.count
    );
    assert!((latency.p99_ms - 900.0).abs() < 30.0, "{}", latency.p99_ms);
    assert!(latency.p90_ms > 1.5 && latency.p50_ms < 1.1, "{latency:?}");
    assert!((latency.max_ms - 1001.0).abs() < 2.0);
    let closed_plan = with(Arrival::Closed {
        clients: 10,
        think_ms: 9.0,
    });
    let (_, closed) = simulate(&closed_plan, 10_000, stall);
    assert!(
        closed.classes[0].latency.p99_ms < 1.1,
        "the closed loop hides it"
    );
}

#[test]
fn batches_wait_for_all_or_their_time_out() {
    let plan = with(Arrival::Batches {
        clients: 1,
        batch: 4,
        timeout_ms: 100.0,
    });
    let (world, outcome) = simulate(&plan, 1000, |now, slot, _| {
        // In the second batch, which begins at 40 ms, one request never ends.
        let ms = if slot == 3 && now == 40 * MS {
            10_000
        } else {
            (slot as u64 + 1) * 10
        };
        (now + ms * MS, Ok(Finish::Completed))
    });
    let starts: Vec<f64> = world
        .begun
        .iter()
        .filter(|(_, slot, _)| *slot == 0)
        .map(|(at, ..)| *at)
        .take(4)
        .collect();
    assert_eq!(starts, [0.0, 40.0, 140.0, 180.0]);
    assert_eq!(
        (world.expired, outcome.classes[0].failed["timeout"]),
        (1, 1)
    );
}

#[test]
fn a_page_is_its_base_and_then_some_objects_at_a_time() {
    let plan = with(Arrival::Pages {
        clients: 1,
        embedded: 5,
        parallel: 2,
        persistent: true,
    });
    let (world, outcome) = simulate(&plan, 39, after(10));
    let begun: Vec<(f64, usize)> = world
        .begun
        .iter()
        .take(6)
        .map(|(at, slot, _)| (*at, *slot))
        .collect();
    assert_eq!(
        begun,
        [
            (0.0, 0),
            (10.0, 0),
            (10.0, 1),
            (20.0, 0),
            (20.0, 1),
            (30.0, 0)
        ]
    );
    assert_eq!(outcome.classes[0].completed, 0);
    let (world, outcome) = simulate(&plan, 400, after(10));
    let latency = &outcome.classes[0].latency;
    assert_eq!((latency.count, world.closed), (10, 20));
    assert!(
        (latency.mean_ms - 40.0).abs() < 0.1,
        "from the base's beginning to the last byte"
    );
    assert!((outcome.classes[0].first_byte.mean_ms - 10.0).abs() < 0.1);
    let bytes: u64 = world
        .begun
        .iter()
        .take(6)
        .map(|(.., request)| request.body_bytes)
        .sum();
    assert_eq!(bytes, 1000);
}

#[test]
fn a_page_with_a_failed_part_has_failed_once() {
    let plan = with(Arrival::Pages {
        clients: 1,
        embedded: 4,
        parallel: 4,
        persistent: false,
    });
    let mut part_number = 0;
    let (_, outcome) = simulate(&plan, 1000, |now, _, _| {
        part_number += 1;
        let result = if part_number <= 5 && part_number > 1 {
            Err(Fault::Status(500))
        } else {
            Ok(Finish::Completed)
        };
        (now + 10 * MS, result)
    });
    assert_eq!(outcome.classes[0].failed["status_500"], 1);
    assert_eq!(outcome.classes[0].completed, 49);
}

#[test]
fn objects_are_asked_for_once_and_again_after_a_failure() {
    let requests: Vec<Request> = (0..40)
        .map(|seed| Request {
            seed,
            ..Request::default()
        })
        .collect();
    let run = |failures_of_7: u32| {
        let mut prime = Prime::new(requests.clone());
        let mut tally = tally(&with(Arrival::Closed {
            clients: 1,
            think_ms: 0.0,
        }));
        let (mut orders, mut asked, mut failed) = (Orders::new(), 0, 0);
        prime.start(0, &mut orders);
        while let Some(order) = orders.pop_front() {
            match order {
                Order::Begin(slot, request) => {
                    asked += 1;
                    let fails = request.seed == 7 && failed < failures_of_7;
                    failed += u32::from(fails);
                    let result = if fails {
                        Err(Fault::Status(502))
                    } else {
                        Ok(Finish::Completed)
                    };
                    let ending = Ending {
                        first_byte_ns: 1,
                        ended_ns: 1,
                        result,
                    };
                    prime.ended(slot, &request, ending, &mut tally, &mut orders);
                }
                Order::Wake(at, token) => prime.woken(token, at, &mut orders),
                other => panic!("{other:?}"),
            }
        }
        (
            asked,
            prime.is_done(),
            prime.failure().map(|(request, _)| request.seed),
        )
    };
    assert_eq!(run(0), (40, true, None));
    assert_eq!(run(2), (42, true, None));
    assert_eq!(run(3).2, Some(7));
}
