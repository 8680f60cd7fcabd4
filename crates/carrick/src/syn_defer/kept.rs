//! Connections to servers that wait for their clients': of whichever worker, since the kernel chooses who accepts the client.
use super::Place;
use crate::net::admission::Admitted;
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The client's address, and the server's.
pub type Ends = (SocketAddr, SocketAddr);

/// A server's connection that stands, and has carried nothing. Reset when it is dropped unused: the server is to hear that nobody has come.
#[derive(Debug)]
pub struct Kept {
    stream: Option<TcpStream>,
    /// How long connecting took.
    pub connecting: Duration,
    /// The client's place among those who are let in.
    pub admitted: Option<Admitted>,
    _place: Place,
}

impl Kept {
    /// A connection that does not block.
    #[must_use]
    pub fn new(stream: TcpStream, connecting: Duration, admitted: Admitted, place: Place) -> Self {
        Self {
            stream: Some(stream),
            connecting,
            admitted: Some(admitted),
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

/// All that are kept. No more than there are places.
#[derive(Debug, Default)]
pub struct Table(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    kept: HashMap<Ends, (u64, Kept)>,
    /// In the order in which they were put in, by number; some have been taken since.
    order: VecDeque<(Instant, u64, Ends)>,
    next: u64,
}

impl Table {
    /// Puts one in. Whether there was one of an earlier attempt, which is reset.
    pub fn put(&self, ends: Ends, kept: Kept, now: Instant) -> bool {
        let mut inside = self.lock();
        let number = inside.next;
        inside.next += 1;
        inside.order.push_back((now, number, ends));
        let replaced = inside.kept.insert(ends, (number, kept));
        drop(inside);
        replaced.is_some()
    }

    /// Takes one out.
    pub fn take(&self, ends: &Ends) -> Option<Kept> {
        self.lock().kept.remove(ends).map(|(_, kept)| kept)
    }

    /// Takes those out that have waited for so long.
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

    /// It guards plain values, which a panic elsewhere cannot have left half-changed.
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
