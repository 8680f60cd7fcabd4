//! Forwarding fields: a client's claims about itself do not reach servers; a trusted proxy's claims do, and determine the client.
use super::fields::{NOTHING, Stage};
use crate::support::carrick::switch_text;
use crate::support::message::field;
use crate::support::{Carrick, Peer, Place, Server};
use std::net::IpAddr;

/// The address of a trusted proxy; clients are at 127.0.0.1.
const PROXY: [u8; 4] = [127, 0, 0, 77];
const TRUSTING: &str = "trusted_proxies = [\"127.0.0.77\", \"10.0.0.0/8\", \"fd00::/8\"]";

/// Forwarding fields that carrick does not write itself.
const FAMILY: &[&str] = &[
    "Forwarded: for=192.0.2.66;proto=https",
    "X-Forwarded-For: 192.0.2.66",
    "X-Forwarded-Host: evil",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Port: 443",
    "X-Forwarded-Prefix: /evil",
    "X-Forwarded-Server: evil",
    "X-FORWARDED-SSL: on",
    "X-Real-IP: 192.0.2.66",
    "X-Client-IP: 192.0.2.66",
    "Client-IP: 192.0.2.66",
    "True-Client-IP: 192.0.2.66",
    "CF-Connecting-IP: 192.0.2.66",
    "X-Cluster-Client-IP: 192.0.2.66",
    "X-Original-Host: evil",
    "X-Host: evil",
    "Front-End-Https: on",
    "WL-Proxy-Client-IP: evil",
    "Proxy-Client-IP: evil",
    "Fly-Client-IP: evil",
    "X-Vercel-Forwarded-For: evil",
    "Ali-CDN-Real-IP: evil",
    "X-SSL-Client-Verify: evil",
    "X-SSL-Client-S-DN: evil",
    "SSL-Client-Cert: evil",
    "Client-Cert: evil",
    "Client-Cert-Chain: evil",
    "X-ARR-ClientCert: evil",
    "X-Amzn-Mtls-Clientcert: evil",
];

fn proxy(stage: &Stage) -> Peer {
    Peer::connect_from(IpAddr::from(PROXY), stage.carrick.listener())
}

fn request(fields: &[&str]) -> String {
    format!(
        "GET / HTTP/1.1\r\nHost: a.example\r\nX-Mine: 1\r\n{}\r\n\r\n",
        fields.join("\r\n")
    )
}

#[test]
fn nothing_that_a_client_says_about_itself_reaches_the_server() {
    let underscored: Vec<String> = FAMILY
        .iter()
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            format!("{}:{value}", name.replace('-', "_"))
        })
        .collect();
    let underscored: Vec<&str> = underscored.iter().map(String::as_str).collect();
    for form in ["x-forwarded", "forwarded", "off"] {
        for more in ["", TRUSTING, "underscores = \"pass\""] {
            let stage = Stage::with(&format!("forwarded = \"{form}\"\n{more}"));
            for fields in [FAMILY, &underscored] {
                let (head, _) = stage.exchange(&request(fields), NOTHING);
                for said in ["192.0.2.66", "evil", "https", "443", ": on"] {
                    assert!(
                        !head.to_lowercase().contains(said),
                        "{form} {more}: {said} in {head}"
                    );
                }
                assert_eq!(field(&head, "x-mine").as_deref(), Some("1"));
            }
        }
    }
    // With trusted proxies, `unchanged` applies to their fields.
    let stage = Stage::with(&format!("forwarded = \"unchanged\"\n{TRUSTING}"));
    let (head, _) = stage.exchange(&request(FAMILY), NOTHING);
    assert!(
        !head.contains("192.0.2.66") && !head.contains("evil"),
        "{head}"
    );
}

#[test]
fn what_a_trusted_proxy_says_is_kept_and_extended() {
    let standard = ["Forwarded"];
    let old = ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"];
    for (form, other, name, expected) in [
        (
            "x-forwarded",
            &standard[..],
            "X-Forwarded-For",
            "192.0.2.66, 127.0.0.77",
        ),
        (
            "forwarded",
            &old,
            "Forwarded",
            "for=192.0.2.66;proto=https, for=127.0.0.77;host=\"a.example\";proto=http",
        ),
        ("unchanged", &standard, "X-Forwarded-For", "192.0.2.66"),
    ] {
        let stage = Stage::with(&format!("forwarded = \"{form}\"\n{TRUSTING}"));
        let said: Vec<&str> = (FAMILY.iter().copied())
            .filter(|line| !other.contains(&line.split_once(':').unwrap().0))
            .collect();
        let (head, _) = stage.exchange_with(proxy(&stage), &request(&said), NOTHING);
        for line in said {
            let (known, value) = line.split_once(": ").unwrap();
            let expected = if known == name { expected } else { value };
            assert_eq!(
                field(&head, known).as_deref(),
                Some(expected),
                "{form}: {head}"
            );
        }
    }
    let stage = Stage::with(&format!("forwarded = \"off\"\n{TRUSTING}"));
    let (head, _) = stage.exchange_with(proxy(&stage), &request(FAMILY), NOTHING);
    assert!(
        !head.contains("192.0.2.66") && !head.contains("evil"),
        "{head}"
    );
}

