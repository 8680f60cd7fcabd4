//! Writes to a client, or a server, as long as it takes anything; the last bytes of a client that is gone.
use super::least_rate::ReceiverPace;
use crate::context::request_log::{IDLE_TIMEOUT, TOO_SLOW};
use crate::net::deadline::{Deadline, TimedOut, Timer, now};
use crate::net::io::write_both;
use crate::net::transport::Transport;
use carrick_splice::LAST_BYTES_IDLE;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// Writes both to a peer that takes some bytes of it, or of what was written before, or of another stream, at least every
/// `limit`, and keeps to its pace, which is looked at as often. On an error, `done` is how many bytes it has taken.
///
/// # Errors
/// How a response has ended that the peer did not take in time.
pub(super) async fn write_while_taken(
    (timer, limit): (&mut Timer, Duration),
    peer: &Transport,
    (first, second): (&[u8], &[u8]),
    done: &mut usize,
    pace: &mut ReceiverPace,
) -> Result<io::Result<()>, &'static str> {
    pace.begin();
    let (mut moved_at, mut deadline) = (None, Deadline::after(limit));
    let mut seen_acked = 0;
    loop {
        let writing = poll_fn(|cx| {
            let rest = first.get(*done..).unwrap_or_default();
            let others = second.get(done.saturating_sub(first.len())..);
            let mut left = 0;
            let mut writing = write_both(peer, rest, others.unwrap_or_default(), &mut left);
            let polled = Pin::new(&mut writing).poll(cx);
            drop(writing);
            let before = std::mem::replace(done, first.len() + second.len() - left);
            if polled.is_pending() && *done > before {
                moved_at = Some(now());
            }
            if polled.is_pending() && seen_acked == 0 {
                seen_acked = peer.acked_bytes();
            }
            polled
        });
        match timer.until(&mut deadline, writing).await {
            Ok(written) => {
                return pace.end(*done).then_some(written).ok_or(TOO_SLOW);
            }
            Err(TimedOut) => {
                deadline = match peer.not_idle_before(limit, moved_at) {
                    Some(deadline) => deadline,
                    // What a slow receiver takes does not make room for more at once.
                    None if peer.acked_bytes() > seen_acked => {
                        seen_acked = peer.acked_bytes();
                        Deadline::after(limit)
                    }
                    None => return Err(IDLE_TIMEOUT),
                };
            }
        }
        if !pace.holds_so_far(*done) {
            return Err(TOO_SLOW);
        }
    }
}

/// Waits for room for what a client is sent, as long as it, or another stream, takes something at least every `limit`, and it
/// keeps to its pace, of whose present wait it has taken `done` bytes.
///
/// # Errors
/// How a response has ended that the client did not take in time.
pub(super) async fn room_while_taken<F: Future + Unpin>(
    (timer, limit): (&mut Timer, Duration),
    client: &Transport,
    mut room: F,
    (pace, done): (&ReceiverPace, usize),
) -> Result<F::Output, &'static str> {
    let mut deadline = Deadline::after(limit);
    loop {
        match timer.until(&mut deadline, &mut room).await {
            Ok(room) => return Ok(room),
            Err(TimedOut) => {
                deadline = client.not_idle_before(limit, None).ok_or(IDLE_TIMEOUT)?;
            }
        }
        if !pace.holds_so_far(done) {
            return Err(TOO_SLOW);
        }
    }
}

/// Waits until the client has reset, and the server then takes nothing more of what came before for [`LAST_BYTES_IDLE`], or for
/// `idle` if that is shorter. A stream of HTTP/2, to either, is over at once.
pub(super) async fn given_up(client: &Transport, server: &Transport, idle: Duration) {
    client.lost().await;
    let mut seen_acked = None;
    let is_stream = matches!(client, Transport::Http2(_)) || server.server_stream().is_some();
    while !is_stream && seen_acked != Some(server.acked_bytes()) {
        seen_acked = Some(server.acked_bytes());
        tokio::time::sleep(idle.min(LAST_BYTES_IDLE)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::transport::testing;
    use carrick_splice::RateMin;

    const IDLE: Duration = Duration::from_secs(60);
    const SECOND: Duration = Duration::from_secs(1);

    /// Writes to a client that takes `bytes` every 50 s; how that ends, and after how long.
    async fn write_to(bytes: usize, rate: Option<RateMin>) -> (Result<(), &'static str>, Duration) {
        let address = |port| ([127, 0, 0, 1], port).into();
        let [peer, client] = testing::pair([address(1), address(2)]);
        let reading = async move {
            loop {
                tokio::time::sleep(50 * SECOND).await;
                client.hear_some(bytes).await;
            }
        };
        let (peer, mut timer) = (Transport::Memory(peer), Timer::default());
        let (begun, body) = (now(), vec![0; 1 << 20]);
        let mut pace = ReceiverPace::new(rate);
        let mut done = 0;
        let patience = (&mut timer, IDLE);
        let writing = write_while_taken(patience, &peer, (&body, &[]), &mut done, &mut pace);
        let written = tokio::select! {
            written = writing => written.map(|written| written.unwrap()),
            () = reading => unreachable!(),
        };
        (written, now() - begun)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_too_slow_before_a_long_write_is_over() {
        let rate = RateMin {
            bytes_per_second: 1000,
            grace: 10 * SECOND,
        };
        let (written, took) = write_to(1, Some(rate)).await;
        assert_eq!(written, Err(TOO_SLOW));
        assert!(took < 600 * SECOND, "{took:?}");
        let (written, took) = write_to(40_000, None).await;
        assert_eq!(written, Ok(()));
        assert!(took > 600 * SECOND, "{took:?}");
    }
}
