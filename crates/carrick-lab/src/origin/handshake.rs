//! An exchange of messages of a TLS handshake's lengths (Rosu 2002, Table 3), without any cryptography: for both sides.
//!
//! A connection whose first message is [`first_message`] begins with the exchange that it names, and goes on with HTTP.
//! Message number `index`, counted from 0, is [`message`]; only its length and its bytes matter, and both are checked.

use std::borrow::Cow;

use crate::content::Body;

/// Length of the client's first message in bytes.
pub const FIRST_BYTES: usize = 98;

/// The first byte of a TLS handshake record; no HTTP request begins with it.
pub const MARKER: u8 = 0x16;

/// Place of the byte that says which handshake it is.
const KIND_AT: usize = 5;

/// Which exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handshake {
    /// A new session: two round trips.
    Full,
    /// A session that is taken up again: one round trip and a half.
    Abbreviated,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// Who opened the connection.
    Client,
    /// Who accepted it.
    Server,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its sender.
    pub from: Party,
    /// Its length in bytes.
    pub bytes: usize,
}

const fn client(bytes: usize) -> Message {
    Message {
        from: Party::Client,
        bytes,
    }
}

const fn server(bytes: usize) -> Message {
    Message {
        from: Party::Server,
        bytes,
    }
}

/// Rosu 2002, Table 3, "Full".
const FULL: [Message; 6] = [
    client(FIRST_BYTES),
    server(2239),
    client(73),
    server(6),
    client(67),
    server(61),
];

/// Rosu 2002, Table 3, "Abbreviated".
const ABBREVIATED: [Message; 6] = [
    client(FIRST_BYTES),
    server(79),
    server(6),
    server(61),
    client(6),
    client(61),
];

/// The messages of a handshake, in their order.
#[must_use]
pub fn messages(handshake: Handshake) -> &'static [Message] {
    match handshake {
        Handshake::Full => &FULL,
        Handshake::Abbreviated => &ABBREVIATED,
    }
}

/// The client's first message: the header of a TLS record, the kind (`F` or `A`), and bytes of [`Body::of_seed`] 0.
#[must_use]
pub fn first_message(handshake: Handshake) -> [u8; FIRST_BYTES] {
    let mut bytes = [0; FIRST_BYTES];
    // Handshake record, version 3.1, 93 bytes follow (RFC 2246, section 6.2.1).
    bytes[..KIND_AT].copy_from_slice(&[MARKER, 3, 1, 0, 93]);
    bytes[KIND_AT] = match handshake {
        Handshake::Full => b'F',
        Handshake::Abbreviated => b'A',
    };
    bytes[KIND_AT + 1..].copy_from_slice(Body::of_seed(0).piece(0, FIRST_BYTES - KIND_AT - 1));
    bytes
}

/// The bytes of message `index`, counted from 0; empty behind the last one.
#[must_use]
pub fn message(handshake: Handshake, index: usize) -> Cow<'static, [u8]> {
    match messages(handshake).get(index) {
        None => Cow::Borrowed(&[]),
        Some(_) if index == 0 => Cow::Owned(first_message(handshake).to_vec()),
        Some(message) => Cow::Borrowed(Body::of_seed(index as u64).piece(0, message.bytes)),
    }
}

/// What the beginning of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// It is not known before [`FIRST_BYTES`] bytes are there.
    Unknown,
    /// No handshake: HTTP, from the first byte on.
    Http,
    /// A handshake's first message, whole. Its bytes are part of the exchange.
    Handshake(Handshake),
    /// It begins like a handshake and is none that is known.
    Neither,
}

/// Tells a handshake from HTTP by the first bytes of a connection.
#[must_use]
pub fn recognise(received: &[u8]) -> Beginning {
    match received.first() {
        None => Beginning::Unknown,
        Some(&first) if first != MARKER => Beginning::Http,
        Some(_) if received.len() < FIRST_BYTES => Beginning::Unknown,
        Some(_) => [Handshake::Full, Handshake::Abbreviated]
            .into_iter()
            .find(|&handshake| received[..FIRST_BYTES] == first_message(handshake))
            .map_or(Beginning::Neither, Beginning::Handshake),
    }
}

/// What a party has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To send this message, by a write of its own, and then to call [`Exchange::sent`].
    Send(Cow<'static, [u8]>),
    /// To receive so many bytes, and to give them to [`Exchange::received`].
    Receive(usize),
    /// Nothing: what follows on the connection is HTTP.
    Done,
}

/// A message that is not what Table 3 and the seeds say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The message, counted from 0.
    pub message: usize,
    /// The first wrong byte of it, counted from 0.
    pub byte: usize,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "message {} of the emulated handshake is wrong from byte {} on",
            self.message, self.byte
        )
    }
}

impl std::error::Error for Mismatch {}

/// One party's way through a handshake. It never touches a socket.
#[derive(Clone, Debug)]
pub struct Exchange {
    handshake: Handshake,
    party: Party,
    message: usize,
    received: usize,
}

impl Exchange {
    /// At the beginning, before the client's first message.
    #[must_use]
    pub fn new(handshake: Handshake, party: Party) -> Self {
        Self {
            handshake,
            party,
            message: 0,
            received: 0,
        }
    }

    /// What to do next.
    #[must_use]
    pub fn step(&self) -> Step {
        match messages(self.handshake).get(self.message) {
            None => Step::Done,
            Some(next) if next.from == self.party => {
                Step::Send(message(self.handshake, self.message))
            }
            Some(next) => Step::Receive(next.bytes - self.received),
        }
    }

    /// The message that [`Exchange::step`] gave was sent, whole.
    pub fn sent(&mut self) {
        self.message += 1;
    }

    /// Takes what was received, and says how many bytes of it belong to the exchange: what is left over is later data.
    ///
    /// # Errors
    /// At the first byte that is not right.
    pub fn received(&mut self, bytes: &[u8]) -> Result<usize, Mismatch> {
        let mut taken = 0;
        while let Step::Receive(missing) = self.step()
            && taken < bytes.len()
        {
            let now = &bytes[taken..bytes.len().min(taken + missing)];
            let whole = message(self.handshake, self.message);
            let expected = &whole[self.received..self.received + now.len()];
            if let Some(wrong) = now.iter().zip(expected).position(|(a, b)| a != b) {
                return Err(Mismatch {
                    message: self.message,
                    byte: self.received + wrong,
                });
            }
            taken += now.len();
            self.received += now.len();
            if self.received == whole.len() {
                self.message += 1;
                self.received = 0;
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
