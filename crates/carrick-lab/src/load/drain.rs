//! Connections that carry no more requests: held until the server closes them, for a short while, to see that nothing comes
//! after the last response, and so that the server's side closes first (the side that does keeps the port in TIME_WAIT).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::load::socket::{self, Interest, Poll};
use crate::load::work::Request;

/// Held at a time; beyond, the oldest is closed.
pub const HELD_MAX: usize = 256;
/// Marks tokens of connections that are only waited out.
pub(super) const DRAIN_TOKEN: u64 = 1 << 63;
/// Held for so long at most.
const HELD_NS: u64 = 250_000_000;

/// Connections on the side.
#[derive(Debug, Default)]
pub(super) struct Drains {
    held: VecDeque<Held>,
    /// Number of the front one.
    first: u64,
}

#[derive(Debug)]
struct Held {
    /// `None` once it is closed.
    socket: Option<OwnedFd>,
    request: Request,
    until_ns: u64,
}

impl Drains {
    /// Holds a connection after this request's response; says how many bytes came after it, if there are any yet.
    pub(super) fn add(
        &mut self,
        socket: OwnedFd,
        request: Request,
        now_ns: u64,
        poll: &Poll,
        buffer: &mut [u8],
    ) -> Option<u64> {
        // Most servers close at once: then there is nothing to hold.
        match socket::receive(&socket, buffer) {
            Ok(None) => {}
            Ok(Some(0)) | Err(_) => return None,
            Ok(Some(bytes)) => return Some(bytes as u64),
        }
        if self.held.len() == HELD_MAX {
            self.held.pop_front();
            self.first += 1;
        }
        let number = self.first + self.held.len() as u64;
        // What cannot be watched is closed.
        if poll
            .change(&socket, DRAIN_TOKEN | number, Interest::Receive)
            .is_ok()
        {
            self.held.push_back(Held {
                socket: Some(socket),
                request,
                until_ns: now_ns + HELD_NS,
            });
        }
        None
    }

    /// Something happened on a held connection: it ended, or so many bytes came that should not.
    pub(super) fn look(&mut self, number: u64, buffer: &mut [u8]) -> Option<(Request, u64)> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let held = self.held.get_mut(place)?;
        let received = socket::receive(held.socket.as_ref()?, buffer);
        let surplus = match received {
            Ok(None) => return None,
            Ok(Some(bytes)) if bytes > 0 => Some((held.request, bytes as u64)),
            Ok(Some(_)) | Err(_) => None,
        };
        held.socket = None;
        while self.held.front().is_some_and(|held| held.socket.is_none()) {
            self.held.pop_front();
            self.first += 1;
        }
        surplus
    }

    /// When the oldest has been held for long enough.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.held.front().map(|held| held.until_ns)
    }

    /// Closes those that were held for long enough.
    pub(super) fn expire(&mut self, now_ns: u64) {
        while self
            .held
            .front()
            .is_some_and(|held| held.socket.is_none() || held.until_ns <= now_ns)
        {
            self.held.pop_front();
            self.first += 1;
        }
    }
}
