//! What two carricks at the ends of a long link say to each other: frames, and in which order they come.
//!
//! One TCP connection carries one relayed connection at a time, and others after it. Whoever opens it sends HELLO and, for each relayed
//! connection, OPEN; the other end answers. Then both send DATA, and END or RESET at last. A head of five bytes says what a
//! frame is and how long; only what is in frames other than DATA is ever read into memory.

pub mod connection_state;
#[cfg(test)]
mod tests;

use crate::cursor::Cursor;
use std::net::{IpAddr, SocketAddr};

/// Bytes of a frame's head: its kind, and how many bytes follow.
pub const HEAD_BYTES: usize = 5;

/// Most bytes of a DATA frame.
pub const DATA_BYTES_MAX: u32 = 1 << 20;

/// Most bytes of any other frame, with its head.
pub const CONTROL_BYTES_MAX: usize = HEAD_BYTES + 4 + ADDRESS_BYTES_MAX + 1 + NAME_BYTES_MAX + 3;

/// The version of the protocol that is spoken.
pub const VERSION: u16 = 1;

/// A name of the DNS, as text (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 253;
const ADDRESS_BYTES_MAX: usize = 1 + 16 + 2;
/// No other protocol begins with this.
const MAGIC: &[u8; 8] = b"carrick\0";

const HELLO: u8 = 1;
const OPEN: u8 = 2;
const OPENED: u8 = 3;
const REFUSED: u8 = 4;
const DATA: u8 = 5;
const END: u8 = 6;
const RESET: u8 = 7;

const FAMILY_NAME: u8 = 1;
const FAMILY_V4: u8 = 4;
const FAMILY_V6: u8 = 6;

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Who opened the connection speaks this version; the answer is the version that will be spoken.
    Hello {
        /// See [`VERSION`].
        version: u16,
    },
    /// A connection is to be relayed.
    Open {
        /// Counts the relayed connections of this one, from 1.
        number: u32,
        /// The client's address.
        client: SocketAddr,
        /// The server.
        destination: Destination,
    },
    /// The server has accepted.
    Opened {
        /// The relayed connection's.
        number: u32,
        /// The server's address.
        server: SocketAddr,
    },
    /// There is no connection to the server; nothing else comes this way for this relayed connection.
    Refused {
        /// The relayed connection's.
        number: u32,
        /// Why.
        why: ErrorCode,
    },
    /// So many bytes of the relayed connection follow, 1 to [`DATA_BYTES_MAX`].
    Data(u32),
    /// This way has ended, as by FIN.
    End,
    /// The relayed connection was reset, or is given up; nothing else comes this way for it, and the other way is to end, too.
    Reset {
        /// The relayed connection's.
        number: u32,
        /// Why.
        why: ErrorCode,
    },
}

/// Where a relayed connection goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// An address.
    Address(SocketAddr),
    /// A name, which the far end resolves: printable ASCII, 1 to 253 bytes.
    Name {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
}

/// Why there is no connection, or none any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The server has refused it.
    Refused,
    /// The server cannot be reached, or its name not be resolved.
    Unreachable,
    /// The far end is not to connect to there.
    Denied,
    /// It took too long.
    TimedOut,
    /// The relayed connection was reset by the client or the server.
    Reset,
    /// Nothing came either way for too long.
    Idle,
    /// Who says so cannot go on: it ends, or lacks something.
    Failed,
}

impl ErrorCode {
    const ALL: [Self; 7] = [
        Self::Refused,
        Self::Unreachable,
        Self::Denied,
        Self::TimedOut,
        Self::Reset,
        Self::Idle,
        Self::Failed,
    ];

    fn code(self) -> u8 {
        self as u8 + 1
    }

    fn from_code(code: u8) -> Option<Self> {
        let index = usize::from(code.checked_sub(1)?);
        Self::ALL.get(index).copied()
    }
}

/// Result of looking for a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// A frame of so many bytes; of DATA only its head.
    Complete(usize, Frame),
    /// So many bytes are needed, counted from the frame's beginning. No byte of the next frame, or of DATA, is among them.
    Partial(usize),
}

/// Reads the frame at the start of `bytes`. More bytes never change an answer other than [`Read::Partial`].
///
/// # Errors
/// Says what is wrong; whoever sends that is none of us, and the connection is to be given up.
pub fn read(bytes: &[u8]) -> Result<Read, &'static str> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        if let Some(kind) = bytes.first() {
            lengths(*kind)?;
        }
        return Ok(Read::Partial(HEAD_BYTES));
    };
    let [kind, length @ ..] = head;
    let (least, most) = lengths(*kind)?;
    let length = u32::from_be_bytes(length.to_owned());
    if !(least..=most).contains(&length) {
        return Err("no frame of this kind has this length");
    }
    if *kind == DATA {
        return Ok(Read::Complete(HEAD_BYTES, Frame::Data(length)));
    }
    let whole = HEAD_BYTES + length as usize;
    if *kind == HELLO && !rest.iter().zip(MAGIC).all(|(came, wanted)| came == wanted) {
        return Err("this is not the protocol of carrick's links");
    }
    let Some(payload) = rest.get(..length as usize) else {
        return Ok(Read::Partial(whole));
    };
    let mut payload = Cursor::new(payload);
    let frame = frame(*kind, &mut payload)?.ok_or("a frame ends too early")?;
    if !payload.is_empty() {
        return Err("a frame is longer than what it says");
    }
    Ok(Read::Complete(whole, frame))
}

