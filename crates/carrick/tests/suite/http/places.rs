//! Limits on the number of clients.
use super::{GET, start};
use crate::support::carrick::{switch_text, tunnel_text};
use crate::support::{Carrick, Peer, Place, Server, wait_until};

/// Clients that send nothing are not closed while a test runs.
const PATIENT: &str = "[timeouts]\nhead = \"10m\"\ndrain = \"2s\"";

/// A client beyond the limit waits in the accept queue, and is served when another one leaves.
#[test]
fn more_clients_than_allowed_wait_for_a_place() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        &format!(
            "{PATIENT}\n[workers]\ncount = 1\n[limits]\nconnections = 3\n[admin]\nlisten = \"{{ip}}:13129\""
        ),
    );
    let first: Vec<Peer> = (0..3).map(|_| carrick.connect()).collect();
    carrick.wait_for_metric("carrick_client_connections_open", &[], 3.0);
    let mut late = carrick.connect();
    late.send(GET);
    carrick.wait_for_limit("connections", 1.0);
    server.expect_no_connection();
    assert!(!late.has_more());
    drop(first);
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(late.read_response("GET").status, 204);
}

#[test]
fn one_client_may_not_take_all_places() {
    let place = Place::claim();
    let server = Server::listen(&place);
    for text in [
        switch_text(&[server.address()]),
        tunnel_text(&[server.address()]),
    ] {
        let place = Place::claim();
        let carrick = Carrick::start(
            &place,
            &format!("{PATIENT}\n[limits]\nconnections_per_client = 2\n{text}"),
        );
        let to = if text.contains("tunnel") {
            carrick.tunnel_address()
        } else {
            carrick.listener()
        };
        let (greedy, modest) = ([127, 0, 8, 1].into(), [127, 0, 8, 2].into());
        let mut kept = vec![
            Peer::connect_from(greedy, to),
            Peer::connect_from(greedy, to),
        ];
        carrick.wait_for_metric("carrick_client_connections_open", &[], 2.0);
        for _ in 0..3 {
            let mut refused = Peer::connect_from(greedy, to);
            let _ = refused.try_send(GET);
            assert!(refused.read_ending().bytes().is_empty() || text.contains("switch"));
        }
        assert_eq!(carrick.limit_reached("connections_per_client"), 3.0);
        // Other clients are not affected, and a freed slot counts.
        let _other = Peer::connect_from(modest, to);
        carrick.wait_for_metric("carrick_client_connections_open", &[], 3.0);
        drop(kept.pop());
        wait_until("the place to be free", || {
            // The server of a tunnel must close its side, too.
            while server.try_accept().is_some() {}
            carrick.clients_open() == 2.0
        });
        let _again = Peer::connect_from(greedy, to);
        carrick.wait_for_metric("carrick_client_connections_open", &[], 3.0);
        // Connections of a tunnel reached the server.
        while server.try_accept().is_some() {}
    }
}
