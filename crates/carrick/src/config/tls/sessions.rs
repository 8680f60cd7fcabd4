//! Sessions that are resumed: until a certificate or a revocation list expires, since only full handshakes verify certificates.
use super::verifier::check_time;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ProducesTickets;
use rustls::{Error, NamedGroup};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// Tickets of listeners that verify no clients. All such listeners with these files of certificates, workers and reloads share the keys,
/// which change every six hours; the one before remains valid. A listener that could not prove to have a name must not resume its sessions.
///
/// # Errors
/// The kernel gives no random numbers.
pub fn with_anybody(certificates: Vec<PathBuf>) -> Result<Arc<dyn ProducesTickets>, Error> {
    static SHARED: Mutex<BTreeMap<Vec<PathBuf>, Weak<dyn ProducesTickets>>> =
        Mutex::new(BTreeMap::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.retain(|_, tickets| tickets.strong_count() > 0);
    if let Some(tickets) = shared.get(&certificates).and_then(Weak::upgrade) {
        return Ok(tickets);
    }
    let made = Ticketer::new()?;
    shared.insert(certificates, Arc::downgrade(&made));
    Ok(made)
}

/// Tickets of listeners that verify clients: sessions are only resumed under the same authorities, until a client's certificate
/// expires, and `until` a revocation list does.
///
/// # Errors
/// The kernel gives no random numbers.
pub fn with_clients(until: Option<SystemTime>) -> Result<Arc<dyn ProducesTickets>, Error> {
    let tickets = Ticketer::new()?;
    Ok(Arc::new(ExpiringTickets { tickets, until }))
}

/// Up to so many sessions with a server, which are resumed `until` a revocation list expires.
pub fn with_server(count: usize, until: Option<SystemTime>) -> Resumption {
    let Some(until) = until else {
        return Resumption::in_memory_sessions(count);
    };
    let sessions = ClientSessionMemoryCache::new(count);
    Resumption::store(Arc::new(ExpiringSessions { sessions, until }))
}

/// Tickets that are not taken any more at some time.
#[derive(Debug)]
struct ExpiringTickets {
    tickets: Arc<dyn ProducesTickets>,
    until: Option<SystemTime>,
}

impl ExpiringTickets {
    fn decrypt_at(&self, ticket: &[u8], now: UnixTime) -> Option<Vec<u8>> {
        let until = self
            .until
            .and_then(|until| until.duration_since(UNIX_EPOCH).ok());
        if until.is_some_and(|until| now >= UnixTime::since_unix_epoch(until)) {
            return None;
        }
        let session = self.tickets.decrypt(ticket)?;
        let mut chain = certificates(&session)?;
        while !chain.is_empty() {
            let certificate = CertificateDer::from(block::<3>(&mut chain)?);
            check_time(&certificate, now).ok()?;
        }
        Some(session)
    }
}

/// The certificates of a session's client, each with its length; `None`: the library writes sessions otherwise than it did
/// (`rustls::server::ServerSessionValue`), so that nothing is resumed.
fn certificates(mut session: &[u8]) -> Option<&[u8]> {
    if has_next(&mut session)? {
        let _server_name = block::<1>(&mut session)?;
    }
    let _version_and_suite = session.split_off(..4)?;
    let _secret = block::<1>(&mut session)?;
    let _is_extended = has_next(&mut session)?;
    match has_next(&mut session)? {
        true => block::<3>(&mut session),
        false => Some(&[]),
    }
}

fn has_next(rest: &mut &[u8]) -> Option<bool> {
    match rest.split_off_first()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Bytes behind their length, which takes `N`.
fn block<'b, const N: usize>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = rest.split_off(..N)?.iter();
    let length = length.fold(0, |length, byte| length << 8 | usize::from(*byte));
    rest.split_off(..length)
}

impl ProducesTickets for ExpiringTickets {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.tickets.encrypt(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(ticket, UnixTime::now())
    }
}

/// Sessions with a server that are not resumed any more at some time.
#[derive(Debug)]
struct ExpiringSessions {
    sessions: ClientSessionMemoryCache,
    until: SystemTime,
}

impl ExpiringSessions {
    fn in_force(&self) -> Option<&ClientSessionMemoryCache> {
        (SystemTime::now() < self.until).then_some(&self.sessions)
    }
}

impl ClientSessionStore for ExpiringSessions {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.sessions.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.sessions.set_tls12_session(server, session);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.in_force()?.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.sessions.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, session: Tls13ClientSessionValue) {
        self.sessions.insert_tls13_ticket(server, session);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.in_force()?.take_tls13_ticket(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A session of a client without a certificate, as the library writes it.
    const SESSION: [u8; 11] = [0, 3, 4, 0x13, 1, 1, b'x', 0, 0, 0, 0];

    #[test]
    fn a_ticket_is_taken_by_listeners_with_the_same_certificates() {
        let of = |file: &str| with_anybody(vec![file.into()]).unwrap();
        let (tickets, same, others) = (of("a.pem"), of("a.pem"), of("b.pem"));
        let ticket = tickets.encrypt(&SESSION).unwrap();
        assert_eq!(same.decrypt(&ticket).as_deref(), Some(&SESSION[..]));
        assert_eq!(others.decrypt(&ticket), None);
    }

    #[test]
    fn a_ticket_is_taken_until_the_list_expires() {
        let end = SystemTime::now() + Duration::from_secs(3600);
        let expiring = |until| ExpiringTickets {
            tickets: Ticketer::new().unwrap(),
            until,
        };
        let ended = UnixTime::since_unix_epoch(end.duration_since(UNIX_EPOCH).unwrap());
        for (tickets, is_taken) in [(expiring(Some(end)), false), (expiring(None), true)] {
            let ticket = tickets.encrypt(&SESSION).unwrap();
            assert_eq!(tickets.decrypt(&ticket).as_deref(), Some(&SESSION[..]));
            assert_eq!(tickets.decrypt_at(&ticket, ended).is_some(), is_taken);
        }
    }

    #[test]
    fn what_is_no_session_as_it_is_known_is_not_resumed() {
        for session in [&b""[..], b"session", &SESSION[..7]] {
            assert_eq!(certificates(session), None, "{session:?}");
        }
        let with_chain = [&SESSION[..8], &[1, 0, 0, 5, 0, 0, 2, 7, 7, 0]].concat();
        assert_eq!(certificates(&with_chain), Some(&[0, 0, 2, 7, 7][..]));
        let named = [&[1, 1, b'a'], &SESSION[1..]].concat();
        assert_eq!(certificates(&named), Some(&[][..]));
    }
}
