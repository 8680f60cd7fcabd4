//! Tunnels inside TLS: upgraded connections, and CONNECT through a proxy that is spoken to by TLS.
use super::certificates::certified;
use super::client::{Offers, TlsPeer, trusting};
use super::{pair, start};
use crate::clients::tool::Tool;
use crate::support::carrick::FORWARD_TEXT;
use crate::support::peer::fill;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Ending, Peer, Place, Server, random, wait_for};
use std::net::SocketAddr;
use std::time::Instant;

fn start_forward(place: &Place) -> Carrick {
    Carrick::start(place, &format!("{FORWARD_TEXT}tls = {}\n", pair("server")))
}

#[test]
fn an_upgraded_connection_is_relayed_with_half_closes() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = TlsPeer::connect(
        carrick.listener(),
        "a.example",
        &trusting(&place, Offers::All),
    );
    client.send(
        "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\nearly",
    );
    let mut upstream = server.accept();
    let head = upstream.read_head();
    assert!(head.to_lowercase().contains("upgrade: own"), "{head}");
    upstream.send(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\nfirst",
    );
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    client.expect("first");
    upstream.expect("early");
    client.send("to the server");
    upstream.expect("to the server");
    client.half_close();
    upstream.expect_end();
    upstream.send("after the client's end");
    client.expect("after the client's end");
    drop(upstream);
    assert_eq!(client.read_to_end(), (Vec::new(), true));
    let line = &carrick.access_log(1)[0];
    assert_eq!(
        (line.status(), line.text("engine"), line.text("ended")),
        (101, "copy", "complete")
    );
}

/// A tunnel to the server, through a proxy that speaks TLS.
fn connect_through(
    carrick: &Carrick,
    place: &Place,
    offers: Offers,
    server: SocketAddr,
) -> TlsPeer {
    let config = trusting(place, offers);
    let mut client = TlsPeer::connect(carrick.forward_address(), "a.example", &config);
    client.send(format!(
        "CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n"
    ));
    assert!(client.read_head().starts_with("HTTP/1.1 200 "));
    client
}

#[test]
fn connect_through_a_proxy_by_tls() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place);
    let carrick = start_forward(&place);
    for offers in [Offers::Tls12, Offers::Tls13] {
        let mut client = connect_through(&carrick, &place, offers, server.address());
        let mut upstream = server.accept();
        let up = random::Random::new(3).bytes(2_000_000);
        let down = random::Random::new(4).bytes(2_000_000);
        let (sent, wanted) = (down.clone(), random::hash(&up));
        let serving = std::thread::spawn(move || {
            let got = upstream.read_exact(2_000_000);
            assert_eq!(random::hash(&got), wanted);
            upstream.send(&sent);
            upstream.half_close();
            upstream.expect("last words");
            upstream.expect_end();
        });
        client.send(&up);
        let (got, has_ended) = client.read_to_end();
        assert!(has_ended);
        assert_eq!(random::hash(&got), random::hash(&down));
        // The server has ended its side; the client's goes on.
        client.send("last words");
        client.half_close();
        serving.join().expect("the server got everything");
    }
    let lines = carrick.access_log(2);
    for line in lines {
        assert_eq!(
            (line.number("received"), line.number("sent")),
            (2_000_010, 2_000_000)
        );
        assert_eq!(line.text("ended"), "complete");
    }
}

/// It waits for longer than the tunnel may be idle.
#[test]
fn what_pacing_holds_is_not_idle() {
    let Some(place) = certified() else { return };
    let down = random::Random::new(5).bytes(15_000);
    let sent = down.clone();
    // The bytes are there before the tunnel is.
    let serving = Server::listen(&place).serve(move |mut peer, _| {
        let _ = peer.try_send(&sent);
    });
    let carrick = Carrick::start(
        &place,
        &format!(
            "[timeouts]\ntunnel_idle = \"1s\"\n[pace.classes.slow]\nsplice_ceiling = \"5 KB\"\n\
             {FORWARD_TEXT}tls = {}\npace = \"slow\"\n",
            pair("server")
        ),
    );
    // Again, where a busy machine keeps the server from sending: that tunnel was idle, and ends empty and in order.
    let came = wait_for("bytes in time", || {
        let mut client = connect_through(&carrick, &place, Offers::All, serving.address());
        let came = client.read_to_end();
        (came != (Vec::new(), true)).then_some(came)
    });
    assert!(came == (down, true), "{} bytes, {}", came.0.len(), came.1);
}

