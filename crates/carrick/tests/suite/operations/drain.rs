//! SIGTERM and SIGINT: active work finishes, up to a limit, and nothing new begins.
use super::echo_server;
use super::load::{Asking, Load};
use crate::support::{Carrick, Ending, PATIENCE, Peer, Place, Server, carrick, wait_for};
use rustix::process::Signal;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A switch with a drain time.
fn switch_with_drain(place: &Place, server: &Server, drain: &str) -> Carrick {
    let text = carrick::switch_text(&[server.address()]);
    Carrick::start(place, &format!("[timeouts]\ndrain = \"{drain}\"\n{text}"))
}

/// A download whose head and first half have arrived; both its ends.
pub(super) fn half_a_download(client: &mut Peer, server: &Server) -> Peer {
    client.send("GET /long HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n");
    upstream.send(vec![b'1'; 100_000]);
    client.read_head();
    client.expect(vec![b'1'; 100_000]);
    upstream
}

#[test]
fn a_drain_under_load_fails_no_request() {
    let place = Place::claim();
    let echo = echo_server(&place);
    let slow = Server::listen(&place);
    let text = format!(
        "[timeouts]\ndrain = \"10m\"\n[[listener]]\nlisten = \"{{ip}}:18080\"\nmode = \"switch\"\n\
         [[listener.route]]\npath = \"/long\"\nupstream = \"slow\"\n[[listener.route]]\nupstream = \"u\"\n{}{}",
        carrick::upstream_text("u", &[echo.address()]),
        carrick::upstream_text("slow", &[slow.address()]),
    );
    let mut carrick = Carrick::start(&place, &text);
    let asking = |requests_per_connection| Asking {
        address: carrick.listener(),
        clients: 4,
        requests_per_connection,
    };
    let keep_alive = Load::start(&asking(usize::MAX));
    let short = Load::start(&asking(3));
    let mut downloading = carrick.connect();
    let mut download = half_a_download(&mut downloading, &slow);
    let (mut uploading, mut upload) = carrick.asked(
        &slow,
        "PUT /long HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\n01234",
    );
    keep_alive.wait_for_more(200);
    short.wait_for_more(200);

    carrick.signal(Signal::TERM);
    let (keep_alive, short) = (keep_alive.wait(), short.wait());
    keep_alive.expect_no_failure(200);
    short.expect_no_failure(200);

    // The active transfers keep the process running, and `/health` says so.
    let health = carrick.ask_admin("/health");
    assert_eq!((health.status, health.text().as_str()), (503, "draining\n"));
    assert_eq!(carrick.status()["state"], "draining");
    assert!((carrick.metric("carrick_draining", &[]) - 1.0).abs() < f64::EPSILON);
    download.send(vec![b'2'; 100_000]);
    downloading.expect(vec![b'2'; 100_000]);
    downloading.expect_end();
    uploading.send("56789");
    upload.expect("0123456789");
    upload.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    let created = uploading.read_response("PUT");
    assert_eq!(created.status, 201);
    assert_eq!(created.field("connection").as_deref(), Some("close"));
    uploading.expect_end();

    let ended = carrick.wait();
    assert!(ended.status.success(), "{ended:#?}");
    assert!(
        !ended.standard_error.contains("drain time is over"),
        "{ended:#?}"
    );
    let lines = carrick.access_log(keep_alive.answered + short.answered + 2);
    assert_eq!(lines.len(), keep_alive.answered + short.answered + 2);
}

#[test]
fn an_idle_client_may_still_ask_in_the_grace_and_is_then_told_to_go() {
    let place = Place::claim();
    let server = echo_server(&place);
    let text = carrick::switch_text(&[server.address()]);
    let ask = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
    // Again, where a busy machine takes half of the grace.
    let (mut carrick, mut asking, mut silent) = loop {
        let text = format!("[timeouts]\ndrain = \"10m\"\n{text}");
        let carrick = Carrick::start(&place, &text);
        let mut asking = carrick.connect();
        let mut silent = carrick.connect();
        assert_eq!(asking.ask(ask).status, 200);
        assert_eq!(silent.ask(ask).status, 200);
        let begun = Instant::now();
        carrick.signal(Signal::TERM);
        carrick
            .standard_error()
            .wait_for("draining")
            .expect("a message");
        let is_sent = asking.try_send(ask).is_ok();
        if is_sent && begun.elapsed() < Duration::from_millis(500) {
            break (carrick, asking, silent);
        }
    };
    let last = asking.read_response("GET");
    assert_eq!((last.status, last.text().as_str()), (200, "/a"));
    assert_eq!(last.field("connection").as_deref(), Some("close"));
    asking.expect_end();
    silent.expect_end();
    assert!(carrick.wait().status.success());
}

