//! Paced splices: rates, waiting for a worker that has work of its own, and changes at any moment.

mod leave;

use crate::support::{HANG, Random, Sockets, assert_same, connection, sample};
use carrick_splice::{
    Choice, ClassSettings, Counters, Drain, End, Ended, Engine, ExchangeEnd, ExchangeOrder,
    INTERVAL, NetworkRate, Order, PaceHandle, Pacer, Pacing, PacketService, Policy, PoolLimits,
    SocketService, Splicer, Throttle, Transfer,
};
use std::future::Future;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

const MB: u64 = 1_000_000;

/// The engines that pace here. (The packet engine has no peers on loopback; it has its own tests.)
const CHOICES: [Choice; 4] = [Choice::Copy, Choice::Pipe, Choice::Auto, Choice::Socket];

fn class(name: &str) -> ClassSettings {
    ClassSettings::new(name)
}

/// Runs a test on a separate thread, whose runtime tells its pacer when it waits.
fn on_paced_worker<F: Future<Output = ()>>(
    classes: &[ClassSettings],
    test: impl FnOnce(Splicer, Pacing) -> F + Send,
) {
    let pacing = Pacing::new().unwrap();
    pacing.configure(classes, INTERVAL).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (parks, parked) = std::sync::mpsc::channel();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .on_thread_park(move || {
                    Pacer::on_thread_park();
                    // Only the first one is waited for.
                    let _ = parks.send(());
                })
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
                // Before the worker has been blocked once, no splice waits for it.
                let (tell, told) = tokio::sync::oneshot::channel();
                scope.spawn(move || {
                    parked.recv().unwrap();
                    tell.send(()).unwrap();
                });
                told.await.unwrap();
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

/// A connection's end for a blocking thread.
fn blocking(stream: TcpStream) -> std::net::TcpStream {
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

/// Sends and receives `bytes` on two threads. Joining yields both results.
fn send(mut sender: std::net::TcpStream, mut receiver: std::net::TcpStream, bytes: u64) -> Sending {
    let body = sample(5, bytes as usize);
    let sent = body.clone();
    let sending = std::thread::spawn(move || {
        sender.write_all(&sent).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    std::thread::spawn(move || {
        let mut arrived = Vec::new();
        receiver.read_to_end(&mut arrived).unwrap();
        sending.join().unwrap();
        assert_same(&arrived, &body, "what was sent");
    })
}

type Sending = std::thread::JoinHandle<()>;

async fn joined(sending: Vec<Sending>) {
    let joining = tokio::task::spawn_blocking(|| sending.into_iter().map(Sending::join).collect());
    let ended: Vec<_> = joining.await.unwrap();
    assert!(ended.iter().all(Result::is_ok));
}

/// Splices `bytes` to each of these clients. Returns the time.
async fn carry(
    splicer: &Splicer,
    pacing: &Pacing,
    choice: Choice,
    clients: &[(&str, IpAddr)],
    bytes: u64,
) -> Duration {
    let begun = Instant::now();
    let mut sending = Vec::new();
    for &(name, address) in clients {
        let sockets = Sockets::new().await;
        sending.push(send(
            blocking(sockets.sender),
            blocking(sockets.receiver),
            bytes,
        ));
        let (splicer, paced) = (splicer.clone(), pacing.pace(name, address, 0).unwrap());
        tokio::task::spawn_local(async move {
            let order = Order {
                choice,
                pace: paced.to_client(),
                ..Order::new(End::EndOfStream)
            };
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let _ = transfer.run().await;
        });
    }
    joined(sending).await;
    begun.elapsed()
}

/// This many bytes need at least this time at this rate: only a burst of 40 ms and what is granted in advance go at
/// once. (Upper bounds are for tests in virtual time and for the laboratory.)
#[track_caller]
fn assert_kept(took: Duration, bytes: u64, rate: u64, what: &str) {
    let least = Duration::from_secs_f64(bytes as f64 / rate as f64 - 0.12);
    assert!(took >= least, "{what}: {took:?} instead of {least:?}");
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
                let bytes = 4 * MB / count as u64;
                let took = carry(&splicer, &pacing, choice, &clients, bytes).await;
                assert_kept(took, 4 * MB, 10 * MB, &format!("{choice:?}, {count}"));
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
        let took = carry(&splicer, &pacing, Choice::Pipe, &clients, MB).await;
        assert_kept(took, 2 * MB, 4 * MB, "two of a network");
        let clients = [("splices", client()); 2];
        let took = carry(&splicer, &pacing, Choice::Copy, &clients, MB).await;
        assert_kept(took, MB, 3 * MB, "each splice");
    });
}

#[test]
fn classes_share_the_ceiling_of_their_parent() {
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
        let took = carry(&splicer, &pacing, Choice::Pipe, &clients, 2 * MB).await;
        assert_kept(took, 4 * MB, 10 * MB, "both");
        let took = carry(&splicer, &pacing, Choice::Pipe, &clients[1..], 3 * MB).await;
        assert_kept(took, 3 * MB, 10 * MB, "the small one alone");
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
            let begun = Instant::now();
            let (near, a) = connection(None).await;
            let (far, b) = connection(None).await;
            let (near, far) = (blocking(near), blocking(far));
            let twin = |stream: &std::net::TcpStream| stream.try_clone().unwrap();
            let up = send(twin(&near), twin(&far), 2 * MB);
            let down = send(twin(&far), twin(&near), 3 * MB);
            let paced = pacing.pace("a", client(), 0).unwrap();
            let order = ExchangeOrder {
                pace: paced.both(),
                ..ExchangeOrder::new(choice)
            };
            let mut exchange = splicer.exchange(a, b, order);
            let end = exchange.run().await;
            assert!(matches!(end, ExchangeEnd::Closed), "{choice:?}: {end:?}");
            joined(vec![up, down]).await;
            // Each by itself: together they would need a second.
            assert_kept(begun.elapsed(), 3 * MB, 5 * MB, &format!("{choice:?}"));
        }
    });
}

