//! Requests in a loop: detected by carrick's mark, by the number of hops, or by the address.
use super::fields::{NOTHING, Stage};
use crate::support::access_log::Line;
use crate::support::carrick::{FORWARD_TEXT, switch_text, tunnel_text};
use crate::support::place::{FORWARD_PORT, LISTENER_PORT, TUNNEL_PORT};
use crate::support::{Carrick, Peer, Place};
use std::net::{SocketAddr, UdpSocket};

/// Two carricks that are each other's server.
fn each_others_server(keys: &str) -> [(Carrick, Place); 2] {
    let places = [Place::claim(), Place::claim()];
    let [one, other] = places.each_ref().map(|place| place.at(LISTENER_PORT));
    let start = |place: Place, server| {
        let text = switch_text(&[server]).replace("mode = ", &format!("{keys}\nmode = "));
        let text = format!("[workers]\ncount = 1\n{text}");
        (Carrick::start(&place, &text), place)
    };
    let [first, second] = places;
    [start(first, other), start(second, one)]
}

#[test]
fn a_request_that_comes_back_is_answered_508_at_once() {
    for keys in [
        "",
        "via = \"\"",
        "via_name = \"the-same-name\"",
        "via = \"\"\nforwarded = \"off\"",
    ] {
        let carricks = each_others_server(keys);
        let [(first, _), (second, _)] = &carricks;
        let mut client = first.connect();
        for _ in 0..3 {
            let response = client.ask("GET /a?b HTTP/1.1\r\nHost: a.example\r\n\r\n");
            assert_eq!(response.status, 508, "{keys}: {}", response.head);
            assert!(
                response.text().contains("was here before"),
                "{}",
                response.text()
            );
        }
        // Twice through both: only a request that has come through a proxy gets a mark.
        assert_eq!(first.access_log(6).len(), 6);
        assert_eq!(second.access_log(6).len(), 6);
        assert_eq!(
            second.metric("carrick_refusals_total", &["reason=\"loop\""]),
            3.0
        );
    }
}

/// A parent that leads back, with absolute URLs.
#[test]
fn a_circle_of_parents_ends() {
    let places = [Place::claim(), Place::claim()];
    let [one, other] = places.each_ref().map(|place| place.at(FORWARD_PORT));
    let start = |place: &Place, parent| {
        let text = format!("{FORWARD_TEXT}via = \"\"\nparent = {{ proxy = \"{parent}\" }}\n");
        Carrick::start(place, &text)
    };
    let carricks = [start(&places[0], other), start(&places[1], one)];
    for target in ["http://a.example", "http://a.example/x"] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!(carricks[0].connect_forward().ask(&request).status, 508);
    }
    let connect = "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n";
    assert_eq!(carricks[0].connect_forward().ask(connect).status, 508);
}

/// A server may send a derived request with the same `Via` to the same listener.
#[test]
fn another_request_with_the_same_via_is_served() {
    let stage = Stage::with("");
    let (head, _) = stage.exchange(
        "GET /one HTTP/1.1\r\nHost: a\r\nVia: 1.1 first\r\n\r\n",
        NOTHING,
    );
    let via = head
        .lines()
        .rfind(|line| line.starts_with("Via: 1.1 carrick"));
    let via = via.unwrap().trim_start_matches("Via: ");
    let with_via = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\nVia: {via}\r\n\r\n");
    stage.exchange(&with_via("/two"), NOTHING);
    assert_eq!(stage.carrick.connect().ask(&with_via("/one")).status, 508);
    // A reload does not change that.
    let text = switch_text(&[stage.server.address()]);
    let text = format!("[timeouts]\nidle = \"59s\"\n{text}");
    stage.carrick.reload_as(&stage.place, &text, "ok");
    assert_eq!(stage.carrick.connect().ask(&with_via("/one")).status, 508);
}

#[test]
fn a_request_that_has_come_through_too_many_proxies_is_answered_508() {
    for (keys, name) in [("", "Via"), ("via = \"\"", "CDN-Loop")] {
        let stage = Stage::with(keys);
        let request = |count: usize| {
            let hops = vec!["1.1 a"; count].join(", ");
            format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: {hops}\r\n\r\n")
        };
        stage.exchange(&request(20), NOTHING);
        let response = stage.carrick.connect().ask(&request(21));
        assert_eq!(response.status, 508);
        assert!(
            response.text().contains("more than 20"),
            "{}",
            response.text()
        );
    }
}

/// A tunnel has no mark. `carrick check` does not know that the address is this machine's.
#[test]
fn a_tunnel_to_itself_takes_two_connections() {
    // Sends nothing; tells the source address of connections from here.
    let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
    let own = probe
        .connect("192.0.2.1:9")
        .and_then(|()| probe.local_addr());
    let Some(own) = own
        .ok()
        .map(|own| own.ip())
        .filter(|own| !own.is_loopback())
    else {
        return carrick_test::lacks!("this machine has no address but loopback");
    };
    let place = Place::claim();
    let port = place.port_on_all_addresses();
    let text = tunnel_text(&[SocketAddr::new(own, port)])
        .replace(&format!("{{ip}}:{TUNNEL_PORT}"), &format!("0.0.0.0:{port}"));
    let carrick = Carrick::start(&place, &text);
    Peer::connect(place.at(port)).read_ending();
    let lines = carrick.access_log(2);
    assert_eq!(lines.len(), 2);
    // In either order: the two connections may have different workers.
    let is_loop = |line: &&Line| (line.status(), line.text("ended")) == (508, "loop");
    assert_eq!(lines.iter().filter(|line| is_loop(line)).count(), 1);
}
