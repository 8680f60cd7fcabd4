//! The least rate of a client (`rate_min`), for bytes that are not spliced.
use crate::net::deadline::now;
use carrick_splice::{RateMin, STEP_BYTES};
use std::time::{Duration, Instant};

/// What a client keeps to, which may be this far behind. Small where there is no rate.
pub struct Pace<const BEHIND_BYTES_MAX: u64>(Option<Box<Pacing>>);

#[derive(Clone, Copy)]
struct Pacing {
    rate: RateMin,
    /// When the present wait for the client began.
    begun: Option<Instant>,
    /// Since the rate was kept last.
    bytes: u64,
    waited: Duration,
}

/// Of a client that sends.
pub type SenderPace = Pace<0>;

/// Of a client that receives: besides what it acknowledges in steps, the kernel reports room for more in steps
/// (`TCP_NOTSENT_LOWAT`).
pub type ReceiverPace = Pace<{ 2 * STEP_BYTES }>;

impl<const BEHIND_BYTES_MAX: u64> Pace<BEHIND_BYTES_MAX> {
    /// Holds for ever where there is no rate.
    pub fn new(rate: Option<RateMin>) -> Self {
        let pacing = |rate| Pacing {
            rate,
            begun: None,
            bytes: 0,
            waited: Duration::ZERO,
        };
        Self(rate.map(|rate| Box::new(pacing(rate))))
    }

    /// A wait for the client begins.
    pub fn begin(&mut self) {
        if let Some(pacing) = &mut self.0 {
            pacing.begun = Some(now());
        }
    }

    /// Whether the client is fast enough if it has taken this many bytes since [`begin`](Self::begin), and takes more.
    pub fn holds_so_far(&self, bytes: usize) -> bool {
        let Some(mut pacing) = self.0.as_deref().copied() else {
            return true;
        };
        pacing.end(bytes, BEHIND_BYTES_MAX)
    }

    /// The wait is over: counts the bytes that the client took in it; whether it is fast enough. Checked after the grace, from
    /// the last time on at which the rate was kept.
    pub fn end(&mut self, bytes: usize) -> bool {
        (self.0.as_mut()).is_none_or(|pacing| pacing.end(bytes, BEHIND_BYTES_MAX))
    }
}

impl Pacing {
    fn end(&mut self, bytes: usize, behind_bytes_max: u64) -> bool {
        self.waited += self
            .begun
            .take()
            .map_or(Duration::ZERO, |begun| now() - begun);
        self.bytes += bytes as u64;
        if self.waited < self.rate.grace {
            return true;
        }
        let wanted = u128::from(self.rate.bytes_per_second) * self.waited.as_millis() / 1000;
        let holds = u128::from(self.bytes + behind_bytes_max) >= wanted;
        if u128::from(self.bytes) >= wanted {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
        holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn check<const N: u64>(rate: Option<RateMin>, steps: &[(usize, u32, bool)]) {
        let mut pace = Pace::<N>::new(rate);
        for (bytes, seconds, wanted) in steps {
            pace.begin();
            tokio::time::advance(*seconds * SECOND).await;
            assert_eq!(pace.holds_so_far(*bytes), *wanted, "{steps:?}");
            assert_eq!(pace.end(*bytes), *wanted, "{steps:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_receives_may_be_some_steps_behind() {
        const BEHIND: u64 = 2 * STEP_BYTES;
        let rate = Some(RateMin {
            bytes_per_second: 1000,
            grace: 10 * SECOND,
        });
        // A step of the kernel's at the least rate, and the pieces that fit into it.
        let step = [(16_384, 131, true), (114_688, 0, true), (16_384, 131, true)];
        check::<BEHIND>(rate, &step).await;
        let trickle = [(1, 9, true), (1, 100, true), (1, 22, true), (1, 1, false)];
        check::<BEHIND>(rate, &trickle).await;
        // Once it has kept the rate, it is counted anew.
        check::<BEHIND>(rate, &[(1 << 20, 10, true), (1, 131, true), (1, 1, false)]).await;
        check::<0>(rate, &[(9999, 9, true), (0, 1, false)]).await;
        check::<0>(rate, &[(10_000, 10, true), (9999, 10, false)]).await;
        check::<0>(None, &[(0, 1000, true)]).await;
    }
}
