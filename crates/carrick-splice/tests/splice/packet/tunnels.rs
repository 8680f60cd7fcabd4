//! Tunnels from their beginning to their end.

use super::bed::*;
use crate::support::*;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

#[test]
fn a_tunnel_goes_packet_by_packet_and_ends() {
    for addresses in [V4, V6] {
        let Some(bed) = Bed::new() else {
            return;
        };
        let serving = bed.serve(addresses[1], 1, answer);
        let proxying = bed.tunnels(addresses, 1);
        let asking = bed.on(Host::Client, move || ask_and_close(addresses[0], 200));
        let sent = asking.join().unwrap();
        assert_eq!(serving.join().unwrap(), [sent.0]);
        proxying.join().unwrap()[0].assert_closed(sent);
    }
}

#[test]
fn many_tunnels_at_the_same_time() {
    const COUNT: usize = 64;
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], COUNT, answer);
    let proxying = bed.tunnels(V4, COUNT);
    let clients: Vec<_> = (0..COUNT)
        .map(|number| {
            bed.on(Host::Client, move || {
                let mut random = Random::new(number as u64);
                let mut stream = connect(V4[0]);
                let mut sum = (0, 0);
                for _ in 0..20 {
                    let bytes = ask(
                        &mut stream,
                        random.magnitude(100_000),
                        random.magnitude(100_000),
                    );
                    sum = (sum.0 + bytes.0, sum.1 + bytes.1);
                    if random.below(4) == 0 {
                        std::thread::sleep(Duration::from_millis(random.below(20) as u64));
                    }
                }
                stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
                sum
            })
        })
        .collect();
    let mut sent: Vec<_> = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect();
    sent.sort_unstable();
    serving.join().unwrap();
    let told = proxying.join().unwrap();
    let mut counted: Vec<_> = told.iter().map(|told| told.bytes).collect();
    counted.sort_unstable();
    assert_eq!(counted, sent);
    let by_kernel: u64 = told.iter().map(|told| told.by_kernel).sum();
    assert!(by_kernel > 0);
}

#[test]
fn one_side_ends_and_the_other_goes_on() {
    let Some(bed) = Bed::new() else {
        return;
    };
    const BYTES: usize = 3_000_000;
    let serving = bed.serve(V4[1], 2, |mut stream| {
        let mut first = [0];
        greet_back(&mut stream);
        stream.read_exact(&mut first).unwrap();
        let mut read = Vec::new();
        if first[0] == 0 {
            // The client ends first.
            stream.read_to_end(&mut read).unwrap();
            stream.write_all(&sample(1, BYTES)).unwrap();
        } else {
            stream.shutdown(Shutdown::Write).unwrap();
            stream.read_to_end(&mut read).unwrap();
            assert_same(&read, &sample(2, BYTES), "what the server read");
        }
    });
    let proxying = bed.tunnels(V4, 2);
    let clients = [0, 1].map(|first| {
        bed.on(Host::Client, move || {
            let mut stream = connect(V4[0]);
            greet(&mut stream);
            stream.write_all(&[first]).unwrap();
            let mut read = Vec::new();
            if first == 0 {
                stream.shutdown(Shutdown::Write).unwrap();
                stream.read_to_end(&mut read).unwrap();
                assert_same(&read, &sample(1, BYTES), "what the client read");
            } else {
                stream.read_to_end(&mut read).unwrap();
                stream.write_all(&sample(2, BYTES)).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            }
        })
    });
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    serving.join().unwrap();
    for told in proxying.join().unwrap() {
        let (few, many) = (GREETING, GREETING + BYTES as u64);
        let bytes = if told.bytes.0 < told.bytes.1 {
            (few + 1, many)
        } else {
            (many + 1, few)
        };
        told.assert_closed(bytes);
    }
}

#[test]
fn places_are_used_again() {
    const COUNT: usize = 7;
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], COUNT, answer);
    // Fewer slots than tunnels, one after another; the proxy keeps listening.
    let proxying = bed.tunnels_of(V4, (COUNT, 2), HANG);
    let asking = bed.on(Host::Client, || {
        (1..=COUNT)
            .map(|number| {
                let sent = ask_and_close(V4[0], 3);
                // Until the proxy has closed its sockets.
                until_over(&tunnels(), number);
                sent
            })
            .collect::<Vec<_>>()
    });
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    for (told, sent) in proxying.join().unwrap().iter().zip(sent) {
        told.assert_closed(sent);
    }
}
