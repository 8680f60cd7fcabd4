//! Which server gets a request.
use crate::support::carrick::upstream_text;
use crate::support::place::{LISTENER_PORT, TUNNEL_PORT};
use crate::support::server::{Serving, answer_requests};
use crate::support::{Carrick, Peer, Place, Server};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A server that answers with its own address.
fn named(place: &Place) -> Serving {
    let server = Server::listen(place);
    let name = server.address().to_string();
    server.serve(move |peer, _| {
        answer_requests(peer, |_| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}",
                name.len()
            )
            .into_bytes()
        });
    })
}

/// A switch with one worker, so that one balancer decides about all requests.
fn start(place: &Place, upstream: &str) -> Carrick {
    Carrick::start(
        place,
        &format!(
            "[workers]\ncount = 1\n[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n{upstream}"
        ),
    )
}

/// Number of responses from each server.
fn counts(
    carrick: &Carrick,
    requests: impl IntoIterator<Item = String>,
) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut client = carrick.connect();
    for request in requests {
        *counts.entry(client.ask(&request).text()).or_insert(0) += 1;
    }
    counts
}

fn plain(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"))
}

#[test]
fn round_robin_takes_turns() {
    let place = Place::claim();
    let servings = [named(&place), named(&place), named(&place)];
    let addresses = servings.each_ref().map(Serving::address);
    let carrick = start(&place, &upstream_text("u", &addresses));
    let counts = counts(&carrick, plain(30));
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [10, 10, 10]);
    // Each with one connection: none is opened without need.
    assert!(servings.iter().all(|serving| serving.accepted() == 1));
}

#[test]
fn weights_are_the_shares() {
    let place = Place::claim();
    let servings = [named(&place), named(&place), named(&place)];
    let [a, b, c] = servings.each_ref().map(Serving::address);
    for balance in ["round-robin", "two-choices"] {
        let carrick = start(
            &place,
            &format!(
                "[upstream.u]\nservers = [{{ address = \"{a}\", weight = 5 }}, \"{b}\", {{ address = \"{c}\", weight = 2 }}]\nbalance = \"{balance}\"\n"
            ),
        );
        let counts = counts(&carrick, plain(160));
        let shares =
            [a, b, c].map(|address| counts.get(&address.to_string()).copied().unwrap_or(0));
        match balance {
            "round-robin" => assert_eq!(shares, [100, 20, 40]),
            _ => assert!(
                shares[0] > shares[1] && shares.iter().all(|share| *share > 0),
                "{shares:?}"
            ),
        }
    }
}

/// Active requests count; a server without any gets the next one.
#[test]
fn least_connections_and_two_choices_avoid_the_busy_server() {
    let place = Place::claim();
    for balance in ["least-connections", "two-choices"] {
        let (first, second) = (Server::listen(&place), Server::listen(&place));
        let carrick = start(
            &place,
            &format!(
                "{}balance = \"{balance}\"\n",
                upstream_text("u", &[first.address(), second.address()])
            ),
        );
        // An unanswered request occupies its server.
        let mut busy_client = carrick.connect();
        busy_client.send("GET /busy HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut busy = crate::support::wait_for("the request", || {
            first.try_accept().or_else(|| second.try_accept())
        });
        busy.read_head();
        let is_first_busy = busy.local_address() == first.address();
        let idle = if is_first_busy { &second } else { &first };
        let other = if is_first_busy { &first } else { &second };
        let mut client = carrick.connect();
        let mut upstream: Option<Peer> = None;
        for _ in 0..10 {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let upstream = upstream.get_or_insert_with(|| idle.accept());
            upstream.read_head();
            upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
            assert_eq!(client.read_response("GET").status, 204);
        }
        other.expect_no_connection();
        busy.send("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(busy_client.read_response("GET").status, 204);
    }
}

/// One whose queue of connections is full drops SYNs.
#[test]
fn requests_that_wait_for_a_connection_count() {
    let place = Place::claim();
    for balance in ["least-connections", "two-choices"] {
        let (deaf, listener) = place.refusing();
        listener.listen(0).expect("a queue");
        let _queued = Peer::connect(deaf);
        let server = Server::listen(&place);
        let carrick = start(
            &place,
            &format!(
                "[timeouts]\nconnect = \"60s\"\n{}balance = \"{balance}\"\n",
                upstream_text("u", &[deaf, server.address()])
            ),
        );
        let mut clients = Vec::new();
        for _ in 0..20 {
            let mut client = carrick.connect();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            clients.push(client);
        }
        let _served: Vec<_> = (0..8).map(|_| server.accept()).collect();
    }
}

/// Least connections with all servers idle: in turn, not always the first.
#[test]
fn least_connections_spreads_when_all_servers_are_idle() {
    let place = Place::claim();
    let servings = [named(&place), named(&place)];
    let addresses = servings.each_ref().map(Serving::address);
    let carrick = start(
        &place,
        &format!(
            "{}balance = \"least-connections\"\n",
            upstream_text("u", &addresses)
        ),
    );
    let counts = counts(&carrick, plain(20));
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [10, 10]);
}

