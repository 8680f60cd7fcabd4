//! Rates of artificial samples with known results.
use super::super::snapshot::{Pace, Splices, Status, Timed};
use super::*;
use serde_json::{Value, json};

/// A sample at this second; each page is 0.1 seconds later than the previous one.
pub(crate) fn snapshot(seconds: u64, status: Value, splices: Value, pace: Value) -> Snapshot {
    let at = |tenths: u64| Duration::from_secs(seconds) + Duration::from_millis(100 * tenths);
    let status: Status = serde_json::from_value(status).unwrap();
    let splices: Splices = serde_json::from_value(splices).unwrap();
    let pace: Pace = serde_json::from_value(pace).unwrap();
    Snapshot {
        status: Timed {
            at: at(0),
            page: status,
        },
        splices: Timed {
            at: at(1),
            page: splices,
        },
        pace: Timed {
            at: at(2),
            page: pace,
        },
    }
}

pub(crate) fn status(more: Value) -> Value {
    let mut status = json!({
        "version": "1.2.3", "pid": 7, "state": "serving", "started": "2000-01-01T00:00:00Z", "uptime_seconds": 3700,
    });
    let fields = status.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    status
}

pub(crate) fn tunnel(id: &str, client: &str, seconds: f64, up: u64, down: u64) -> Value {
    json!({
        "id": id, "client": client, "server": "10.0.0.11:443", "target": "a.example", "engine": "pipe", "class": null,
        "seconds": seconds, "client_to_upstream": { "bytes": up }, "upstream_to_client": { "bytes": down },
    })
}

fn nothing() -> Value {
    json!({})
}

fn close(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-6, "{one} is not {other}");
}

#[test]
fn counters_become_rates() {
    let worker = |accepted: u64, requests: u64| {
        json!({
            "connections_open": 3, "connections_accepted": accepted, "requests": requests,
            "upstream_connections_open": 2, "upstream_connections_idle": 1,
        })
    };
    let page = |count: u64| {
        status(json!({
            "workers": [worker(count, 10 * count), worker(100 + count, 0)],
            "splice": {
                "copy_bytes": 1000 * count, "copy_splices": count, "socket_bytes": 5 * count, "packet_bytes": 0,
                "choices": { "forced": 1 },
            },
            "splices": {
                "in_kernel": 4, "limit": 64, "packet_open": 2,
                "tunnels": { "copy": 1, "pipe": 2, "socket": 4, "packet": 0 },
                "uncounted_bytes": { "socket": 100 * count, "packet": 7 * count },
                "outliving": { "adopted": 3, "bytes_total": 20 * count },
            },
            "cache": {
                "objects": 9, "bytes": 10, "bytes_max": 100, "hits": 3 * count, "misses": count, "bytes_saved": 50 * count,
            },
        }))
    };
    let before = snapshot(10, page(2), nothing(), nothing());
    let now = snapshot(14, page(6), nothing(), nothing());
    let rates = Rates::between(&before, &now).unwrap();
    assert_eq!(rates.time, Duration::from_secs(4));
    assert_eq!(rates.about.connections_open, 6);
    assert_eq!(rates.about.upstream_connections_idle, 2);
    assert_eq!(rates.about.in_kernel, (4, 64));
    assert_eq!(rates.about.packet_open, 2);
    assert_eq!(rates.about.uptime, Duration::from_secs(3700));
    close(rates.connections, 2.0);
    close(rates.requests, 10.0);
    let engine = |name| {
        rates
            .engines
            .iter()
            .find(|engine| engine.name == name)
            .unwrap()
    };
    close(engine("copy").bytes, 1000.0);
    close(engine("copy").splices, 1.0);
    close(engine("socket").bytes, 105.0);
    close(engine("packet").bytes, 27.0);
    close(engine("pipe").bytes, 0.0);
    close(rates.bytes, 1132.0);
    assert_eq!(engine("packet").tunnels, 3);
    assert_eq!(rates.tunnels_open(), 10);
    let cache = rates.cache.unwrap();
    close(cache.hit_ratio.unwrap(), 0.75);
    close(cache.requests, 4.0);
    close(cache.bytes_saved, 50.0);
    assert_eq!((cache.objects, cache.bytes, cache.bytes_max), (9, 10, 100));
}