#[test]
fn an_open_tunnel_may_end_by_itself_in_a_drain() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = carrick::tunnel_text(&[server.address()]);
    let mut carrick = Carrick::start(&place, &format!("[timeouts]\ndrain = \"10m\"\n{text}"));
    let mut client = carrick.connect_tunnel();
    client.send("a");
    let mut upstream = server.accept();
    upstream.expect("a");
    carrick.signal(Signal::TERM);
    carrick
        .standard_error()
        .wait_for("draining")
        .expect("a message");
    client.send("b");
    upstream.expect("b");
    upstream.send("c");
    client.expect("c");
    drop(client);
    upstream.expect_end();
    drop(upstream);
    assert!(carrick.wait().status.success());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let mut carrick = switch_with_drain(&place, &server, "10m");
    let mut client = carrick.connect();
    let _upstream = half_a_download(&mut client, &server);
    carrick.signal(Signal::TERM);
    carrick
        .standard_error()
        .wait_for("draining")
        .expect("a message");
    carrick.signal(Signal::TERM);
    let ended = carrick.wait();
    assert!(ended.status.success(), "{ended:#?}");
    assert!(
        ended.standard_error.contains("closing all connections now"),
        "{ended:#?}"
    );
    assert!(client.read_ending().bytes().is_empty());
}

#[test]
fn the_drain_has_a_limit_and_what_it_cuts_is_logged() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let mut carrick = switch_with_drain(&place, &server, "500ms");
    let mut client = carrick.connect();
    let _upstream = half_a_download(&mut client, &server);
    let begun = Instant::now();
    carrick.signal(Signal::TERM);
    let ended = carrick.wait();
    assert!(ended.status.success(), "{ended:#?}");
    assert!(begun.elapsed() >= Duration::from_millis(500));
    assert!(
        ended.standard_error.contains("drain time is over"),
        "{ended:#?}"
    );
    assert!(client.read_ending().bytes().is_empty());
    let lines = carrick.access_log(1);
    assert_eq!(lines[0].text("target"), "/long");
    assert_eq!(lines[0].number("sent"), 100_000);
    assert_eq!(lines[0].text("ended"), "drain");
}

#[test]
fn a_cut_response_without_a_length_does_not_look_complete() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let mut carrick = switch_with_drain(&place, &server, "200ms");
    let (mut client, mut upstream) =
        carrick.asked(&server, "GET / HTTP/1.0\r\nHost: a.example\r\n\r\n");
    upstream.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of");
    client.read_head();
    client.expect("half of");
    carrick.signal(Signal::TERM);
    assert!(carrick.wait().status.success());
    assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
}

#[test]
fn control_c_ends_it_and_no_client_is_admitted_afterwards() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let mut carrick = switch_with_drain(&place, &server, "20s");
    let mut client = carrick.connect();
    let mut upstream = half_a_download(&mut client, &server);
    carrick.signal(Signal::INT);
    wait_for("the listener to close", || {
        std::net::TcpStream::connect_timeout(&carrick.listener(), PATIENCE).err()
    });
    upstream.send(vec![b'2'; 100_000]);
    client.expect(vec![b'2'; 100_000]);
    assert!(carrick.wait().status.success());
}

#[test]
fn a_drain_of_no_time_ends_at_once() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let mut carrick = switch_with_drain(&place, &server, "0s");
    let mut client = carrick.connect();
    let _upstream = half_a_download(&mut client, &server);
    carrick.signal(Signal::TERM);
    assert!(carrick.wait().status.success());
    assert!(client.read_ending().bytes().is_empty());
}

