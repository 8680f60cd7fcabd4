//! Counters of TLS handshakes with clients and servers.
use super::Counter;

/// How a handshake with a client ended.
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

/// How a handshake with a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the metric's help says what they are")]
pub enum ServerHandshake {
    Full,
    Resumed,
    Alert,
    Certificate,
    Closed,
    Incompatible,
    Malformed,
    NotTls,
    Timeout,
    Other,
}

impl ServerHandshake {
    /// All of them, in the order of their counters.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Full, "full"),
        (Self::Resumed, "resumed"),
        (Self::Alert, "alert"),
        (Self::Certificate, "certificate"),
        (Self::Closed, "closed"),
        (Self::Incompatible, "incompatible"),
        (Self::Malformed, "malformed"),
        (Self::NotTls, "not_tls"),
        (Self::Timeout, "timeout"),
        (Self::Other, "other"),
    ];
}

/// What became of giving the kernel a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the metric's help says what they are")]
pub enum HandOver {
    Done,
    Cipher,
    Record,
    Busy,
    Refused,
    Failed,
}

impl HandOver {
    /// All of them, in the order of their counters.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Done, "done"),
        (Self::Cipher, "cipher"),
        (Self::Record, "record"),
        (Self::Busy, "busy"),
        (Self::Refused, "refused"),
        (Self::Failed, "failed"),
    ];
}

/// Declares the counters of such results.
macro_rules! counters {
    ($name:ident, $kind:ident, $about:literal) => {
        #[doc = $about]
        #[derive(Debug, Default)]
        pub struct $name([Counter; $kind::ALL.len()]);

        impl $name {
            /// Counts one.
            pub fn count(&self, handshake: $kind) {
                self.of(handshake).add(1);
            }

            /// How many ended so.
            #[must_use]
            pub fn get(&self, handshake: $kind) -> u64 {
                self.of(handshake).get()
            }

            fn of(&self, handshake: $kind) -> &Counter {
                &self.0[handshake as usize]
            }
        }
    };
}

counters!(
    HandshakeCounters,
    Handshake,
    "A worker's handshakes with clients, by how they ended."
);
counters!(
    HandOverCounters,
    HandOver,
    "A worker's connections of clients that the kernel was to encrypt, by what became of it."
);
counters!(
    ServerHandshakeCounters,
    ServerHandshake,
    "A worker's handshakes with servers, by how they ended."
);

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! each_has_its_counter {
        ($counters:ident, $kind:ident) => {
            let counters = $counters::default();
            for (index, (handshake, _)) in $kind::ALL.into_iter().enumerate() {
                assert_eq!(handshake as usize, index);
                assert_eq!(counters.get(handshake), 0);
                counters.count(handshake);
                assert_eq!(counters.get(handshake), 1);
            }
        };
    }

    #[test]
    fn each_result_has_its_counter() {
        each_has_its_counter!(HandshakeCounters, Handshake);
        each_has_its_counter!(ServerHandshakeCounters, ServerHandshake);
        each_has_its_counter!(HandOverCounters, HandOver);
    }
}
