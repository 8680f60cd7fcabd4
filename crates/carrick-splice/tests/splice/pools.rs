//! A splicer's resources are bounded, returned, and never leak; without pipes everything is copied.

use crate::support::*;
use carrick_splice::{
    Choice, Counters, End, Ended, ExchangeOrder, Order, PoolLimits, Reason, Splicer,
};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

/// One transfer of `length` bytes that must arrive completely.
async fn transfer_whole(splicer: &Splicer, choice: Choice, length: usize) {
    let mut sockets = Sockets::new().await;
    let sent = sample(length as u64, length);
    let order = Order {
        choice,
        ..Order::new(End::AfterBytes(length as u64))
    };
    let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
    let (ended, arrived, written) = tokio::join!(
        transfer.run(),
        receive(&mut sockets.receiver, length),
        sockets.sender.write_all(&sent)
    );
    written.unwrap();
    assert_eq!(ended.unwrap(), Ended::Bytes);
    assert_same(&arrived, &sent, "body");
}

fn open_pipes() -> usize {
    let links = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links
        .filter(|target| target.to_string_lossy().starts_with("pipe:"))
        .count()
}

#[test]
fn idle_connections_hold_neither_buffer_nor_pipe() {
    on_worker(async {
        let splicer = splicer();
        for choice in CHOICES {
            let mut sockets = Sockets::new().await;
            let order = ExchangeOrder {
                choice,
                ..ExchangeOrder::default()
            };
            let mut exchange = splicer.exchange(&sockets.from, &sockets.to, order);
            let talk = async {
                for length in [10, 100_000] {
                    let sent = sample(1, length);
                    let (written, arrived) = tokio::join!(
                        sockets.sender.write_all(&sent),
                        receive(&mut sockets.receiver, length)
                    );
                    written.unwrap();
                    assert_same(&arrived, &sent, "sent");
                    // Received bytes are noted a moment later.
                    let counters = splicer.counters();
                    until(|| counters.buffers_in_use.get() == 0).await;
                    until(|| counters.pipes_open.get() == counters.pipes_pooled.get()).await;
                }
            };
            tokio::select! {
                end = exchange.run() => panic!("{end:?}"),
                () = talk => {}
            }
        }
    });
}

#[test]
fn beyond_the_limit_of_pipes_bytes_are_copied() {
    on_worker(async {
        let limits = PoolLimits {
            pipes_max: 0,
            ..PoolLimits::default()
        };
        let splicer = Splicer::new(limits, Arc::new(Counters::default()));
        transfer_whole(&splicer, Choice::Pipe, 500_000).await;
        let counters = splicer.counters();
        assert_eq!(
            (counters.pipe_bytes.get(), counters.copy_bytes.get()),
            (0, 500_000)
        );
        assert!(counters.pipes_refused.get() > 0);
        assert!(counters.reason(Reason::PipesExhausted).get() > 0);
    });
}

