//! The pool of link connections: opened in advance, reused, limited; and how reloads and exits affect it.
use super::{LINK_PORT, ONE_WORKER, Stage, far_text, near_text};
use crate::support::{Carrick, Ending, Peer, Place};
use rustix::process::Signal;

const OPENED: &str = "carrick_link_connections_opened_total";
const OPEN: &str = "carrick_link_connections_open";
const IDLE: &str = "carrick_link_connections_idle";

fn serve_once(stage: &Stage, text: &str) {
    let (mut client, mut upstream) = stage.begin();
    client.send(text);
    upstream.expect(text);
    client.half_close();
    upstream.expect_end();
    upstream.half_close();
    client.expect_end();
}

#[test]
fn one_connection_carries_a_hundred_one_after_the_other() {
    let stage = Stage::plain();
    for round in 0..100 {
        serve_once(&stage, &format!("round {round}"));
        stage.near.access_log(round + 1);
    }
    assert_eq!(stage.near_metric(OPENED), 1.0);
    assert_eq!(stage.near_metric("carrick_link_relayed_total"), 100.0);
    assert_eq!(stage.near_metric("carrick_link_reused_total"), 99.0);
    assert_eq!(
        stage.far.metric("carrick_client_connections_total", &[]),
        1.0
    );
    let lines = stage.near.access_log(100);
    assert_eq!(lines[0].value("reused"), false);
    assert_eq!(lines[99].value("reused"), true);
}

#[test]
fn some_are_opened_ahead_and_no_more_are_kept_than_wanted() {
    let stage = Stage::with(ONE_WORKER, "preconnect = 2\nconnections = 3", ONE_WORKER);
    stage.near.wait_for_metric(IDLE, &[], 2.0);
    assert_eq!(stage.near_metric(OPEN), 2.0);
    let pairs: Vec<(Peer, Peer)> = (0..8).map(|_| stage.begin()).collect();
    // Used ones are replaced: eight in use and two idle.
    stage.near.wait_until_metric(OPEN, &[], 10.0);
    for (mut client, mut upstream) in pairs {
        client.half_close();
        upstream.expect_end();
        upstream.half_close();
        client.expect_end();
    }
    stage.near.wait_until_metric(OPEN, &[], 3.0);
    stage.near.wait_for_metric(IDLE, &[], 3.0);
    stage.far.wait_until_clients(3);
}

#[test]
fn without_a_pool_each_connection_carries_one() {
    let stage = Stage::with(ONE_WORKER, "connections = 0\npreconnect = 0", ONE_WORKER);
    for round in 0..3 {
        serve_once(&stage, "once");
        stage.near.access_log(round + 1);
    }
    assert_eq!(stage.near_metric(OPENED), 3.0);
    assert_eq!(stage.near_metric("carrick_link_reused_total"), 0.0);
    stage.near.wait_until_metric(OPEN, &[], 0.0);
}

/// Interrupted connections are reset at both ends, and new ones work after the restart.
#[test]
fn a_far_end_that_is_killed_and_started_again_is_found_again() {
    let Stage {
        near_place: _near_place,
        far_place,
        server,
        near,
        mut far,
    } = Stage::with(ONE_WORKER, "preconnect = 1", ONE_WORKER);
    let mut client = near.connect_tunnel();
    let mut upstream = server.accept();
    let sending = std::thread::spawn(move || while upstream.try_send(vec![1; 100_000]).is_ok() {});
    client.read_exact(1_000_000);
    far.signal(Signal::KILL);
    far.wait();
    assert!(matches!(client.read_ending(), Ending::Reset(_)));
    sending.join().expect("the server's end");
    assert_eq!(near.access_log(1)[0].text("ended"), "link_lost");
    assert_eq!(near.metric("carrick_link_lost_total", &[]), 1.0);
    let mut refused = near.connect_tunnel();
    assert_eq!(refused.read_ending(), Ending::Reset(Vec::new()));
    // The idle connection has ended, too, and that may be noticed later.
    near.wait_until_metric(IDLE, &[], 0.0);

    let _far = Carrick::start(&far_place, &far_text(ONE_WORKER, "deny_to = []"));
    near.wait_for_metric(IDLE, &[], 1.0);
    let (mut client, mut upstream) = (near.connect_tunnel(), server.accept());
    client.send("again");
    upstream.expect("again");
}