#[test]
fn an_unused_cache_has_no_ratio() {
    let page = || status(json!({ "cache": { "hits": 5, "misses": 5 } }));
    let rates = Rates::between(
        &snapshot(0, page(), nothing(), nothing()),
        &snapshot(1, page(), nothing(), nothing()),
    );
    assert_eq!(rates.unwrap().cache.unwrap().hit_ratio, None);
    let without = || snapshot(0, status(json!({ "cache": null })), nothing(), nothing());
    let later = snapshot(1, status(nothing()), nothing(), nothing());
    assert_eq!(Rates::between(&without(), &later).unwrap().cache, None);
}

#[test]
fn classes_and_workers_have_the_time_of_their_page() {
    let page = |count: u64| {
        json!({
            "classes": [{
                "name": "c", "policy": "deadline", "target_us": 2500, "ceiling": 1000, "splices": 3, "bytes": 4000 * count,
                "yields": 2 * count, "rate_waits": 4 * count, "kernel_holds": count, "waited_ms": 1000 * count,
            }],
            "workers": [{
                "worker": 0, "runnable_ms": 500 * count, "forwarding_ms": 9000 * count, "local_requests": 3 * count,
                "spliced_requests": count, "hits_p99_us": 800,
            }],
        })
    };
    let before = snapshot(0, status(nothing()), nothing(), page(1));
    let mut now = snapshot(
        2,
        status(json!({ "workers": [{ "connections_open": 5 }] })),
        nothing(),
        page(3),
    );
    let rates = Rates::between(&before, &now).unwrap();
    let class = &rates.classes[0];
    assert_eq!(class.policy, ("deadline".to_owned(), Some(2500)));
    assert_eq!((class.ceiling, class.splices), (Some(1000), 3));
    close(class.bytes, 4000.0);
    close(class.yields, 2.0);
    close(class.rate_waits, 4.0);
    close(class.kernel_holds, 1.0);
    close(class.held, 1.0);
    let worker = &rates.workers[0];
    assert_eq!((worker.number, worker.connections_open), (0, 5));
    close(worker.runnable, 0.5);
    // A share cannot exceed 1.
    close(worker.forwarding, 1.0);
    close(worker.local_requests, 3.0);
    close(worker.spliced_requests, 1.0);
    assert_eq!(worker.hits_p99_us, Some(800));
    // A new class begins at zero; its time is that of its own page.
    now.pace.page.classes[0].name = "new".to_owned();
    now.pace.at += Duration::from_secs(2);
    close(
        Rates::between(&before, &now).unwrap().classes[0].bytes,
        3000.0,
    );
}

#[test]
fn tunnels_are_followed_by_their_names() {
    let before = json!({ "list": [
        tunnel("1", "192.0.2.1:1", 100.0, 1000, 5000),
        tunnel("2", "192.0.2.2:1", 100.0, 1, 1),
    ]});
    let now = json!({ "list": [
        tunnel("3", "192.0.2.3:1", 0.5, 40, 80),
        tunnel("1", "192.0.2.1:1", 102.0, 3000, 5000),
        // It was open before but not listed, so its rate is unknown.
        tunnel("4", "192.0.2.4:1", 500.0, 1 << 30, 0),
    ]});
    let snapshots = (
        snapshot(0, status(nothing()), before, nothing()),
        snapshot(2, status(nothing()), now, nothing()),
    );
    let rates = Rates::between(&snapshots.0, &snapshots.1).unwrap();
    let of = |client: &str| {
        let tunnel = rates
            .tunnels
            .iter()
            .find(|tunnel| tunnel.client == client)
            .unwrap();
        (tunnel.up, tunnel.down, tunnel.bytes)
    };
    assert_eq!(rates.tunnels.len(), 3);
    assert_eq!(of("192.0.2.1:1"), (1000.0, 0.0, 8000));
    assert_eq!(of("192.0.2.3:1"), (20.0, 40.0, 120));
    assert_eq!(of("192.0.2.4:1"), (0.0, 0.0, 1 << 30));
}

