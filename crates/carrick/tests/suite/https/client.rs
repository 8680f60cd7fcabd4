//! A TLS client under the test's control.
use super::certificates::file;
use crate::support::peer::fill;
use crate::support::{PATIENCE, Peer, Place};
use carrick_splice::ktls::{self, Direction, Keys, Suite};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, ConnectionTrafficSecrets, HandshakeKind,
    NamedGroup, RootCertStore, StreamOwned,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

/// What a client offers.
#[derive(Debug, Clone, Copy)]
pub enum Offers {
    /// All versions.
    All,
    /// TLS 1.2 only.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

/// Trusts the test's authority.
pub fn trusting(place: &Place, offers: Offers) -> Arc<ClientConfig> {
    Arc::new(builder(place, offers).with_no_client_auth())
}

/// The same with this suite only.
pub fn with_suite(place: &Place, offers: Offers, suite: CipherSuite) -> Arc<ClientConfig> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider
        .cipher_suites
        .retain(|offered| offered.suite() == suite);
    let mut config = builder_with(place, offers, provider).with_no_client_auth();
    config.enable_secret_extraction = true;
    Arc::new(config)
}

/// The same with these key exchanges, the first preferred.
pub fn with_groups(place: &Place, groups: &[NamedGroup]) -> Arc<ClientConfig> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let place_of = |group| groups.iter().position(|wanted| *wanted == group);
    provider
        .kx_groups
        .retain(|offered| place_of(offered.name()).is_some());
    provider
        .kx_groups
        .sort_by_key(|offered| place_of(offered.name()));
    Arc::new(builder_with(place, Offers::Tls13, provider).with_no_client_auth())
}

/// The same, and presents the certificate in `NAME.pem`.
pub fn presenting(place: &Place, name: &str) -> Arc<ClientConfig> {
    presenting_with(place, name, Offers::All)
}

/// The same, and offers this.
pub fn presenting_with(place: &Place, name: &str, offers: Offers) -> Arc<ClientConfig> {
    let chain = pem(place, &format!("{name}.pem"));
    let key = PrivateKeyDer::from_pem_file(file(place, &format!("{name}.key"))).expect("a key");
    let config = builder(place, offers).with_client_auth_cert(chain, key);
    Arc::new(config.expect("a certificate"))
}

fn builder(
    place: &Place,
    offers: Offers,
) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    builder_with(place, offers, rustls::crypto::aws_lc_rs::default_provider())
}

fn builder_with(
    place: &Place,
    offers: Offers,
    provider: CryptoProvider,
) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let mut roots = RootCertStore::empty();
    for root in pem(place, "ca.pem") {
        roots.add(root).expect("an authority");
    }
    let versions: &[_] = match offers {
        Offers::All => &[&TLS13, &TLS12],
        Offers::Tls12 => &[&TLS12],
        Offers::Tls13 => &[&TLS13],
    };
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots)
}

/// The certificates in a file.
pub fn pem(place: &Place, name: &str) -> Vec<CertificateDer<'static>> {
    let certificates = CertificateDer::pem_file_iter(file(place, name)).expect("a file");
    certificates
        .map(|one| one.expect("a certificate"))
        .collect()
}

/// A connection.
#[derive(Debug)]
pub struct TlsPeer {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl TlsPeer {
    /// Connects, with the handshake.
    pub fn connect(to: SocketAddr, name: &str, config: &Arc<ClientConfig>) -> Self {
        Self::try_connect(to, name, config).expect("a handshake")
    }

    /// The same where the handshake may fail.
    pub fn try_connect(
        to: SocketAddr,
        name: &str,
        config: &Arc<ClientConfig>,
    ) -> std::io::Result<Self> {
        Self::over(TcpStream::connect(to)?, name, config)
    }

    /// Performs the handshake on a connection.
    pub fn over(
        mut tcp: TcpStream,
        name: &str,
        config: &Arc<ClientConfig>,
    ) -> std::io::Result<Self> {
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.set_write_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let mut session = ClientConnection::new(Arc::clone(config), name).expect("a client");
        while session.is_handshaking() {
            session.complete_io(&mut tcp)?;
        }
        let stream = StreamOwned::new(session, tcp);
        Ok(Self { stream })
    }

    /// The first certificate of the server.
    pub fn certificate(&self) -> CertificateDer<'static> {
        let chain = self.stream.conn.peer_certificates().expect("a certificate");
        chain[0].clone().into_owned()
    }