#[test]
fn without_a_far_end_clients_are_refused_or_go_directly() {
    for (fallback, is_served) in [("refuse", false), ("direct", true)] {
        let (near_place, far_place) = (Place::claim(), Place::claim());
        let server = crate::support::Server::listen(&far_place);
        let (refusing, _socket) = far_place.refusing();
        let link = format!("fallback = \"{fallback}\"");
        let near = Carrick::start(
            &near_place,
            &near_text("", &link, refusing, server.address()),
        );
        for _ in 0..3 {
            let mut client = near.connect_tunnel();
            if is_served {
                let mut upstream = server.accept();
                client.send("directly");
                upstream.expect("directly");
            } else {
                assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
                server.expect_no_connection();
            }
        }
        let direct = near.metric("carrick_link_direct_total", &[]);
        assert_eq!(direct, if is_served { 3.0 } else { 0.0 });
        assert!(near.metric("carrick_link_connections_failed_total", &[]) > 0.0);
    }
}

#[test]
fn a_reload_keeps_links_that_stay_and_closes_those_that_change() {
    let stage = Stage::with(ONE_WORKER, "preconnect = 2", ONE_WORKER);
    stage.near.wait_for_metric(IDLE, &[], 2.0);
    let (mut client, mut upstream) = stage.begin();
    stage.near.wait_for_metric(OPENED, &[], 3.0);
    let text = |link: &str| {
        let peer = stage.far_place.at(LINK_PORT);
        near_text(ONE_WORKER, link, peer, stage.server.address())
    };
    let reload = |link: &str| (stage.near).reload_as(&stage.near_place, &text(link), "ok");
    reload("preconnect = 2");
    assert_eq!(stage.near_metric(OPENED), 3.0, "unchanged links stay");
    reload("preconnect = 1");
    // Two are closed, one is opened; the one in use continues, and is closed at its end.
    stage.near.wait_until_metric(OPENED, &[], 4.0);
    stage.near.wait_until_metric(OPEN, &[], 2.0);
    client.send("under the old plan");
    upstream.expect("under the old plan");
    client.half_close();
    upstream.expect_end();
    upstream.half_close();
    client.expect_end();
    stage.near.wait_until_metric(OPEN, &[], 1.0);
    serve_once(&stage, "under the new plan");
}

/// A draining far end finishes active connections, and closes idle ones; the near end uses its successor.
#[test]
fn ends_that_drain_let_what_is_under_way_end() {
    let stage = Stage::with(ONE_WORKER, "preconnect = 1", "[timeouts]\ndrain = \"10m\"");
    stage.near.wait_for_metric(IDLE, &[], 1.0);
    let (mut client, mut upstream) = stage.begin();
    client.send("before");
    upstream.expect("before");
    stage.far.signal(Signal::TERM);
    stage.near.wait_until_metric(IDLE, &[], 0.0);
    upstream.send("during");
    client.expect("during");
    client.half_close();
    upstream.expect_end();
    upstream.half_close();
    client.expect_end();
    let Stage { near, mut far, .. } = stage;
    assert!(far.wait().status.success());
    assert_eq!(near.access_log(1)[0].text("ended"), "complete");
}

#[test]
fn a_near_end_that_drains_resets_what_does_not_end_in_time() {
    let mut stage = Stage::with("[timeouts]\ndrain = \"500ms\"", "", "");
    let (mut client, mut upstream) = stage.begin();
    client.send("before");
    upstream.expect("before");
    stage.near.signal(Signal::TERM);
    assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
    assert_eq!(upstream.read_ending(), Ending::Reset(Vec::new()));
    assert!(stage.near.wait().status.success());
    assert_eq!(stage.near.access_log(1)[0].text("ended"), "drain");
}
