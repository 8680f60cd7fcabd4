//! What carrick's metrics say about its cache.

use super::*;
use crate::load::outcome::ClassOutcome;

#[test]
fn answers_from_the_cache_are_counted() {
    let metrics = "carrick_cache_requests_total{result=\"hit\"} 12\n\
        carrick_cache_requests_total{result=\"collapsed\"} 3\n\
        carrick_cache_requests_total{result=\"revalidated\"} 5\n\
        carrick_cache_requests_total{result=\"miss\"} 7\n\
        carrick_cache_waited_total 1\n";
    assert_eq!(answered(metrics), 15);
    assert_eq!(answered(""), 0);
}

#[test]
fn only_what_may_be_stored_has_to_be_a_hit() {
    let plan: LoadPlan = toml::from_str(
        "seed = 1\nmeasured_seconds = 1\nroute = { direct = { address = \"192.0.2.1:80\" } }\n\
         arrival = { closed = { clients = 1 } }\n\
         [[class]]\nname = \"hit\"\nbody_bytes = 10\nkind = { cacheable = { objects = 1 } }\n\
         [[class]]\nname = \"spliced\"\nbody_bytes = 10\n",
    )
    .unwrap();
    let came = |completed, body_bytes| ClassOutcome {
        completed,
        body_bytes,
        ..ClassOutcome::default()
    };
    let outcome = LoadOutcome {
        measured_seconds: 1.0,
        classes: vec![came(3, 30), came(5, 50)],
        connections: 8,
        late: 0,
    };
    let part = |requests, body_bytes| Part {
        requests,
        body_bytes,
    };
    assert_eq!(parts(&plan, &outcome), (part(3, 30), part(5, 50)));
}
