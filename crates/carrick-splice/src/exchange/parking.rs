//! Parks an exchange while the kernel does all the work: out of tokio's registry, which would wake the
//! process for each piece.

use super::{Exchange, ExchangeEnd, acked_bytes};
use crate::lifecycle::{Attachment, State};
use crate::relay::sockmap_splice::SockmapSplice;
use crate::relay::watch::{Alarm, ErrorWatch};
use crate::{Fault, Leg, Side};
use socket2::SockRef;
use std::future::Future;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// After the process had to help, it stays awake until it has had nothing to do for this long.
const CALM: Duration = Duration::from_millis(10);

/// The connections while parked.
pub(super) type Parked = [TcpStream; 2];

/// Whether the exchange may park.
#[derive(Default)]
pub(super) enum MayPark {
    /// At once.
    #[default]
    Yes,
    /// When the timer fires, if the process has moved no more bytes than this.
    Waiting {
        timer: Pin<Box<Sleep>>,
        moved_bytes: u64,
    },
}

impl Exchange<'_> {
    /// The socket engine's splice, if it has one.
    fn sockmap_splice(&self) -> Option<&SockmapSplice> {
        match &self.attachment {
            Some(Attachment::Sockmap(sockmap)) => sockmap.splice(),
            _ => None,
        }
    }

    /// Parks the exchange if the kernel does all the work. True if it must be polled again.
    pub(super) fn park(&mut self, cx: &mut Context<'_>) -> bool {
        let is_own = self.pair.legs.iter().flatten().all(Leg::is_own);
        if self.pair.failed.is_some() || !is_own || !self.may_park() || !self.is_calm(cx) {
            return false;
        }
        self.forget_watches();
        let Some([a, b]) = self.pair.legs.take() else {
            return false;
        };
        if !a.is_own_alone() || !b.is_own_alone() {
            self.pair.legs = Some([a, b]);
            return false;
        }
        match (a.into_std(), b.into_std()) {
            (Ok(a), Ok(b)) => {
                self.parked = Some([a, b]);
                self.lifecycle.enter(State::Parked);
            }
            (Err(source), _) => self.lose(0, source),
            (_, Err(source)) => self.lose(1, source),
        }
        self.fall_asleep();
        true
    }

    /// Whether the process has had nothing to do for a while.
    fn is_calm(&mut self, cx: &mut Context<'_>) -> bool {
        let moved = self.pair.taken_bytes().iter().sum();
        let MayPark::Waiting { timer, moved_bytes } = &mut self.may_park else {
            return true;
        };
        while timer.as_mut().poll(cx).is_ready() {
            if *moved_bytes == moved {
                return true;
            }
            *moved_bytes = moved;
            timer.as_mut().reset(Instant::now() + CALM);
        }
        false
    }

    /// Whether the kernel handles all bytes, in both directions.
    fn may_park(&self) -> bool {
        let splice = self.sockmap_splice();
        self.lifecycle.is(State::InKernel)
            && splice.is_some_and(|splice| splice.may_sleep(self.pair.flows.each_ref()))
    }

    /// Arranges to be woken; or unparks at once, if there is a reason.
    fn fall_asleep(&mut self) {
        let (Some(Attachment::Sockmap(sockmap)), Some([a, b])) =
            (&mut self.attachment, &self.parked)
        else {
            return;
        };
        let flows = self.pair.flows.each_ref();
        let is_asleep = sockmap.splice_mut().is_some_and(|splice| {
            matches!(splice.sleep([a.as_fd(), b.as_fd()]), Ok(true)) && splice.may_sleep(flows)
        });
        if !is_asleep {
            self.wake_up();
        }
    }

    /// Checks for a reason to unpark; if there is one, registers the connections with tokio again.
    pub(super) fn poll_parked(&mut self, cx: &mut Context<'_>) -> Poll<Option<ExchangeEnd>> {
        if let Some(Attachment::Sockmap(sockmap)) = &mut self.attachment
            && let Some(splice) = sockmap.splice_mut()
        {
            let counters = self.pair.splicer.counters();
            for (side, flow) in self.pair.flows.iter_mut().enumerate() {
                splice.count(side, flow, counters);
            }
            if splice.poll_woken(cx).is_pending() {
                let moved_bytes = self.pair.moved_bytes();
                let parked = self.parked.as_ref();
                let acked = || parked.and_then(|[a, b]| acked_bytes([a, b]));
                // The kernel may hold what a receiver has not taken yet.
                let progress = (moved_bytes, Side::To);
                match (self.pair.watch).poll(cx, progress, acked, self.idle, None) {
                    Poll::Pending | Poll::Ready(Alarm::Quiet) => return Poll::Pending,
                    Poll::Ready(Alarm::Ended(_)) => {
                        self.wake_up();
                        return Poll::Ready(Some(self.stalled()));
                    }
                }
            }
        }
        self.wake_up();
        Poll::Ready(self.end())
    }

    /// Registers the connections with tokio again, if they are not. False, and the exchange has failed, if
    /// tokio refuses them.
    pub(super) fn wake_up(&mut self) -> bool {
        self.stop_sleeping();
        let Some(parked) = self.parked.take() else {
            return true;
        };
        self.lifecycle.enter(State::InKernel);
        self.may_park = MayPark::Waiting {
            timer: Box::pin(sleep(CALM)),
            moved_bytes: self.pair.taken_bytes().iter().sum(),
        };
        match register(parked) {
            Ok(streams) => self.pair.legs = Some(streams.map(Leg::from)),
            Err((side, source)) => self.lose(side, source),
        }
        self.pair.legs.is_some()
    }

    /// Stops the notifier's wake-ups.
    pub(super) fn stop_sleeping(&mut self) {
        if let (Some(Attachment::Sockmap(sockmap)), Some([a, b])) =
            (&mut self.attachment, &self.parked)
            && let Some(splice) = sockmap.splice_mut()
        {
            splice.wake_up([a.as_fd(), b.as_fd()]);
        }
    }

    /// A connection could not be registered, and is closed with that.
    fn lose(&mut self, side: usize, source: io::Error) {
        let fault = Fault::new(Side::From, "epoll_ctl", source);
        self.pair.fail(side, fault);
    }

    /// Drops the waiters for errors of the connections, which they share.
    pub(super) fn forget_watches(&mut self) {
        self.errors = <[ErrorWatch<'_>; 2]>::default();
    }
}

