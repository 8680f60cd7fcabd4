//! Idle connections, and idle connections that have died.
use crate::support::carrick::{FORWARD_TEXT, switch_text};
use crate::support::message::field;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Peer, Place, Server, wait_for, wait_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Answers as servers do that authenticate connections by NTLM, in two steps; without credentials, too.
pub fn authenticate_connection(peer: Peer) {
    let mut user = None;
    answer_requests(peer, |head| {
        let credentials = field(head, "authorization").unwrap_or_default();
        let words: Vec<_> = credentials.split(' ').collect();
        let challenge = match (&words[..], &user) {
            (["NTLM" | "negotiate", "begins"], _) => "WWW-Authenticate: NTLM continue\r\n",
            (["NTLM" | "negotiate", name], _) => {
                user = Some((*name).to_owned());
                ""
            }
            (_, None) => "WWW-Authenticate: Negotiate\r\nWWW-Authenticate: NTLM\r\n",
            (_, Some(_)) => "",
        };
        let (status, body) = match &user {
            Some(user) if challenge.is_empty() => {
                ("200 OK\r\nCache-Control: max-age=60", format!("of {user}"))
            }
            _ => ("401 Unauthorized", "who?".to_owned()),
        };
        let length = body.len();
        format!("HTTP/1.1 {status}\r\n{challenge}Content-Length: {length}\r\n\r\n{body}").into()
    });
}

/// One worker, so that it is known which one keeps the connection.
fn one_worker(place: &Place, server: &Server, tables: &str) -> Carrick {
    let text = switch_text(&[server.address()]);
    Carrick::start(place, &format!("[workers]\ncount = 1\n{text}\n{tables}"))
}

/// A connection that has answered one request and is idle.
fn idle_connection(carrick: &Carrick, server: &Server) -> Peer {
    let (mut client, mut upstream) = carrick.asked(server, GET);
    upstream.send(OK);
    assert_eq!(client.read_response("GET").text(), "ok");
    upstream
}

/// So many clients, each answered by a connection of its own; and these connections, which are idle.
fn answered_at_once(carrick: &Carrick, server: &Server, count: usize) -> (Vec<Peer>, Vec<Peer>) {
    let mut clients: Vec<Peer> = (0..count).map(|_| carrick.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(GET));
    let mut upstreams: Vec<Peer> = (0..count).map(|_| server.accept()).collect();
    for upstream in &mut upstreams {
        upstream.read_head();
        upstream.send(OK);
    }
    for client in &mut clients {
        assert_eq!(client.read_response("GET").text(), "ok");
    }
    (clients, upstreams)
}

#[test]
fn many_clients_one_after_the_other_share_one_connection() {
    let place = Place::claim();
    let serving = Server::listen(&place).serve(|peer, _| answer_requests(peer, |_| OK.into()));
    let text = switch_text(&[serving.address()]);
    let carrick = Carrick::start(&place, &format!("[workers]\ncount = 1\n{text}"));
    for _ in 0..30 {
        let mut client = carrick.connect();
        assert_eq!(client.ask(GET).text(), "ok");
    }
    assert_eq!(serving.accepted(), 1);
    assert_eq!(
        carrick.metric("carrick_upstream_connections_opened_total", &[]),
        1.0
    );
    assert_eq!(
        carrick.metric("carrick_upstream_connections_reused_total", &[]),
        29.0
    );
    let lines = carrick.access_log(30);
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.value("reused") == true)
            .count(),
        29
    );
}

#[test]
fn no_more_connections_are_kept_than_keepalive_says() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = one_worker(&place, &server, "keepalive = 2");
    let (_clients, mut upstreams) = answered_at_once(&carrick, &server, 5);
    let idle = wait_for("the surplus connections to be closed", || {
        upstreams.retain_mut(|upstream| !upstream.has_more());
        (upstreams.len() <= 2).then_some(upstreams.len())
    });
    assert_eq!(idle, 2);
}