#[test]
fn clients_that_wait_for_a_slot_when_a_drain_begins_are_served() {
    let place = Place::claim();
    let (echo, slow) = (echo_server(&place), Server::listen(&place));
    let text = format!(
        "[timeouts]\ndrain = \"10m\"\n[limits]\nconnections = 2\n\
         [[listener]]\nlisten = \"{{ip}}:18080\"\nmode = \"switch\"\n\
         [[listener.route]]\npath = \"/long\"\nupstream = \"slow\"\n[[listener.route]]\nupstream = \"u\"\n{}{}",
        carrick::upstream_text("u", &[echo.address()]),
        carrick::upstream_text("slow", &[slow.address()]),
    );
    let mut carrick = Carrick::start(&place, &text);
    let mut downloading = [carrick.connect(), carrick.connect()];
    let downloads = (downloading.each_mut()).map(|client| half_a_download(client, &slow));
    let mut waiting: Vec<Peer> = (0..8).map(|_| carrick.connect()).collect();
    for client in &mut waiting {
        client.send("GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n");
    }
    carrick.signal(Signal::TERM);
    wait_for("the listener to close", || {
        std::net::TcpStream::connect_timeout(&carrick.listener(), PATIENCE).err()
    });
    for (mut upstream, mut client) in downloads.into_iter().zip(downloading) {
        upstream.send(vec![b'2'; 100_000]);
        client.expect(vec![b'2'; 100_000]);
    }
    for client in &mut waiting {
        let response = client.read_response("GET");
        assert_eq!((response.status, response.text().as_str()), (200, "/a"));
        client.expect_end();
    }
    assert!(carrick.wait().status.success());
}

#[test]
fn the_end_of_a_drain_resets_clients_that_still_wait_for_a_slot() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = carrick::switch_text(&[server.address()]);
    let text = format!("[timeouts]\ndrain = \"10m\"\n[limits]\nconnections = 1\n{text}");
    let mut carrick = Carrick::start(&place, &text);
    let mut downloading = carrick.connect();
    let _upstream = half_a_download(&mut downloading, &server);
    let mut waiting = carrick.connect();
    waiting.send("GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n");
    carrick.signal(Signal::TERM);
    wait_for("the listener to close", || {
        std::net::TcpStream::connect_timeout(&carrick.listener(), PATIENCE).err()
    });
    carrick.signal(Signal::TERM);
    assert_eq!(waiting.read_ending(), Ending::Reset(Vec::new()));
    assert!(carrick.wait().status.success());
    server.expect_no_connection();
}

/// The status of the carrick whose admin this connection reaches.
fn status_over(admin: &mut Peer) -> serde_json::Value {
    let status = admin.ask("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(status.status, 200, "{}", status.text());
    serde_json::from_slice(&status.body).expect("JSON")
}

#[test]
fn the_next_process_has_all_addresses_as_soon_as_the_drain_begins() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let mut old = switch_with_drain(&place, &server, "10m");
    let mut client = old.connect();
    let mut upstream = half_a_download(&mut client, &server);
    let mut admin = Peer::connect(old.admin());
    let old_pid = status_over(&mut admin)["pid"].clone();
    // While it serves, it keeps its address, whoever asks for it.
    let keeps =
        Peer::connect(old.admin()).ask("POST /handover HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(keeps.status, 409, "{}", keeps.text());
    old.signal(Signal::TERM);
    old.standard_error()
        .wait_for("draining")
        .expect("a message");
    // Until there is a successor, load balancers get 503.
    assert_eq!(old.ask_admin("/health").status, 503);
    let of_page = Peer::connect(old.admin())
        .ask("POST /handover HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a.example\r\n\r\n");
    assert_eq!(of_page.status, 403, "{}", of_page.text());

    // Asks until the successor is there, and once more: an idle connection would be closed meanwhile on a busy machine.
    let (has_successor, is_asked) = mpsc::channel();
    let asking = std::thread::spawn(move || {
        while is_asked.try_recv().is_err() {
            status_over(&mut admin);
        }
        status_over(&mut admin)
    });
    // Otherwise it may get a client of the new one.
    wait_for("the old listener to close", || {
        std::net::TcpStream::connect_timeout(&old.listener(), PATIENCE).err()
    });
    let new = switch_with_drain(&place, &server, "10m");
    assert_eq!(new.ask_admin("/health").status, 200);
    let status = new.status();
    assert_ne!(status["pid"], old_pid);
    assert_eq!(status["state"], "serving");
    let mut second = new.connect();
    let mut second_upstream = half_a_download(&mut second, &server);
    // Connections to the old admin keep working, and its transfers continue.
    has_successor.send(()).expect("the asking thread");
    let status = asking.join().expect("the asking thread");
    assert_eq!(
        (&status["pid"], &status["state"]),
        (&old_pid, &"draining".into())
    );
    upstream.send(vec![b'2'; 100_000]);
    client.expect(vec![b'2'; 100_000]);
    drop(client);
    drop(upstream);
    assert!(old.wait().status.success());
    second_upstream.send(vec![b'2'; 100_000]);
    second.expect(vec![b'2'; 100_000]);
}
