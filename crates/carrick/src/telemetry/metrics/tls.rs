//! Counters of TLS handshakes with clients.
use super::Counter;

/// How a handshake ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the metric's help says what they are")]
pub enum Handshake {
    Full,
    Resumed,
    Alert,
    Challenge,
    ClientCertificate,
    Closed,
    Incompatible,
    Malformed,
    PlainHttp,
    Timeout,
    Other,
}

impl Handshake {
    /// All of them, in the order of their counters.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::Full, "full"),
        (Self::Resumed, "resumed"),
        (Self::Alert, "alert"),
        (Self::Challenge, "challenge"),
        (Self::ClientCertificate, "client_certificate"),
        (Self::Closed, "closed"),
        (Self::Incompatible, "incompatible"),
        (Self::Malformed, "malformed"),
        (Self::PlainHttp, "plain_http"),
        (Self::Timeout, "timeout"),
        (Self::Other, "other"),
    ];
}

/// A worker's handshakes, by how they ended.
#[derive(Debug, Default)]
pub struct HandshakeCounters([Counter; Handshake::ALL.len()]);

impl HandshakeCounters {
    /// Counts one.
    pub fn count(&self, handshake: Handshake) {
        self.of(handshake).add(1);
    }

    /// How many ended so.
    #[must_use]
    pub fn get(&self, handshake: Handshake) -> u64 {
        self.of(handshake).get()
    }

    fn of(&self, handshake: Handshake) -> &Counter {
        &self.0[handshake as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_has_its_counter() {
        let counters = HandshakeCounters::default();
        for (index, (handshake, _)) in Handshake::ALL.into_iter().enumerate() {
            assert_eq!(handshake as usize, index);
            assert_eq!(counters.get(handshake), 0);
            counters.count(handshake);
            assert_eq!(counters.get(handshake), 1);
        }
    }
}
