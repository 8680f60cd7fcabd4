//! Running out of file descriptors: one clear message, waiting clients are served later, and everything recovers.
use super::echo_server;
use crate::support::carrick::PROGRAM;
use crate::support::place::LISTENER_PORT;
use crate::support::{Carrick, Peer, Place, carrick};
use rustix::process::{Resource, Rlimit, prlimit};
use std::collections::VecDeque;
use std::process::Command;

const ASK: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// The connection ends with the response, and frees its descriptor.
const ASK_ONCE: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

/// The log message.
const MESSAGE: &str = "new clients wait until descriptors are free";

/// Sets the descriptor limit of a running carrick.
fn set_descriptor_limit(carrick: &Carrick, limit: u64) {
    let limit = Rlimit {
        current: Some(limit),
        maximum: Some(20_000),
    };
    prlimit(Some(carrick.pid()), Resource::Nofile, limit).expect("a limit");
}

/// A carrick started with this limit, hard and soft.
fn start_with_limit(place: &Place, text: &str, limit: u64) -> Carrick {
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--nofile={limit}:{limit}"))
        .arg(PROGRAM);
    Carrick::try_start_by(place, text, command).expect("a start")
}

#[test]
fn clients_wait_while_descriptors_are_short_and_are_served_afterwards() {
    let place = Place::claim();
    let server = echo_server(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    // An idle upstream connection, and admin's: the number in use is stable.
    assert_eq!(carrick.connect().ask(ASK).status, 200);
    let in_use = carrick.descriptors() as u64;
    set_descriptor_limit(&carrick, in_use + 10);
    let mut clients: Vec<Peer> = (0..60).map(|_| carrick.connect()).collect();
    for client in &mut clients {
        client.send(ASK_ONCE);
    }
    carrick
        .standard_error()
        .wait_for(MESSAGE)
        .expect("a message");
    // As answered clients leave, the next ones are admitted: none is rejected without a response.
    for client in &mut clients {
        let status = client.read_response("GET").status;
        assert!(matches!(status, 200 | 503), "{status}");
    }
    set_descriptor_limit(&carrick, 1000);
    let mut again: Vec<Peer> = (0..60).map(|_| carrick.connect()).collect();
    for client in &mut again {
        assert_eq!(client.ask(ASK).status, 200);
    }
    assert!(carrick.limit_reached("descriptors") >= 1.0);
    drop(again);
    let ended = carrick.stop();
    let complaints = ended.standard_error.matches(MESSAGE).count();
    assert_eq!(complaints, 1, "{}", ended.standard_error);
}

#[test]
fn an_upstream_connection_without_a_descriptor_is_answered_with_503() {
    let place = Place::claim();
    let server = echo_server(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    let mut clients: Vec<Peer> = (0..4).map(|_| carrick.connect()).collect();
    carrick.wait_until_clients(4);
    // A new descriptor would get a higher number, whatever is closed meanwhile.
    set_descriptor_limit(&carrick, 5);
    let response = clients[0].ask(ASK);
    assert_eq!(response.status, 503, "{}", response.text());
    assert!(
        response.text().contains("descriptor"),
        "{}",
        response.text()
    );
    // A local shortage does not count against the server.
    set_descriptor_limit(&carrick, 1000);
    for client in &mut clients {
        assert_eq!(client.ask(ASK).status, 200);
    }
    assert!(carrick.limit_reached("descriptors") >= 1.0);
    assert_eq!(
        carrick.status()["upstreams"][0]["servers"][0]["failures"],
        0
    );
}

#[test]
fn a_low_limit_is_reported_at_start_and_admits_as_many_as_possible() {
    let place = Place::claim();
    let server = echo_server(&place);
    // Admitted clients without a request must not be rejected.
    let text = format!(
        "[timeouts]\nhead = \"5m\"\ndrain = \"2s\"\n{}",
        carrick::switch_text(&[server.address()])
    );
    let carrick = start_with_limit(&place, &text, 256);
    carrick
        .standard_error()
        .wait_for("the limit of 256 file descriptors allows only 60 clients")
        .expect("a message");
    let mut clients: Vec<Peer> = (0..200).map(|_| carrick.connect()).collect();
    carrick.wait_for_metric("carrick_client_connections_open", &[], 60.0);
    assert!(carrick.limit_reached("connections") >= 1.0);
    for client in &mut clients {
        client.send(ASK_ONCE);
    }
    // As answered clients leave, the others follow, and each gets a descriptor for its server connection.
    for client in &mut clients {
        assert_eq!(client.read_response("GET").status, 200);
    }
    assert!(carrick.limit_reached("descriptors") < 0.5);
    drop(clients);
    carrick.wait_until_clients(0);
    assert_eq!(carrick.connect().ask(ASK).status, 200);
    assert_eq!(carrick.ask_admin("/health").status, 200);
}

#[test]
fn even_a_very_low_limit_serves_a_client() {
    for limit in [64, 100, 128] {
        let place = Place::claim();
        let server = echo_server(&place);
        let text = carrick::switch_text(&[server.address()]);
        let carrick = start_with_limit(&place, &text, limit);
        assert_eq!(carrick.connect().ask(ASK).status, 200, "with {limit}");
    }
}

#[test]
fn a_shortage_that_goes_on_is_not_repeated_in_the_log() {
    let place = Place::claim();
    let server = echo_server(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    assert_eq!(carrick.connect().ask(ASK).status, 200);
    set_descriptor_limit(&carrick, carrick.descriptors() as u64 + 8);
    // Clients come and go all the time, and some are always waiting.
    let mut waiting = VecDeque::new();
    for number in 0..200 {
        let mut client = carrick.connect();
        client.send(ASK_ONCE);
        waiting.push_back(client);
        if number >= 40 {
            let mut first = waiting.pop_front().expect("a client");
            let status = first.read_response("GET").status;
            assert!(matches!(status, 200 | 503), "{status}");
        }
    }
    drop(waiting);
    let ended = carrick.stop();
    let complaints = ended.standard_error.matches(MESSAGE).count();
    assert_eq!(complaints, 1);
}

#[test]
fn all_clients_are_served_in_turn_with_few_descriptors() {
    let place = Place::claim();
    let servers: Vec<_> = (0..4).map(|_| echo_server(&place)).collect();
    let listener = format!(
        "[[listener]]\nlisten = \"{}\"\nmode = \"switch\"\n",
        place.at(LISTENER_PORT)
    );
    let routes: String = (0..4)
        .map(|number| {
            format!("[[listener.route]]\npath = \"/{number}\"\nupstream = \"u{number}\"\n")
        })
        .collect();
    let upstreams: String = (servers.iter().enumerate())
        .map(|(number, server)| carrick::upstream_text(&format!("u{number}"), &[server.address()]))
        .collect();
    let carrick = start_with_limit(&place, &(listener + &routes + &upstreams), 200);
    // Idle connections to one server make room for connections to the others.
    for round in 0..4 {
        let mut clients: Vec<Peer> = (0..150).map(|_| carrick.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let path = if number % 3 == 0 { number % 4 } else { round };
            client.send(ASK_ONCE.replace("/a ", &format!("/{path} ")));
        }
        for client in &mut clients {
            assert_eq!(client.read_response("GET").status, 200);
        }
    }
    assert!(carrick.descriptors() < 200);
    assert!(carrick.limit_reached("descriptors") < 0.5);
    assert!(carrick.limit_reached("connections") >= 1.0);
}
