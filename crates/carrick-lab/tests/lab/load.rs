//! The load generator over loopback: what it asks for, and that it notices whatever is done to the bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

#[path = "load/server.rs"]
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carrick_lab::load::outcome::LoadOutcome;
use carrick_lab::load::plan::{Arrival, Class, Kind, LoadPlan, Route};
use carrick_lab::load::run::run;
use carrick_lab::origin::quota::RequestsPerConnection;
use carrick_test::PATIENCE;

use server::{Framing, Harm, Manner, Origin, PLAIN, relay};

fn plan(address: SocketAddr, body_bytes: u64) -> LoadPlan {
    LoadPlan {
        route: Route::Direct {
            address,
            host: None,
        },
        arrival: Arrival::Closed {
            clients: 2,
            think_ms: 0.0,
        },
        classes: vec![class("get", Kind::NonCacheable, body_bytes)],
        requests_per_connection: RequestsPerConnection::Unlimited,
        warm_up_seconds: 0.0,
        measured_seconds: PATIENCE.as_secs_f64(),
        shutdown_seconds: 0.0,
        seed: 1,
        verify: true,
        timeout_seconds: PATIENCE.as_secs_f64(),
        local_ports: None,
    }
}

fn class(name: &str, kind: Kind, body_bytes: u64) -> Class {
    Class {
        name: name.into(),
        weight: 1.0,
        kind,
        body_bytes,
        path: None,
        extension: String::new(),
        http_1_0: false,
        abort_share: 0.0,
        fields: Vec::new(),
    }
}

/// Makes the load until `event` returns.
fn load_until(plan: &LoadPlan, event: impl FnOnce() + Send) -> LoadOutcome {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            event();
            stop.store(true, Ordering::Relaxed);
        });
        run(plan, 1, &stop).unwrap()
    })
}

/// Makes the load until the origin has seen so many requests. All but those of each client's last one have ended then.
fn load_until_seen(plan: &LoadPlan, origin: &Origin, requests: usize) -> LoadOutcome {
    load_until(plan, || origin.wait_until(|seen| seen.len() >= requests))
}

/// Interrupts a run of the program, as Ctrl-C does.
fn interrupt(program: &Child) {
    let killed = Command::new("kill")
        .args(["-INT", &program.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
}

/// Of all kinds, as one.
fn failed(outcome: &LoadOutcome) -> BTreeMap<String, u64> {
    outcome
        .classes
        .iter()
        .flat_map(|class| class.failed.clone())
        .collect()
}

#[test]
fn a_right_origin_has_no_failures_however_it_frames() {
    for framing in [Framing::Length, Framing::Chunked, Framing::UntilClose] {
        for count in [
            RequestsPerConnection::Unlimited,
            RequestsPerConnection::Fixed(1),
            RequestsPerConnection::Fixed(3),
        ] {
            for body_bytes in [0, 1, 1000, 700_000] {
                let origin = Origin::start(Manner { framing, ..PLAIN });
                let relay = relay(origin.address, Harm::None, 0);
                let mut plan = plan(relay.address, body_bytes);
                plan.requests_per_connection = count;
                let outcome = load_until_seen(&plan, &origin, 10);
                assert_eq!(
                    outcome.failures(),
                    0,
                    "{framing:?} {count:?} {body_bytes}: {:?}",
                    outcome.classes[0].first_failure
                );
                assert!(outcome.classes[0].completed >= 8, "{outcome:?}");
            }
        }
    }
}

/// The head of a response of the test's origin with 50,000 bytes of body, and the whole.
const HEAD: usize = "HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n".len();
const BODY: usize = 50_000;

/// A harm at a place of the stream of a connection, and the kinds as which it may be noticed.
fn harms() -> Vec<(Harm, usize, &'static [&'static str])> {
    let whole = HEAD + BODY;
    let mut harms: Vec<(Harm, usize, &'static [&'static str])> = Vec::new();
    // In the body of the first response, and of the second.
    for at in [
        HEAD,
        HEAD + 1,
        HEAD + BODY / 2,
        HEAD + BODY - 2,
        whole + HEAD,
        whole + HEAD + 777,
    ] {
        harms.push((Harm::Drop, at, &["wrong_byte"]));
        harms.push((Harm::Change, at, &["wrong_byte"]));
        harms.push((Harm::Repeat, at, &["wrong_byte", "wrong_length"]));
        harms.push((Harm::RepeatPiece(4096), at, &["wrong_byte", "wrong_length"]));
        harms.push((Harm::EndWithFin, at, &["closed_early"]));
        harms.push((Harm::EndWithReset, at, &["reset"]));
        harms.push((Harm::Silence, at, &["timeout"]));
    }
    let last = HEAD + BODY - 1;
    harms.extend([
        (Harm::Change, last, &["wrong_byte"][..]),
        // One byte is missing for ever, or one too many.
        (Harm::Drop, last, &["timeout"]),
        // (The second is seen behind the response, or, where it comes late, before the next one.)
        (Harm::Repeat, last, &["wrong_length", "garbled"]),
        (Harm::EndWithFin, last, &["closed_early"]),
        // The status: 0 for 2, and the length of the body: another digit, one less, one more.
        (Harm::Change, 9, &["garbled"]),
        (Harm::Drop, 10, &["garbled", "status_20"]),
        (Harm::Drop, HEAD - 5, &["wrong_length"]),
        (Harm::Repeat, HEAD - 5, &["wrong_length"]),
        // Within the head, and before everything.
        (Harm::EndWithFin, 20, &["closed_early"]),
        (Harm::EndWithFin, 0, &["closed_early"]),
        (Harm::EndWithReset, 0, &["reset"]),
        (Harm::Silence, 0, &["timeout"]),
        // The first response twice.
        (Harm::RepeatPiece(whole), 0, &["wrong_length", "wrong_byte"]),
    ]);
    harms
}

