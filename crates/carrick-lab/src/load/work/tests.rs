//! Tests of the sequence of requests: the same for the same seed, in the shares that were asked for.

use super::*;
use crate::load::plan::{Class, Route};

pub(in crate::load) fn class(name: &str, kind: Kind, weight: f64) -> Class {
    Class {
        name: name.into(),
        weight,
        kind,
        body_bytes: 1000,
        path: None,
        extension: String::new(),
        http_1_0: false,
        abort_share: 0.0,
        fields: Vec::new(),
    }
}

pub(in crate::load) fn plan(arrival: Arrival, classes: Vec<Class>) -> LoadPlan {
    LoadPlan {
        route: Route::Direct {
            address: ([127, 0, 0, 1], 80).into(),
            host: None,
        },
        arrival,
        classes,
        requests_per_connection: RequestsPerConnection::Unlimited,
        warm_up_seconds: 0.0,
        measured_seconds: 1.0,
        shutdown_seconds: 0.0,
        seed: 11,
        verify: true,
        timeout_seconds: 30.0,
        local_ports: None,
    }
}

pub(in crate::load) const CLOSED: Arrival = Arrival::Closed {
    clients: 1,
    think_ms: 0.0,
};

fn mixed() -> LoadPlan {
    let mut classes = vec![
        class("get", Kind::NonCacheable, 5.0),
        class("hit", Kind::Cacheable { objects: 10 }, 3.0),
        class(
            "tls",
            Kind::Tls {
                abbreviated_share: 0.6,
            },
            2.0,
        ),
    ];
    classes[0].abort_share = 0.25;
    let mut plan = plan(CLOSED, classes);
    plan.requests_per_connection = RequestsPerConnection::Zipf {
        alpha: 1.0,
        max: 50,
    };
    plan
}

fn take(plan: &LoadPlan, thread: u64, count: usize) -> (Vec<Request>, Vec<u32>) {
    let mut work = Work::new(plan, thread);
    let mut lengths = Lengths::new(plan, thread);
    (
        (0..count).map(|_| work.draw()).collect(),
        (0..count).map(|_| lengths.draw()).collect(),
    )
}

#[test]
fn a_seed_gives_its_sequence() {
    let plan = mixed();
    let mut other = plan.clone();
    other.seed += 1;
    assert_eq!(take(&plan, 0, 1000), take(&plan, 0, 1000));
    assert_ne!(take(&plan, 0, 1000), take(&other, 0, 1000));
    assert_ne!(take(&plan, 0, 1000), take(&plan, 1, 1000));
}

#[test]
fn shares_are_those_of_the_plan() {
    let count = 20_000;
    let (requests, lengths) = take(&mixed(), 0, count);
    // Bounds of five standard deviations of the binomial distribution; the sequence is fixed.
    let near = |seen: usize, of: usize, share: f64| {
        let deviation = (share * (1.0 - share) / of as f64).sqrt();
        let seen = seen as f64 / of as f64;
        assert!(
            (seen - share).abs() < 5.0 * deviation,
            "{seen} instead of {share}"
        );
    };
    let of_class = |class| {
        requests
            .iter()
            .filter(move |request| request.class == class)
    };
    near(of_class(0).count(), count, 0.5);
    near(of_class(1).count(), count, 0.3);
    near(of_class(2).count(), count, 0.2);
    near(
        of_class(0)
            .filter(|request| request.abort_at.is_some())
            .count(),
        of_class(0).count(),
        0.25,
    );
    let abbreviated =
        of_class(2).filter(|request| request.handshake == Some(Handshake::Abbreviated));
    near(abbreviated.count(), of_class(2).count(), 0.6);
    assert!(of_class(2).all(|request| request.is_alone));
    assert!(
        requests
            .iter()
            .filter_map(|request| request.abort_at)
            .all(|at| (1..1000).contains(&at))
    );
    assert!(lengths.iter().all(|length| (1..=50).contains(length)));
}

#[test]
fn bodies_of_requests_differ_and_objects_are_few() {
    let (requests, _) = take(&mixed(), 0, 5000);
    let distinct = |class| {
        requests
            .iter()
            .filter(|request| request.class == class)
            .map(|request| request.seed)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let gets = requests.iter().filter(|request| request.class == 0).count();
    assert_eq!(
        distinct(0).len(),
        gets,
        "no two bodies are alike, so that no response can pass for another"
    );
    let beforehand: std::collections::BTreeSet<u64> = Work::new(&mixed(), 0)
        .cacheable()
        .iter()
        .map(|request| request.seed)
        .collect();
    assert_eq!((distinct(1), beforehand.len()), (beforehand.clone(), 10));
    // All threads ask for the same objects.
    let elsewhere = Work::new(&mixed(), 3).cacheable();
    assert!(
        elsewhere
            .iter()
            .all(|request| beforehand.contains(&request.seed))
    );
}

#[test]
fn parts_are_the_page() {
    let page = Request {
        seed: 5,
        body_bytes: 1003,
        abort_at: Some(600),
        ..Request::default()
    };
    let parts: Vec<Request> = (0..4).map(|index| part(&page, index, 4)).collect();
    assert_eq!(
        parts.iter().map(|part| part.body_bytes).collect::<Vec<_>>(),
        [253, 250, 250, 250]
    );
    assert_eq!(
        parts.iter().map(|part| part.seed).collect::<Vec<_>>(),
        [5, 6, 7, 8]
    );
    assert_eq!(
        parts.iter().map(|part| part.abort_at).collect::<Vec<_>>(),
        [None, None, Some(97), None]
    );
    for at in 0..=1003 {
        let page = Request {
            abort_at: Some(at),
            ..page
        };
        let given_up = (0..4)
            .filter(|index| part(&page, *index, 4).abort_at.is_some())
            .count();
        assert_eq!(given_up, 1, "at {at}");
    }
}
