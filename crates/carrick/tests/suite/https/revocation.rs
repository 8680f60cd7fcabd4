//! Certificates that were revoked: of clients, and of servers.
use super::certificates::{
    Key, file, issue, issue_for_client, issue_until, make_authority, make_other_authority,
};
use super::client::{Offers, TlsPeer, presenting, presenting_with};
use super::{pair, switch_text};
use crate::clients::tool::Tool;
use crate::support::carrick::upstream_text;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server, wait_for, wait_until};
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const OK_AND_CLOSE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
/// The counter of handshakes with clients.
const HANDSHAKES: &str = "carrick_tls_handshakes_total";
const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// A place with an authority, and certificates of a server and of clients.
fn stage() -> Option<Place> {
    let place = Place::claim();
    if !make_authority(&place) {
        return None;
    }
    let names = format!("DNS:a.example,IP:{}", place.ip());
    issue(&place, "server", &names, Key::Ec);
    for client in ["alice", "zoe"] {
        issue_for_client(&place, "ca", client, &format!("/CN={client}"));
    }
    Some(place)
}

/// Writes the authority's list of those who are revoked to a file, which is replaced at once.
fn list(place: &Place, name: &str, revoked: &[&str], times: &str) {
    let line = |name: &&str| {
        let serial = Tool::new("openssl", place)
            .words(&format!("x509 -in {name}.pem -noout -serial"))
            .expect();
        let serial = serial.trim().trim_start_matches("serial=");
        format!("R\t491231235959Z\t200101000000Z\t{serial}\tunknown\t/CN={name}\n")
    };
    let lines: String = revoked.iter().map(line).collect();
    place.write("crl.txt", &lines);
    place.write(
        "crl.cnf",
        "[ca]\ndefault_ca=d\n[d]\ndatabase=crl.txt\ndefault_md=sha256\ncrl_extensions=x\n[x]\nauthorityKeyIdentifier=keyid\n",
    );
    Tool::new("openssl", place)
        .words("ca -gencrl -config crl.cnf -cert ca.pem -keyfile ca.key -out new.pem")
        .words(times)
        .expect();
    std::fs::rename(file(place, "new.pem"), file(place, name)).expect("a file");
}

/// What is checked, and a server behind it.
fn start(place: &Place, keys: &str) -> Carrick {
    let server = Server::listen(place);
    let address = server.address();
    std::mem::forget(server.serve(|peer, _| answer_requests(peer, |_| OK.to_vec())));
    let keys = format!("tls = {}\n{keys}", pair("server"));
    Carrick::start(place, &switch_text(&keys, &[address]))
}

fn is_served(carrick: &Carrick, config: &Arc<ClientConfig>) -> bool {
    let client = TlsPeer::try_connect(carrick.listener(), "a.example", config);
    client.is_ok_and(|mut client| client.try_ask(GET).is_some())
}

#[test]
fn a_client_whose_certificate_is_revoked_is_refused() {
    let Some(place) = stage() else { return };
    list(&place, "crl.pem", &["alice"], "-crldays 2");
    Tool::new("openssl", &place)
        .words("crl -in crl.pem -outform DER -out crl.der")
        .expect();
    for name in ["crl.pem", "crl.der"] {
        let keys = format!("client_ca = \"ca.pem\"\nclient_crl = \"{name}\"");
        let carrick = start(&place, &keys);
        assert!(is_served(&carrick, &presenting(&place, "zoe")));
        assert!(!is_served(&carrick, &presenting(&place, "alice")));
        carrick.wait_for_metric(HANDSHAKES, &["result=\"client_certificate\""], 1.0);
    }
}

#[test]
fn a_list_that_is_replaced_comes_into_force_for_sessions_that_are_resumed_too() {
    let Some(place) = stage() else { return };
    list(&place, "crl.pem", &[], "-crldays 2");
    let carrick = start(&place, "client_ca = \"ca.pem\"\nclient_crl = \"crl.pem\"");
    let alice = presenting(&place, "alice");
    for _ in 0..2 {
        assert!(is_served(&carrick, &alice));
    }
    let mut open = ["alice", "zoe"].map(|name| {
        let config = presenting(&place, name);
        let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
        assert!(client.ask(GET).0.starts_with("HTTP/1.1 200 "));
        client
    });
    list(&place, "crl.pem", &["alice"], "-crldays 2");
    wait_until("the list", || !is_served(&carrick, &alice));
    assert!(is_served(&carrick, &presenting(&place, "zoe")));
    let answers = open.each_mut().map(|client| client.ask(GET).0);
    assert!(answers[0].starts_with("HTTP/1.1 421 "), "{answers:?}");
    assert!(answers[1].starts_with("HTTP/1.1 200 "), "{answers:?}");
}

#[test]
fn without_a_valid_list_of_its_authority_a_certificate_is_refused() {
    let Some(place) = stage() else { return };
    make_other_authority(&place, "other");
    issue_for_client(&place, "other", "bob", "/CN=bob");
    let read = |name| std::fs::read_to_string(file(&place, name)).expect("a file");
    place.write("both.pem", &(read("ca.pem") + &read("other.pem")));
    list(&place, "crl.pem", &[], "-crldays 2");
    let carrick = start(&place, "client_ca = \"both.pem\"\nclient_crl = \"crl.pem\"");
    assert!(is_served(&carrick, &presenting(&place, "zoe")));
    assert!(!is_served(&carrick, &presenting(&place, "bob")));

    let times = "-crl_lastupdate 20200101000000Z -crl_nextupdate 20200102000000Z";
    list(&place, "crl.pem", &[], times);
    let said = || {
        let text = carrick.standard_error().text();
        text.contains("this revocation list has expired")
            .then_some(())
    };
    wait_for("a warning", said);
    assert!(!is_served(&carrick, &presenting(&place, "zoe")));
}

