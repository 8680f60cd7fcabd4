//! Fields: end-to-end ones stay, hop-by-hop ones are removed (RFC 9110 section 7.6.1), `Via` and the client's address are added.
use crate::support::carrick::switch_text;
use crate::support::message::{field, via};
use crate::support::{Carrick, Peer, Place, Server};

pub struct Stage {
    pub server: Server,
    pub carrick: Carrick,
    pub place: Place,
}

impl Stage {
    /// With additional keys of the listener.
    pub fn with(keys: &str) -> Self {
        let place = Place::claim();
        let server = Server::listen(&place);
        let text = switch_text(&[server.address()]).replace(
            "mode = \"switch\"\n",
            &format!("mode = \"switch\"\n{keys}\n"),
        );
        let carrick = Carrick::start(&place, &text);
        Self {
            server,
            carrick,
            place,
        }
    }

    /// The head that the server gets for a request, and the head that the client gets for a response.
    pub fn exchange(&self, request: &str, response: &str) -> (String, String) {
        self.exchange_with(self.carrick.connect(), request, response)
    }

    /// The same with a connected client.
    pub fn exchange_with(
        &self,
        mut client: Peer,
        request: &str,
        response: &str,
    ) -> (String, String) {
        client.send(request);
        let mut upstream = self.server.accept();
        let request = upstream.read_head();
        upstream.send(response);
        let response = client.read_head();
        // The next round has its own connections.
        drop(client);
        upstream.half_close();
        upstream.read_ending();
        (request, response)
    }
}

pub const NOTHING: &str = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";

#[test]
fn end_to_end_fields_stay_in_their_order_and_form() {
    let stage = Stage::with("");
    let fields = "X-b: 1\r\nx-A: two words\r\nX-b: 3\r\nCookie: a=b; c=\"d\"\r\nAuthorization: Basic eDp5\r\nX-Empty: \r\nX-Obs: \u{e9}\r\nAccept: */*;q=0.1\r\nExpires: 0\r\nUser-Agent: play/1\r\n";
    let (request, response) = stage.exchange(
        &format!("GET /%7Ea/../b//c?x=%20&y HTTP/1.1\r\nHost: A.Example:8080\r\n{fields}\r\n"),
        &format!("HTTP/1.1 204 Nothing Here\r\n{fields}Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: close\r\n\r\n"),
    );
    assert!(
        request.starts_with("GET /%7Ea/../b//c?x=%20&y HTTP/1.1\r\nHost: A.Example:8080\r\n"),
        "{request}"
    );
    assert!(
        request
            .replace("X-Empty: \r\n", "X-Empty:\r\n")
            .contains(&fields.replace("X-Empty: \r\n", "X-Empty:\r\n")),
        "{request}"
    );
    assert!(
        response.starts_with("HTTP/1.1 204 Nothing Here\r\n"),
        "{response}"
    );
    assert_eq!(field(&response, "set-cookie").as_deref(), Some("a=1, b=2"));
    assert_eq!(field(&response, "x-b").as_deref(), Some("1, 3"));
}

/// What servers say of other places (RFC 7838).
pub const ALTERNATIVES: [&str; 3] = [
    "h3=\":443\"; ma=86400, h2=\"alt.example:8443\"; ma=60; persist=1",
    "h3-29=\"[2001:db8::1]:443\"",
    "clear",
];

#[test]
fn alternative_services_of_servers_pass_as_they_come() {
    let stage = Stage::with("");
    let fields: String = ALTERNATIVES
        .map(|value| format!("Alt-Svc: {value}\r\n"))
        .concat();
    let (_, response) = stage.exchange(
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &format!("HTTP/1.1 204 No Content\r\n{fields}Connection: close\r\n\r\n"),
    );
    assert!(response.contains(&fields), "{response}");
    // carrick adds none of its own.
    let (_, response) = stage.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n", NOTHING);
    assert_eq!(field(&response, "alt-svc"), None);
}

#[test]
fn hop_by_hop_fields_go_in_both_directions_with_those_that_connection_names() {
    let stage = Stage::with("");
    let (request, response) = stage.exchange(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Mine, keep-alive\r\nConnection: x-too\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nX-Mine: 1\r\nX-Too: 2\r\nX-Stays: 3\r\nProxy-Authorization: Basic eDp5\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nConnection: X-Yours, close\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nX-Yours: 1\r\nX-Stays: 3\r\nProxy-Authenticate: Basic realm=x\r\n\r\n",
    );
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "x-mine",
        "x-too",
        "proxy-authorization",
    ] {
        assert_eq!(field(&request, name), None, "{name} in {request}");
    }
    for name in [
        "keep-alive",
        "proxy-connection",
        "x-yours",
        "proxy-authenticate",
    ] {
        assert_eq!(field(&response, name), None, "{name} in {response}");
    }
    assert_eq!(field(&request, "x-stays").as_deref(), Some("3"));
    assert_eq!(field(&response, "x-stays").as_deref(), Some("3"));
}

/// A client must not make the proxy remove fields that the server relies on.
#[test]
fn connection_cannot_name_fields_that_are_for_all_recipients() {
    let stage = Stage::with("");
    let (request, _) = stage.exchange(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close, Host, Cookie, Authorization, Content-Length, X-Forwarded-For, Content-Type\r\nCookie: a=b\r\nAuthorization: Basic eDp5\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi",
        NOTHING,
    );
    for name in [
        "host",
        "cookie",
        "authorization",
        "content-length",
        "content-type",
        "x-forwarded-for",
    ] {
        assert!(field(&request, name).is_some(), "{name} in {request}");
    }
}

