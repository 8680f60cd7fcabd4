//! Rates and policies through the whole program, with every engine: rates are kept, and all bytes arrive.
use super::ENGINES;
use crate::support::carrick::{FORWARD_TEXT, PROGRAM, switch_text, tunnel_text};
use crate::support::random::{Random, hash};
use crate::support::server::{Serving, answer_requests};
use crate::support::{Carrick, Peer, Place, Server, wait_until};
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

const MB: usize = 1 << 20;

/// Eight megabytes per second for each network.
const LIMITED: &str = "[pace]\ndefault = \"all\"\n[pace.classes.all]\nnetwork_ceiling = \"8 MB\"\nnetwork_prefix_v4 = 8\n";

/// An idle class may send a burst at once, and one turn in advance.
const BURST_BYTES: usize = 800_000;

/// The least time for this many bytes at eight megabytes per second, with a tolerance for clocks.
fn at_least(bytes: usize) -> Duration {
    Duration::from_secs_f64((bytes - BURST_BYTES) as f64 / (8 * MB) as f64 * 0.98)
}

fn with_engine(engine: &str, text: &str) -> String {
    format!("[splice]\nengine = \"{engine}\"\n{text}{LIMITED}")
}

/// Reads to the end; returns hash and length.
fn read_all(mut peer: Peer) -> ([u8; 32], usize) {
    let bytes = peer.read_to_end();
    (hash(&bytes), bytes.len())
}

#[test]
fn a_network_s_tunnels_share_its_rate_in_each_direction() {
    for engine in ENGINES {
        let place = Place::claim();
        let server = Server::listen(&place);
        let text = with_engine(engine, &tunnel_text(&[server.address()]));
        let carrick = Carrick::start(&place, &text);
        let begun = Instant::now();
        let mut threads = Vec::new();
        for seed in 0..3 {
            let client = carrick.connect_tunnel();
            let upstream = server.accept();
            // Down and up at the same time, each at the full rate.
            for (seed, from, to) in [(seed, &client, &upstream), (seed + 100, &upstream, &client)] {
                let (mut sender, receiver) = (from.second(), to.second());
                threads.push(std::thread::spawn(move || {
                    let body = Random::new(seed).bytes(2 * MB);
                    let expected = (hash(&body), body.len());
                    let sending = std::thread::spawn(move || {
                        sender.send(&body);
                        sender.half_close();
                    });
                    assert!(read_all(receiver) == expected, "{seed}");
                    sending.join().expect("sent");
                }));
            }
        }
        for thread in threads {
            thread.join().expect(engine);
        }
        assert!(
            begun.elapsed() >= at_least(6 * MB),
            "{engine}: {:?}",
            begun.elapsed()
        );
        let moved = carrick.metric("carrick_pace_bytes_total", &["class=\"all\""]);
        assert!(moved >= (12 * MB) as f64, "{engine}: {moved}");
    }
}

/// Answers according to the target: of known length, in large and in small chunks, or until close.
fn bodies(place: &Place) -> Serving {
    Server::listen(place).serve(|peer, _| {
        answer_requests(peer, |head| {
            let body = body_of(head.split(' ').nth(1).unwrap_or_default());
            let mut answer = b"HTTP/1.1 200 OK\r\n".to_vec();
            let piece = if head.contains("/large") {
                300_000
            } else {
                5000
            };
            if head.contains("/length") || head.contains("/stored") {
                let control = if head.contains("/stored") {
                    "max-age=60"
                } else {
                    "no-store"
                };
                answer.extend(
                    format!(
                        "Cache-Control: {control}\r\nContent-Length: {}\r\n\r\n",
                        body.len()
                    )
                    .bytes(),
                );
                answer.extend(&body);
            } else {
                answer.extend(b"Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n");
                for chunk in body.chunks(piece) {
                    answer.extend(format!("{:x}\r\n", chunk.len()).bytes());
                    answer.extend(chunk);
                    answer.extend(b"\r\n");
                }
                answer.extend(b"0\r\n\r\n");
            }
            answer
        });
    })
}

fn body_of(target: &str) -> Vec<u8> {
    Random::new(target.len() as u64).bytes(3 * MB)
}