#[test]
fn a_relay_that_drops_changes_or_repeats_a_byte_is_noticed() {
    let origin = Origin::start(PLAIN);
    std::thread::scope(|scope| {
        let runs: Vec<_> = harms()
            .into_iter()
            .map(|(harm, at, kinds)| {
                scope.spawn(move || {
                    let relay = relay(origin.address, harm, at);
                    let mut plan = plan(relay.address, BODY as u64);
                    plan.arrival = Arrival::Closed {
                        clients: 1,
                        think_ms: 1.0,
                    };
                    // Short where time runs out on purpose.
                    plan.timeout_seconds = if kinds == ["timeout"] {
                        0.5
                    } else {
                        PATIENCE.as_secs_f64()
                    };
                    // The only client has a second connection when it has given up the first.
                    let outcome = load_until(&plan, || {
                        relay.connections.wait_until(|connections| *connections > 1);
                    });
                    (harm, at, kinds, outcome)
                })
            })
            .collect();
        for run in runs {
            let (harm, at, kinds, outcome) = run.join().unwrap();
            let failed = failed(&outcome);
            let words = outcome.classes[0].first_failure.clone();
            assert!(!failed.is_empty(), "{harm:?} at {at} was not noticed");
            assert!(
                failed.keys().all(|kind| kinds.contains(&kind.as_str())),
                "{harm:?} at {at}: {failed:?}, {words:?}"
            );
            assert!(words.is_some_and(|words| words.starts_with("GET /b/50000")));
        }
    });
}

#[test]
fn the_place_of_a_wrong_byte_is_told() {
    let origin = Origin::start(PLAIN);
    for place in [0, 31_337, BODY - 1] {
        let relay = relay(origin.address, Harm::Change, HEAD + place);
        // Two clients: with the third connection, one of them has noticed.
        let outcome = load_until(&plan(relay.address, BODY as u64), || {
            relay.connections.wait_until(|connections| *connections > 2);
        });
        let words = outcome.classes[0].first_failure.clone().unwrap();
        assert!(
            words.contains(&format!("byte {place} of the body")),
            "{words}"
        );
    }
}

#[test]
fn a_response_repeated_before_the_connection_closes_is_noticed() {
    let origin = Origin::start(PLAIN);
    let whole = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n".len() + 1000;
    let relay = relay(origin.address, Harm::RepeatPiece(whole), 0);
    let mut plan = plan(relay.address, 1000);
    plan.requests_per_connection = RequestsPerConnection::Fixed(1);
    // A connection is watched for 250 ms after its response: a machine that stands still does so not on each of many.
    let outcome = load_until(&plan, || {
        relay
            .connections
            .wait_until(|connections| *connections > 50);
    });
    assert!(failed(&outcome).contains_key("wrong_length"), "{outcome:?}");
}

