//! Writes to a client, or a server, as long as it takes anything; the last bytes of a client that is gone.
use crate::net::deadline::{Deadline, TimedOut, Timer, now};
use crate::net::io::write_both;
use crate::net::transport::Transport;
use carrick_splice::LAST_BYTES_IDLE;
use carrick_splice::tcp::acknowledged_bytes;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// Writes both to a peer that takes some bytes of it, or of what was written before, or of another stream, at least every
/// `limit`. On an error, `done` is how many it has taken.
pub(super) async fn write_while_taken(
    timer: &mut Timer,
    limit: Duration,
    peer: &Transport,
    (first, second): (&[u8], &[u8]),
    done: &mut usize,
) -> Result<io::Result<()>, TimedOut> {
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
                seen_acked = acked_bytes(peer);
            }
            polled
        });
        match timer.until(&mut deadline, writing).await {
            Ok(written) => return Ok(written),
            Err(timed_out) => {
                deadline = match peer.not_idle_before(limit, moved_at) {
                    Some(deadline) => deadline,
                    // What a slow receiver takes does not make room for more at once.
                    None if acked_bytes(peer) > seen_acked => {
                        seen_acked = acked_bytes(peer);
                        Deadline::after(limit)
                    }
                    None => return Err(timed_out),
                };
            }
        }
    }
}

/// Waits until the client has reset, and the server then takes nothing more of what came before for [`LAST_BYTES_IDLE`], or for
/// `idle` if that is shorter. A stream of HTTP/2, to either, is over at once.
pub(super) async fn given_up(client: &Transport, server: &Transport, idle: Duration) {
    client.lost().await;
    let mut seen_acked = None;
    let is_stream = matches!(client, Transport::Http2(_)) || server.server_stream().is_some();
    while !is_stream && seen_acked != Some(acked_bytes(server)) {
        seen_acked = Some(acked_bytes(server));
        tokio::time::sleep(idle.min(LAST_BYTES_IDLE)).await;
    }
}

/// What the peer has acknowledged; 0 if unknown, or if the room in the connection is not what is waited for: then frames without
/// content may be all that it takes.
fn acked_bytes(peer: &Transport) -> u64 {
    match peer {
        Transport::Http2(stream) if stream.connection_has_room() => 0,
        Transport::Http2Server(stream) if stream.connection_has_room() => 0,
        _ => peer.socket().and_then(acknowledged_bytes).unwrap_or(0),
    }
}
