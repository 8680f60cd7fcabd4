//! Counters of TLS handshakes with clients and servers.
use super::Counter;

carrick_logic::named! {
    /// How a handshake with a client ended.
    #[expect(missing_docs, reason = "the metric's help says what they are")]
    pub enum Handshake with name {
        Full = "full",
        Resumed = "resumed",
        Alert = "alert",
        Challenge = "challenge",
        ClientCertificate = "client_certificate",
        Closed = "closed",
        Incompatible = "incompatible",
        Malformed = "malformed",
        PlainHttp = "plain_http",
        Timeout = "timeout",
        Other = "other",
    }
}

carrick_logic::named! {
    /// How a handshake with a server ended.
    #[expect(missing_docs, reason = "the metric's help says what they are")]
    pub enum ServerHandshake with name {
        Full = "full",
        Resumed = "resumed",
        Alert = "alert",
        Certificate = "certificate",
        Closed = "closed",
        Incompatible = "incompatible",
        Malformed = "malformed",
        NotTls = "not_tls",
        Timeout = "timeout",
        Other = "other",
    }
}

carrick_logic::named! {
    /// What became of giving the kernel a client's connection.
    #[expect(missing_docs, reason = "the metric's help says what they are")]
    pub enum HandOver with name {
        Done = "done",
        Cipher = "cipher",
        Record = "record",
        Busy = "busy",
        Refused = "refused",
        Failed = "failed",
    }
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
