//! The end of a relayed connection is reproduced at the other end; the link connection stays.
use super::{LINK_PORT, ONE_WORKER, Stage, far_text, near_text};
use crate::support::random::Random;
use crate::support::{Carrick, Ending, Peer, Place, wait_for, wait_until};

#[test]
fn half_closes_go_through_and_the_other_way_goes_on() {
    let stage = Stage::plain();
    for client_first in [true, false] {
        let (mut one, mut other) = stage.begin_from(client_first);
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
    stage.near.access_log(2);
    stage.expect_one_connection();
}

#[test]
fn resets_go_through_both_ways() {
    let stage = Stage::plain();
    for (client_first, ended) in [(true, "client_reset"), (false, "upstream_reset")] {
        let (mut one, mut other) = stage.begin_from(client_first);
        one.send("a");
        other.expect("a");
        one.reset();
        assert_eq!(other.read_ending(), Ending::Reset(Vec::new()));
        let count = if client_first { 1 } else { 2 };
        for end in [&stage.near, &stage.far] {
            assert_eq!(end.access_log(count)[count - 1].text("ended"), ended);
        }
    }
    stage.expect_one_connection();
}

/// The worker sees the bytes and the reset at once.
#[test]
fn what_was_sent_before_a_reset_arrives_before_it() {
    let stage = Stage::plain();
    for round in 0..20 {
        let (mut one, mut other) = stage.begin_from(round % 2 == 0);
        other.send("question");
        one.expect("question");
        one.send("answer");
        one.reset();
        assert_eq!(other.read_ending(), Ending::Reset(b"answer".to_vec()));
    }
    stage.near.access_log(20);
    stage.expect_one_connection();
}

/// The link connection need not wait for a receiver that has not read everything yet.
#[test]
fn a_slow_receiver_gets_what_was_sent_before_a_reset() {
    let stage = Stage::plain();
    let bytes = Random::new(7).bytes(300_000);
    for client_first in [true, false] {
        let (mut one, mut other) = stage.begin_from(client_first);
        other.send("question");
        one.expect("question");
        one.send(&bytes);
        // What has not left yet is lost with the reset.
        wait_for("the bytes to be acknowledged", || {
            (one.near_end().look()?.unacknowledged == 0).then_some(())
        });
        one.reset();
        let (mut next, mut upstream) = stage.begin();
        next.send("meanwhile");
        upstream.expect("meanwhile");
        assert_eq!(other.read_ending(), Ending::Reset(bytes.clone()));
    }
}

/// The far end has already sent END when its server is reset, and so has the near end.
#[test]
fn a_reset_after_a_half_close_goes_through() {
    let stage = Stage::plain();
    for client_first in [true, false] {
        let (mut one, mut other) = stage.begin_from(client_first);
        one.half_close();
        other.expect_end();
        one.reset();
        // The closed side has no more to report, so only a failing write shows the reset.
        wait_until("the reset", || other.try_send("x").is_err());
    }
    stage.near.access_log(2);
    stage.expect_one_connection();
}

/// A client that disconnects in the middle of a transfer costs the link only the bytes in flight.
#[test]
fn a_client_that_disconnects_in_mid_transfer_leaves_the_link_usable() {
    let stage = Stage::plain();
    let bytes = Random::new(2).bytes(20_000_000);
    for client_first in [true, false] {
        let (mut one, mut other) = stage.begin_from(client_first);
        let bytes = bytes.clone();
        let sending = std::thread::spawn(move || {
            // Until it fails; the first bytes may all fit into sockets.
            while other.try_send(&bytes).is_ok() {}
        });
        one.read_exact(100_000);
        one.reset();
        sending.join().expect("an error");
    }
    stage.near.access_log(2);
    stage.expect_one_connection();
}

#[test]
fn a_servers_refusal_reaches_the_client() {
    let (near_place, far_place) = (Place::claim(), Place::claim());
    let (refusing, _socket) = far_place.refusing();
    let far = Carrick::start(&far_place, &far_text(ONE_WORKER, "deny_to = []"));
    let text = near_text(
        ONE_WORKER,
        "preconnect = 0",
        far_place.at(LINK_PORT),
        refusing,
    );
    let near = Carrick::start(&near_place, &text);
    for _ in 0..3 {
        let mut client = near.connect_tunnel();
        // A reset that comes before it is told here, and only once.
        let sent = client.try_send("is anybody there?");
        assert!(sent.is_err() || client.read_ending() == Ending::Reset(Vec::new()));
    }
    for line in near.access_log(3).iter().chain(&far.access_log(3)) {
        assert_eq!((line.status(), line.text("ended")), (502, "connect"));
    }
    assert_eq!(near.metric("carrick_link_refused_total", &[]), 3.0);
    assert_eq!(
        near.metric("carrick_link_connections_opened_total", &[]),
        1.0
    );
}

/// The far end refuses its own machine, and its private networks, unless the configuration allows them.
#[test]
fn what_the_far_end_may_not_connect_to_is_refused() {
    let stage = Stage::with("", "", "");
    (stage.far).reload_as(&stage.far_place, &far_text("", ""), "ok");
    let mut client = stage.near.connect_tunnel();
    assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
    let line = stage.near.access_log(1).remove(0);
    assert_eq!((line.status(), line.text("ended")), (403, "denied_address"));
    stage.server.expect_no_connection();
}

#[test]
fn an_idle_connection_ends_at_both_ends() {
    let stage = Stage::with(
        &format!("[timeouts]\ntunnel_idle = \"300ms\"\n{ONE_WORKER}"),
        "preconnect = 0",
        ONE_WORKER,
    );
    let (mut client, mut upstream) = stage.begin();
    // Neither end knows what the other one may still hold.
    assert_eq!(upstream.read_ending(), Ending::Reset(Vec::new()));
    assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
    assert_eq!(stage.near.limit_reached("tunnel_idle_timeout"), 1.0);
    for end in [&stage.near, &stage.far] {
        assert_eq!(end.access_log(1)[0].text("ended"), "tunnel_idle_timeout");
    }
    assert_eq!(
        stage.near_metric("carrick_link_connections_opened_total"),
        1.0
    );
}

/// Then the near end's kernel has all of the server's bytes, and the end behind them.
#[test]
fn an_idle_connection_whose_server_has_ended_is_not_reset_at_the_client() {
    let stage = Stage::with(
        &format!("[timeouts]\ntunnel_idle = \"4s\"\n{ONE_WORKER}"),
        "",
        ONE_WORKER,
    );
    let mut client = Peer::connect_with_buffers(stage.near.tunnel_address(), 4096);
    let mut upstream = stage.server.accept();
    let bytes = vec![b'x'; 60_000];
    upstream.send(&bytes);
    upstream.half_close();
    let line = &stage.near.access_log(1)[0];
    assert_eq!(line.text("ended"), "tunnel_idle_timeout");
    assert_eq!(upstream.read_ending(), Ending::Reset(Vec::new()));
    assert_eq!(client.read_ending(), Ending::Closed(bytes));
}

/// A server that does not read: its data waits in sockets, and neither end holds ever more of it.
#[test]
fn a_receiver_that_does_not_read_holds_its_sender_back() {
    let stage = Stage::plain();
    let (client, mut upstream) = stage.begin();
    let piece = vec![7; 1 << 20];
    let stream = client.stream().try_clone().expect("a descriptor");
    stream
        .set_write_timeout(Some(std::time::Duration::from_secs(2)))
        .expect("a time-out");
    let mut sent = 0_usize;
    while let Ok(count) = std::io::Write::write(&mut &stream, &piece) {
        sent += count;
        assert!(sent < 256 << 20, "the sender is not held back");
    }
    let used = |end: &Carrick| {
        let pid = end.pid().as_raw_nonzero();
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("statm");
        let pages: u64 = text
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .expect("pages");
        pages * 4096
    };
    for end in [&stage.near, &stage.far] {
        assert!(used(end) < 100 << 20, "{} bytes", used(end));
    }
    client
        .stream()
        .shutdown(std::net::Shutdown::Write)
        .expect("a half-close");
    assert_eq!(upstream.read_to_end().len(), sent);
    stage
        .near
        .wait_until_metric("carrick_copy_buffers_in_use", &[], 0.0);
}

#[test]
fn a_client_of_a_link_that_reads_nothing_ends_when_too_much_is_held() {
    let near = format!("[limits]\nstalled = \"100 KB\"\n{ONE_WORKER}");
    let stage = Stage::with(&near, "preconnect = 0", ONE_WORKER);
    let (mut client, mut upstream) = stage.begin();
    let sending = std::thread::spawn(move || {
        let piece = vec![b'x'; 1 << 20];
        while upstream.try_send(&piece).is_ok() {}
    });
    stage.near.wait_for_limit("stalled", 1.0);
    // An aborted transfer does not look complete.
    let ending = client.read_ending();
    assert!(matches!(ending, Ending::Reset(_)), "it looks complete");
    sending.join().expect("its server notices");
}