/// NTLM and Negotiate: what follows on the connection is the same client's.
#[test]
fn a_connection_that_a_client_has_authenticated_is_its_own() {
    let place = Place::claim();
    let serving = Server::listen(&place).serve(|peer, _| authenticate_connection(peer));
    let server = serving.address();
    let text = format!(
        "[workers]\ncount = 1\n[cache]\nmemory = \"1 MB\"\n{FORWARD_TEXT}{}",
        switch_text(&[server]).replace("upstream = \"u\"", "upstream = \"u\"\ncache = true")
    );
    let carrick = Carrick::start(&place, &text);
    let ask = |client: &mut Peer, target: &str, credentials: &str| {
        let fields = match credentials {
            "" => String::new(),
            _ => format!("Authorization: {credentials}\r\n"),
        };
        let request = format!("GET {target} HTTP/1.1\r\nHost: {server}\r\n{fields}\r\n");
        client.ask(&request).text()
    };
    for (is_forward, scheme) in [(false, "NTLM"), (false, "negotiate"), (true, "NTLM")] {
        let connect = || match is_forward {
            true => carrick.connect_forward(),
            false => carrick.connect(),
        };
        let origin = if is_forward {
            format!("http://{server}")
        } else {
            String::new()
        };
        let (public, private) = (
            format!("{origin}/{scheme}"),
            format!("{origin}/{scheme}/own"),
        );
        let [mut alice, mut mallory] = [connect(), connect()];
        assert_eq!(ask(&mut mallory, &public, ""), "who?");
        assert_eq!(
            ask(&mut alice, &public, &format!("{scheme} begins")),
            "who?"
        );
        assert_eq!(ask(&mut mallory, &public, ""), "who?");
        assert_eq!(
            ask(&mut alice, &private, &format!("{scheme} alice")),
            "of alice"
        );
        for _ in 0..3 {
            assert_eq!(ask(&mut alice, &private, ""), "of alice");
            assert_eq!(ask(&mut mallory, &private, ""), "who?");
        }
        let open = || carrick.metric("carrick_upstream_connections_open", &[]);
        let before = open();
        drop(alice);
        wait_until("it to be closed with its client", || open() < before);
        assert_eq!(ask(&mut connect(), &private, ""), "who?");
    }
}

#[test]
fn a_connection_that_a_client_has_authenticated_begins_with_one_proxy_header() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = one_worker(&place, &server, "send_proxy_protocol = \"v1\"");
    let ask = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: NTLM x\r\n\r\n";
    let mut client = carrick.connect();
    client.send(ask);
    let mut upstream = server.accept();
    let head = upstream.read_head();
    assert!(head.starts_with("PROXY TCP4 "), "{head}");
    upstream
        .send("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM y\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 401);
    client.send(ask);
    let head = upstream.read_head();
    assert!(head.starts_with("GET "), "{head}");
    upstream.send(OK);
    assert_eq!(client.read_response("GET").status, 200);
}

/// By its connection, the next request may be another client's.
#[test]
fn a_trusted_proxy_keeps_no_connection_that_a_client_has_authenticated() {
    let place = Place::claim();
    let serving = Server::listen(&place).serve(|peer, _| authenticate_connection(peer));
    let text = switch_text(&[serving.address()]).replace(
        "mode = \"switch\"\n",
        "mode = \"switch\"\ntrusted_proxies = [\"127.0.0.0/8\"]\n",
    );
    let carrick = Carrick::start(&place, &text);
    let mut proxy = carrick.connect();
    let mut ask = |client: &str, fields: &str| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.{client}\r\n{fields}\r\n"
        );
        proxy.ask(&request).text()
    };
    for _ in 0..3 {
        assert_eq!(ask("1", "Authorization: NTLM alice\r\n"), "of alice");
        assert_eq!(ask("2", ""), "who?");
    }
}

#[test]
fn without_keepalive_every_request_has_a_connection_of_its_own() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = one_worker(&place, &server, "keepalive = 0");
    let mut client = carrick.connect();
    for _ in 0..3 {
        client.send(GET);
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(OK);
        assert_eq!(client.read_response("GET").text(), "ok");
        upstream.expect_reset();
    }
}

