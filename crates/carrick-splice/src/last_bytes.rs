//! The last bytes to a peer whose connection is to be reset: a reset discards what has not been acknowledged.

use crate::relay::stalls::Stall;
use crate::{Splicer, tcp};
use std::future::poll_fn;
use std::os::fd::AsRawFd;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// After one of two connections has failed, the peer of the other may go on reading what was sent before; after this
/// long without a byte, it is over.
pub const LAST_BYTES_IDLE: Duration = Duration::from_secs(5);

/// Times between two checks: most peers acknowledge within a round trip.
const LOOK_MIN: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(50);

impl Splicer {
    /// Waits until a peer has acknowledged everything that was sent to it; at most until its connection fails, it takes
    /// nothing for [`LAST_BYTES_IDLE`], or what it does not take is too much ([`Splicer::end_stalled`]).
    pub async fn deliver(&self, to: &TcpStream) {
        let (mut seen, mut since) = (None, Instant::now());
        let (mut stall, mut pause) = (None, LOOK_MIN);
        // One that is gone acknowledges nothing.
        while let Some(acked) = tcp::acknowledged_bytes(to)
            && tcp::unacknowledged_bytes(to).is_some_and(|bytes| bytes > 0)
        {
            if seen != Some(acked) {
                (seen, since) = (Some(acked), Instant::now());
            } else if since.elapsed() >= LAST_BYTES_IDLE {
                return;
            }
            // The other connection holds nothing any more.
            let sockets = || Some([to.as_raw_fd(), -1]);
            poll_fn(|cx| {
                Stall::note(&mut stall, self.stalls(), true, acked, sockets, cx);
                Poll::Ready(())
            })
            .await;
            if Stall::is_ended(&stall) {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LOOK_MAX);
        }
    }
}
