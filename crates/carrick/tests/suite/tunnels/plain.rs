//! TCP through a tunnel listener.
use crate::support::carrick::tunnel_text;
use crate::support::{Carrick, Ending, Peer, Place, Server, wait_for};
use std::time::Instant;

struct Stage {
    server: Server,
    carrick: Carrick,
    _place: Place,
}

impl Stage {
    fn with(tables: &str) -> Self {
        let place = Place::claim();
        let server = Server::listen(&place);
        let carrick = Carrick::start(
            &place,
            &format!("{tables}\n{}", tunnel_text(&[server.address()])),
        );
        Self {
            server,
            carrick,
            _place: place,
        }
    }

    fn begin(&self) -> (Peer, Peer) {
        let client = self.carrick.connect_tunnel();
        (client, self.server.accept())
    }
}

const ENGINES: [&str; 4] = ["copy", "pipe", "auto", "socket"];

fn each_engine(play: impl Fn(Stage)) {
    for engine in ENGINES {
        play(Stage::with(&format!("[splice]\nengine = \"{engine}\"")));
    }
}

/// For what takes seconds.
fn each_engine_at_once(play: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for engine in ENGINES {
            let play = &play;
            scope.spawn(move || play(engine));
        }
    });
}

#[test]
fn bytes_go_both_ways_and_nothing_is_touched() {
    each_engine(|stage| {
        let (mut client, mut upstream) = stage.begin();
        for round in 0..100 {
            let ping = format!("ping {round}\r\n\0\u{ff}");
            client.send(&ping);
            upstream.expect(&ping);
            upstream.send(&ping);
            client.expect(&ping);
        }
        client.half_close();
        upstream.expect_end();
        upstream.half_close();
        client.expect_end();
    });
}

/// As Telnet and databases send it: `recv(2)` would omit the byte.
#[test]
fn an_urgent_byte_comes_in_its_place() {
    each_engine(|stage| {
        let (client, upstream) = stage.begin();
        for (mut one, mut other) in [
            (client.second(), upstream.second()),
            (upstream.second(), client.second()),
        ] {
            one.send("first");
            other.expect("first");
            one.send_urgent("!");
            other.expect("!");
            one.send("behind");
            other.expect("behind");
        }
    });
}

#[test]
fn the_server_may_speak_first() {
    each_engine(|stage| {
        let (mut client, mut upstream) = stage.begin();
        upstream.send("220 mail.example ESMTP\r\n");
        client.expect("220 mail.example ESMTP\r\n");
        client.send("EHLO a\r\n");
        upstream.expect("EHLO a\r\n");
    });
}

#[test]
fn a_half_close_goes_through_and_the_other_direction_goes_on() {
    each_engine(|stage| {
        for client_first in [true, false] {
            let (client, upstream) = stage.begin();
            let (mut one, mut other) = if client_first {
                (client, upstream)
            } else {
                (upstream, client)
            };
            one.send("question");
            one.half_close();
            assert_eq!(other.read_to_end(), b"question");
            for round in 0..50 {
                let text = format!("answer {round};");
                other.send(&text);
                one.expect(&text);
            }
            other.half_close();
            one.expect_end();
        }
        let lines = stage.carrick.access_log(2);
        for line in lines {
            assert_eq!(
                (line.status(), line.text("ended"), line.text("method")),
                (200, "complete", "TUNNEL")
            );
        }
    });
}

/// Everything sent before an end arrives before the end.
#[test]
fn no_byte_is_lost_before_an_end() {
    each_engine(|stage| {
        let bytes = crate::support::random::Random::new(3).bytes(700_000);
        let (mut client, mut upstream) = stage.begin();
        let expected = bytes.clone();
        let sending = std::thread::spawn(move || {
            upstream.send(&bytes);
            upstream.half_close();
            upstream
        });
        // A reader that begins late.
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(client.read_to_end() == expected);
        client.half_close();
        sending.join().expect("no panic").expect_end();
    });
}

#[test]
fn a_reset_goes_through() {
    each_engine(|stage| {
        for client_first in [true, false] {
            let (client, upstream) = stage.begin();
            let (mut one, mut other) = if client_first {
                (client, upstream)
            } else {
                (upstream, client)
            };
            one.send("some");
            other.expect("some");
            one.reset();
            assert_eq!(other.read_ending(), Ending::Reset(Vec::new()));
        }
        let lines = stage.carrick.access_log(2);
        let mut ends: Vec<&str> = lines.iter().map(|line| line.text("ended")).collect();
        ends.sort_unstable();
        assert_eq!(ends, ["client_reset", "upstream_reset"]);
    });
}

/// A reset discards what has not been acknowledged.
#[test]
fn a_client_gets_what_was_sent_before_a_reset() {
    each_engine(|stage| {
        let expected = Ending::Reset(crate::support::random::Random::new(4).bytes(300_000));
        // Again, where this thread stands still for so long that carrick gives its client up.
        let ending = wait_for("bytes that were read in time", || {
            let mut client = Peer::connect_with_buffers(stage.carrick.tunnel_address(), 65_536);
            let mut upstream = stage.server.accept();
            client.send("question");
            upstream.expect("question");
            upstream.send(expected.bytes());
            wait_for("carrick's kernel to have the bytes", || {
                let shown = upstream.near_end().look()?;
                (shown.unacknowledged == 0).then_some(())
            });
            let begun = Instant::now();
            upstream.reset();
            let ending = client.read_ending();
            let is_in_time = begun.elapsed() < carrick_splice::LAST_BYTES_IDLE;
            (is_in_time || ending == expected).then_some(ending)
        });
        assert_eq!(ending, expected);
    });
}

