//! What is known of a response that the kernel forwards: from its first packet, from counts, and from its last bytes.
use crate::context::kernel_forward::KnownHead;
use crate::context::kernel_forward::PastResponses;
use crate::context::kernel_forward::Pending;
use crate::context::request_log::RequestLog;
use carrick_logic::http1::{HeadLimits, Method, Progress, ResponseBody, ResponseHead};
use carrick_splice::ResponseProgress;

/// The end of a chunked body without trailers (RFC 9112 section 7.1).
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How far a response has come, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseState {
    /// Nothing of it has come.
    NotBegun,
    /// More of it is to come, or the client has not acknowledged all.
    Partial,
    /// The client has all that has come; it is unknown whether that is the whole response.
    Unknown,
    /// The client has more than its response.
    TooLong,
    /// The client has all of it; `is_exact`: that is certain, and the server's connection can be used again.
    Whole { is_exact: bool },
}

impl PastResponses {
    /// Of a connection that was at rest when the kernel got it.
    pub const CLEAN: Self = Self {
        is_exact: true,
        had_length: true,
        is_closing: false,
    };

    /// A response is over, or taken for it; `None`: it has been noted before.
    pub fn add(&mut self, response: Option<&Pending>, is_exact: bool) {
        self.is_exact = is_exact;
        self.had_length = response.map_or(self.had_length, Pending::has_length);
        self.is_closing = response.is_some_and(Pending::ends_client);
    }

    /// Whether only the next response can follow on the client's connection, once all has come that the head of the response under way
    /// announces.
    pub fn is_certain(&self, under_way: Option<&Pending>) -> bool {
        under_way.map_or(self.had_length, |pending| {
            pending.has_length() || pending.ends_client()
        })
    }
}

impl Pending {
    /// Nothing of the response has come.
    pub fn new(log: RequestLog, method: Method, is_trusted: bool) -> Self {
        Self {
            log,
            method,
            is_trusted,
            is_classified: false,
            known: None,
            is_measured: false,
            relayed_bytes: 0,
        }
    }

    /// Reads the kernel's notes: the response's first packet, its last bytes, and whether it is whole. `progress` includes what went
    /// through the process.
    pub fn state(
        &mut self,
        progress: ResponseProgress,
        limits: &HeadLimits,
        head: impl FnOnce() -> Vec<u8>,
        tail: impl FnOnce() -> Vec<u8>,
        has_whole: Option<bool>,
    ) -> ResponseState {
        if progress.sent_bytes == 0 {
            return ResponseState::NotBegun;
        }
        if self.known.is_none_or(|known| known.is_interim) {
            self.known = read_head(&head(), self.method, limits);
        }
        if progress.acked_bytes != progress.sent_bytes {
            return ResponseState::Partial;
        }
        if self.final_head().is_none()
            && let Some(is_whole) = has_whole
        {
            self.is_measured = true;
            return match is_whole {
                true => ResponseState::Whole { is_exact: false },
                false => ResponseState::Partial,
            };
        }
        match self.known {
            Some(known) => known.state(progress.sent_bytes, self.is_trusted, tail),
            None => ResponseState::Unknown,
        }
    }

    /// Whether the head says how long the response is. Content may look like a last chunk.
    pub fn has_length(&self) -> bool {
        self.is_measured
            || self.final_head().is_some_and(|known| {
                matches!(known.body, ResponseBody::None | ResponseBody::Bytes(_))
            })
    }

    /// Whether the client was told that its connection ends with this response.
    pub fn ends_client(&self) -> bool {
        self.final_head().is_some_and(|known| !known.keep_alive)
    }

    /// The response's head, without those before it.
    pub fn final_head(&self) -> Option<KnownHead> {
        self.known.filter(|known| !known.is_interim)
    }
}

impl KnownHead {
    /// Of a response of which the client has acknowledged all that was sent; the last bytes are `tail`.
    fn state(
        &self,
        sent_bytes: u64,
        is_trusted: bool,
        tail: impl FnOnce() -> Vec<u8>,
    ) -> ResponseState {
        if self.is_interim {
            // The head that follows was too long, or in pieces.
            return if sent_bytes <= self.head_bytes {
                ResponseState::Partial
            } else {
                ResponseState::Unknown
            };
        }
        let total_bytes = match self.body {
            ResponseBody::None => self.head_bytes,
            ResponseBody::Bytes(bytes) => self.head_bytes.saturating_add(bytes),
            ResponseBody::Chunked if sent_bytes <= self.head_bytes => {
                return ResponseState::Partial;
            }
            ResponseBody::Chunked => return state_by_tail(&tail()),
            ResponseBody::UntilClose => return ResponseState::Partial,
            // The request did not ask for one.
            ResponseBody::Tunnel => return ResponseState::Unknown,
        };
        match sent_bytes {
            sent_bytes if sent_bytes < total_bytes => ResponseState::Partial,
            sent_bytes if sent_bytes == total_bytes => ResponseState::Whole {
                is_exact: is_trusted && self.keep_alive,
            },
            // The surplus would be taken for the next response.
            _ => ResponseState::TooLong,
        }
    }
}

/// The head, and those before it; only the latter if that is not known.
fn read_head(bytes: &[u8], method: Method, limits: &HeadLimits) -> Option<KnownHead> {
    let mut known: Option<KnownHead> = None;
    let mut rest = bytes;
    while known.is_none_or(|known| known.is_interim) {
        let mut head = ResponseHead::new();
        if !matches!(
            // The client got it as it came.
            head.parse_strictly(rest, method, limits),
            Ok(Progress::Complete)
        ) {
            break;
        }
        rest = rest.get(head.head_bytes..).unwrap_or_default();
        known = Some(KnownHead {
            head_bytes: (bytes.len() - rest.len()) as u64,
            status: head.status,
            body: head.body,
            keep_alive: head.keep_alive,
            is_interim: head.is_interim(),
        });
    }
    known
}

/// The status of the final head, of which only the beginning may be known.
pub fn read_status(bytes: &[u8]) -> Option<u16> {
    let mut rest = bytes;
    loop {
        let digits = rest.strip_prefix(b"HTTP/1.")?.get(2..5)?;
        let status = str::from_utf8(digits).ok()?.parse().ok()?;
        if !(100..200).contains(&status) || status == 101 {
            return Some(status);
        }
        rest = rest.get(memchr::memmem::find(rest, b"\r\n\r\n")? + 4..)?;
    }
}

/// With trailers the last bytes say nothing: a chunk can end with an empty line, too.
fn state_by_tail(tail: &[u8]) -> ResponseState {
    if tail == LAST_CHUNK {
        ResponseState::Whole { is_exact: false }
    } else if tail.is_empty() || tail.ends_with(b"\r\n\r\n") {
        ResponseState::Unknown
    } else {
        ResponseState::Partial
    }
}

#[cfg(test)]
mod tests;
