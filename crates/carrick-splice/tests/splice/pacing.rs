//! Splices that keep to a pace: rates over seconds, waiting for a worker that has work of its own, and changes at any moment.

mod leave;

use crate::support::{Legs, Random, assert_same, connection, sample};
use carrick_splice::{
    Choice, ClassSettings, Counters, Drain, End, Ended, Engine, ExchangeEnd, ExchangeOrder,
    INTERVAL, NetworkRate, Order, PaceHandle, Pacer, Pacing, PacketService, Policy, PoolLimits,
    SocketService, Splicer, Throttle,
};
use std::future::Future;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

const MB: u64 = 1_000_000;

/// Longer than any of these should take.
const HANG: Duration = Duration::from_secs(120);

/// How long what goes by is counted.
const SECONDS: f64 = 2.0;

/// How often what is slow is tried again.
const ATTEMPTS: usize = 5;

/// The engines that keep to a pace here. (The packet engine has no peers on loopback; it has tests of its own.)
const CHOICES: [Choice; 4] = [Choice::Copy, Choice::Pipe, Choice::Auto, Choice::Socket];

fn class(name: &str) -> ClassSettings {
    ClassSettings::new(name)
}

/// Runs a test on a thread of its own, whose runtime tells its pacer when it waits.
fn on_paced_worker<F: Future<Output = ()>>(
    classes: &[ClassSettings],
    test: impl FnOnce(Splicer, Pacing) -> F + Send,
) {
    let pacing = Pacing::new().unwrap();
    pacing.configure(classes, INTERVAL).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .on_thread_park(Pacer::on_thread_park)
                .on_thread_unpark(Pacer::on_thread_unpark)
                .build()
                .unwrap();
            let socket = SocketService::default();
            if let Err(because) = socket.load(64, Some(&pacing)) {
                carrick_test::skip!("what tests the socket engine: {because}");
            }
            let splicer = Splicer::with_engines(
                PoolLimits::default(),
                Arc::new(Counters::default()),
                socket,
                PacketService::default(),
            );
            let pacer = Pacer::new(pacing.clone(), 0);
            splicer.set_pacer(pacer.clone());
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&runtime, async {
                tokio::task::spawn_local(async move { pacer.keep().await });
                tokio::time::timeout(HANG, test(splicer, pacing))
                    .await
                    .expect("it hangs");
            });
        });
    });
}

fn client() -> IpAddr {
    "192.0.2.1".parse().unwrap()
}

/// A connection's end for a thread that blocks.
fn blocking(stream: TcpStream) -> std::net::TcpStream {
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

/// Sends without end, and counts what arrives until `until`; on two threads.
fn pump(
    mut sender: std::net::TcpStream,
    mut receiver: std::net::TcpStream,
    until: Instant,
) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let piece = vec![7; 64 << 10];
        while sender.write_all(&piece).is_ok() {}
    });
    receiver
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    std::thread::spawn(move || {
        let (mut bytes, mut buffer) = (0, vec![0; 64 << 10]);
        while Instant::now() < until {
            match receiver.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => bytes += read as u64,
                Err(_) => {}
            }
        }
        bytes
    })
}

/// Splices what `count` clients are sent without end, as long as `seconds`; what each has got.
async fn flood(
    splicer: &Splicer,
    pacing: &Pacing,
    choice: Choice,
    clients: &[(&str, IpAddr)],
    seconds: f64,
) -> Vec<u64> {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let mut pumps = Vec::new();
    let mut splices = Vec::new();
    for &(name, address) in clients {
        let legs = Legs::new().await;
        pumps.push(pump(blocking(legs.sender), blocking(legs.receiver), until));
        let (splicer, paced) = (splicer.clone(), pacing.pace(name, address, 0).unwrap());
        splices.push(tokio::task::spawn_local(async move {
            let order = Order {
                choice,
                pace: paced.to_client(),
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&legs.from, &legs.to, order);
            let _ = transfer.run().await;
        }));
    }
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    for splice in splices {
        splice.abort();
        let _ = splice.await;
    }
    let got = tokio::task::spawn_blocking(move || {
        pumps.into_iter().map(|pump| pump.join().unwrap()).collect()
    });
    got.await.unwrap()
}

/// Bytes, and how many they may be.
type Bounded = (u64, Range<u64>);

/// What came within [`SECONDS`] at this rate: never more than it allows, and not much less.
fn at_rate(bytes: u64, rate: u64) -> Bounded {
    let share = |share: f64| (rate as f64 * SECONDS * share) as u64;
    (bytes, share(0.85)..share(1.06))
}