#[test]
fn refusals_and_dead_ends_are_counted() {
    let refusing = Origin::start(Manner {
        refuses: true,
        ..PLAIN
    });
    let outcome = load_until_seen(&plan(refusing.address, 10), &refusing, 5);
    assert_eq!(failed(&outcome).keys().collect::<Vec<_>>(), ["status_503"]);
    assert_eq!(outcome.classes[0].completed, 0);
    let nobody = server::Nobody::new();
    let address = nobody.address();
    // No server sees an attempt: again, until one has begun in time.
    let mut plan = plan(address, 10);
    plan.measured_seconds = 0.5;
    let outcome = loop {
        let outcome = run(&plan, 1, &AtomicBool::new(false)).unwrap();
        if outcome.failures() > 0 {
            break outcome;
        }
    };
    assert_eq!(failed(&outcome).keys().collect::<Vec<_>>(), ["connect"]);
    assert!(
        outcome.classes[0]
            .first_failure
            .as_deref()
            .unwrap()
            .contains(&address.to_string())
    );
}

#[test]
fn mixes_go_through_a_forward_proxy() {
    let origin = Origin::start(PLAIN);
    let mut plan = plan(origin.address, 2000);
    plan.route = Route::Forward {
        proxy: origin.address,
        origin: "origin:80".into(),
    };
    plan.classes
        .push(class("hit", Kind::Cacheable { objects: 20 }, 3000));
    plan.classes.push(class(
        "tls",
        Kind::Tls {
            abbreviated_share: 0.6,
        },
        4000,
    ));
    // Of each class more than the clients can have under way, after the 20 that come first.
    let outcome = load_until(&plan, || {
        origin.wait_until(|seen| {
            let count = |path: &str| {
                let of = |seen: &&server::Seen| seen.target.contains(path);
                seen.iter().filter(of).count()
            };
            count("/b/2000") > 2 && count("/b/3000") > 20 + 2 && count("/b/4000") > 2
        });
    });
    assert_eq!(outcome.failures(), 0, "{outcome:?}");
    assert!(
        outcome.classes.iter().all(|class| class.completed > 0),
        "{outcome:?}"
    );
    let seen = origin.seen();
    let objects: BTreeSet<&str> = seen
        .iter()
        .map(|seen| seen.target.as_str())
        .filter(|target| target.contains("max-age"))
        .collect();
    assert_eq!(objects.len(), 20);
    assert!(
        objects
            .iter()
            .all(|target| target.starts_with("http://origin:80/b/3000?"))
    );
    // All were asked for once before anything else was.
    let beforehand: BTreeSet<&str> = seen
        .iter()
        .take(20)
        .map(|seen| seen.target.as_str())
        .collect();
    assert_eq!(beforehand, objects);
    assert!(
        seen.iter().any(|seen| seen.target.starts_with("/b/4000?")),
        "inside a tunnel, the target has no authority"
    );
}

#[test]
fn clients_that_give_up_do_so_in_the_middle() {
    let origin = Origin::start(PLAIN);
    let mut plan = plan(origin.address, 8_000_000);
    plan.classes[0].abort_share = 1.0;
    let outcome = load_until(&plan, || {
        origin.wait_until(|seen| seen.iter().any(|seen| seen.broke_off));
    });
    assert!(outcome.classes[0].aborted > 0 && outcome.classes[0].completed == 0);
    assert_eq!(outcome.failures(), 0, "{outcome:?}");
    assert!(origin.seen().iter().any(|seen| seen.broke_off));
}

#[test]
fn connections_carry_as_many_requests_as_planned_from_the_ports_planned() {
    let origin = Origin::start(PLAIN);
    let mut plan = plan(origin.address, 100);
    plan.requests_per_connection = RequestsPerConnection::Fixed(3);
    plan.local_ports = Some([31_000, 31_999]);
    plan.arrival = Arrival::Closed {
        clients: 2,
        think_ms: 2.0,
    };
    let outcome = load_until(&plan, || {
        origin.wait_until(|seen| {
            let of_first = seen.iter().filter(|seen| seen.connection == 0);
            of_first.count() == 3 && seen.len() > 6
        });
    });
    assert_eq!(outcome.failures(), 0, "{outcome:?}");
    let seen = origin.seen();
    assert!(seen.len() > 6);
    assert!(
        seen.iter()
            .all(|seen| (31_000..=31_999).contains(&seen.peer.port()))
    );
    let mut by_connection: BTreeMap<usize, Vec<bool>> = BTreeMap::new();
    for seen in &seen {
        by_connection
            .entry(seen.connection)
            .or_default()
            .push(seen.closes);
    }
    assert_eq!(
        by_connection[&0],
        [false, false, true],
        "the last one says so"
    );
    assert!(by_connection.values().all(|closes| closes.len() <= 3));
}