/// A terminator that writes only one form relays its client's fields in the other form.
#[test]
fn a_client_cannot_lie_by_a_trusted_proxy_in_the_form_that_it_does_not_write() {
    let standard = "Forwarded: for=192.0.2.1;proto=https;host=\"b\"";
    let old = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b";
    let lies = [
        "Forwarded: for=203.0.113.1;proto=lie;host=lie",
        "X-Forwarded-For: 203.0.113.1\r\nX-Forwarded-Proto: lie\r\nX-Forwarded-Host: lie",
    ];
    for (said_in, said, lie) in [
        ("x-forwarded-for", old, lies[0]),
        ("forwarded", standard, lies[1]),
        ("forwarded", standard, "X-Forwarded-Proto: lie"),
    ] {
        for form in ["x-forwarded", "forwarded", "unchanged", "off"] {
            let stage = Stage::with(&format!(
                "forwarded = \"{form}\"\ntrusted_field = \"{said_in}\"\n{TRUSTING}"
            ));
            let (head, _) = stage.exchange_with(proxy(&stage), &request(&[lie, said]), NOTHING);
            let case = format!("{said_in}, {form}: {head}");
            assert!(
                !head.contains("203.0.113.1") && !head.contains("lie"),
                "{case}"
            );
            assert_eq!(head.contains("192.0.2.1"), form != "off", "{case}");
            let proto = field(&head, "x-forwarded-proto");
            match (form, said_in) {
                ("x-forwarded", _) => assert_eq!(proto.as_deref(), Some("https"), "{case}"),
                ("forwarded", _) => {
                    let forwarded = field(&head, "forwarded").unwrap();
                    assert!(forwarded.starts_with("for=192.0.2.1;"), "{case}");
                    assert!(forwarded.contains("proto=https"), "{case}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn https_stays_https_behind_a_terminator_that_is_trusted() {
    let stage = Stage::with(TRUSTING);
    let fields = &["X-Forwarded-For: 192.0.2.66", "X-Forwarded-Proto: https"];
    let (head, _) = stage.exchange_with(proxy(&stage), &request(fields), NOTHING);
    assert_eq!(field(&head, "x-forwarded-proto").as_deref(), Some("https"));
    assert_eq!(
        field(&head, "x-forwarded-host").as_deref(),
        Some("a.example")
    );
    let (head, _) = stage.exchange(&request(fields), NOTHING);
    assert_eq!(field(&head, "x-forwarded-proto").as_deref(), Some("http"));
}

#[test]
fn the_client_that_a_trusted_proxy_names_is_let_in_and_logged() {
    let stage = Stage::with(&format!(
        "{TRUSTING}\nallow = [\"192.0.2.0/24\", \"2001:db8::/32\"]"
    ));
    let mut client = proxy(&stage);
    let mut ask = |fields: &str| {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    };
    let serve = || {
        let mut upstream = stage.server.accept();
        upstream.read_head();
        upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    };
    ask("X-Forwarded-For: 203.0.113.1, 192.0.2.7:4711, 10.0.0.1\r\n");
    serve();
    ask("X-Forwarded-For: 192.0.2.7, 203.0.113.1\r\n");
    ask("x-forwarded-for: 2001:db8::7\r\nX-Forwarded-For: fd00::1\r\n");
    serve();
    // Without such a field the proxy itself is the client, which is not allowed.
    ask("");
    ask("X-Forwarded-For: garbage\r\n");
    ask("X-Forwarded-For: unknown\r\n");
    let statuses: Vec<u16> = (0..6).map(|_| client.read_response("GET").status).collect();
    assert_eq!(statuses, [204, 403, 204, 403, 400, 403]);
    let lines = stage.carrick.access_log(6);
    let logged: Vec<&str> = lines.iter().map(|line| line.text("client")).collect();
    assert_eq!(
        logged,
        [
            "192.0.2.7",
            "203.0.113.1",
            "2001:db8::7",
            "127.0.0.77",
            "127.0.0.77",
            "127.0.0.77"
        ]
    );
    // A client that is not a trusted proxy cannot claim to be an allowed one.
    let mut other = stage.carrick.connect();
    other.send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n");
    assert_eq!(other.read_response("GET").status, 403);
    stage.server.expect_no_connection();
}

#[test]
fn the_standard_field_is_read_where_the_listener_says_so() {
    for keys in ["forwarded = \"forwarded\"", "trusted_field = \"forwarded\""] {
        let stage = Stage::with(&format!("{TRUSTING}\n{keys}"));
        let fields = &[
            "X-Forwarded-For: 203.0.113.1",
            "Forwarded: for=10.0.0.9, for=\"[2001:db8::7]:4711\";proto=https, for=10.0.0.1",
        ];
        let (head, _) = stage.exchange_with(proxy(&stage), &request(fields), NOTHING);
        assert_eq!(
            stage.carrick.access_log(1)[0].text("client"),
            "2001:db8::7",
            "{head}"
        );
    }
}

/// A proxy's connections are shared by its clients: each request counts for its own client while it is in progress.
#[test]
fn requests_by_a_trusted_proxy_count_for_the_clients_that_it_names() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = switch_text(&[server.address()]).replace("mode = ", &format!("{TRUSTING}\nmode = "));
    let carrick = Carrick::start(
        &place,
        &format!("[limits]\nconnections_per_client = 1\n{text}"),
    );
    let connect = || Peer::connect_from(IpAddr::from(PROXY), carrick.listener());
    let ask = |client: &mut Peer, who: &str| {
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {who}\r\n\r\n"
        ));
    };
    let (mut first, mut second, mut third) = (connect(), connect(), connect());
    ask(&mut first, "192.0.2.7");
    let mut one = server.accept();
    one.read_head();
    ask(&mut second, "192.0.2.7");
    assert_eq!(second.read_response("GET").status, 429);
    ask(&mut third, "192.0.2.8");
    let mut other = server.accept();
    other.read_head();
    for upstream in [&mut one, &mut other] {
        upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    }
    assert_eq!(first.read_response("GET").status, 204);
    assert_eq!(third.read_response("GET").status, 204);
    // The first connection is open, and counts for another client.
    ask(&mut first, "192.0.2.9");
    let mut one = server.accept();
    one.read_head();
    ask(&mut second, "192.0.2.7");
    let mut other = server.accept();
    other.read_head();
    for upstream in [&mut one, &mut other] {
        upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    }
    assert_eq!(first.read_response("GET").status, 204);
    assert_eq!(second.read_response("GET").status, 204);
}

#[test]
fn a_trusted_proxy_may_be_known_by_its_proxy_header() {
    for (header, expected) in [
        ("PROXY TCP4 10.1.1.1 10.2.2.2 40000 80\r\n", "192.0.2.7"),
        (
            "PROXY TCP4 198.51.100.1 10.2.2.2 40000 80\r\n",
            "198.51.100.1",
        ),
    ] {
        let stage = Stage::with(&format!("{TRUSTING}\nproxy_protocol = true"));
        let text = format!("{header}{}", request(&["X-Forwarded-For: 192.0.2.7"]));
        let (head, _) = stage.exchange(&text, NOTHING);
        let told = field(&head, "x-forwarded-for").unwrap();
        assert_eq!(
            told.starts_with("192.0.2.7, "),
            expected == "192.0.2.7",
            "{head}"
        );
        assert_eq!(stage.carrick.access_log(1)[0].text("client"), expected);
    }
}

#[test]
fn headers_that_gateways_take_for_others_do_not_reach_servers() {
    let lines = "X_Forwarded_Host: evil\r\nX_Beta: evil\r\nx.beta: evil\r\nX-Beta: good\r\nX~Beta: evil\r\nCo_okie: evil\r\n";
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let stage = Stage::with("");
    let (head, _) = stage.exchange(&request, NOTHING);
    assert!(!head.contains("evil"), "{head}");
    assert_eq!(field(&head, "x-beta").as_deref(), Some("good"));

    let stage = Stage::with("underscores = \"pass\"");
    let (head, _) = stage.exchange(&request, NOTHING);
    assert_eq!(head.matches("evil").count(), 4, "{head}");
    assert!(!head.contains("X_Forwarded"), "{head}");

    let stage = Stage::with("underscores = \"refuse\"");
    let response = stage.carrick.connect().ask(&request);
    assert_eq!(response.status, 400);
    assert!(
        response.text().contains("letters, digits and hyphens"),
        "{}",
        response.text()
    );
    stage.server.expect_no_connection();
}

/// CGI turns it into `HTTP_PROXY`, by which programs choose their own proxy (CVE-2016-5385 and others).
#[test]
fn clients_cannot_choose_the_proxy_of_programs_behind_a_gateway() {
    for keys in [
        "",
        TRUSTING,
        "underscores = \"pass\"",
        "forwarded = \"unchanged\"",
    ] {
        let stage = Stage::with(keys);
        for name in ["Proxy", "proxy", "PROXY"] {
            let line = format!("{name}: http://evil.example/");
            let fields = [line.as_str(), "Proxy-Status: good"];
            let (head, _) = stage.exchange_with(proxy(&stage), &request(&fields), NOTHING);
            assert!(!head.contains("evil"), "{keys} {name}: {head}");
            assert_eq!(field(&head, "x-mine").as_deref(), Some("1"));
            assert_eq!(field(&head, "proxy-status").as_deref(), Some("good"));
        }
    }
}

#[test]
fn trailers_that_gateways_take_for_headers_do_not_reach_servers() {
    let post = |name: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{name}: evil\r\n\r\n"
        )
    };
    // Fields that proxies write or remove.
    let of_proxies = [
        "X-Real-IP",
        "X-Forwarded-For",
        "Forwarded",
        "Via",
        "CDN-Loop",
        "Proxy",
    ];
    for (keys, refused, dropped, passed) in [
        ("", &["Host"][..], &["X_Real_IP", "X_Odd"][..], "X-Checksum"),
        ("underscores = \"refuse\"", &["X_Odd"], &[], "X-Checksum"),
        (
            "underscores = \"pass\"",
            &["Content_Type"],
            &["X_Real_IP", "CDN_Loop"],
            "X_Odd",
        ),
    ] {
        let stage = Stage::with(keys);
        for name in of_proxies.iter().chain(dropped) {
            let (mut client, mut upstream) = stage.carrick.asked(&stage.server, post(name));
            assert_eq!(upstream.read_head(), "0\r\n\r\n", "{name}");
            upstream.send(NOTHING);
            assert_eq!(client.read_response("POST").status, 204);
        }
        for name in refused {
            assert_eq!(
                stage.carrick.connect().ask(&post(name)).status,
                400,
                "{name}"
            );
            if let Some(mut upstream) = stage.server.try_accept() {
                let came = String::from_utf8_lossy(&upstream.read_to_end()).into_owned();
                assert!(!came.contains("evil"), "{name}: {came}");
            }
        }
        let (mut client, mut upstream) = stage.carrick.asked(&stage.server, post(passed));
        assert_eq!(upstream.read_head(), format!("0\r\n{passed}: evil\r\n\r\n"));
        upstream.send(NOTHING);
        assert_eq!(client.read_response("POST").status, 204);
    }
}

