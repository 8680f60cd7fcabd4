//! Files that change, and connections that were made by what they said before.
use super::*;
use crate::http2::PATIENT;
use crate::http2::client::run;
use crate::http2::servers::server::Http2Server;
use crate::https::certificates::{issue_for_client, make_other_authority};
use crate::support::{Carrick, wait_until};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Replaces `used.pem`.
fn install(place: &Place, name: &str) {
    std::fs::copy(file(place, name), file(place, "new")).expect("a copy");
    std::fs::rename(file(place, "new"), file(place, "used.pem")).expect("a file");
}

/// Holds the response to a request for `/held` back.
#[derive(Debug, Default)]
struct Gate {
    has_come: AtomicBool,
    is_open: Notify,
}

impl Gate {
    async fn pass(&self) {
        self.has_come.store(true, Ordering::SeqCst);
        self.is_open.notified().await;
    }
}

/// Requests to a server whose authority is `ca.pem` go over the one connection that is there while `used.pem` says the same. Once it
/// says something else, only what is under way there goes on.
fn expect_to_follow(
    place: &Place,
    (server, connections): (SocketAddr, impl Fn() -> usize),
    keys: &str,
    gate: &Gate,
) {
    make_other_authority(place, "other");
    install(place, "ca.pem");
    let keys = format!("{keys}tls = {{ ca = \"used.pem\" }}");
    let text = PATIENT.to_owned() + &switch_text(&[server], &keys);
    let carrick = Carrick::start(place, &text);
    let status = || carrick.connect().ask(GET).status;
    let reload = || carrick.reload_as(place, &text, "ok");
    assert_eq!(status(), 200);
    install(place, "ca.pem");
    (carrick.standard_error())
        .wait_for("upstream u: new certificates are in force")
        .expect("a message");
    assert_eq!((status(), connections()), (200, 1));
    reload();
    assert_eq!((status(), connections()), (200, 1));

    let mut held = carrick.connect();
    held.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the request", || gate.has_come.load(Ordering::SeqCst));
    install(place, "other.pem");
    wait_until("the other authority", || status() == 502);
    gate.is_open.notify_one();
    assert_eq!(held.read_response("GET").status, 200);
    assert_eq!(status(), 502);

    install(place, "ca.pem");
    wait_until("the right authority", || status() == 200);
    install(place, "other.pem");
    reload();
    assert_eq!(status(), 502);
}

#[test]
fn kept_connections_of_another_authority_carry_no_further_requests() {
    let Some(place) = stage() else { return };
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    let config = config(&place, "server", Offers::All);
    let server = serve(&place, &config, move |mut end, _| {
        while let Some(head) = end.next_head() {
            if head.starts_with("GET /held ") {
                run(held.pass());
            }
            end.send(OK);
        }
    });
    let connections = || server.accepted();
    expect_to_follow(&place, (server.address(), connections), "", &gate);
}

#[test]
fn connections_of_http2_of_another_authority_carry_no_further_requests() {
    let Some(place) = stage() else { return };
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    let mut config = make_config(&place, "server", Offers::All, None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let server = Http2Server::by_tls(&place, Arc::new(config), move |mut asked| {
        let held = Arc::clone(&held);
        async move {
            if asked.head.uri.path() == "/held" {
                held.pass().await;
            }
            asked.answer(200, b"ok");
        }
    });
    let connections = || server.connections();
    let keys = "http2 = true\n";
    expect_to_follow(&place, (server.address(), connections), keys, &gate);
}

#[test]
fn kept_connections_to_a_parent_of_another_authority_carry_no_further_requests() {
    let Some(place) = stage() else { return };
    make_other_authority(&place, "other");
    install(&place, "ca.pem");
    let server = answering(&place);
    let address = server.address();
    let text = format!(
        "[workers]\ncount = 1\n{FORWARD_TEXT}parent = {{ proxy = \"{address}\", tls = {{ ca = \"used.pem\" }} }}\n"
    );
    let carrick = Carrick::start(&place, &text);
    let request = format!("GET http://{address}/ HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let status = || carrick.connect_forward().ask(&request).status;
    for _ in 0..2 {
        assert_eq!((status(), server.accepted()), (200, 1));
    }
    install(&place, "other.pem");
    wait_until("the other authority", || status() == 502);
}

#[test]
fn kept_connections_made_with_another_certificate_of_its_own_carry_no_further_requests() {
    let Some(place) = stage() else { return };
    for name in ["one", "two"] {
        issue_for_client(&place, "ca", name, &format!("/CN={name}"));
        let read = |ending: &str| {
            std::fs::read_to_string(file(&place, &format!("{name}.{ending}"))).expect("a file")
        };
        place.write(&format!("{name}.both"), &(read("pem") + &read("key")));
    }
    install(&place, "one.both");
    let server = serve(&place, &demanding(&place, Offers::All), answer);
    let keys = "tls = { ca = \"ca.pem\", certificate = \"used.pem\", key = \"used.pem\" }";
    let carrick = Carrick::start(&place, &switch_text(&[server.address()], keys));
    let status = || carrick.connect().ask(GET).status;
    for _ in 0..2 {
        assert_eq!((status(), server.accepted()), (200, 1));
    }
    install(&place, "two.both");
    wait_until("another connection", || {
        assert_eq!(status(), 200);
        server.accepted() == 2
    });
}

#[test]
fn files_that_change_are_followed_unless_they_are_wrong() {
    let Some(place) = stage() else { return };
    make_other_authority(&place, "other");
    install(&place, "ca.pem");
    let server = serve(&place, &config(&place, "server", Offers::All), answer);
    let text = switch_text(
        &[server.address()],
        "keepalive = 0\ntls = { ca = \"used.pem\" }",
    );
    let carrick = Carrick::start(&place, &text);
    let said = carrick.standard_error();
    let status = || carrick.connect().ask(GET).status;
    assert_eq!(status(), 200);
    install(&place, "other.pem");
    said.wait_for("upstream u: new certificates are in force")
        .expect("a message");
    assert_eq!(status(), 502);
    install(&place, "ca.pem");
    wait_until("the right authority", || status() == 200);
    place.write("used.pem", "nothing");
    said.wait_for("upstream u: the previous certificates stay in force")
        .expect("a message");
    assert_eq!(status(), 200);
    carrick.reload_as(&place, &text, "failed");
    assert_eq!(status(), 200);
    install(&place, "other.pem");
    carrick.reload_as(&place, &text, "ok");
    assert_eq!(status(), 502);
}