/// Tries until nothing is too little, since a machine that others keep busy may not bring more. Too much is wrong each time.
async fn keeps(what: &str, mut attempt: impl AsyncFnMut() -> Vec<Bounded>) {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        seen = attempt().await;
        assert!(
            seen.iter().all(|(bytes, allowed)| *bytes < allowed.end),
            "{what}: too much: {seen:?}"
        );
        if seen.iter().all(|(bytes, allowed)| *bytes >= allowed.start) {
            return;
        }
    }
    panic!("{what}: too little: {seen:?}");
}

#[test]
fn a_rate_is_kept_by_each_engine() {
    let classes = [ClassSettings {
        ceiling: Some(10 * MB),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        for choice in CHOICES {
            for count in [1, 8] {
                let clients = vec![("a", client()); count];
                // Nobody is left out.
                let least = 20 * MB / count as u64 / 3;
                keeps(&format!("{choice:?}, {count}"), async || {
                    let got = flood(&splicer, &pacing, choice, &clients, SECONDS).await;
                    let each = got.iter().map(|&bytes| (bytes, least..u64::MAX));
                    each.chain([at_rate(got.iter().sum(), 10 * MB)]).collect()
                })
                .await;
            }
        }
        assert!(pacing.classes()[0].rate_waits > 0);
    });
}

#[test]
fn each_network_and_each_splice_has_its_own_rate() {
    let classes = [
        ClassSettings {
            network: Some(NetworkRate {
                ceiling: 4 * MB,
                prefix_v4: 24,
                prefix_v6: 64,
            }),
            ..class("networks")
        },
        ClassSettings {
            splice: Some(3 * MB),
            ..class("splices")
        },
    ];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let near: IpAddr = "192.0.2.77".parse().unwrap();
        let far: IpAddr = "198.51.100.1".parse().unwrap();
        let clients = [
            ("networks", client()),
            ("networks", near),
            ("networks", far),
        ];
        keeps("networks", async || {
            let got = flood(&splicer, &pacing, Choice::Pipe, &clients, SECONDS).await;
            vec![at_rate(got[0] + got[1], 4 * MB), at_rate(got[2], 4 * MB)]
        })
        .await;
        let clients = [("splices", client()); 2];
        keeps("splices", async || {
            let got = flood(&splicer, &pacing, Choice::Copy, &clients, SECONDS).await;
            got.into_iter()
                .map(|bytes| at_rate(bytes, 3 * MB))
                .collect()
        })
        .await;
    });
}

#[test]
fn classes_share_what_others_leave() {
    let child = |name: &str, rate| ClassSettings {
        rate: Some(rate),
        parent: Some("all".into()),
        ..class(name)
    };
    let all = ClassSettings {
        ceiling: Some(10 * MB),
        ..class("all")
    };
    let classes = [all, child("big", 6 * MB), child("small", 2 * MB)];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let clients = [("big", client()), ("small", client())];
        keeps("both", async || {
            let got = flood(&splicer, &pacing, Choice::Pipe, &clients, SECONDS).await;
            vec![
                at_rate(got[0] + got[1], 10 * MB),
                (got[0], 11 * MB..u64::MAX),
                (got[1], 7 * MB / 2..u64::MAX),
            ]
        })
        .await;
        keeps("the small one alone", async || {
            let got = flood(&splicer, &pacing, Choice::Pipe, &clients[1..], SECONDS).await;
            vec![at_rate(got[0], 10 * MB)]
        })
        .await;
    });
}

#[test]
fn both_directions_have_a_rate_each() {
    let classes = [ClassSettings {
        ceiling: Some(5 * MB),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        for choice in CHOICES {
            keeps(&format!("{choice:?}, up and down"), async || {
                let got = flood_both_ways(&splicer, &pacing, choice).await;
                got.map(|bytes| at_rate(bytes, 5 * MB)).to_vec()
            })
            .await;
        }
    });
}

/// Both ends of a connection of the class `a` send without end; what the server and the client have got.
async fn flood_both_ways(splicer: &Splicer, pacing: &Pacing, choice: Choice) -> [u64; 2] {
    let time = Duration::from_secs_f64(SECONDS);
    let until = Instant::now() + time;
    let (near, a) = connection(None).await;
    let (far, b) = connection(None).await;
    let (near, far) = (blocking(near), blocking(far));
    let twin = |stream: &std::net::TcpStream| stream.try_clone().unwrap();
    let up = pump(twin(&near), twin(&far), until);
    let down = pump(twin(&far), twin(&near), until);
    let paced = pacing.pace("a", client(), 0).unwrap();
    let order = ExchangeOrder {
        pace: paced.both(),
        ..ExchangeOrder::new(choice)
    };
    let mut exchange = splicer.exchange(a, b, order);
    let _ = tokio::time::timeout(time, exchange.run()).await;
    drop(exchange);
    let both = tokio::task::spawn_blocking(|| [up, down].map(|pump| pump.join().unwrap()));
    both.await.unwrap()
}

