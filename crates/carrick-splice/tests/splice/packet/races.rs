//! Tunnels that are given to the kernel while bytes and ends arrive from both sides, at any moment.

use super::bed::*;
use crate::support::*;
use carrick_splice::ExchangeEnd;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Number of concurrent tunnels.
const AT_ONCE: u64 = 16;

/// Sends as determined by the seed: short pieces, and pauses as short as the engine's checks. Then closes.
fn speak(mut stream: TcpStream, seed: u64, side: u64) {
    let mut random = Random::new(seed * 2 + side);
    let said = sample(seed * 2 + side, random.magnitude(400_000));
    let mut rest = &said[..];
    while !rest.is_empty() {
        let piece = 1 + random.magnitude(rest.len());
        stream.write_all(&rest[..piece]).unwrap();
        rest = &rest[piece..];
        match random.below(4) {
            0 => {}
            1 => std::thread::sleep(Duration::from_millis(random.below(6) as u64)),
            _ => std::thread::sleep(Duration::from_micros(random.magnitude(3000) as u64)),
        }
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Both directions at once; compares the received bytes.
fn converse(mut stream: TcpStream, seed: u64, side: u64) {
    let writer = stream.try_clone().unwrap();
    let mut heard = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || speak(writer, seed, side));
        stream.read_to_end(&mut heard).unwrap();
    });
    let mut random = Random::new(seed * 2 + (1 - side));
    let said = sample(seed * 2 + (1 - side), random.magnitude(400_000));
    assert_same(&heard, &said, &format!("seed {seed}, side {side}"));
}

#[test]
fn short_tunnels_with_something_to_say_at_any_moment() {
    let seeds = seeds("CARRICK_TORTURE_SEEDS", 320);
    let mut by_kernel = 0;
    // As many as the proxy can handle in its time.
    for first in (0..seeds).step_by(320) {
        let Some(bed) = Bed::new() else {
            return;
        };
        let last = (first + 320).min(seeds);
        let count = (last - first) as usize;
        let serving = bed.serve(V4[1], count, |mut stream| {
            let mut name = [0; 8];
            stream.read_exact(&mut name).unwrap();
            converse(stream, u64::from_le_bytes(name), 1);
        });
        let proxying = bed.tunnels_of(V4, (count, 1024), HANG);
        let clients: Vec<_> = (0..AT_ONCE)
            .map(|lane| {
                bed.on(Host::Client, move || {
                    for seed in (first + lane..last).step_by(AT_ONCE as usize) {
                        let mut stream = connect(V4[0]);
                        stream.write_all(&seed.to_le_bytes()).unwrap();
                        converse(stream, seed, 0);
                    }
                })
            })
            .collect();
        clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
        serving.join().unwrap();
        for told in proxying.join().unwrap() {
            assert!(matches!(told.end, ExchangeEnd::Closed), "{told:?}");
            by_kernel += told.by_kernel;
        }
    }
    if by_kernel == 0 {
        carrick_test::lacks!("this machine is so slow that no tunnel was at rest for the kernel");
    }
}