#[test]
fn whatever_its_framing_a_response_keeps_to_the_rate() {
    for engine in ENGINES {
        let place = Place::claim();
        let server = bodies(&place);
        let text = with_engine(engine, &switch_text(&[server.address()]));
        let carrick = Carrick::start(&place, &text);
        let mut client = carrick.connect();
        for target in ["/length", "/large", "/small"] {
            let begun = Instant::now();
            let response = client.ask(&format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
            let took = begun.elapsed();
            assert!(
                hash(&response.body) == hash(&body_of(target)),
                "{engine} {target}"
            );
            assert!(took >= at_least(3 * MB), "{engine} {target}: {took:?}");
        }
    }
}

#[test]
fn what_is_fetched_into_the_cache_keeps_to_the_rate_and_what_is_there_does_not() {
    let place = Place::claim();
    let server = bodies(&place);
    let carrick = Carrick::start(
        &place,
        &format!("{FORWARD_TEXT}[cache]\nmemory = \"64 MB\"\n{LIMITED}"),
    );
    let get = || {
        let mut client = Peer::connect(carrick.forward_address());
        let target = "/stored";
        let request = format!(
            "GET http://{}{target} HTTP/1.1\r\nHost: x\r\n\r\n",
            server.address()
        );
        let response = client.ask(&request);
        assert!(hash(&response.body) == hash(&body_of(target)));
    };
    let begun = Instant::now();
    get();
    assert!(begun.elapsed() >= at_least(3 * MB), "{:?}", begun.elapsed());
    let paced = carrick.metric("carrick_pace_bytes_total", &["class=\"all\""]);
    get();
    assert_eq!(
        carrick.metric("carrick_pace_bytes_total", &["class=\"all\""]),
        paced
    );
}

#[test]
fn a_rate_that_is_changed_holds_for_tunnels_that_stand() {
    for engine in ENGINES {
        let place = Place::claim();
        let server = Server::listen(&place);
        let text = format!(
            "[splice]\nengine = \"{engine}\"\n{}[pace]\ndefault = \"all\"\n[pace.classes.all]\nceiling = \"20 KB\"\n",
            tunnel_text(&[server.address()])
        );
        let carrick = Carrick::start(&place, &text);
        let client = carrick.connect_tunnel();
        let mut upstream = server.accept();
        let body = Random::new(7).bytes(4 * MB);
        let expected = (hash(&body), body.len());
        let receiving = std::thread::spawn(move || read_all(client));
        let sending = std::thread::spawn(move || {
            upstream.send(&body);
            upstream.half_close();
            // Until the other side has everything, too.
            upstream.read_to_end();
        });
        // In the process or in the kernel.
        let held = ["rate_waits", "kernel_holds"].map(|how| format!("carrick_pace_{how}_total"));
        wait_until("the old rate to hold it back", || {
            held.iter().any(|metric| carrick.metric(metric, &[]) > 0.0)
        });
        // It would take minutes.
        assert!(!receiving.is_finished(), "{engine}");
        let admin = carrick.admin().to_string();
        let change = Command::new(PROGRAM)
            .args(["pace", "all", "ceiling=none", "--admin", &admin])
            .output()
            .expect("carrick");
        assert!(change.status.success(), "{change:?}");
        assert!(receiving.join().expect("received") == expected, "{engine}");
        sending.join().expect("sent");
    }
}

/// Two classes with the same parent, both of which could use all of its rate. (How they share it is tested in virtual time.)
#[test]
fn classes_of_different_priority_keep_to_the_rate_of_their_parent() {
    const LATER_PORT: u16 = 15_555;
    for engine in ENGINES {
        let place = Place::claim();
        let server = Server::listen(&place);
        let text = format!(
            "[splice]\nengine = \"{engine}\"\n[pace]\ndefault = \"first\"\n[pace.classes.line]\nceiling = \"2 MB\"\n\
             [pace.classes.first]\nparent = \"line\"\npriority = 10\n[pace.classes.later]\nparent = \"line\"\npriority = 20\n\
             [[listener]]\nlisten = \"{{ip}}:{LATER_PORT}\"\nmode = \"tunnel\"\npace = \"later\"\n[[listener.route]]\nupstream = \"u\"\n{}",
            tunnel_text(&[server.address()])
        );
        let carrick = Carrick::start(&place, &text);
        let body = Random::new(5).bytes(MB);
        let begun = Instant::now();
        let stream = |client: Peer| {
            let mut upstream = server.accept();
            let body = body.clone();
            std::thread::spawn(move || {
                let sending = std::thread::spawn({
                    let body = body.clone();
                    move || {
                        upstream.send(&body);
                        upstream.half_close();
                        upstream.read_to_end();
                    }
                });
                assert!(read_all(client) == (hash(&body), body.len()));
                sending.join().expect("sent");
            })
        };
        let later_at = SocketAddr::new(carrick.tunnel_address().ip(), LATER_PORT);
        let later = stream(Peer::connect(later_at));
        let first = stream(carrick.connect_tunnel());
        first.join().expect("first");
        later.join().expect("later");
        let took = begun.elapsed();
        // One second's worth, minus the burst.
        assert!(took >= Duration::from_millis(700), "{engine}: {took:?}");
        for class in ["first", "later"] {
            let label = format!("class=\"{class}\"");
            let moved = carrick.metric("carrick_pace_bytes_total", &[&label]);
            assert!(moved >= body.len() as f64, "{engine}: {class}: {moved}");
        }
    }
}

#[test]
fn policies_change_under_load_and_nothing_is_lost() {
    for engine in ENGINES {
        let place = Place::claim();
        let server = bodies(&place);
        let text = format!(
            "[splice]\nengine = \"{engine}\"\n{}[pace]\ndefault = \"all\"\ninterval = \"100ms\"\n[pace.classes.all]\n",
            switch_text(&[server.address()])
        );
        let carrick = Carrick::start(&place, &text);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let loads: Vec<_> = (0..6)
                .map(|number| {
                    let carrick = &carrick;
                    scope.spawn(move || {
                        let mut client = carrick.connect();
                        for round in 0..6 {
                            let target = ["/length", "/large", "/small"][(number + round) % 3];
                            let request =
                                format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n");
                            let response = client.ask(&request);
                            assert!(hash(&response.body) == hash(&body_of(target)), "{target}");
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                let mut random = Random::new(3);
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let policy = [
                        "policy=conservative",
                        "policy=proportional",
                        "policy=deadline&target=2ms",
                        "policy=immediate",
                    ][random.below(4)];
                    let ceiling = ["ceiling=none", "ceiling=30MB"][random.below(2)];
                    let target = format!("/pace/all?{policy}&{ceiling}");
                    let request = format!(
                        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
                    );
                    let mut admin = Peer::connect(carrick.admin());
                    admin.send(request);
                    let answer = admin.read_response("POST");
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            for load in loads {
                load.join().expect(engine);
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
