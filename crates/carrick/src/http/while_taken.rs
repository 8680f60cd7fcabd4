//! Writes to a client, or a server, as long as it takes anything.
use crate::net::deadline::{Deadline, TimedOut, Timer, now};
use crate::net::io::write_both;
use crate::net::transport::Transport;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// Writes both to a peer that takes some bytes of it, or of another stream, at least every `limit`. On an error, `done` is how many it
/// has taken.
pub(super) async fn write_while_taken(
    timer: &mut Timer,
    limit: Duration,
    peer: &Transport,
    (first, second): (&[u8], &[u8]),
    done: &mut usize,
) -> Result<io::Result<()>, TimedOut> {
    let total = first.len() + second.len();
    let (mut moved_at, mut deadline) = (None, Deadline::after(limit));
    loop {
        let writing = poll_fn(|cx| {
            let rest = first.get(*done..).unwrap_or_default();
            let others = second.get(done.saturating_sub(first.len())..);
            let mut left = 0;
            let mut writing = write_both(peer, rest, others.unwrap_or_default(), &mut left);
            let polled = Pin::new(&mut writing).poll(cx);
            drop(writing);
            let before = std::mem::replace(done, total - left);
            if polled.is_pending() && *done > before {
                moved_at = Some(now());
            }
            polled
        });
        match timer.until(&mut deadline, writing).await {
            Ok(written) => return Ok(written),
            Err(timed_out) => {
                deadline = peer.not_idle_before(limit, moved_at).ok_or(timed_out)?;
            }
        }
    }
}