/// Least and most bytes behind the head.
fn lengths(kind: u8) -> Result<(u32, u32), &'static str> {
    Ok(match kind {
        HELLO => (10, 10),
        // IPv4 and a name of one byte, or IPv4 twice.
        OPEN => (4 + 7 + 5, (CONTROL_BYTES_MAX - HEAD_BYTES) as u32),
        OPENED => (4 + 7, 4 + ADDRESS_BYTES_MAX as u32),
        REFUSED | RESET => (5, 5),
        DATA => (1, DATA_BYTES_MAX),
        END => (0, 0),
        _ => return Err("there is no frame of this kind"),
    })
}

/// `None`: there are too few bytes.
fn frame(kind: u8, payload: &mut Cursor<'_>) -> Result<Option<Frame>, &'static str> {
    Ok(match kind {
        HELLO => payload.take_array::<8>().and_then(|_| {
            let version = payload.take_u16()?;
            Some(Frame::Hello { version })
        }),
        OPEN => {
            let Some(number) = number(payload) else {
                return Ok(None);
            };
            let Some(client) = take_destination(payload)? else {
                return Ok(None);
            };
            let Destination::Address(client) = client else {
                return Err("a client has an address");
            };
            take_destination(payload)?.map(|destination| Frame::Open {
                number,
                client,
                destination,
            })
        }
        OPENED => {
            let Some(number) = number(payload) else {
                return Ok(None);
            };
            match take_destination(payload)? {
                Some(Destination::Address(server)) => Some(Frame::Opened { number, server }),
                Some(Destination::Name { .. }) => return Err("a server has an address"),
                None => None,
            }
        }
        REFUSED | RESET => {
            let (Some(number), Some(code)) = (number(payload), payload.take_u8()) else {
                return Ok(None);
            };
            let why = ErrorCode::from_code(code).ok_or("there is no such reason")?;
            Some(if kind == RESET {
                Frame::Reset { number, why }
            } else {
                Frame::Refused { number, why }
            })
        }
        // DATA has been read by its head.
        _ => Some(Frame::End),
    })
}

fn number(payload: &mut Cursor<'_>) -> Option<u32> {
    payload.take_array().map(u32::from_be_bytes)
}

/// An address is written as what it is: IPv4-mapped ones are not.
fn take_destination(payload: &mut Cursor<'_>) -> Result<Option<Destination>, &'static str> {
    let Some(family) = payload.take_u8() else {
        return Ok(None);
    };
    let ip = match family {
        FAMILY_V4 => payload.take_array::<4>().map(IpAddr::from),
        FAMILY_V6 => payload.take_array::<16>().map(IpAddr::from),
        FAMILY_NAME => {
            let Some(host) = payload.take_short_block() else {
                return Ok(None);
            };
            let host = host_name(host)?;
            let port = payload.take_u16();
            return Ok(port.map(|port| Destination::Name { host, port }));
        }
        _ => return Err("there is no such family of addresses"),
    };
    let (Some(ip), Some(port)) = (ip, payload.take_u16()) else {
        return Ok(None);
    };
    if ip.to_canonical() != ip {
        return Err("an IPv4 address is written as one of IPv6");
    }
    Ok(Some(Destination::Address(SocketAddr::new(ip, port))))
}

fn host_name(bytes: &[u8]) -> Result<String, &'static str> {
    let is_right = (1..=NAME_BYTES_MAX).contains(&bytes.len());
    match std::str::from_utf8(bytes) {
        Ok(text) if is_right && bytes.iter().all(u8::is_ascii_graphic) => Ok(text.to_owned()),
        _ => Err("this is not a name"),
    }
}

impl Frame {
    /// Appends the frame to `out`; of DATA only its head. IPv4-mapped addresses are written as IPv4; what is too long for a name is cut.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let kind = match self {
            Self::Hello { .. } => HELLO,
            Self::Open { .. } => OPEN,
            Self::Opened { .. } => OPENED,
            Self::Refused { .. } => REFUSED,
            Self::Data(_) => DATA,
            Self::End => END,
            Self::Reset { .. } => RESET,
        };
        out.extend_from_slice(&[kind, 0, 0, 0, 0]);
        match self {
            Self::Hello { version } => {
                out.extend_from_slice(MAGIC);
                out.extend_from_slice(&version.to_be_bytes());
            }
            Self::Open {
                number,
                client,
                destination,
            } => {
                out.extend_from_slice(&number.to_be_bytes());
                put_address(out, *client);
                match destination {
                    Destination::Address(address) => put_address(out, *address),
                    Destination::Name { host, port } => put_name(out, host, *port),
                }
            }
            Self::Opened { number, server } => {
                out.extend_from_slice(&number.to_be_bytes());
                put_address(out, *server);
            }
            Self::Refused { number, why } | Self::Reset { number, why } => {
                out.extend_from_slice(&number.to_be_bytes());
                out.push(why.code());
            }
            Self::Data(_) | Self::End => {}
        }
        let length = match self {
            Self::Data(bytes) => *bytes,
            _ => (out.len() - start - HEAD_BYTES) as u32,
        };
        if let Some(place) = out.get_mut(start + 1..start + HEAD_BYTES) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }

    /// The head of a DATA frame with so many bytes, 1 to [`DATA_BYTES_MAX`].
    #[must_use]
    pub fn data_head(bytes: u32) -> [u8; HEAD_BYTES] {
        debug_assert!((1..=DATA_BYTES_MAX).contains(&bytes));
        let [a, b, c, d] = bytes.to_be_bytes();
        [DATA, a, b, c, d]
    }
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            out.push(FAMILY_V4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(FAMILY_V6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

fn put_name(out: &mut Vec<u8>, host: &str, port: u16) {
    let host = host.as_bytes();
    let host = host.get(..NAME_BYTES_MAX).unwrap_or(host);
    out.push(FAMILY_NAME);
    out.push(host.len() as u8);
    out.extend_from_slice(host);
    out.extend_from_slice(&port.to_be_bytes());
}
