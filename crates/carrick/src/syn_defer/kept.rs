//! Server connections that wait for their client. All workers share them, since the kernel chooses which worker accepts the client.
use super::Place;
use crate::net::admission::{Admitted, UpstreamPlace};
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Addresses of the client and the server.
pub type Ends = (SocketAddr, SocketAddr);

/// An open server connection that has carried nothing. Dropping it unused resets it, so that the server sees no orderly close.
#[derive(Debug)]
pub struct Kept {
    stream: Option<TcpStream>,
    /// How long connecting took.
    pub connecting: Duration,
    /// The slot that it occupies.
    pub admitted: Option<Admitted>,
    /// Its slot within the process's descriptors.
    pub upstream_place: Option<UpstreamPlace>,
    _place: Place,
}

impl Kept {
    /// Takes a non-blocking connection, with its slot within the process's descriptors.
    #[must_use]
    pub fn new(
        (stream, upstream_place): (TcpStream, Option<UpstreamPlace>),
        connecting: Duration,
        admitted: Admitted,
        place: Place,
    ) -> Self {
        Self {
            stream: Some(stream),
            connecting,
            admitted: Some(admitted),
            upstream_place,
            _place: place,
        }
    }

    /// The connection.
    #[must_use]
    pub fn into_stream(mut self) -> Option<TcpStream> {
        self.stream.take()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

/// All waiting connections; bounded by the number of slots.
#[derive(Debug, Default)]
pub struct KeptTable(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    kept: HashMap<Ends, (u64, Kept)>,
    /// Insertion order, by number; some entries may have been taken since.
    order: VecDeque<(Instant, u64, Ends)>,
    next: u64,
}

impl KeptTable {
    /// Inserts a connection. Returns whether it replaced one of an earlier attempt, which is reset.
    pub fn put(&self, ends: Ends, kept: Kept, now: Instant) -> bool {
        let mut inside = self.lock();
        let number = inside.next;
        inside.next += 1;
        inside.order.push_back((now, number, ends));
        let replaced = inside.kept.insert(ends, (number, kept));
        drop(inside);
        replaced.is_some()
    }

    /// Takes a connection out.
    pub fn take(&self, ends: &Ends) -> Option<Kept> {
        self.lock().kept.remove(ends).map(|(_, kept)| kept)
    }

    /// Removes connections that have waited at least `age_max`.
    pub fn expire(&self, now: Instant, age_max: Duration) -> Vec<Kept> {
        let mut expired = Vec::new();
        let mut inside = self.lock();
        while let Some((since, number, ends)) = inside.order.front().copied() {
            if now.duration_since(since) < age_max {
                break;
            }
            inside.order.pop_front();
            if inside
                .kept
                .get(&ends)
                .is_some_and(|(other, _)| *other == number)
                && let Some((_, kept)) = inside.kept.remove(&ends)
            {
                expired.push(kept);
            }
        }
        expired
    }

    /// The lock guards plain values that are valid even after a panic.
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