#[test]
fn hash_sends_equal_keys_to_one_server_and_spreads_different_ones() {
    let place = Place::claim();
    let servings = [named(&place), named(&place), named(&place)];
    let addresses = servings.each_ref().map(Serving::address);
    type Request = fn(usize, usize) -> String;
    // The first number is the key, the second must not matter.
    let rows: [(&str, Request); 4] = [
        ("path", |key, other| {
            format!("GET /{key}?{other} HTTP/1.1\r\nHost: h{other}\r\n\r\n")
        }),
        ("host", |key, other| {
            format!("GET /{other} HTTP/1.1\r\nHost: h{key}\r\n\r\n")
        }),
        ("header:X-Key", |key, other| {
            format!("GET /{other} HTTP/1.1\r\nHost: h{other}\r\nx-key: {key}\r\n\r\n")
        }),
        ("cookie:id", |key, other| {
            format!("GET /{other} HTTP/1.1\r\nHost: a\r\nCookie: x={other}; id={key}\r\n\r\n")
        }),
    ];
    for (hash_on, request) in rows {
        let carrick = start(
            &place,
            &format!(
                "{}balance = \"hash\"\nhash_on = \"{hash_on}\"\n",
                upstream_text("u", &addresses)
            ),
        );
        let mut all = BTreeMap::new();
        for key in 0..30 {
            let counts = counts(&carrick, (0..4).map(|other| request(key, other)));
            assert_eq!(counts.len(), 1, "{hash_on}: key {key} went to {counts:?}");
            *all.entry(counts.into_keys().next().unwrap()).or_insert(0) += 1;
        }
        assert_eq!(all.len(), 3, "{hash_on}: 30 keys went to {all:?}");
        if hash_on.contains(':') {
            for keyless in ["", "X-Key:\r\nCookie: x=1; id=\r\n"] {
                let requests =
                    (0..6).map(|_| format!("GET / HTTP/1.1\r\nHost: a\r\n{keyless}\r\n"));
                let counts = counts(&carrick, requests);
                assert!(
                    counts.values().all(|&count| count == 2),
                    "{hash_on}, {keyless:?}: {counts:?}"
                );
                assert_eq!(counts.len(), 3, "{hash_on}, {keyless:?}: {counts:?}");
            }
        }
    }
}

#[test]
fn hash_on_client_goes_by_the_clients_address() {
    let place = Place::claim();
    let servings = [named(&place), named(&place), named(&place)];
    let addresses = servings.each_ref().map(Serving::address);
    let carrick = start(
        &place,
        &format!(
            "{}balance = \"hash\"\nhash_on = \"client\"\n",
            upstream_text("u", &addresses)
        ),
    );
    let mut all = std::collections::BTreeSet::new();
    for number in 1..=30 {
        let from = std::net::Ipv4Addr::new(127, 0, 9, number).into();
        let mut texts = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let mut client = Peer::connect_from(from, carrick.listener());
            texts.insert(client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text());
        }
        assert_eq!(texts.len(), 1, "{from}: {texts:?}");
        all.extend(texts);
    }
    assert_eq!(all.len(), 3);
}

/// When a server leaves, only its own keys move.
#[test]
fn hash_keeps_keys_when_another_server_is_down() {
    let place = Place::claim();
    let servings = [named(&place), named(&place)];
    let (refusing, _guard) = place.refusing();
    let two = servings.each_ref().map(Serving::address);
    let three = [two[0], two[1], refusing];
    let request = |key: usize| format!("GET /{key} HTTP/1.1\r\nHost: a\r\n\r\n");
    let whom = |servers: &[SocketAddr]| -> Vec<String> {
        let carrick = start(
            &place,
            &format!(
                "{}balance = \"hash\"\nhash_on = \"path\"\n",
                upstream_text("u", servers)
            ),
        );
        let mut client = carrick.connect();
        (0..40)
            .map(|key| client.ask(&request(key)).text())
            .collect()
    };
    assert_eq!(whom(&two), whom(&three));
}

#[test]
fn tunnels_are_balanced_too() {
    let place = Place::claim();
    let greeter = || {
        let server = Server::listen(&place);
        let name = server.address().to_string();
        server.serve(move |mut peer, _| peer.send(&name))
    };
    let servings = [greeter(), greeter()];
    let addresses = servings.each_ref().map(Serving::address);
    let carrick = Carrick::start(
        &place,
        &format!(
            "[workers]\ncount = 1\n[[listener]]\nlisten = \"{{ip}}:{TUNNEL_PORT}\"\nmode = \"tunnel\"\n[[listener.route]]\nupstream = \"u\"\n{}",
            upstream_text("u", &addresses)
        ),
    );
    let mut counts = BTreeMap::new();
    for _ in 0..10 {
        *counts
            .entry(carrick.connect_tunnel().read_to_end())
            .or_insert(0) += 1;
    }
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [5, 5]);
}