/// The worker has something to do all the time, which is not splicing, until this is dropped.
struct Busy(tokio::task::JoinHandle<()>);

impl Busy {
    fn new() -> Busy {
        Busy(tokio::task::spawn_local(async {
            loop {
                tokio::task::yield_now().await;
            }
        }))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[test]
fn a_conservative_class_waits_for_the_worker_but_not_for_ever() {
    let classes = [ClassSettings {
        policy: Policy::Conservative,
        hold_max: Duration::from_millis(300),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        for choice in CHOICES {
            let legs = Legs::new().await;
            let body = sample(1, 3_000_000);
            let (mut sender, mut receiver) = (blocking(legs.sender), blocking(legs.receiver));
            let sent = body.clone();
            let sending = std::thread::spawn(move || sender.write_all(&sent).unwrap());
            let receiving = std::thread::spawn(move || {
                let mut arrived = Vec::new();
                receiver.read_to_end(&mut arrived).unwrap();
                arrived
            });
            let paced = pacing.pace("a", client(), 0).unwrap();
            let order = Order {
                choice,
                pace: paced.to_client(),
                ..Order::new(End::AfterBytes(body.len() as u64))
            };
            let mut transfer = splicer.transfer(&legs.from, &legs.to, order);
            let busy = Busy::new();
            let begun = Instant::now();
            // Under half a second of work there is leave by the longest wait only: once, perhaps twice; and once by `forward`.
            let run = tokio::time::timeout(Duration::from_millis(450), transfer.run()).await;
            assert!(run.is_err(), "{choice:?}: it did not wait");
            let bytes = transfer.bytes();
            assert!(bytes < 1_500_000, "{choice:?}: {bytes}");
            if begun.elapsed() < Duration::from_millis(550) {
                let moved = tokio::time::timeout(Duration::from_millis(60), transfer.run());
                assert!(moved.await.is_err());
            }
            let pacer = splicer.pacer().unwrap();
            assert!(pacer.runnable_for() > Duration::from_millis(300));
            drop(busy);
            assert_eq!(transfer.run().await.unwrap(), Ended::Bytes, "{choice:?}");
            drop(transfer);
            drop((legs.from, legs.to));
            sending.join().unwrap();
            assert_same(&receiving.join().unwrap(), &body, "after the work");
        }
        let report = &pacing.classes()[0];
        assert!(report.yields > 0 && report.overdue > 0, "{report:?}");
        assert!(report.waited > Duration::from_millis(500), "{report:?}");
    });
}

#[test]
fn the_application_lets_go_what_waits_when_it_likes() {
    let classes = [ClassSettings {
        policy: Policy::Conservative,
        hold_max: Duration::from_secs(10),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let legs = Legs::new().await;
        let mut sender = blocking(legs.sender);
        let busy = Busy::new();
        sender.write_all(&[1; 1000]).unwrap();
        let paced = pacing.pace("a", client(), 0).unwrap();
        let order = Order {
            choice: Choice::Copy,
            pace: paced.to_client(),
            ..Order::new(End::AfterBytes(3000))
        };
        let mut transfer = splicer.transfer(&legs.from, &legs.to, order);
        let pacer = splicer.pacer().unwrap().clone();
        let moves = |drain| {
            let pacer = pacer.clone();
            async move {
                for _ in 0..200 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let count = pacer.forward(drain);
                    if count > 0 {
                        return count;
                    }
                }
                0
            }
        };
        // It came after the worker had become runnable, as this has not blocked since: not what was asked for.
        tokio::select! {
            _ = transfer.run() => panic!("it did not wait"),
            count = moves(Drain::BeforeActive) => assert_eq!(count, 1),
        }
        drop(busy);
        let run = tokio::time::timeout(Duration::from_millis(100), transfer.run());
        assert!(run.await.is_err());
        assert_eq!(transfer.bytes(), 1000);
        let busy = Busy::new();
        sender.write_all(&[2; 1000]).unwrap();
        tokio::select! {
            _ = transfer.run() => panic!("it did not wait"),
            count = moves(Drain::Everything) => assert_eq!(count, 1),
        }
        drop(busy);
        let run = tokio::time::timeout(Duration::from_millis(100), transfer.run());
        assert!(run.await.is_err());
        assert_eq!(transfer.bytes(), 2000);
    });
}

#[test]
fn whoever_changes_what_and_when_every_byte_arrives() {
    let kinds = |random: &mut Random| {
        let rate = 1000 * (1 + random.below(50_000) as u64);
        let some = |random: &mut Random, rate| (random.below(2) == 0).then_some(rate);
        ClassSettings {
            policy: [
                Policy::Immediate,
                Policy::Conservative,
                Policy::Proportional,
                Policy::Deadline {
                    target: Duration::from_millis(2),
                },
            ][random.below(4)],
            ceiling: some(random, 5 * MB + rate),
            splice: some(random, MB + rate),
            hold_max: Duration::from_millis(1 + random.below(50) as u64),
            ..class("a")
        }
    };
    on_paced_worker(&[class("a")], |splicer, pacing| async move {
        let changing = pacing.clone();
        let changes = tokio::task::spawn_local(async move {
            let mut random = Random::new(5);
            loop {
                let millis = 1 + random.below(20) as u64;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                let interval = Duration::from_millis(100);
                changing.configure(&[kinds(&mut random)], interval).unwrap();
                // Work of its own, of any length.
                let until = Instant::now() + Duration::from_micros(random.below(3000) as u64);
                while Instant::now() < until {
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut splices = Vec::new();
        for seed in 0..24 {
            let (splicer, pacing) = (splicer.clone(), pacing.clone());
            splices.push(tokio::task::spawn_local(async move {
                let (near, a) = connection(None).await;
                let (far, b) = connection(None).await;
                let body = [sample(seed, 700_000), sample(seed + 100, 400_000)];
                let ends = [blocking(near), blocking(far)];
                let threads: Vec<_> = (0..2)
                    .map(|side| {
                        let mut end = ends[side].try_clone().unwrap();
                        let body = body[side].clone();
                        let sending = std::thread::spawn(move || {
                            end.write_all(&body).unwrap();
                            end.shutdown(std::net::Shutdown::Write).unwrap();
                        });
                        let mut end = ends[side].try_clone().unwrap();
                        let receiving = std::thread::spawn(move || {
                            let mut arrived = Vec::new();
                            end.read_to_end(&mut arrived).unwrap();
                            arrived
                        });
                        (sending, receiving)
                    })
                    .collect();
                let paced = pacing.pace("a", client(), 0).unwrap();
                let order = ExchangeOrder {
                    pace: paced.both(),
                    ..ExchangeOrder::new(CHOICES[seed as usize % 4])
                };
                let mut exchange = splicer.exchange(a, b, order);
                let end = exchange.run().await;
                assert!(matches!(end, ExchangeEnd::Closed), "{seed}: {end:?}");
                drop(exchange);
                for (side, (sending, receiving)) in threads.into_iter().enumerate() {
                    let arrived = tokio::task::spawn_blocking(move || {
                        sending.join().unwrap();
                        receiving.join().unwrap()
                    });
                    assert_same(&arrived.await.unwrap(), &body[1 - side], &format!("{seed}"));
                }
            }));
        }
        for splice in splices {
            splice.await.unwrap();
        }
        changes.abort();
        assert_eq!(pacing.classes()[0].splices, 0);
    });
}

#[test]
fn what_is_not_spliced_keeps_to_the_rate_too() {
    let classes = [ClassSettings {
        ceiling: Some(2 * MB),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let legs = Legs::new().await;
        let paced = pacing.pace("a", client(), 0).unwrap();
        let mut throttle = Throttle::new(paced.to_client(), splicer.pacer());
        let begun = Instant::now();
        for _ in 0..100 {
            throttle.pass(&legs.to, 30_000).await;
        }
        let rate = 3_000_000.0 / begun.elapsed().as_secs_f64();
        assert!(rate < 1.06 * 2_000_000.0, "{rate}");
        let mut unpaced = Throttle::new(Default::default(), splicer.pacer());
        unpaced.pass(&legs.to, u64::MAX).await;
        assert_eq!(pacing.classes()[0].bytes, 3_000_000);
    });
}

#[test]
fn who_is_held_back_is_neither_idle_nor_slow() {
    let classes = [ClassSettings {
        ceiling: Some(20_000),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let legs = Legs::new().await;
        let mut sender = blocking(legs.sender);
        sender.write_all(&[1; 40_000]).unwrap();
        let paced = pacing.pace("a", client(), 0).unwrap();
        let order = Order {
            choice: Choice::Copy,
            pace: paced.to_client(),
            idle: Duration::from_millis(150),
            rate_min: Some(carrick_splice::RateMin {
                bytes_per_second: 1_000_000,
                grace: Duration::from_millis(100),
            }),
            ..Order::new(End::AfterBytes(40_000))
        };
        let mut transfer = splicer.transfer(&legs.from, &legs.to, order);
        assert_eq!(transfer.run().await.unwrap(), Ended::Bytes);
        assert_eq!(transfer.engine(), Engine::Copy);
    });
}