/// Registers the connections with tokio. If it refuses one, both are reset, since their streams may not be whole; the
/// side and the error.
fn register(parked: Parked) -> Result<[tokio::net::TcpStream; 2], (usize, io::Error)> {
    for stream in &parked {
        let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    }
    let streams = match parked.map(tokio::net::TcpStream::from_std) {
        [Ok(a), Ok(b)] => [a, b],
        [Err(source), _] => return Err((0, source)),
        [_, Err(source)] => return Err((1, source)),
    };
    for stream in &streams {
        let _ = SockRef::from(stream).set_linger(None);
    }
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use tokio::runtime::Builder;

    /// Both connections wake, and whatever is still open is closed. What their peers read.
    fn read_by_peers(is_refused: bool) -> [io::Result<usize>; 2] {
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pairs = [(); 2].map(|()| {
            let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (own, _) = listener.accept().unwrap();
            own.set_nonblocking(true).unwrap();
            (own, peer)
        });
        let [(a, peer_a), (b, peer_b)] = pairs;
        let handle = runtime.handle().clone();
        // A runtime that is gone registers nothing.
        let _runtime = (!is_refused).then_some(runtime);
        let _context = handle.enter();
        assert_eq!(register([a, b]).is_err(), is_refused);
        [peer_a, peer_b].map(|mut peer| peer.read(&mut [0]))
    }

    #[test]
    fn connections_that_are_refused_when_they_wake_are_reset() {
        for read in read_by_peers(true) {
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        }
    }

    #[test]
    fn connections_that_woke_end_with_a_fin() {
        assert_eq!(read_by_peers(false).map(Result::unwrap), [0; 2]);
    }
}
