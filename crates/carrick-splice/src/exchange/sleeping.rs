//! How the process sleeps while the kernel does all the work: out of tokio's registry, by which it would be woken for each
//! piece.

use super::{Exchange, ExchangeEnd};
use crate::relay::watch::{Alarm, ErrorWatch};
use crate::{Fault, Leg, Side};
use std::future::Future;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// After the process had to help, it stays awake until it has had nothing to do for so long.
const CALM: Duration = Duration::from_millis(10);

/// The connections while the process sleeps.
pub(super) type Parked = [TcpStream; 2];

/// Whether the process may go to sleep.
#[derive(Default)]
pub(super) enum Calm {
    /// At once.
    #[default]
    Yes,
    /// When the timer fires and the process still has moved just so many bytes.
    Waiting {
        timer: Pin<Box<Sleep>>,
        moved_bytes: u64,
    },
}

impl Exchange<'_> {
    /// Goes to sleep if the kernel does all the work. True if there is something to be polled for.
    pub(super) fn sleep(&mut self, cx: &mut Context<'_>) -> bool {
        let is_own = self.legs.iter().flatten().all(Leg::is_own);
        if self.failed.is_some() || !is_own || !self.is_in_kernel() || !self.is_calm(cx) {
            return false;
        }
        self.forget_watches();
        let Some([a, b]) = self.legs.take() else {
            return false;
        };
        if !a.is_own_alone() || !b.is_own_alone() {
            self.legs = Some([a, b]);
            return false;
        }
        match (a.into_std(), b.into_std()) {
            (Ok(a), Ok(b)) => self.parked = Some([a, b]),
            (Err(source), _) => self.lose(true, source),
            (_, Err(source)) => self.lose(false, source),
        }
        self.fall_asleep();
        true
    }

    /// Whether the process has had nothing to do for a while.
    fn is_calm(&mut self, cx: &mut Context<'_>) -> bool {
        let moved = self.a_to_b.taken_bytes() + self.b_to_a.taken_bytes();
        let Calm::Waiting { timer, moved_bytes } = &mut self.calm else {
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

    /// Whether all bytes are in the kernel's hands, both ways.
    fn is_in_kernel(&self) -> bool {
        self.kernel
            .as_ref()
            .is_some_and(|kernel| kernel.may_sleep([&self.a_to_b, &self.b_to_a]))
    }

    /// Sees to being woken; or wakes up at once, if there is a reason.
    fn fall_asleep(&mut self) {
        let (Some(kernel), Some([a, b])) = (self.kernel.as_mut(), &self.parked) else {
            return;
        };
        let flows = [&self.a_to_b, &self.b_to_a];
        let is_asleep = matches!(kernel.sleep([a.as_fd(), b.as_fd()]), Ok(true));
        if !is_asleep || !kernel.may_sleep(flows) {
            self.wake_up();
        }
    }

    /// Looks whether there is a reason to wake up; if so, the connections are tokio's again.
    pub(super) fn poll_parked(&mut self, cx: &mut Context<'_>) -> Poll<Option<ExchangeEnd>> {
        if let Some(kernel) = self.kernel.as_mut() {
            let counters = self.splicer.counters();
            kernel.count(0, &mut self.a_to_b, counters);
            kernel.count(1, &mut self.b_to_a, counters);
            let moved_bytes = self.a_to_b.moved_bytes() + self.b_to_a.moved_bytes();
            if kernel.poll_woken(cx).is_pending() {
                match self.watch.poll(cx, moved_bytes, self.idle, None) {
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

    /// Gives the connections back to tokio, if they are not there. False, and the exchange has failed, if tokio does not take
    /// them.
    pub(super) fn wake_up(&mut self) -> bool {
        self.stop_sleeping();
        let Some([a, b]) = self.parked.take() else {
            return true;
        };
        self.calm = Calm::Waiting {
            timer: Box::pin(sleep(CALM)),
            moved_bytes: self.a_to_b.taken_bytes() + self.b_to_a.taken_bytes(),
        };
        let register = tokio::net::TcpStream::from_std;
        match (register(a), register(b)) {
            (Ok(a), Ok(b)) => {
                self.legs = Some([Leg::from(a), Leg::from(b)]);
            }
            (Err(source), _) => self.lose(true, source),
            (_, Err(source)) => self.lose(false, source),
        }
        self.legs.is_some()
    }

    /// Nobody wakes the process any more.
    pub(super) fn stop_sleeping(&mut self) {
        if let (Some(kernel), Some([a, b])) = (self.kernel.as_mut(), &self.parked) {
            kernel.wake_up([a.as_fd(), b.as_fd()]);
        }
    }

    /// A connection could not be registered, and is closed with that.
    fn lose(&mut self, is_a: bool, source: std::io::Error) {
        self.fail(
            is_a,
            Fault {
                side: Side::From,
                call: "epoll_ctl",
                source,
            },
        );
    }

    /// Forgets who waits for errors of the connections: they share them.
    pub(super) fn forget_watches(&mut self) {
        self.a_errors = ErrorWatch::default();
        self.b_errors = ErrorWatch::default();
    }
}
