//! Writes to connections that fail.
use super::*;
use crate::net::io::write_all;
use rcgen::generate_simple_self_signed;
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

/// More than the small buffers below have room for.
const OFFER_BYTES: usize = 64 << 10;

/// A client and a server whose kernel's buffers are as small as they can be.
async fn pair() -> (TlsStream, TlsStream) {
    Box::pin(pair_of(rustls::ALL_VERSIONS)).await
}

/// A server's configuration, and a session of a client that trusts it.
fn ends(versions: &[&'static SupportedProtocolVersion]) -> (Arc<ServerConfig>, ClientConnection) {
    let made = generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let of_server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let of_client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("a.example").unwrap();
    let session = ClientConnection::new(Arc::new(of_client), name).unwrap();
    (Arc::new(of_server), session)
}

async fn pair_of(versions: &[&'static SupportedProtocolVersion]) -> (TlsStream, TlsStream) {
    let (of_server, session) = ends(versions);
    let listening = TcpSocket::new_v4().unwrap();
    listening.set_recv_buffer_size(1).unwrap();
    listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listening.listen(1).unwrap();
    let to = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(to), listener.accept());
    let (client, (server, _)) = (Rc::new(client.unwrap()), server.unwrap());
    SockRef::from(&*client).set_send_buffer_size(1).unwrap();
    let (client, server) = tokio::join!(
        TlsStream::connect(client, session, 0),
        TlsStream::accept(Rc::new(server), of_server, Vec::new(), None)
    );
    (client.unwrap(), server.unwrap())
}

/// The result of a write once there is one.
async fn write(stream: &TlsStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        poll_fn(|cx| stream.poll_write_ready(cx)).await?;
        match stream.try_write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

#[tokio::test]
async fn a_write_of_which_a_part_went_out_is_no_error_but_the_next_one_is() {
    let (client, server) = Box::pin(pair()).await;
    let bytes = vec![b'x'; OFFER_BYTES];
    let blocked = client.try_write(&bytes).unwrap_err();
    assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
    // With unread bytes this resets the connection.
    drop(server);
    assert!(write(&client, &bytes).await.unwrap() > 0);
    assert!(write(&client, &bytes).await.is_err());
}

#[tokio::test]
async fn who_has_a_certificate_without_a_subject_does_not_pass_for_who_has_none() {
    let (client, server) = Box::pin(pair()).await;
    // The server has presented one, the client none.
    assert!(matches!(
        client.agreed(|_| None),
        Err(HandshakeError::Tls(rustls::Error::InvalidCertificate(_)))
    ));
    let agreed = server.agreed(|_| None).unwrap();
    assert_eq!(agreed.client_subject, None);
}

#[tokio::test]
async fn nothing_else_follows_a_write_that_was_given_up() {
    let (client, _server) = Box::pin(pair()).await;
    let blocked = client.try_write(&vec![b'x'; OFFER_BYTES]).unwrap_err();
    assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
    let refused = client.try_write(b"another").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_write_of_which_nothing_went_out_is_an_error() {
    let (client, server) = Box::pin(pair()).await;
    server.reset_on_close();
    drop(server);
    // The reset has come.
    let mut read = Vec::with_capacity(OFFER_BYTES);
    while read_some(&client, &mut read)
        .await
        .is_ok_and(|count| count > 0)
    {}
    assert!(write(&client, b"x").await.is_err());
}

#[tokio::test]
async fn what_may_not_be_sent_with_one_key_is_an_error_and_no_announced_end() {
    let (client, server) = Box::pin(pair_of(&[&TLS12])).await;
    assert_eq!(server.left_records.get(), (1 << 24) - SPARE_RECORDS);
    server.left_records.set(2);
    let sent = vec![b'x'; RECORD_BYTES + 1];
    assert_eq!(write(&server, &sent).await.unwrap(), sent.len());
    let refused = write(&server, b"x").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Other);
    drop(server);
    let mut read = Vec::with_capacity(OFFER_BYTES);
    let end = loop {
        match read_some(&client, &mut read).await {
            Ok(1..) => {}
            end => break end,
        }
    };
    assert!(read == sent);
    assert_eq!(end.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    let (_client, server) = Box::pin(pair_of(&[&TLS13])).await;
    assert_eq!(server.left_records.get(), u64::MAX);
}

/// Whoever has no certificate can send this.
#[tokio::test]
async fn what_follows_an_end_that_comes_with_the_handshake_is_left() {
    let (of_server, mut session) = ends(&[&TLS13]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(to), listener.accept());
    let (client, (server, _)) = (client.unwrap(), server.unwrap());
    // A long hello leaves as much room.
    let mut hello = Vec::with_capacity(RECORD_BYTES);
    session.write_tls(&mut hello).unwrap();
    let accepted = TlsStream::accept(Rc::new(server), of_server, hello, None);
    let ask = async {
        let mut flight = Vec::with_capacity(RECORD_BYTES);
        while session.is_handshaking() {
            read_some(&client, &mut flight).await.unwrap();
            session.read_tls(&mut &flight[..]).unwrap();
            session.process_new_packets().unwrap();
            flight.clear();
        }
        session.send_close_notify();
        let mut last = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut last).unwrap();
        }
        last.resize(last.len() + 8192, b'x');
        write_all(&client, &last).await.unwrap();
    };
    let (accepted, ()) = tokio::join!(accepted, ask);
    let mut read = Vec::with_capacity(RECORD_BYTES);
    assert_eq!(read_some(&accepted.unwrap(), &mut read).await.unwrap(), 0);
}
