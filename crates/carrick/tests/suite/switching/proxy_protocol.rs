//! PROXY headers, versions 1 and 2, from clients and to servers.
use crate::support::carrick::{switch_text, tunnel_text};
use crate::support::message::field;
use crate::support::{Carrick, Place, Server};

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.8 40000 80\r\n";

/// Version 2, command PROXY, TCP over IPv4.
fn v2() -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    bytes.extend_from_slice(&[192, 0, 2, 7, 192, 0, 2, 8, 0x9c, 0x40, 0, 80]);
    bytes
}

fn v2_ipv6() -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x29".to_vec();
    bytes.extend_from_slice(
        &"2001:db8::7"
            .parse::<std::net::Ipv6Addr>()
            .unwrap()
            .octets(),
    );
    bytes.extend_from_slice(
        &"2001:db8::8"
            .parse::<std::net::Ipv6Addr>()
            .unwrap()
            .octets(),
    );
    bytes.extend_from_slice(&[0x9c, 0x40, 0, 80]);
    // An unknown TLV: type, length, value.
    bytes.extend_from_slice(&[0xe0, 0, 2, 1, 2]);
    bytes
}

fn accepting(text: &str) -> String {
    text.replace("mode = ", "proxy_protocol = true\nmode = ")
}

#[test]
fn the_clients_address_is_taken_from_the_header() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(&place, &accepting(&switch_text(&[server.address()])));
    for (header, expected) in [
        (V1.to_vec(), "192.0.2.7"),
        (
            b"PROXY TCP6 2001:db8::7 2001:db8::8 40000 80\r\n".to_vec(),
            "2001:db8::7",
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (v2(), "192.0.2.7"),
        (v2_ipv6(), "2001:db8::7"),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec(), "127.0.0.1"),
    ] {
        for sizes in [&[usize::MAX][..], &[1]] {
            let mut client = carrick.connect();
            let mut bytes = header.clone();
            bytes.extend_from_slice(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            client.send_in_pieces(bytes, sizes);
            let mut upstream = server.accept();
            let head = upstream.read_head();
            assert_eq!(
                field(&head, "x-forwarded-for").as_deref(),
                Some(expected),
                "{head}"
            );
            upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            assert_eq!(client.read_response("GET").status, 204);
        }
    }
    let lines = carrick.access_log(12);
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.text("client") == "192.0.2.7")
            .count(),
        4
    );
    assert!(
        lines
            .iter()
            .any(|line| line.text("client") == "192.0.2.7" && line.number("port") == 40_000)
    );
}

#[test]
fn without_a_right_header_a_connection_is_closed_unheard() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(&place, &accepting(&switch_text(&[server.address()])));
    let rest = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for header in [
        "",
        "PROXY\r\n",
        "PROXY TCP4 192.0.2.7 192.0.2.8 40000\r\n",
        "PROXY TCP4 192.0.2.7 192.0.2.8 40000 80\n",
        "PROXY TCP4 192.0.2.7 192.0.2.8 40000 99999\r\n",
        "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
        "PROXY TCP6 192.0.2.7 192.0.2.8 40000 80\r\n",
        "PROXY TCP4 192.0.2.7 192.0.2.8 +1 80\r\n",
        "PROXY UDP4 192.0.2.7 192.0.2.8 1 2\r\n",
        "proxy TCP4 192.0.2.7 192.0.2.8 1 2\r\n",
        "\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c",
        "\r\n\r\n\0\r\nQUIT\n\x22\x11\0\x0c",
        "\r\n\r\n\0\r\nQUIX\n\x21\x11\0\x0c",
    ] {
        let mut client = carrick.connect();
        client.send(format!("{header}{rest}"));
        assert!(client.read_ending().bytes().is_empty(), "{header:?}");
    }
    server.expect_no_connection();
    assert_eq!(
        carrick.metric("carrick_refusals_total", &["reason=\"proxy_protocol\""]),
        13.0
    );
}

