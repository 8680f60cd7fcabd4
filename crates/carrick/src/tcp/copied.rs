//! Relays a tunnel by reading and writing, if the kernel cannot have both connections.
use crate::context::tunnels::Listed;
use crate::context::worker::Sessions;
use crate::net::deadline::now;
use crate::net::io::{read_some, write_all};
use crate::net::transport::Transport;
use carrick_splice::{Engine, ExchangeEnd, ExchangeOrder, Fault, Side};
use std::cell::Cell;
use std::time::Instant;

/// Size of each direction's buffer.
const BUFFER_BYTES: usize = 16 * 1024;

/// The result of relaying both directions.
pub(super) struct Relayed {
    /// From the client, and to it, without bytes that arrived with the heads.
    pub bytes: [u64; 2],
    /// The engine that moved most bytes.
    pub engine: Engine,
    /// `None` if the drain time is over.
    pub end: Option<ExchangeEnd>,
    /// Whether the kernel continues with what it has.
    pub is_left: bool,
}

/// Relays until both sides have ended, one has failed, or nothing has moved for too long.
pub(super) async fn both_ways(
    sessions: &Sessions,
    [near, far]: [&Transport; 2],
    order: ExchangeOrder<'_>,
    listed: &Listed,
) -> Relayed {
    let bytes = [Cell::new(0), Cell::new(0)];
    let moved_at = Cell::new(now());
    let note = |direction: usize, count: usize| {
        bytes[direction].set(bytes[direction].get() + count as u64);
        moved_at.set(now());
        let moved = [bytes[0].get(), bytes[1].get()];
        listed.tunnel().note_bytes(moved, [Engine::Copy; 2]);
    };
    let up = one_way([near, far], order.a_prefix, |count| note(0, count));
    let down = one_way([far, near], order.b_prefix, |count| note(1, count));
    let both = async {
        let fault = |a_to_b| move |fault| ExchangeEnd::Fault { a_to_b, fault };
        let up = async { up.await.map_err(fault(true)) };
        let down = async { down.await.map_err(fault(false)) };
        match tokio::try_join!(up, down) {
            Ok(_) => ExchangeEnd::Closed,
            Err(end) => end,
        }
    };
    let silence = async {
        loop {
            let at: Instant = moved_at.get() + order.idle;
            tokio::time::sleep_until(at.into()).await;
            if moved_at.get() + order.idle <= now() {
                return;
            }
        }
    };
    let end = tokio::select! {
        biased;
        end = both => Some(end),
        () = sessions.wait_for_cut_off() => None,
        () = silence => Some(ExchangeEnd::Idle),
    };
    Relayed {
        bytes: [bytes[0].get(), bytes[1].get()],
        engine: Engine::Copy,
        end,
        is_left: false,
    }
}

/// One direction, including its end.
async fn one_way(
    [from, to]: [&Transport; 2],
    prefix: &[u8],
    note: impl Fn(usize),
) -> Result<(), Fault> {
    let fault = |side, call| move |source| Fault { side, call, source };
    write_all(to, prefix)
        .await
        .map_err(fault(Side::To, "send"))?;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        buffer.clear();
        let count = read_some(from, &mut buffer)
            .await
            .map_err(fault(Side::From, "recv"))?;
        if count == 0 {
            return to.end().map_err(fault(Side::To, "shutdown"));
        }
        write_all(to, &buffer)
            .await
            .map_err(fault(Side::To, "send"))?;
        note(count);
    }
}
