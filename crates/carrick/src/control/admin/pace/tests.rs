//! Classes as admin shows and changes them.
use super::change::change;
use crate::config::plan::PacePlan;
use crate::control::ControlHandle;
use crate::control::testing::{LOOPBACK_ANY_PORT, exchange, get, plan, start_control, state};
use carrick_splice::{ClassSettings, NetworkRate, Policy, Weight};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn class() -> ClassSettings {
    ClassSettings {
        ceiling: Some(1 << 20),
        ..ClassSettings::new("slow")
    }
}

fn start(classes: &[ClassSettings]) -> (ControlHandle, SocketAddr) {
    let mut plan = plan(Some(LOOPBACK_ANY_PORT.parse().unwrap()), Vec::new());
    plan.pace = PacePlan {
        interval: SECOND,
        classes: classes.to_vec(),
    };
    let state = state(plan);
    state.kernel.pace(&state.running.load().plan.pace).unwrap();
    let handle = start_control(state).unwrap();
    let address = handle.state().admin_address().unwrap();
    (handle, address)
}

fn post(address: SocketAddr, path: &str, fields: &str) -> (u16, String) {
    let request =
        format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{fields}Connection: close\r\n\r\n");
    let response = exchange(address, request.as_bytes());
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn shown(address: SocketAddr) -> Value {
    let (status, body) = get(address, "/pace");
    assert_eq!(status, 200);
    serde_json::from_str(&body).unwrap()
}

#[test]
fn all_of_a_class_and_of_the_workers_is_shown() {
    let of_all = ClassSettings {
        policy: Policy::Deadline {
            target: Duration::from_micros(2500),
        },
        rate: Some(2000),
        network: Some(NetworkRate {
            ceiling: 3000,
            prefix_v4: 24,
            prefix_v6: 48,
        }),
        splice: Some(4000),
        parent: Some("slow".into()),
        priority: 7,
        weight: Weight::Rtt,
        hold_max: SECOND,
        ..ClassSettings::new("all")
    };
    let (handle, address) = start(&[class(), of_all]);
    let client = [192, 0, 2, 7].into();
    let paced = handle.state().kernel.pacing.pace("all", client, 0).unwrap();
    let page = shown(address);
    assert_eq!(page["interval_ms"], 1000);
    assert_eq!(
        page["classes"][1],
        json!({
            "name": "all", "policy": "deadline", "target_us": 2500, "rate": 2000, "ceiling": null,
            "network": { "ceiling": 3000, "prefix_v4": 24, "prefix_v6": 48 }, "splice": 4000,
            "parent": "slow", "priority": 7, "weight": "rtt", "hold_max_ms": 1000,
            "splices": 1, "networks": 1, "bytes": 0, "kernel_bytes": 0, "yields": 0, "rate_waits": 0,
            "kernel_holds": 0, "waited_ms": 0, "overdue": 0, "credit_bytes": 0, "unbounded": 0,
        })
    );
    assert_eq!(page["classes"][0]["target_us"], Value::Null);
    assert_eq!(page["workers"].as_array().unwrap().len(), 2);
    assert_eq!(
        page["workers"][1],
        json!({
            "worker": 1, "is_runnable": false, "runnable_ms": 0, "runnable_share": 0.0, "forwarding_ms": 0,
            "local_requests": 0, "local_bytes": 0, "spliced_requests": 0, "spliced_bytes": 0,
            "kernel_bytes": 0, "hits_p99_us": null,
        })
    );
    let (_, metrics) = get(address, "/metrics");
    for line in [
        "carrick_pace_splices{class=\"all\"} 1\n",
        "carrick_pace_unbounded_total{class=\"all\"} 0\n",
        "carrick_pace_splices{class=\"slow\"} 0\n",
        "carrick_pace_bytes_total{class=\"all\",by=\"kernel\"} 0\n",
        "carrick_pace_waited_seconds_total{class=\"slow\"} 0.0\n",
        "carrick_worker_runnable_seconds_total{worker=\"1\"} 0.0\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    drop(paced);
    assert_eq!(shown(address)["classes"][1]["splices"], 0);
    handle.shutdown();
}

#[test]
fn a_class_is_changed_wholly_or_not_at_all() {
    let (handle, address) = start(&[class()]);
    let settings = || handle.state().kernel.pacing.settings();
    let (status, body) = post(
        address,
        "/pace/slow?ceiling=2MB&policy=deadline&target=2ms&network_ceiling=1MB&weight=window",
        "",
    );
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["ceiling"], 2 << 20);
    assert_eq!(answer, shown(address)["classes"][0]);
    let changed = settings();
    assert_eq!(changed.1, SECOND);
    assert_eq!(changed.0[0].weight, Weight::Window);

    let status = |_| -> Value { serde_json::from_str(&get(address, "/status").1).unwrap() };
    assert_eq!(
        status(())["pace"],
        json!({ "interval_ms": 1000, "classes": 1, "changed": 1, "splices": 0, "bytes": 0, "waited_ms": 0 })
    );

    for (query, part) in [
        (
            "priority=1&ceiling=1",
            "ceiling is 1 bytes per second; it can be 1000",
        ),
        ("priority=1&rate=1MB", "without a parent"),
        ("priority=1&parent=slow", "in a circle"),
        (
            "priority=1&parent=other",
            "its parent \"other\" is no class",
        ),
        ("priority=1&hold_max=1h", "hold_max is 3600s"),
        ("priority=1&nothing=7", "not a setting of a class"),
        ("priority=1&priority=2", "given twice"),
        ("", "nothing to change"),
    ] {
        let (status, body) = post(address, &format!("/pace/slow?{query}"), "");
        assert_eq!(status, 400, "{query}: {body}");
        assert!(body.contains(part), "{query}: {body}");
        assert_eq!(settings(), changed, "{query}");
    }

    let (status, _) = post(
        address,
        "/pace/slow?ceiling=none&network_ceiling=none&policy=immediate&weight=even",
        "",
    );
    assert_eq!(status, 200);
    assert_eq!(settings().0, [ClassSettings::new("slow")]);
    handle.shutdown();
}

#[test]
fn a_refused_change_changes_nothing() {
    let (handle, address) = start(&[class()]);
    let change = "/pace/slow?ceiling=none";
    for (path, fields, status) in [
        (change, "Origin: https://evil.example\r\n", 403),
        (change, "Origin: null\r\n", 403),
        (change, "Sec-Fetch-Site: cross-site\r\n", 403),
        ("/pace/fast?ceiling=none", "", 404),
        ("/pace/?ceiling=none", "", 404),
        ("/pace", "", 405),
    ] {
        let (found, body) = post(address, path, fields);
        assert_eq!(found, status, "{path} {fields}: {body}");
    }
    let (_, body) = post(address, "/pace/fast?ceiling=none", "");
    assert_eq!(body, "There is no class \"fast\": there are slow.\n");
    let rebound =
        format!("POST {change} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(exchange(address, rebound.as_bytes()).starts_with("HTTP/1.1 421"));
    assert_eq!(get(address, change).0, 404);
    assert_eq!(handle.state().kernel.pacing.settings().0, [class()]);
    handle.shutdown();
}

#[test]
fn each_key_is_changed_by_the_words_of_the_configuration() {
    let deadline = |ms| Policy::Deadline {
        target: Duration::from_millis(ms),
    };
    let network = |ceiling, prefix_v4, prefix_v6| {
        Some(NetworkRate {
            ceiling,
            prefix_v4,
            prefix_v6,
        })
    };
    let with = |change: &dyn Fn(&mut ClassSettings)| {
        let mut class = ClassSettings::new("c");
        change(&mut class);
        class
    };
    let full = with(&|class| {
        class.policy = deadline(2);
        class.network = network(5000, 24, 48);
        class.parent = Some("p".into());
    });
    let plain = ClassSettings::new("c");
    let table: [(&ClassSettings, &str, Result<ClassSettings, &str>); 21] = [
        (
            &plain,
            "rate=1MB",
            Ok(with(&|class| class.rate = Some(1 << 20))),
        ),
        (
            &plain,
            "ceiling=4096",
            Ok(with(&|class| class.ceiling = Some(4096))),
        ),
        (
            &plain,
            "splice_ceiling=2 KB",
            Ok(with(&|class| class.splice = Some(2048))),
        ),
        (
            &plain,
            "network_ceiling=2KB",
            Ok(with(&|class| class.network = network(2048, 32, 64))),
        ),
        (
            &plain,
            "network_prefix_v6=56,network_ceiling=2KB",
            Ok(with(&|class| class.network = network(2048, 32, 56))),
        ),
        (
            &full,
            "network_prefix_v4=16",
            Ok(with(&|class| {
                *class = full.clone();
                class.network = network(5000, 16, 48);
            })),
        ),
        (&plain, "network_prefix_v4=16", Err("requires a ceiling")),
        (
            &full,
            "network_ceiling=none,network_prefix_v4=16",
            Err("requires a ceiling"),
        ),
        (
            &plain,
            "network_prefix_v4=33,network_ceiling=2KB",
            Err("a number from 0 to 32"),
        ),
        (
            &full,
            "parent=none,policy=conservative,network_ceiling=none",
            Ok(with(&|class| class.policy = Policy::Conservative)),
        ),
        (
            &full,
            "target=5ms",
            Ok(with(&|class| {
                *class = full.clone();
                class.policy = deadline(5);
            })),
        ),
        (&full, "policy=deadline", Ok(full.clone())),
        (&plain, "policy=deadline", Err("requires a target")),
        (
            &plain,
            "target=5ms",
            Err("the policy \"immediate\" has no target"),
        ),
        (
            &full,
            "policy=proportional,target=5ms",
            Err("the policy \"proportional\" has no target"),
        ),
        (
            &plain,
            "policy=fast",
            Err("it can be immediate, conservative, proportional, deadline"),
        ),
        (&plain, "weight=heavy", Err("it can be even, rtt, window")),
        (&plain, "priority=-1", Err("a number from 0 to 255")),
        (&plain, "ceilling=none", Err("did you mean `ceiling`?")),
        (
            &plain,
            "ceiling=10MB/s,splice_ceiling=64 KB/s",
            Ok(ClassSettings {
                ceiling: Some(10 << 20),
                splice: Some(64 << 10),
                ..plain.clone()
            }),
        ),
        (
            &plain,
            "ceiling=10Mbit/s",
            Err("write \"1250000/s\" for as many bytes as that is, or none"),
        ),
    ];
    for (before, wanted, right) in table {
        let pairs: Vec<(String, String)> = wanted
            .split(',')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let mut class = before.clone();
        match (change(&mut class, &pairs), right) {
            (Ok(()), Ok(right)) => assert_eq!(class, right, "{wanted}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{wanted}: {why}"),
            (found, right) => panic!("{wanted}: {found:?}, not {right:?}"),
        }
    }
}