/// The time so many seconds from now, as openssl reads it.
fn after(seconds: u64) -> String {
    let time = SystemTime::now() + Duration::from_secs(seconds);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace(['-', ':', 'T'], "")
}

/// Does something that must succeed before a list with these times expires; on a machine that is too slow, with more time.
fn in_time<T>(mut something: impl FnMut(&str) -> Option<T>) -> T {
    let ends = [3, 15, 60].map(after);
    let done = ends.iter().find_map(|end| something(end));
    done.expect("success in time")
}

/// The words for a list that is valid until then.
fn list_until(end: &str) -> String {
    format!("-crl_lastupdate 20200101000000Z -crl_nextupdate {end}")
}

/// Whether a second connection of this client's is resumed; `None`: one was refused.
fn resumes(carrick: &Carrick, client: &Arc<ClientConfig>) -> Option<bool> {
    let ask = || {
        let peer = TlsPeer::try_connect(carrick.listener(), "a.example", client);
        let mut peer = peer.ok()?;
        peer.try_ask(GET)?;
        Some(peer.is_resumed())
    };
    ask()?;
    ask()
}

#[test]
fn once_the_list_has_expired_sessions_of_clients_are_not_resumed() {
    let Some(place) = stage() else { return };
    for offers in [Offers::Tls12, Offers::Tls13] {
        let zoe = presenting_with(&place, "zoe", offers);
        let carrick = in_time(|end| {
            list(&place, "crl.pem", &[], &list_until(end));
            let carrick = start(&place, "client_ca = \"ca.pem\"\nclient_crl = \"crl.pem\"");
            resumes(&carrick, &zoe)?.then_some(carrick)
        });
        wait_until("the end of the list", || !is_served(&carrick, &zoe));
        carrick.wait_for_metric(HANDSHAKES, &["result=\"client_certificate\""], 1.0);
    }
}

#[test]
fn once_their_certificate_has_expired_sessions_of_clients_are_not_resumed() {
    let Some(place) = stage() else { return };
    for offers in [Offers::Tls12, Offers::Tls13] {
        let (carrick, client) = in_time(|end| {
            issue_until(&place, "brief", "DNS:client.invalid", end);
            let client = presenting_with(&place, "brief", offers);
            let carrick = start(&place, "client_ca = \"ca.pem\"");
            resumes(&carrick, &client)?.then_some((carrick, client))
        });
        wait_until("the end of the certificate", || {
            !is_served(&carrick, &client)
        });
        carrick.wait_for_metric(HANDSHAKES, &["result=\"client_certificate\""], 1.0);
    }
}

/// A switch with one worker that checks its server by this list.
fn checking(list: &str, server: SocketAddr) -> String {
    format!(
        "[workers]\ncount = 1\n[[listener]]\nlisten = \"{{ip}}:18080\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n{}tls = {{ ca = \"ca.pem\", crl = \"{list}\" }}\n",
        upstream_text("u", &[server])
    )
}

#[test]
fn once_the_list_has_expired_sessions_with_servers_are_not_resumed() {
    let Some(place) = stage() else { return };
    let server = super::servers::saying(&place, OK_AND_CLOSE.to_owned());
    let text = checking("crl.pem", server.address());
    let status = |carrick: &Carrick| carrick.connect().ask(GET).status;
    let resumed = in_time(|end| {
        list(&place, "crl.pem", &[], &list_until(end));
        let carrick = Carrick::start(&place, &text);
        let statuses = [status(&carrick), status(&carrick)];
        let count = carrick.metric(
            "carrick_upstream_tls_handshakes_total",
            &["result=\"resumed\""],
        );
        (statuses == [200; 2] && count > 0.0).then_some(carrick)
    });
    wait_until("the end of the list", || status(&resumed) == 502);
}

#[test]
fn a_server_whose_certificate_is_revoked_is_not_asked() {
    let Some(place) = stage() else { return };
    let server = super::servers::answering(&place);
    list(&place, "good.pem", &["alice"], "-crldays 2");
    list(&place, "bad.pem", &["server"], "-crldays 2");
    for (name, status) in [("good.pem", 200), ("bad.pem", 502)] {
        let carrick = Carrick::start(&place, &checking(name, server.address()));
        assert_eq!(carrick.connect().ask(GET).status, status, "{name}");
        if status == 502 {
            let said = || {
                let text = carrick.standard_error().text();
                text.contains("its authority has revoked it").then_some(())
            };
            wait_for("the reason", said);
        }
    }
}

#[test]
fn a_server_whose_certificate_is_revoked_is_not_asked_over_kept_connections_either() {
    let Some(place) = stage() else { return };
    let server = super::servers::answering(&place);
    list(&place, "crl.pem", &[], "-crldays 2");
    let carrick = Carrick::start(&place, &checking("crl.pem", server.address()));
    let status = || carrick.connect().ask(GET).status;
    assert_eq!(status(), 200);
    list(&place, "crl.pem", &["server"], "-crldays 2");
    wait_until("the list", || status() == 502);
}