#[test]
fn a_tunnel_that_is_cut_off_below_tls_is_reset() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place);
    let carrick = start_forward(&place);
    let mut client = connect_through(&carrick, &place, Offers::All, server.address());
    let mut upstream = server.accept();
    client.send("a part");
    upstream.expect("a part");
    client.cut_off();
    upstream.expect_reset();
    assert_eq!(carrick.access_log(1)[0].text("ended"), "client_reset");
}

#[test]
fn a_client_of_tls_gets_what_was_sent_before_a_reset() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place);
    // More than its own connection holds, and without a word from it, or with.
    for is_silent in [true, false] {
        let carrick = start_forward(&place);
        // Again, where this thread stands still for so long that carrick gives its client up.
        let (down, is_right, least) = wait_for("bytes that were read in time", || {
            let mut client = connect_through(&carrick, &place, Offers::All, server.address());
            let upstream = server.accept();
            let mut random = random::Random::new(6);
            fill(upstream.stream(), || random.bytes(16 << 10));
            let acknowledged = carrick_splice::tcp::acknowledged_bytes(upstream.stream());
            let least = acknowledged.expect("TCP_INFO");
            let begun = Instant::now();
            upstream.reset();
            // After a word that cannot be sent, nothing can be read.
            let may_read = is_silent || client.try_send(b"are you there?").is_ok();
            let (down, has_ended) = if may_read {
                client.read_to_end()
            } else {
                (Vec::new(), false)
            };
            // The kernel may count the SYN.
            let is_right = down.len() as u64 + 1 >= least && !has_ended;
            let is_in_time = begun.elapsed() < carrick_splice::LAST_BYTES_IDLE;
            (is_in_time || is_right).then_some((down, is_right, least))
        });
        assert!(is_right, "{least} {}", down.len());
        assert!(
            down == random::Random::new(6).bytes(down.len()),
            "other bytes came"
        );
        assert_eq!(carrick.access_log(1)[0].text("ended"), "upstream_reset");
    }
}

/// The other side reads nothing, so that carrick has bytes that it cannot pass on.
#[test]
fn a_blocked_tunnel_is_reset_with_its_sender() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place);
    let carrick = start_forward(&place);
    for is_client in [true, false] {
        let client = connect_through(&carrick, &place, Offers::All, server.address());
        let upstream = server.accept();
        let mut receiver = if is_client {
            client.fill_and_reset();
            upstream
        } else {
            fill(upstream.stream(), || vec![b'x'; 16 << 10]);
            upstream.reset();
            Peer::new(client.into_tcp())
        };
        let ended = ["upstream_reset", "client_reset"][usize::from(is_client)];
        let lines = carrick.access_log(2 - usize::from(is_client));
        assert_eq!(lines.last().expect("a line").text("ended"), ended);
        assert!(matches!(receiver.read_ending(), Ending::Reset(_)));
    }
}

#[test]
fn curl_uses_an_https_proxy() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |head| {
            let answer = if head.contains("x-forwarded-proto: https") {
                "https"
            } else {
                "plain"
            };
            format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{answer}").into_bytes()
        });
    });
    let carrick = start_forward(&place);
    let port = carrick.forward_address().port();
    for way in ["", "--proxytunnel"] {
        let text = Tool::new("curl", &place)
            .words("--disable --silent --show-error --fail --max-time 600 --proxy-cacert ca.pem --noproxy")
            .word("")
            .words(&format!("--resolve a.example:{port}:{}", place.ip()))
            .words(&format!("--proxy https://a.example:{port} {way} http://{}/", server.address()))
            .expect();
        // The client asked for http://; TLS is between it and the proxy.
        assert_eq!(text, "plain");
    }
    assert_eq!(carrick.access_log(2).len(), 2);
}
