//! TLS to servers.
mod changes;
mod ends;
mod failures;
mod identities;
mod peers;
mod sessions;
mod ways;

use super::certificates::{Key, certified_by_address as stage, file, issue};
use super::client::{Offers, pem};
use crate::support::carrick::{FORWARD_TEXT, upstream_text};
use crate::support::message::head_end;
use crate::support::place::LISTENER_PORT;
use crate::support::server::Serving;
use crate::support::{PATIENCE, Place, Server};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

/// The counter of handshakes with servers.
const HANDSHAKES: &str = "carrick_upstream_tls_handshakes_total";
/// A request.
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// A response.
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A switch with one worker, and an upstream of these servers with these further keys.
fn switch_text(servers: &[SocketAddr], keys: &str) -> String {
    format!(
        "[workers]\ncount = 1\n[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n{}{keys}\n",
        upstream_text("u", servers)
    )
}

/// How a server shakes hands, with the certificate in `NAME.pem`.
fn config(place: &Place, name: &str, offers: Offers) -> Arc<ServerConfig> {
    Arc::new(make_config(place, name, offers, None))
}

/// The same, and clients must present a certificate of the test's authority.
fn demanding(place: &Place, offers: Offers) -> Arc<ServerConfig> {
    Arc::new(make_config(place, "server", offers, Some("ca.pem")))
}

fn make_config(place: &Place, name: &str, offers: Offers, clients: Option<&str>) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions: &[_] = match offers {
        Offers::All => &[&TLS13, &TLS12],
        Offers::Tls12 => &[&TLS12],
        Offers::Tls13 => &[&TLS13],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .expect("versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            for root in pem(place, authority) {
                roots.add(root).expect("an authority");
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
    };
    let key = PrivateKeyDer::from_pem_file(file(place, &format!("{name}.key"))).expect("a key");
    let mut config = builder
        .with_single_cert(pem(place, &format!("{name}.pem")), key)
        .expect("a certificate");
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().expect("tickets");
    config
}

/// A server that shakes hands, if it can, and does this with each connection.
fn serve(
    place: &Place,
    config: &Arc<ServerConfig>,
    serve: impl Fn(TlsEnd, usize) + Send + Sync + 'static,
) -> Serving {
    let config = Arc::clone(config);
    Server::listen(place).serve(move |peer, number| {
        if let Ok(end) = TlsEnd::accept(peer.into_stream(), &config) {
            serve(end, number);
        }
    })
}

/// A server with `server.pem` that answers each request with [`OK`].
pub fn answering(place: &Place) -> Serving {
    serve(place, &config(place, "server", Offers::All), answer)
}

/// A server with `server.pem` that answers each request with this.
pub fn saying(place: &Place, response: String) -> Serving {
    let config = config(place, "server", Offers::All);
    serve(place, &config, move |mut end, _| {
        while end.next_head().is_some() {
            end.send(&response);
        }
    })
}

/// Answers each request with [`OK`].
fn answer(mut end: TlsEnd, _: usize) {
    while end.next_head().is_some() {
        end.send(OK);
    }
}

/// A server's end of a connection.
#[derive(Debug)]
struct TlsEnd {
    stream: StreamOwned<ServerConnection, TcpStream>,
    ahead: Vec<u8>,
}

impl TlsEnd {
    /// Performs the handshake.
    fn accept(mut tcp: TcpStream, config: &Arc<ServerConfig>) -> io::Result<Self> {
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.set_nodelay(true)?;
        let mut session = ServerConnection::new(Arc::clone(config)).expect("a server");
        while session.is_handshaking() {
            session.complete_io(&mut tcp)?;
        }
        // Tickets.
        while session.wants_write() {
            session.write_tls(&mut tcp)?;
        }
        Ok(Self {
            stream: StreamOwned::new(session, tcp),
            ahead: Vec::new(),
        })
    }

    /// The next request's head; `None`: the connection has ended instead.
    fn next_head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = head_end(&self.ahead) {
                let head: Vec<u8> = self.ahead.drain(..end).collect();
                return Some(String::from_utf8(head).expect("text"));
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.ahead.extend_from_slice(&bytes[..count]),
            }
        }
    }

    fn read_exact(&mut self, count: usize) -> Vec<u8> {
        while self.ahead.len() < count {
            let mut bytes = [0; 16384];
            let read = self.stream.read(&mut bytes).expect("bytes");
            assert!(read > 0, "an end after {} bytes", self.ahead.len());
            self.ahead.extend_from_slice(&bytes[..read]);
        }
        self.ahead.drain(..count).collect()
    }

    /// Whether the next thing is an end that was announced.
    fn has_ended(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0))
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A client may have gone; the test sees it there.
        let _ = self.stream.write_all(bytes.as_ref());
        let _ = self.stream.flush();
    }

    /// Announces the end, and ends.
    fn end(&mut self) {
        self.stream.conn.send_close_notify();
        let _ = self.stream.flush();
        let _ = self.stream.sock.shutdown(Shutdown::Write);
    }

    /// Ends without a word.
    fn cut_off(&mut self) {
        let _ = self.stream.sock.shutdown(Shutdown::Write);
    }

    fn is_resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The name that was asked for.
    fn name(&self) -> Option<&str> {
        self.stream.conn.server_name()
    }

    /// Whether the client has presented a certificate.
    fn knows_client(&self) -> bool {
        self.stream.conn.peer_certificates().is_some()
    }
}
