//! Sessions that are resumed: until a revocation list expires, since only full handshakes verify certificates.
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::ServerName;
use rustls::server::ProducesTickets;
use rustls::{Error, NamedGroup};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// Tickets of listeners that verify no clients. All such listeners, workers and reloads share the keys, which change every six
/// hours; the one before remains valid.
///
/// # Errors
/// The kernel gives no random numbers.
pub fn with_anybody() -> Result<Arc<dyn ProducesTickets>, Error> {
    static SHARED: OnceLock<Arc<dyn ProducesTickets>> = OnceLock::new();
    if let Some(shared) = SHARED.get() {
        return Ok(Arc::clone(shared));
    }
    let made = Ticketer::new()?;
    Ok(Arc::clone(SHARED.get_or_init(|| made)))
}

/// Tickets of listeners that verify clients: sessions are only resumed under the same authorities, and `until` a revocation
/// list expires.
///
/// # Errors
/// The kernel gives no random numbers.
pub fn with_clients(until: Option<SystemTime>) -> Result<Arc<dyn ProducesTickets>, Error> {
    let tickets = Ticketer::new()?;
    Ok(match until {
        Some(until) => Arc::new(ExpiringTickets { tickets, until }),
        None => tickets,
    })
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
    until: SystemTime,
}

impl ExpiringTickets {
    fn decrypt_at(&self, ticket: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        match now < self.until {
            true => self.tickets.decrypt(ticket),
            false => None,
        }
    }
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
        self.decrypt_at(ticket, SystemTime::now())
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

    #[test]
    fn a_ticket_is_taken_until_the_list_expires() {
        let until = SystemTime::now() + Duration::from_secs(3600);
        let tickets = Ticketer::new().unwrap();
        let expiring = ExpiringTickets { tickets, until };
        let ticket = expiring.encrypt(b"session").unwrap();
        let of = |now| expiring.decrypt_at(&ticket, now);
        let before = until - Duration::from_secs(1);
        assert_eq!(of(before).as_deref(), Some(&b"session"[..]));
        assert_eq!(of(until), None);
    }
}