/// Keeps the worker busy with other work until dropped.
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
    // When the kernel takes a worker for one that stands still, and lets go what comes then (`PACE_HANGS_NS`).
    const HANGS: Duration = Duration::from_millis(250);
    let held = ClassSettings {
        policy: Policy::Conservative,
        hold_max: Duration::from_secs(1),
        ..class("a")
    };
    on_paced_worker(&[held], |splicer, pacing| async move {
        for choice in CHOICES {
            // The worker is idle once, or what it did for the choice before counts as well.
            let pacer = splicer.pacer().unwrap();
            while pacer.runnable_for() > HANGS / 10 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let sockets = Sockets::new().await;
            let body = sample(1, 3_000_000);
            let (mut sender, mut receiver) = (blocking(sockets.sender), blocking(sockets.receiver));
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
            let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
            let busy = Busy::new();
            let mut end = tokio::time::timeout(HANGS / 2, transfer.run()).await.ok();
            let is_held = end.is_none() && transfer.bytes() == 0;
            assert!(
                is_held || pacer.runnable_for() > HANGS,
                "{choice:?}: it did not wait"
            );
            while transfer.bytes() == 0 {
                let run = tokio::time::timeout(Duration::from_millis(20), transfer.run());
                end = run.await.ok();
            }
            assert!(pacer.runnable_for() > HANGS);
            drop(busy);
            let end = match end {
                Some(end) => end,
                None => transfer.run().await,
            };
            assert_eq!(end.unwrap(), Ended::Bytes, "{choice:?}");
            drop(transfer);
            drop((sockets.from, sockets.to));
            sending.join().unwrap();
            assert_same(&receiving.join().unwrap(), &body, "after the work");
        }
        let report = &pacing.classes()[0];
        assert!(report.yields > 0 && report.overdue > 0, "{report:?}");
        assert!(report.waited > Duration::from_millis(500), "{report:?}");
    });
}

/// Runs a transfer until it has moved this many bytes and waits for more.
async fn run_until(transfer: &mut Transfer<'_>, bytes: u64) {
    let mut is_done = false;
    while !is_done {
        is_done = transfer.bytes() >= bytes;
        let run = tokio::time::timeout(Duration::from_millis(20), transfer.run());
        assert!(run.await.is_err(), "it has ended");
    }
    assert_eq!(transfer.bytes(), bytes);
}

#[test]
fn the_application_lets_go_what_waits_when_it_likes() {
    let classes = [ClassSettings {
        policy: Policy::Conservative,
        hold_max: Duration::from_secs(10),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let sockets = Sockets::new().await;
        let mut sender = blocking(sockets.sender);
        let busy = Busy::new();
        sender.write_all(&[1; 1000]).unwrap();
        let paced = pacing.pace("a", client(), 0).unwrap();
        let order = Order {
            choice: Choice::Copy,
            pace: paced.to_client(),
            ..Order::new(End::AfterBytes(3000))
        };
        let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
        let pacer = splicer.pacer().unwrap().clone();
        let moves = |drain| {
            let pacer = pacer.clone();
            async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let count = pacer.forward(drain);
                    if count > 0 {
                        return count;
                    }
                }
            }
        };
        // It became ready after the worker had become runnable, since this has not blocked meanwhile: not what was asked for.
        tokio::select! {
            _ = transfer.run() => panic!("it did not wait"),
            count = moves(Drain::BeforeActive) => assert_eq!(count, 1),
        }
        drop(busy);
        run_until(&mut transfer, 1000).await;
        let busy = Busy::new();
        sender.write_all(&[2; 1000]).unwrap();
        tokio::select! {
            _ = transfer.run() => panic!("it did not wait"),
            count = moves(Drain::Everything) => assert_eq!(count, 1),
        }
        drop(busy);
        run_until(&mut transfer, 2000).await;
    });
}

#[test]
fn every_byte_arrives_whatever_changes_and_when() {
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
                // Other work, of any length.
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
        let sockets = Sockets::new().await;
        let paced = pacing.pace("a", client(), 0).unwrap();
        let mut throttle = Throttle::new(paced.to_client(), splicer.pacer());
        let begun = Instant::now();
        for _ in 0..100 {
            throttle.pass(&sockets.to, 30_000).await;
        }
        assert_kept(begun.elapsed(), 3 * MB, 2 * MB, "what is passed on");
        let mut unpaced = Throttle::new(Default::default(), splicer.pacer());
        unpaced.pass(&sockets.to, u64::MAX).await;
        assert_eq!(pacing.classes()[0].bytes, 3_000_000);
    });
}

#[test]
fn a_delayed_splice_is_neither_idle_nor_slow() {
    let classes = [ClassSettings {
        ceiling: Some(20_000),
        ..class("a")
    }];
    on_paced_worker(&classes, |splicer, pacing| async move {
        let sockets = Sockets::new().await;
        let mut sender = blocking(sockets.sender);
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
        let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
        assert_eq!(transfer.run().await.unwrap(), Ended::Bytes);
        assert_eq!(transfer.engine(), Engine::Copy);
    });
}
