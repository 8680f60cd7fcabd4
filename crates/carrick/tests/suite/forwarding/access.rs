//! Access rules: which clients, and which destinations.
use crate::support::carrick::FORWARD_TEXT;
use crate::support::{Carrick, Peer, Place, Server};

#[test]
fn credentials_services_of_clouds_are_refused_by_the_standard_list() {
    let place = Place::claim();
    let text = format!("{FORWARD_TEXT}deny_to = [\"inner\", \"*.evil.example\"]\n");
    let carrick = Carrick::start(&place, &text);
    for host in [
        "169.254.169.254",
        "[fd00:ec2::254]",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "[fd20:ce::254]",
        "[::ffff:100.100.100.200]",
        "[64:ff9b::168.63.129.16]",
        "[2002:c000:c0::1]",
    ] {
        for request in [
            format!("GET http://{host}/latest/meta-data/ HTTP/1.1\r\nHost: x\r\n\r\n"),
            format!("CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\n\r\n"),
        ] {
            let response = carrick.connect_forward().ask(&request);
            assert_eq!(response.status, 403, "{request:?}: {}", response.text());
        }
    }
}

#[test]
fn destinations_are_denied_by_network_name_and_suffix_however_they_are_written() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let local = Server::listen_at(([127, 0, 0, 1], 0).into());
    let deny = "deny_to = [\"127.0.0.0/24\", \"::1\", \"172.16.0.0/12\", \"secret.example\", \"*.internal\", \"*.evil.example\"]\n";
    let carrick = Carrick::start(&place, &format!("{FORWARD_TEXT}{deny}"));
    let port = local.address().port();
    for target in [
        format!("127.0.0.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::ffff:7f00:1]:{port}"),
        format!("[64:ff9b::127.0.0.1]:{port}"),
        format!("[2002:7f00:1::]:{port}"),
        format!("[::1]:{port}"),
        format!("[::127.0.0.1]:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::]:{port}"),
        "172.31.255.255:80".to_owned(),
        "secret.example:80".to_owned(),
        "SECRET.Example.:80".to_owned(),
        "a.b.internal:80".to_owned(),
        "x.evil.example:443".to_owned(),
        // By its address, after resolution.
        format!("localhost:{port}"),
        format!("LOCALHOST.:{port}"),
        // Forms that some resolvers read as addresses and others as names.
        format!("2130706433:{port}"),
        format!("0x7f000001:{port}"),
        format!("127.1:{port}"),
        format!("0177.0.0.1:{port}"),
        format!("127.0.0.1.:{port}"),
    ] {
        for request in [
            format!("GET http://{target}/ HTTP/1.1\r\nHost: x\r\n\r\n"),
            format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n"),
        ] {
            let mut client = carrick.connect_forward();
            let response = client.ask(&request);
            assert_eq!(response.status, 403, "{request:?}: {}", response.text());
        }
    }
    local.expect_no_connection();
    // What is not denied is allowed.
    let mut client = carrick.connect_forward();
    client.send(format!(
        "GET http://{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
        server.address()
    ));
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
    let refused = carrick.metric("carrick_refusals_total", &["reason=\"denied_address\""])
        + carrick.metric("carrick_refusals_total", &["reason=\"denied_name\""])
        + carrick.metric("carrick_refusals_total", &["reason=\"odd_address\""]);
    assert_eq!(refused, 42.0);
}

#[test]
fn clients_beyond_allow_are_refused() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(
        &place,
        &format!("{FORWARD_TEXT}allow = [\"127.0.5.0/24\"]\n"),
    );
    let request = format!(
        "GET http://{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
        server.address()
    );
    let mut client = carrick.connect_forward();
    client.send(&request);
    assert_eq!(client.read_response("GET").status, 403);
    client.expect_end();
    server.expect_no_connection();
    let refused = carrick.metric("carrick_refusals_total", &["reason=\"client_not_allowed\""]);
    assert_eq!(refused, 1.0);
    let mut client = Peer::connect_from([127, 0, 5, 9].into(), carrick.forward_address());
    client.send(&request);
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
}