#[test]
fn adopted_tunnels_are_tunnels_of_the_engine_packet() {
    let page = |bytes: u64| {
        json!({ "outliving": { "list": [{
            "client": "192.0.2.1:1", "listener": "10.0.0.1:443", "server": "10.0.0.2:443", "own": "10.0.0.1:9",
            "client_to_upstream": { "bytes": bytes }, "upstream_to_client": { "bytes": 2 * bytes },
        }]}})
    };
    let before = snapshot(0, status(nothing()), page(10), nothing());
    let now = snapshot(1, status(nothing()), page(30), nothing());
    let rates = Rates::between(&before, &now).unwrap();
    let tunnel = &rates.tunnels[0];
    assert_eq!((tunnel.up, tunnel.down, tunnel.bytes), (20.0, 40.0, 90));
    assert_eq!((tunnel.engine.as_str(), tunnel.age), ("packet", None));
}

#[test]
fn each_order_has_its_first() {
    let before = json!({ "list": [
        tunnel("a", "192.0.2.3:1", 10.0, 0, 0),
        tunnel("b", "192.0.2.2:1", 99.0, 0, 0),
        tunnel("c", "192.0.2.1:1", 20.0, 0, 500),
    ]});
    let now = json!({ "list": [
        tunnel("a", "192.0.2.3:1", 11.0, 90, 0),
        tunnel("b", "192.0.2.2:1", 100.0, 10, 95),
        tunnel("c", "192.0.2.1:1", 21.0, 0, 500),
    ]});
    let snapshots = (
        snapshot(0, status(nothing()), before, nothing()),
        snapshot(1, status(nothing()), now, nothing()),
    );
    let rates = Rates::between(&snapshots.0, &snapshots.1).unwrap();
    for (sort, clients) in [
        (Sort::Rate, ["2", "3", "1"]),
        (Sort::Up, ["3", "2", "1"]),
        (Sort::Down, ["2", "1", "3"]),
        (Sort::Bytes, ["1", "2", "3"]),
        (Sort::Age, ["2", "1", "3"]),
        (Sort::Client, ["1", "2", "3"]),
    ] {
        let first: Vec<&str> = (rates.first_tunnels(sort, 3).iter())
            .map(|tunnel| &tunnel.client[8..9])
            .collect();
        assert_eq!(first, clients, "{sort:?}");
        assert_eq!(rates.first_tunnels(sort, 2).len(), 2);
    }
}

#[test]
fn nothing_is_made_of_looks_that_do_not_belong_together() {
    let first = snapshot(5, status(nothing()), nothing(), nothing());
    let another = snapshot(6, status(json!({ "pid": 8 })), nothing(), nothing());
    assert_eq!(Rates::between(&first, &another), None);
    let anew = snapshot(
        6,
        status(json!({ "started": "2000-01-02T00:00:00Z" })),
        nothing(),
        nothing(),
    );
    assert_eq!(Rates::between(&first, &anew), None);
    assert_eq!(Rates::between(&first, &first), None);
    let earlier = snapshot(4, status(nothing()), nothing(), nothing());
    assert_eq!(Rates::between(&first, &earlier), None);
}

#[test]
fn what_goes_back_a_little_has_not_moved() {
    let page = |bytes: u64| status(json!({ "splice": { "copy_bytes": bytes } }));
    let before = snapshot(0, page(10), nothing(), nothing());
    let now = snapshot(1, page(9), nothing(), nothing());
    close(Rates::between(&before, &now).unwrap().bytes, 0.0);
}

#[test]
fn answers_of_other_programs_are_refused() {
    assert!(serde_json::from_value::<Status>(json!({ "pid": 1 })).is_err());
}