#[test]
fn pages_come_on_one_connection_or_on_many() {
    for (persistent, connections_per_page) in [(true, 2), (false, 5)] {
        let origin = Origin::start(PLAIN);
        let mut plan = plan(origin.address, 5000);
        plan.arrival = Arrival::Pages {
            clients: 1,
            embedded: 4,
            parallel: 2,
            persistent,
        };
        // Two whole pages of five requests each, and the beginning of a third.
        let outcome = load_until_seen(&plan, &origin, 11);
        assert_eq!(outcome.failures(), 0, "{outcome:?}");
        let pages = outcome.classes[0].completed as usize;
        assert!(pages > 1);
        let seen = origin.seen();
        let connections: BTreeSet<usize> = seen.iter().map(|seen| seen.connection).collect();
        // The page under way at the end may be there in part.
        let whole = pages * connections_per_page;
        assert!(
            (whole..=whole + connections_per_page).contains(&connections.len()),
            "{pages} pages, {connections:?}"
        );
    }
}

/// An open loop against an origin that stalls for a second: the percentiles show it (coordinated omission would hide it).
#[test]
fn a_stall_of_a_second_is_seen() {
    let stall = Some((100, Duration::from_secs(1)));
    // Again where the load's end came so late that those in the stall are much less than a quarter.
    let outcome = loop {
        let origin = Origin::start(Manner { stall, ..PLAIN });
        let mut plan = plan(origin.address, 100);
        plan.arrival = Arrival::Open {
            rate: 100.0,
            clients_max: 4,
        };
        let outcome = load_until_seen(&plan, &origin, 400);
        if outcome.classes[0].latency.count <= 550 {
            break outcome;
        }
    };
    let latency = &outcome.classes[0].latency;
    assert_eq!(outcome.failures(), 0);
    // A quarter of the requests were due in the stall, and waited for half of it on average: percentile 90 is 0.6 s. On a slow
    // machine they wait for longer.
    assert!(latency.count >= 396, "{}", latency.count);
    assert!(
        latency.p90_ms > 400.0 && latency.max_ms > 900.0,
        "{latency:?}"
    );
}

#[test]
fn a_plan_from_standard_input_gives_json() {
    let origin = Origin::start(PLAIN);
    let plan = serde_json::to_string(&plan(origin.address, 1000)).unwrap();
    let mut program = Command::new(super::LAB)
        .args(["load", "--plan", "-", "--json", "--threads", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    program
        .stdin
        .take()
        .unwrap()
        .write_all(plan.as_bytes())
        .unwrap();
    origin.wait_until(|seen| seen.len() > 10);
    interrupt(&program);
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success());
    let outcome: LoadOutcome = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        outcome.classes[0].completed > 0 && outcome.failures() == 0,
        "{outcome:?}"
    );
}

#[test]
fn samples_give_means_and_an_interruption_gives_what_there_is() {
    let origin = Origin::start(PLAIN);
    let url = format!("http://{}/b/1000", origin.address);
    let output = Command::new(super::LAB)
        .args([
            "load",
            &url,
            "--seconds",
            "1",
            "--warm-up",
            "0",
            "--samples",
            "3",
            "--confidence",
            "90",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        said.contains("means of 3 samples") && said.contains('±') && said.contains("90 %"),
        "{said}"
    );

    let before = origin.seen().len();
    let program = Command::new(super::LAB)
        .args(["load", &url, "--seconds", "600", "--warm-up", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // More than one for each of the sixteen clients: some are answered.
    origin.wait_until(|seen| seen.len() > before + 20);
    interrupt(&program);
    let output = program.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        said.contains("answers/s") && said.contains(" 0 failures"),
        "{said}"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("SIGINT"));
}

#[test]
fn nothing_answered_is_a_failure_and_mistakes_are_explained() {
    let nobody = server::Nobody::new();
    let address = nobody.address();
    let url = format!("http://{address}/b/10");
    for (arguments, part) in [
        (
            vec!["load", url.as_str(), "--seconds", "1", "--warm-up", "0"],
            "connect",
        ),
        (vec!["load", "--plan", "no/such.toml"], "no/such.toml"),
        (vec!["load", "http://127.0.0.1:1/file"], "--no-verify"),
    ] {
        // Again where no attempt has begun in time.
        let (status, said) = loop {
            let output = Command::new(super::LAB).args(&arguments).output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            if !said.contains(" 0 failures") {
                break (output.status, said);
            }
        };
        assert!(
            !status.success() && said.contains(part),
            "{arguments:?}: {said}"
        );
    }
}
