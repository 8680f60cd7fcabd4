//! `carrick run --https`: a site without a configuration file; and what `carrick check` says of certificates.
use super::pebble::{HTTP_PORT, directory};
use super::*;
use crate::clients::tool::Tool;
use crate::support::Peer;
use crate::support::carrick::PROGRAM;
use crate::support::place::{ADMIN_PORT, LISTENER_PORT};

#[test]
fn a_site_is_served_without_a_file() {
    let place = Place::claim();
    let Some(_pebble) = Pebble::start(&place, place.ip(), Manner::default()) else {
        return;
    };
    let _carrick = Tool::new(PROGRAM, &place)
        .words(&format!(
            "run --https {NAME} --to {} --listen {}",
            server(&place),
            place.ip()
        ))
        .words(&format!(
            "--https-port {LISTENER_PORT} --http-port {HTTP_PORT}"
        ))
        .words(&format!(
            "--admin {} --acme-directory {}",
            place.at(ADMIN_PORT),
            directory(&place)
        ))
        .words("--acme-ca directory.pem --acme-storage kept/acme")
        .start();
    let to = place.at(LISTENER_PORT);
    wait_for("a certificate", || served(&place, to));
    let mut client = TlsPeer::connect(to, NAME, &trusting(&place, Offers::All));
    let (head, body) = client.ask("GET / HTTP/1.1\r\nHost: site.test\r\n\r\n");
    assert_eq!(body, "ok");
    assert!(
        !head
            .to_ascii_lowercase()
            .contains("strict-transport-security"),
        "{head}"
    );
    let mut client = Peer::connect(place.at(HTTP_PORT));
    client.send(format!("GET /x HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
    let response = client.read_response("GET");
    let location = format!("https://{NAME}:{LISTENER_PORT}/x");
    assert_eq!(response.status, 301);
    assert!(response.head.contains(&location), "{}", response.head);
}

#[test]
fn a_check_says_what_would_be_ordered_and_asks_nobody() {
    let place = Place::claim();
    place.write(
        "carrick.toml",
        "[acme]\nstorage = \"kept\"\n[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = \"acme\"\n\
         [[listener.route]]\nhost = \"www.example.org\"\nupstream = \"u\"\n[upstream.u]\nservers = [\"127.0.0.1:3000\"]\n",
    );
    let said = Tool::new(PROGRAM, &place)
        .words("check -c carrick.toml")
        .expect();
    for part in [
        "certificates from https://acme-v02.api.letsencrypt.org/directory (tls-alpn-01)",
        "www.example.org: to be ordered",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!place.directory().join("kept").exists());
}
