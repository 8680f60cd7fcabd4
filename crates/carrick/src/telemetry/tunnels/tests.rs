//! Byte counts from two sides, the worker and the kernel.
use super::*;
use carrick_splice::LiveDirection;
use std::time::Duration;

pub(crate) fn about(label: u64) -> About {
    About {
        label,
        begun: Instant::now(),
        job: Job::Tunnel,
        listener: SocketAddr::from(([10, 0, 0, 1], 443)),
        client: SocketAddr::from(([192, 0, 2, 7], 51234)),
        target: (*b"a.example").into(),
        upstream: None,
        server: SocketAddr::from(([10, 0, 0, 11], 443)),
        class: None,
        bytes_before: [10, 20],
    }
}

fn splice(forwarded: [u64; 2]) -> LiveSplice {
    LiveSplice {
        label: 1,
        legs: [None, None],
        directions: forwarded.map(|forwarded_bytes| LiveDirection {
            forwarded_bytes,
            relayed_bytes: 0,
            waiting_bytes: 0,
            backlog_bytes: None,
        }),
    }
}

fn noted(tunnel: &Tunnel, side: usize, moved: u64, beside_live: u64, engine: Engine) {
    let way = &tunnel.ways[side];
    way.note(moved, engine);
    way.beside_live_bytes.store(beside_live, Relaxed);
}

fn seen(tunnel: &Arc<Tunnel>, splice: Option<LiveSplice>) -> Seen {
    TunnelSnapshot::new(0, Arc::clone(tunnel)).with(splice, None)
}

#[test]
fn engines_are_noted_by_their_numbers() {
    for (number, engine) in ENGINES.into_iter().enumerate() {
        assert_eq!(engine as usize, number);
    }
}

#[test]
fn bytes_are_the_process_s_and_the_kernel_s() {
    let tunnel = Arc::new(Tunnel::new(about(1)));
    assert_eq!(seen(&tunnel, None).bytes, [10, 20]);
    // The process has moved 5 and 7; the kernel 100 and 200, of which the worker has noted 60 and 0.
    noted(&tunnel, 0, 65, 5, Engine::Socket);
    noted(&tunnel, 1, 7, 7, Engine::Copy);
    let in_kernel = seen(&tunnel, Some(splice([100, 200])));
    assert_eq!(in_kernel.bytes, [115, 227]);
    assert_eq!(in_kernel.uncounted_bytes, 40 + 200);
    let view = View {
        tunnels: vec![in_kernel, seen(&tunnel, None)],
        unseen: None,
    };
    assert_eq!(view.uncounted_bytes(Engine::Socket), 240);
    assert_eq!(view.uncounted_bytes(Engine::Packet), 0);
    // It has left the kernel: the worker knows all.
    noted(&tunnel, 0, 105, 5, Engine::Socket);
    noted(&tunnel, 1, 207, 7, Engine::Socket);
    assert_eq!(seen(&tunnel, None).bytes, [115, 227]);
    assert_eq!(seen(&tunnel, None).uncounted_bytes, 0);
    // It enters the kernel again: the earlier bytes count.
    noted(&tunnel, 0, 105, 105, Engine::Socket);
    assert_eq!(seen(&tunnel, Some(splice([1, 0]))).bytes, [116, 227]);
}

/// No byte is counted twice, whenever a tunnel leaves or enters the kernel.
#[test]
fn bytes_are_never_too_many() {
    let tunnel = Arc::new(Tunnel::new(about(1)));
    noted(&tunnel, 0, 5, 5, Engine::Copy);
    let before = TunnelSnapshot::new(0, Arc::clone(&tunnel));
    // The kernel has moved 100; the tunnel leaves it, 10 bytes go through the process, and it enters the kernel again.
    let splice = splice([100, 0]);
    noted(&tunnel, 0, 115, 115, Engine::Socket);
    assert_eq!(before.with(Some(splice), None).bytes[0], 10 + 115);
}

#[test]
fn the_engine_is_that_of_the_larger_direction() {
    let tunnel = Arc::new(Tunnel::new(about(1)));
    assert_eq!(seen(&tunnel, None).engine, Engine::Copy);
    noted(&tunnel, 0, 1000, 1000, Engine::Pipe);
    noted(&tunnel, 1, 10, 10, Engine::Copy);
    assert_eq!(seen(&tunnel, None).engine, Engine::Pipe);
    noted(&tunnel, 1, 1000, 1000, Engine::Copy);
    assert_eq!(seen(&tunnel, None).engine, Engine::Copy);
    let splice = splice([0, 0]);
    assert_eq!(seen(&tunnel, Some(splice)).engine, Engine::Socket);
}

#[test]
fn a_list_has_places_until_it_is_full() {
    let tunnels = Tunnels::default();
    let places = [0, CHUNK_TUNNELS - 1, CHUNK_TUNNELS, 5 * CHUNK_TUNNELS + 3];
    for (label, place) in (1..).zip(places) {
        tunnels.set(place, Some(Arc::new(Tunnel::new(about(label)))));
    }
    let labels = |tunnels: &Tunnels| -> Vec<u64> {
        tunnels.iter().map(|tunnel| tunnel.about.label).collect()
    };
    // Slots are filled from the lowest on, so no chunk in between is missing.
    assert_eq!(labels(&tunnels), [1, 2, 3]);
    tunnels.set(CHUNK_TUNNELS - 1, None);
    assert_eq!(labels(&tunnels), [1, 3]);
    tunnels.set(LISTED_MAX, Some(Arc::new(Tunnel::new(about(9)))));
    assert_eq!(labels(&tunnels), [1, 3]);
}

#[test]
fn tunnels_can_be_read_while_they_come_and_go() {
    let tunnels = Arc::new(Tunnels::default());
    let looker = {
        let tunnels = Arc::clone(&tunnels);
        std::thread::spawn(move || {
            let begun = Instant::now();
            let mut seen = 0;
            while begun.elapsed() < Duration::from_secs(60) {
                for tunnel in tunnels.iter() {
                    assert_eq!(tunnel.about.target, (*b"a.example").into());
                    if tunnel.about.label == u64::MAX {
                        return seen;
                    }
                    seen += 1;
                }
            }
            panic!("the last one was not seen");
        })
    };
    for round in 0..20_000_usize {
        let tunnel = Tunnel::new(about(round as u64));
        tunnels.set(round % 7, Some(Arc::new(tunnel)));
        tunnels.set((round + 3) % 7, None);
    }
    tunnels.set(0, Some(Arc::new(Tunnel::new(about(u64::MAX)))));
    looker.join().unwrap();
}