#[test]
fn a_client_that_takes_nothing_is_reset_when_its_server_was() {
    each_engine(|stage| {
        let mut client = Peer::connect_with_buffers(stage.carrick.tunnel_address(), 4096);
        let mut upstream = stage.server.accept();
        client.send("question");
        upstream.expect("question");
        upstream.send(vec![b'x'; 60_000]);
        upstream.reset();
        let line = &stage.carrick.access_log(1)[0];
        assert_eq!(line.text("ended"), "upstream_reset");
        assert!(matches!(client.read_ending(), Ending::Reset(_)));
    });
}

#[test]
fn a_reset_after_a_half_close_ends_all() {
    each_engine(|stage| {
        let (mut client, mut upstream) = stage.begin();
        client.half_close();
        upstream.expect_end();
        upstream.send("part");
        client.expect("part");
        upstream.reset();
        assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
        stage.carrick.wait_until_clients(0);
    });
}

#[test]
fn a_tunnel_without_a_byte_ends_with_its_idle_time_out() {
    each_engine_at_once(|engine| {
        let stage = Stage::with(&format!(
            "[splice]\nengine = \"{engine}\"\n[timeouts]\ntunnel_idle = \"15s\"\nidle = \"100ms\"\ndrain = \"1s\""
        ));
        let (mut client, mut upstream) = stage.begin();
        client.send("up");
        upstream.expect("up");
        upstream.send("down");
        client.expect("down");
        assert_eq!(client.read_ending(), Ending::Closed(Vec::new()));
        assert_eq!(upstream.read_ending(), Ending::Closed(Vec::new()));
        let line = &stage.carrick.access_log(1)[0];
        assert_eq!(line.text("ended"), "tunnel_idle_timeout");
        assert_eq!((line.number("received"), line.number("sent")), (2, 4));
        assert_eq!(stage.carrick.limit_reached("tunnel_idle_timeout"), 1.0);
    });
}

/// With a FIN, what the client has got would look whole.
#[test]
fn a_tunnel_that_is_idle_with_bytes_on_their_way_is_reset() {
    each_engine_at_once(|engine| {
        let stage = Stage::with(&format!(
            "[splice]\nengine = \"{engine}\"\n[timeouts]\ntunnel_idle = \"15s\""
        ));
        let mut client = Peer::connect_with_buffers(stage.carrick.tunnel_address(), 4096);
        let mut upstream = stage.server.accept();
        // At once, and more than the client takes.
        upstream.send(vec![b'x'; 60_000]);
        let line = &stage.carrick.access_log(1)[0];
        assert_eq!(line.text("ended"), "tunnel_idle_timeout");
        for (side, peer) in [("server", &mut upstream), ("client", &mut client)] {
            assert!(
                matches!(peer.read_ending(), Ending::Reset(_)),
                "{engine}, {side}"
            );
        }
    });
}

/// The kernel has them, and the server's end behind them.
#[test]
fn a_tunnel_that_is_idle_with_bytes_behind_which_the_server_has_ended_is_closed() {
    each_engine_at_once(|engine| {
        let stage = Stage::with(&format!(
            "[splice]\nengine = \"{engine}\"\n[timeouts]\ntunnel_idle = \"15s\""
        ));
        let mut client = Peer::connect_with_buffers(stage.carrick.tunnel_address(), 4096);
        let mut upstream = stage.server.accept();
        let bytes = vec![b'x'; 60_000];
        upstream.send(&bytes);
        upstream.half_close();
        let line = &stage.carrick.access_log(1)[0];
        assert_eq!(line.text("ended"), "tunnel_idle_timeout");
        assert_eq!(upstream.read_ending(), Ending::Closed(Vec::new()));
        assert_eq!(client.read_ending(), Ending::Closed(bytes), "{engine}");
    });
}

#[test]
fn a_tunnel_whose_server_cannot_be_reached_is_reset() {
    let place = Place::claim();
    let (refusing, _guard) = place.refusing();
    let carrick = Carrick::tunnel(&place, &[refusing]);
    let mut client = carrick.connect_tunnel();
    assert!(client.read_ending().bytes().is_empty());
    let line = &carrick.access_log(1)[0];
    assert_eq!((line.status(), line.text("ended")), (502, "connect"));
    assert!(
        line.value("connect").is_null(),
        "no connection was opened: {line:?}"
    );
    assert_eq!(carrick.metric("carrick_connect_seconds_count", &[]), 0.0);
}

#[test]
fn tunnels_are_counted_while_they_stand() {
    let stage = Stage::with("");
    let pairs: Vec<_> = (0..5).map(|_| stage.begin()).collect();
    assert_eq!(
        stage
            .carrick
            .wait_for_metric("carrick_tunnels_open", &["mode=\"tunnel\""], 5.0),
        5.0
    );
    drop(pairs);
    stage
        .carrick
        .wait_until_metric("carrick_tunnels_open", &[], 0.0);
    assert_eq!(
        stage
            .carrick
            .metric("carrick_tunnels_total", &["mode=\"tunnel\""]),
        5.0
    );
}