#[test]
fn a_password_in_a_url_is_refused_in_words_that_say_so() {
    let stage = Stage::with("");
    for target in [
        "http://user:secret@host/",
        "http://user@host/",
        "http://user:secret@host:80/",
    ] {
        let response = stage
            .carrick
            .connect()
            .ask(&format!("GET {target} HTTP/1.1\r\nHost: host\r\n\r\n"));
        assert_eq!(response.status, 400);
        assert!(
            response.text().contains("user name or password"),
            "{}",
            response.text()
        );
        assert!(!response.text().contains("port is"), "{}", response.text());
    }
}

#[test]
fn a_password_in_a_url_does_not_stand_in_the_access_log() {
    let stage = Stage::with("");
    let mut lines = 0;
    for (request, shown) in [
        ("GET http://user:secret@host/ HTTP/1.1", "http://***@host/"),
        ("CONNECT user:secret@host:443 HTTP/1.1", "***@host:443"),
        (
            "GET ftp://user:sec/ret@host/ HTTP/1.1",
            "GET ftp://***@host/",
        ),
    ] {
        stage
            .carrick
            .connect()
            .ask(&format!("{request}\r\nHost: host\r\n\r\n"));
        lines += 1;
        let log = stage.carrick.access_log(lines);
        let target = log[lines - 1].text("target");
        assert!(target.contains(shown), "{target}");
        assert!(!target.contains("ret"), "{target}");
    }
    let referer = "Referer: http://user:secret@host/page";
    stage.exchange(&self::request(&[referer]), NOTHING);
    let log = stage.carrick.access_log(lines + 1);
    assert_eq!(log[lines].text("referer"), "http://***@host/page");
}

/// Regression test: the message named the server as `Some(127.0.0.1:80)`.
#[test]
fn messages_name_servers_by_their_addresses() {
    let stage = Stage::with("");
    let (mut client, mut upstream) = stage
        .carrick
        .asked(&stage.server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.send("nonsense\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 502);
    let said = stage
        .carrick
        .standard_error()
        .wait_for("refused: ")
        .unwrap();
    assert!(
        said.contains(&format!("response of {} refused", stage.server.address())),
        "{said}"
    );
}
