//! Active health checks exclude a server and readmit it.
use crate::support::server::{Serving, answer_requests};
use crate::support::{Carrick, Place, Server, carrick, wait_for};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server that returns its name, and whose health is the flag's value.
fn server(place: &Place, name: &'static str, is_well: &Arc<AtomicBool>) -> Serving {
    let is_well = Arc::clone(is_well);
    Server::listen(place).serve(move |peer, _| {
        let is_well = Arc::clone(&is_well);
        answer_requests(peer, move |head| {
            let status = if head.starts_with("GET /healthz ") && !is_well.load(Ordering::SeqCst) {
                "503 Service Unavailable"
            } else {
                "200 OK"
            };
            format!("HTTP/1.1 {status}\r\nContent-Length: 1\r\n\r\n{name}").into_bytes()
        });
    })
}

/// The names of the servers that answer twenty requests.
fn answers(carrick: &Carrick) -> String {
    (0..20)
        .filter_map(|_| {
            let response = carrick
                .connect()
                .ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
            // 503: a well server was checked too late, on a busy machine.
            (response.status != 503).then(|| response.text())
        })
        .collect()
}

fn wait_for_both(carrick: &Carrick) {
    wait_for("both servers to answer", || {
        let both = answers(carrick);
        (both.contains('a') && both.contains('b')).then_some(())
    });
}

#[test]
fn a_sick_server_gets_no_requests_until_it_is_well_again() {
    let place = Place::claim();
    let (a_is_well, b_is_well) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(AtomicBool::new(true)),
    );
    let a = server(&place, "a", &a_is_well);
    let b = server(&place, "b", &b_is_well);
    let text = carrick::switch_text(&[a.address(), b.address()])
        + "health = { path = \"/healthz\", every = \"500ms\", fall = 2, rise = 2 }\n";
    let carrick = Carrick::start(&place, &text);
    let label = format!("server=\"{}\"", a.address());
    let is_up = |expected: bool| {
        wait_for("the state to change", || {
            let up = carrick.metric("carrick_server_up", &[&label]) > 0.5;
            let servers = &carrick.status()["upstreams"][0]["servers"];
            assert_eq!(servers[0]["address"], a.address().to_string());
            let is_told = servers[0]["up"] == expected && servers[1]["up"] == true;
            (up == expected && is_told).then_some(())
        });
    };
    wait_for_both(&carrick);

    a_is_well.store(false, Ordering::SeqCst);
    is_up(false);
    assert!(!answers(&carrick).contains('a'));
    wait_for("the well one to answer", || {
        answers(&carrick).contains('b').then_some(())
    });
    let message = format!(
        "upstream u: server {} is down: answered with status 503",
        a.address()
    );
    carrick
        .standard_error()
        .wait_for(&message)
        .expect("a message");

    a_is_well.store(true, Ordering::SeqCst);
    is_up(true);
    wait_for_both(&carrick);
    let message = format!("upstream u: server {} is up again", a.address());
    carrick
        .standard_error()
        .wait_for(&message)
        .expect("a message");
    assert!(carrick.metric("carrick_health_checks_total", &["result=\"failed\""]) >= 2.0);
    assert!(carrick.metric("carrick_health_checks_total", &["result=\"good\""]) >= 4.0);
}

#[test]
fn a_server_that_is_gone_is_found_by_connecting_alone() {
    let place = Place::claim();
    let well = Arc::new(AtomicBool::new(true));
    let a = server(&place, "a", &well);
    let (gone, _reserved) = place.refusing();
    let text = carrick::switch_text(&[gone, a.address()])
        + "health = { every = \"100ms\", fall = 1, rise = 1 }\n";
    let carrick = Carrick::start(&place, &text);
    let label = format!("server=\"{gone}\"");
    wait_for("the server to be excluded", || {
        (carrick.metric("carrick_server_up", &[&label]) < 0.5).then_some(())
    });
    wait_for("the other one to answer", || {
        answers(&carrick).contains('a').then_some(())
    });
}
