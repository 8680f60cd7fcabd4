//! Certificates by ACME: from Pebble, which really looks whether names are carrick's.
mod failing;
mod issuing;
mod pebble;
mod renewing;
mod site;

use super::client::{Offers, TlsPeer, pem, trusting};
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server, wait_for, wait_until};
use pebble::{Manner, Pebble, acme_text, folder, redirecting, wait_for_issued};
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The site's name.
const NAME: &str = "site.test";

/// A server that answers "ok" for ever.
fn server(place: &Place) -> SocketAddr {
    let server = Server::listen(place);
    let address = server.address();
    std::mem::forget(server.serve(|peer, _| {
        answer_requests(peer, |_| {
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
        });
    }));
    address
}

/// The text of a switch with certificates by ACME.
fn site_text(place: &Place, acme_keys: &str) -> String {
    let tls = format!("tls = {{ acme = [\"{NAME}\"] }}");
    acme_text(place, acme_keys) + &redirecting() + &super::switch_text(&tls, &[server(place)])
}

/// The certificate that a client gets who trusts the authority; `None`: it gets none.
fn served(place: &Place, to: SocketAddr) -> Option<CertificateDer<'static>> {
    let client = TlsPeer::try_connect(to, NAME, &trusting(place, Offers::All)).ok()?;
    Some(client.certificate())
}

/// The certificate that is kept.
fn kept(place: &Place) -> CertificateDer<'static> {
    let file = folder(place).join(format!("{NAME}.pem"));
    let certificates = pem(place, file.to_str().expect("text"));
    certificates.into_iter().next().expect("a certificate")
}

/// A configuration with another authority than Pebble, which `ca.pem` speaks for, and the folder of what it has issued,
/// with this certificate and key.
fn with_kept(place: &Place, authority: SocketAddr, pem: &str) -> (String, PathBuf) {
    let folder = format!("{}-{}-dir", authority.ip(), authority.port());
    let kept = place.directory().join("kept").join(folder);
    std::fs::create_dir_all(&kept).expect("a folder");
    std::fs::write(kept.join(format!("{NAME}.pem")), pem).expect("a file");
    let acme = format!(
        "[acme]\ndirectory = \"https://{authority}/dir\"\nca = \"ca.pem\"\nstorage = \"kept\"\n"
    );
    let tls = format!("tls = {{ acme = [\"{NAME}\"] }}");
    (acme + &super::switch_text(&tls, &[server(place)]), kept)
}