#[test]
fn stalled_exchanges_hold_no_more_pipes_than_allowed() {
    on_worker(async {
        let limits = PoolLimits {
            pipes_max: 3,
            ..PoolLimits::default()
        };
        let splicer = Splicer::new(limits, Arc::new(Counters::default()));
        let flood = sample(1, 1_000_000);
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let (splicer, flood) = (splicer.clone(), flood.clone());
            tasks.push(tokio::task::spawn_local(async move {
                let mut sockets = Sockets::tiny().await;
                let order = Order {
                    choice: Choice::Pipe,
                    ..Order::new(End::AfterBytes(flood.len() as u64))
                };
                let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
                let stalled = async {
                    until(|| splicer.counters().pipes_refused.get() > 0).await;
                    assert!(splicer.counters().pipes_open.get() <= 3);
                    receive(&mut sockets.receiver, flood.len()).await
                };
                let (ended, arrived, sent) =
                    tokio::join!(transfer.run(), stalled, sockets.sender.write_all(&flood));
                sent.unwrap();
                assert_eq!(ended.unwrap(), Ended::Bytes);
                assert_same(&arrived, &flood, "flood");
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert!(splicer.counters().pipes_refused.get() > 0);
    });
}

#[test]
fn pools_keep_no_more_than_allowed_and_close_what_is_left() {
    in_a_process_of_its_own("pools::alone_pools_keep_no_more_than_allowed");
}

#[test]
#[ignore = "counts the pipes of its process: run by the test above"]
fn alone_pools_keep_no_more_than_allowed() {
    on_worker(async {
        let before = open_pipes();
        let limits = PoolLimits {
            pipes_idle_max: 2,
            buffers_idle_max: 2,
            ..PoolLimits::default()
        };
        let counters = Arc::new(Counters::default());
        let splicer = Splicer::new(limits, counters.clone());
        let mut tasks = Vec::new();
        for _ in 0..6 {
            let splicer = splicer.clone();
            tasks.push(tokio::task::spawn_local(async move {
                for choice in CHOICES {
                    // Stalled in the middle, then dropped with bytes in flight, or taken back.
                    let mut sockets = Sockets::tiny().await;
                    let flood = sample(1, 500_000);
                    let mut transfer = splicer.transfer(
                        &sockets.from,
                        &sockets.to,
                        Order {
                            choice,
                            ..Order::new(End::EndOfStream)
                        },
                    );
                    tokio::select! {
                        ended = transfer.run() => panic!("{ended:?}"),
                        _ = fill(&mut sockets.sender, &sockets.from, &flood) => {}
                    }
                    if choice == Choice::Auto {
                        drop(transfer.unsplice().await);
                    }
                    transfer_whole(&splicer, choice, 400_000).await;
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert!(
            counters.pipes_pooled.get() <= 2 && counters.buffers_pooled.get() <= 2,
            "{counters:?}"
        );
        assert_eq!(counters.pipes_open.get(), counters.pipes_pooled.get());
        assert!(
            counters.pipes_closed.get() > 0,
            "pipes with bytes in them went back to the pool: {counters:?}"
        );
        assert_eq!(counters.buffers_in_use.get(), 0);
        assert_eq!(
            open_pipes() - before,
            2 * counters.pipes_pooled.get() as usize
        );
        drop(splicer);
        assert_eq!(open_pipes(), before);
        assert_eq!(
            (
                counters.pipes_open.get(),
                counters.pipes_pooled.get(),
                counters.buffers_pooled.get()
            ),
            (0, 0, 0)
        );
    });
}

#[test]
fn without_descriptors_bytes_are_copied() {
    in_a_process_of_its_own("pools::alone_without_descriptors");
}

#[test]
#[ignore = "uses up the descriptors of its process: run by the test above"]
fn alone_without_descriptors() {
    on_worker(async {
        let splicer = splicer();
        let mut sockets = Sockets::new().await;
        let sent = sample(1, 900_000);
        let order = Order {
            choice: Choice::Pipe,
            ..Order::new(End::AfterBytes(900_000))
        };
        let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
        rustix::process::setrlimit(
            rustix::process::Resource::Nofile,
            rustix::process::Rlimit {
                current: Some(256),
                maximum: Some(256),
            },
        )
        .unwrap();
        let mut hoard = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            hoard.push(file);
        }
        let (ended, arrived, written) = tokio::join!(
            transfer.run(),
            receive(&mut sockets.receiver, 900_000),
            sockets.sender.write_all(&sent)
        );
        written.unwrap();
        assert_eq!(ended.unwrap(), Ended::Bytes);
        assert_same(&arrived, &sent, "without descriptors");
        let counters = splicer.counters();
        assert_eq!(counters.pipe_bytes.get(), 0);
        assert!(
            counters.pipes_refused.get() > 0 && counters.reason(Reason::PipesExhausted).get() > 0
        );
        // Once there are descriptors again, there are pipes again.
        drop(hoard);
        for _ in 0..100 {
            transfer_whole(&splicer, Choice::Pipe, 100_000).await;
        }
        assert!(counters.pipe_bytes.get() > 0, "{counters:?}");
    });
}

#[test]
fn a_pipe_of_another_size_will_do() {
    on_worker(async {
        for pipe_bytes in [64 << 10, 1 << 30] {
            let limits = PoolLimits {
                pipe_bytes,
                ..PoolLimits::default()
            };
            let splicer = Splicer::new(limits, Arc::new(Counters::default()));
            transfer_whole(&splicer, Choice::Pipe, 3_000_000).await;
            assert!(splicer.counters().pipe_bytes.get() > 0);
            assert_eq!(
                splicer.counters().pipes_small.get() > 0,
                pipe_bytes == 1 << 30
            );
        }
    });
}

#[test]
fn the_state_of_a_splice_is_small() {
    on_worker(async {
        let sockets = Sockets::new().await;
        let splicer = splicer();
        let exchange = splicer.exchange(&sockets.from, &sockets.to, ExchangeOrder::default());
        let transfer = splicer.transfer(&sockets.from, &sockets.to, Order::new(End::EndOfStream));
        let (exchange_bytes, transfer_bytes) = (size_of_val(&exchange), size_of_val(&transfer));
        assert!(
            exchange_bytes <= 672,
            "an exchange is {exchange_bytes} bytes"
        );
        assert!(
            transfer_bytes <= 512,
            "a transfer is {transfer_bytes} bytes"
        );
        let (mut exchange, mut transfer) = (exchange, transfer);
        assert!(size_of_val(&exchange.run()) <= 64);
        assert!(size_of_val(&transfer.run()) <= 64);
    });
}