#[test]
fn the_target_decides_about_the_host_not_the_field() {
    let stage = Stage::with("");
    let (request, _) = stage.exchange(
        "GET http://Good.example:81/x?y HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        NOTHING,
    );
    assert!(
        request.starts_with("GET /x?y HTTP/1.1\r\nHost: Good.example:81\r\n"),
        "{request}"
    );
    assert!(!request.contains("evil"), "{request}");
    let (request, _) = stage.exchange(
        "GET http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
        NOTHING,
    );
    assert!(request.starts_with("GET / HTTP/1.1\r\n"), "{request}");
    let (request, _) = stage.exchange(
        "OPTIONS http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
        NOTHING,
    );
    assert!(request.starts_with("OPTIONS * HTTP/1.1\r\n"), "{request}");
    let (request, _) = stage.exchange("OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n", NOTHING);
    assert!(request.starts_with("OPTIONS * HTTP/1.1\r\n"), "{request}");
}

#[test]
fn via_is_added_as_configured_behind_those_that_are_there() {
    let stage = Stage::with("via = \"both\"");
    let (request, response) = stage.exchange(
        "GET / HTTP/1.0\r\nHost: a\r\nVia: 1.1 first\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nVia: 1.1 origin\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(via(&request).as_deref(), Some("1.1 first, 1.0 carrick"));
    assert_eq!(
        field(&response, "via").as_deref(),
        Some("1.1 origin, 1.1 carrick")
    );
    for (keys, in_request, in_response) in [
        ("", Some("1.1 carrick"), None),
        (
            "via = \"requests\"\nvia_name = \"gate-1\"",
            Some("1.1 gate-1"),
            None,
        ),
        (
            "via = \"both\"\nvia_name = \"a:80\"",
            Some("1.1 a:80"),
            Some("1.1 a:80"),
        ),
        ("via = \"\"", None, None),
    ] {
        let stage = Stage::with(keys);
        let (request, response) = stage.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n", NOTHING);
        // A request that has come through no proxy has no mark.
        assert_eq!(field(&request, "via").as_deref(), in_request, "{keys}");
        assert_eq!(field(&response, "via").as_deref(), in_response, "{keys}");
        let instead = in_request.is_none().then_some("carrick");
        assert_eq!(field(&request, "cdn-loop").as_deref(), instead, "{keys}");
    }
}

#[test]
fn the_clients_address_is_forwarded_as_configured() {
    let sent = "GET / HTTP/1.1\r\nHost: a.example:81\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nForwarded: for=192.0.2.2\r\n\r\n";
    let names = [
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "forwarded",
    ];
    for (option, expected) in [
        (
            "",
            [Some("127.0.0.1"), Some("http"), Some("a.example:81"), None],
        ),
        (
            "forwarded = \"x-forwarded\"",
            [Some("127.0.0.1"), Some("http"), Some("a.example:81"), None],
        ),
        (
            "forwarded = \"forwarded\"",
            [
                None,
                None,
                None,
                Some("for=127.0.0.1;host=\"a.example:81\";proto=http"),
            ],
        ),
        (
            "forwarded = \"unchanged\"",
            [
                Some("192.0.2.1"),
                Some("https"),
                Some("evil"),
                Some("for=192.0.2.2"),
            ],
        ),
        ("forwarded = \"off\"", [None; 4]),
    ] {
        let stage = Stage::with(option);
        let (request, _) = stage.exchange(sent, NOTHING);
        let came = names.map(|name| field(&request, name));
        assert_eq!(
            came.each_ref().map(Option::as_deref),
            expected,
            "{option}: {request}"
        );
    }
}

#[test]
fn max_forwards_counts_down_and_ends_here() {
    let stage = Stage::with("");
    let (request, _) = stage.exchange(
        "OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 3\r\n\r\n",
        NOTHING,
    );
    assert_eq!(field(&request, "max-forwards").as_deref(), Some("2"));
    let (request, _) = stage.exchange(
        "GET / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n",
        NOTHING,
    );
    assert_eq!(
        field(&request, "max-forwards").as_deref(),
        Some("0"),
        "it has no effect on GET"
    );
    let mut client = stage.carrick.connect();
    assert_eq!(
        client
            .ask("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
            .status,
        200
    );
    let response =
        client.ask("TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nCookie: secret\r\n\r\n");
    assert!(!response.text().contains("secret"), "{}", response.text());
    stage.server.expect_no_connection();
}

#[test]
fn clients_outside_allow_get_403_and_are_closed() {
    let stage = Stage::with("allow = [\"127.0.0.77\", \"192.0.2.0/24\"]");
    let mut client = stage.carrick.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.read_response("GET");
    assert_eq!(response.status, 403);
    assert!(response.text().contains("127.0.0.1"), "{}", response.text());
    client.expect_end();
    let mut client = Peer::connect_from([127, 0, 0, 77].into(), stage.carrick.listener());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = stage.server.accept();
    upstream.read_head();
    upstream.send(NOTHING);
    assert_eq!(client.read_response("GET").status, 204);
    stage.server.expect_no_connection();
}