/// The close arrives, and is known, before the next request.
#[test]
fn a_connection_that_the_server_has_closed_is_not_used() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = one_worker(&place, &server, "");
    for request in [GET, POST] {
        for with_reset in [false, true] {
            let upstream = idle_connection(&carrick, &server);
            let carricks_end = upstream.far_end();
            if with_reset {
                upstream.reset();
            } else {
                drop(upstream);
            }
            wait_until("the end", || carricks_end.knows_of_end());
            // The kernel has noticed; the request must not fail, whether or not the worker has.
            let (mut client, mut fresh) = carrick.asked(&server, request);
            if request == POST {
                fresh.expect("hi");
            }
            fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew");
            assert_eq!(
                client.read_response("GET").text(),
                "new",
                "{request:?} reset: {with_reset}"
            );
            fresh.expect_reset();
        }
    }
}

/// The close crosses the request: the server has read it, and closes without a byte of a response.
#[test]
fn a_get_on_a_connection_that_dies_is_sent_again() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = one_worker(&place, &server, "");
    for with_reset in [false, true] {
        let mut stale = idle_connection(&carrick, &server);
        let mut client = carrick.connect();
        client.send(GET);
        stale.read_head();
        if with_reset {
            stale.reset();
        } else {
            drop(stale);
        }
        let mut fresh = server.accept();
        assert!(fresh.read_head().starts_with("GET / "));
        fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew");
        assert_eq!(client.read_response("GET").text(), "new");
    }
    assert_eq!(carrick.metric("carrick_retries_total", &[]), 2.0);
}

#[test]
fn a_post_on_a_connection_that_dies_is_not_sent_again() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = one_worker(&place, &server, "");
    for (request, body) in [
        (POST, "hi"),
        ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", ""),
        (
            "PATCH / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
            "hi",
        ),
        ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n", ""),
        // Idempotent, but the body is gone.
        (
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            "2\r\nhi\r\n0\r\n\r\n",
        ),
    ] {
        for with_reset in [false, true] {
            let mut stale = idle_connection(&carrick, &server);
            let mut client = carrick.connect();
            client.send(request);
            stale.read_head();
            stale.expect(body);
            if with_reset {
                stale.reset();
            } else {
                drop(stale);
            }
            let response = client.read_response("POST");
            assert_eq!(response.status, 502, "{request:?}");
            server.expect_no_connection();
        }
    }
    assert_eq!(carrick.metric("carrick_retries_total", &[]), 0.0);
}

/// That a kept connection has died says nothing against its server, but what comes over it does.
#[test]
fn a_bad_answer_by_a_kept_connection_is_not_replaced_and_counts_against_the_server() {
    for answer in ["H", "nonsense\r\n\r\n"] {
        let place = Place::claim();
        let server = Server::listen(&place);
        let carrick = one_worker(&place, &server, "");
        let mut upstream = idle_connection(&carrick, &server);
        let mut client = carrick.connect();
        client.send(GET);
        upstream.read_head();
        upstream.send(answer);
        drop(upstream);
        assert_eq!(client.read_response("GET").status, 502, "{answer:?}");
        server.expect_no_connection();
        carrick.wait_for_metric("carrick_server_failures_total", &[], 1.0);
    }
}

/// Several idle connections may have died together; a new one must be tried before the client gets an error.
#[test]
fn many_dead_connections_do_not_fail_a_request() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = one_worker(&place, &server, "");
    let (_clients, mut upstreams) = answered_at_once(&carrick, &server, 8);
    for request in [GET, POST] {
        let ends: Vec<_> = upstreams.iter().map(Peer::far_end).collect();
        drop(std::mem::take(&mut upstreams));
        // A program that another test starts may have a copy of them for a moment.
        wait_until("the connections to be closed", || {
            ends.iter().all(|end| end.knows_of_end())
        });
        let (mut client, mut fresh) = carrick.asked(&server, request);
        fresh.send(OK);
        assert_eq!(client.read_response("GET").text(), "ok");
        upstreams.push(fresh);
    }
}

#[test]
fn an_idle_connection_ends_with_the_idle_time_out() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = switch_text(&[server.address()]);
    let carrick = Carrick::start(
        &place,
        &format!("[timeouts]\nidle = \"15s\"\ndrain = \"1s\"\n{text}"),
    );
    let mut upstream = idle_connection(&carrick, &server);
    upstream.expect_reset();
}
