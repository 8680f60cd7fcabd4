//! Tests of how a plan is shared among threads.

use super::*;
use crate::load::plan::Kind;
use crate::load::work::tests::{class, plan};

#[test]
fn threads_share_clients_rate_and_ports_without_rest() {
    let mut whole = plan(
        Arrival::Open {
            rate: 1000.0,
            clients_max: 10,
        },
        vec![class("a", Kind::NonCacheable, 1.0)],
    );
    whole.local_ports = Some([1000, 1009]);
    let shares: Vec<LoadPlan> = (0..3).map(|thread| share(&whole, thread, 3)).collect();
    let clients: usize = shares.iter().map(|plan| slots(&plan.arrival)).sum();
    assert_eq!(clients, 10);
    let ports: Vec<u16> = shares
        .iter()
        .filter_map(|plan| plan.local_ports)
        .flat_map(|[first, last]| first..=last)
        .collect();
    assert_eq!(ports, (1000..=1009).collect::<Vec<_>>());
    for share in &shares {
        let Arrival::Open { rate, .. } = share.arrival else {
            panic!()
        };
        assert!((rate - 1000.0 / 3.0).abs() < 1e-9);
    }
    assert_eq!(most_threads(&whole), 10);
    assert_eq!(share(&whole, 0, 1), whole);
}

#[test]
fn no_threads_and_no_server_are_explained() {
    let stop = AtomicBool::new(false);
    let mut plan = plan(
        Arrival::Closed {
            clients: 1,
            think_ms: 0.0,
        },
        vec![class("a", Kind::Cacheable { objects: 2 }, 1.0)],
    );
    assert!(run(&plan, 0, &stop).is_err());
    // A port that nobody listens on: bound, then closed.
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    plan.route = Route::Direct {
        address,
        host: None,
    };
    let error = format!("{:#}", run(&plan, 1, &stop).unwrap_err());
    assert!(
        error.contains("cacheable objects beforehand") && error.contains(&address.to_string()),
        "{error}"
    );
}