#[test]
fn a_header_that_does_not_come_is_waited_for_no_longer_than_the_head_time_out() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = accepting(&tunnel_text(&[server.address()]));
    let carrick = Carrick::start(
        &place,
        &format!("[timeouts]\nhead = \"400ms\"\ndrain = \"1s\"\n{text}"),
    );
    let mut client = carrick.connect_tunnel();
    client.send("PROXY TC");
    assert!(client.read_ending().bytes().is_empty());
    server.expect_no_connection();
    assert_eq!(carrick.limit_reached("head_timeout"), 1.0);
}

#[test]
fn allow_judges_the_address_of_the_header() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = accepting(&switch_text(&[server.address()]))
        .replace("mode = ", "allow = [\"192.0.2.0/24\"]\nmode = ");
    let carrick = Carrick::start(&place, &text);
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut client = carrick.connect();
    client.send(format!(
        "PROXY TCP4 198.51.100.1 192.0.2.8 1 2\r\n{request}"
    ));
    assert_eq!(client.read_response("GET").status, 403);
    let mut client = carrick.connect();
    client.send(V1);
    client.send(request);
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
}

#[test]
fn servers_get_the_header_first_and_no_connection_is_shared() {
    let place = Place::claim();
    for (version, is_v2) in [("true", false), ("\"v1\"", false), ("\"v2\"", true)] {
        let server = Server::listen(&place);
        let carrick = Carrick::start(
            &place,
            &format!(
                "[workers]\ncount = 1\n{}send_proxy_protocol = {version}\n",
                switch_text(&[server.address()])
            ),
        );
        for request in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        ] {
            let mut client = carrick.connect();
            client.send(request);
            let mut upstream = server.accept();
            let (from, to) = (client.local_address(), carrick.listener());
            if is_v2 {
                upstream.expect(b"\r\n\r\n\0\r\nQUIT\n\x21\x11");
                let rest = upstream.read_exact(14);
                let (std::net::IpAddr::V4(from_ip), std::net::IpAddr::V4(to_ip)) =
                    (from.ip(), to.ip())
                else {
                    panic!("IPv4 was used")
                };
                let mut expected = vec![0, 12];
                expected.extend_from_slice(&from_ip.octets());
                expected.extend_from_slice(&to_ip.octets());
                expected.extend_from_slice(&from.port().to_be_bytes());
                expected.extend_from_slice(&to.port().to_be_bytes());
                assert_eq!(rest, expected);
            } else {
                upstream.expect(format!(
                    "PROXY TCP4 {} {} {} {}\r\n",
                    from.ip(),
                    to.ip(),
                    from.port(),
                    to.port()
                ));
            }
            let head = upstream.read_head();
            assert!(head.starts_with(&request[..4]), "{head}");
            if request.ends_with("hi") {
                upstream.expect("hi");
            }
            upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            assert_eq!(client.read_response("GET").text(), "ok");
            // It began with this client's address, so no other client may use it.
            upstream.expect_reset();
        }
    }
}

#[test]
fn a_tunnel_passes_the_header_on_before_everything_else() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = accepting(&tunnel_text(&[server.address()]));
    let carrick = Carrick::start(&place, &format!("{text}send_proxy_protocol = true\n"));
    let mut client = carrick.connect_tunnel();
    client.send(V1);
    client.send("right behind it");
    let mut upstream = server.accept();
    upstream.expect(V1);
    upstream.expect("right behind it");
    upstream.send("answer");
    client.expect("answer");
}

#[test]
fn by_http_2_servers_are_told_the_destination_of_the_clients_header_too() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = accepting(&switch_text(&[server.address()]));
    let carrick = Carrick::start(&place, &format!("{text}send_proxy_protocol = true\n"));
    let mut client = carrick.connect();
    client.send(V1);
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    // SETTINGS without any; HEADERS that end the stream: `:method: GET`, `:scheme: http`, `:path: /`, `:authority: a`.
    client.send([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    client.send([0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84, 0x41, 1, b'a']);
    let mut upstream = server.accept();
    upstream.expect(V1);
    assert!(upstream.read_head().starts_with("GET / "));
}
