//! TLS handshakes with clients.
use crate::config::tls::{ACME_ALPN, subject};
use crate::context::client::Client;
use crate::http::session;
use crate::net::deadline::{Deadline, now};
use crate::net::transport::Transport;
use crate::net::transport::tls::{HandshakeError, TlsStream};
use crate::reply::Reply;
use crate::telemetry::metrics::{Handshake, Limit};
use rustls::Error;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

/// Performs the handshake on a listener with TLS, until `deadline`; `first` has been read already. Whether the client
/// can be served.
pub async fn shake_hands(client: &mut Client, first: Vec<u8>, deadline: &mut Deadline) -> bool {
    let (context, downstream) = (&mut client.context, &mut client.downstream);
    let (Some(tls), Some(tcp)) = (&context.listener.tls, downstream.transport.shared_tcp()) else {
        return true;
    };
    let in_force = tls.in_force();
    let config = Arc::clone(&in_force.config);
    let shaking = pin!(TlsStream::accept(
        Rc::clone(tcp),
        config,
        first,
        downstream.admitted.clone()
    ));
    let shaken = downstream.timer.until(deadline, shaking).await;
    // Otherwise a client whose certificate has no readable subject would pass for one without a certificate.
    let agreed = shaken.map(|shaken| {
        let stream = shaken?;
        let agreed = stream.agreed(subject)?;
        Ok((stream, agreed))
    });
    match agreed {
        Ok(Ok((stream, _))) if stream.speaks(ACME_ALPN) => {
            // The handshake was all that the authority came for (RFC 8737 section 3).
            context.metrics().tls_handshakes.count(Handshake::Challenge);
            let _ = stream.end();
            false
        }
        Ok(Ok((stream, agreed))) => {
            let kind = if stream.is_resumed() {
                Handshake::Resumed
            } else {
                Handshake::Full
            };
            context.metrics().tls_handshakes.count(kind);
            agreed.verified.set((in_force.serial, now()));
            context.tls = Some(Rc::new(agreed));
            downstream.transport = Transport::Tls(Rc::new(stream));
            true
        }
        Ok(Err(HandshakeError::NotTls)) => {
            context.metrics().tls_handshakes.count(Handshake::PlainHttp);
            session::refuse(client, &plain_http()).await;
            false
        }
        Ok(Err(error)) => {
            context.metrics().tls_handshakes.count(kind(&error));
            tracing::debug!(
                "{}: TLS handshake with {}: {error}",
                context.listener.address,
                context.address
            );
            false
        }
        Err(_) => {
            context.metrics().tls_handshakes.count(Handshake::Timeout);
            context.metrics().limits.reached(Limit::HeadTimeout);
            false
        }
    }
}

/// What a failure is counted as.
fn kind(error: &HandshakeError) -> Handshake {
    match error {
        HandshakeError::Closed | HandshakeError::Tcp(_) => Handshake::Closed,
        HandshakeError::NotTls => Handshake::PlainHttp,
        HandshakeError::Tls(error) => match error {
            Error::AlertReceived(_) => Handshake::Alert,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Handshake::Incompatible,
            Error::NoCertificatesPresented | Error::InvalidCertificate(_) => {
                Handshake::ClientCertificate
            }
            Error::InvalidMessage(_) | Error::PeerMisbehaved(_) | Error::DecryptError => {
                Handshake::Malformed
            }
            _ => Handshake::Other,
        },
    }
}

fn plain_http() -> Reply {
    Reply::new(
        400,
        "plain_http",
        "A plain HTTP request came to a port for HTTPS. Use https:// in the URL.",
    )
}