    /// How the keys were agreed on.
    pub fn key_exchange(&self) -> Option<NamedGroup> {
        let group = self.stream.conn.negotiated_key_exchange_group();
        group.map(|group| group.name())
    }

    /// Whether an earlier session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the server takes it");
    }

    /// The same where the server may be gone.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// The records of these bytes, which are not sent.
    pub fn encrypt(&mut self, text: &str) -> Vec<u8> {
        let session = &mut self.stream.conn;
        session.writer().write_all(text.as_bytes()).expect("room");
        let mut records = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut records).expect("room");
        }
        records
    }

    /// Sends such records.
    pub fn send_encrypted(&mut self, records: &[u8]) {
        let sent = self.stream.sock.write_all(records);
        sent.expect("the server takes it");
    }

    /// Changes the keys for what is sent, and asks the server to change its (RFC 8446 section 4.6.3).
    pub fn change_keys(&mut self) {
        let session = &mut self.stream.conn;
        session.refresh_traffic_keys().expect("TLS 1.3");
        self.stream.flush().expect("the server takes it");
    }

    /// Reads a head.
    pub fn read_head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.read_exact(1));
        }
        String::from_utf8(head).expect("text")
    }

    /// Reads so many bytes.
    pub fn read_exact(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).expect("bytes");
        bytes
    }

    /// The next bytes are these.
    pub fn expect(&mut self, expected: &str) {
        let bytes = self.read_exact(expected.len());
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }

    /// Sends a request; its response's head, and its body of known length.
    pub fn ask(&mut self, request: &str) -> (String, String) {
        self.send(request);
        let head = self.read_head();
        let length = crate::support::message::field(&head, "content-length");
        let length = length.map_or(0, |length| length.parse().expect("a length"));
        let body = self.read_exact(length);
        (head, String::from_utf8(body).expect("text"))
    }

    /// Reads to the end; the bytes, and whether the end was said (`close_notify`).
    pub fn read_to_end(&mut self) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => (bytes, true),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) =>
            {
                (bytes, false)
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Gives the connection to the kernel, so that records of all types can be sent. The session has sent all, and read
    /// all that has come.
    pub fn into_kernel(self, suite: Suite) -> TcpStream {
        let (session, tcp) = self.stream.into_parts();
        let secrets = session.dangerous_extract_secrets().expect("secrets");
        ktls::attach(&tcp).expect("the kernel has TLS");
        for (direction, (sequence, secrets)) in [
            (Direction::Send, &secrets.tx),
            (Direction::Receive, &secrets.rx),
        ] {
            let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secrets else {
                panic!("a suite with AES-128")
            };
            let keys = Keys {
                key: key.as_ref(),
                iv: iv.as_ref().try_into().expect("a nonce"),
                sequence: *sequence,
            };
            ktls::install(&tcp, suite, direction, &keys).expect("the kernel takes it");
        }
        tcp
    }

    /// The connection below.
    pub fn into_tcp(self) -> TcpStream {
        self.stream.sock
    }

    /// The alert with which the server ends the connection.
    pub fn read_alert(&mut self) -> String {
        let read = self.stream.read(&mut [0; 1]);
        read.expect_err("an alert").to_string()
    }

    /// The body of the answer; `None` if the server refuses the connection after all (with TLS 1.3, a client's certificate
    /// is checked after the client's last word in the handshake).
    pub fn try_ask(&mut self, request: &str) -> Option<String> {
        self.stream.write_all(request.as_bytes()).ok()?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        let length = crate::support::message::field(&head, "content-length")?;
        let body = self.read_exact(length.parse().expect("a length"));
        String::from_utf8(body).ok()
    }

    /// Ends this side as TLS has it (`close_notify`), and TCP's with it.
    pub fn half_close(&mut self) {
        self.stream.conn.send_close_notify();
        self.stream.flush().expect("the server takes it");
        self.stream
            .sock
            .shutdown(Shutdown::Write)
            .expect("a connection");
    }

    /// Sends until the server has taken nothing for a while, and resets.
    pub fn fill_and_reset(mut self) {
        let tcp = self.stream.sock.try_clone().expect("a second descriptor");
        fill(&tcp, || self.encrypt(&"x".repeat(16 << 10)));
        drop(self);
        Peer::new(tcp).reset();
    }

    /// Ends this side of TCP only.
    pub fn cut_off(&mut self) {
        self.stream
            .sock
            .shutdown(Shutdown::Write)
            .expect("a connection");
    }
}
