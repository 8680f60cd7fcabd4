//! Relays a tunnel by reading and writing, if the kernel cannot have both connections.
use crate::context::tunnels::Listed;
use crate::context::worker::Worker;
use crate::net::deadline::now;
use crate::net::io::{Stream, try_read_some};
use crate::net::scratch::ScratchPool;
use crate::net::transport::Transport;
use crate::net::transport::tls::TlsStream;
use carrick_splice::tcp::UnreadWindow;
use carrick_splice::{Engine, ExchangeEnd, ExchangeOrder, Fault, LAST_BYTES_IDLE, Side, Throttle};
use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

/// Idle checks per idle time.
const LOOKS: u32 = 4;

/// The result of relaying both directions.
pub(super) struct Relayed {
    /// From the client, and to it, without bytes that arrived with the heads.
    pub bytes: [u64; 2],
    /// The engine that moved most bytes.
    pub engine: Engine,
    /// `None` if the drain time is over.
    pub end: Option<ExchangeEnd>,
    /// Whether nothing was on its way when it ended as idle.
    pub is_quiet: bool,
    /// Whether the kernel continues with what it has.
    pub is_left: bool,
}

/// Relays until both sides have ended, one has failed, or nothing has moved for too long.
pub(super) async fn both_ways(
    worker: &Worker,
    [near, far]: [&Transport; 2],
    order: ExchangeOrder<'_>,
    listed: &Listed,
) -> Relayed {
    let [unread_near, unread_far] = order.unread.map(UnreadWindow::new);
    let [pace_up, pace_down] = (order.pace).map(|pace| Throttle::new(pace, worker.splicer.pacer()));
    let bytes = [Cell::new(0), Cell::new(0)];
    let (moved_at, stages) = (Cell::new(now()), [Cell::default(), Cell::default()]);
    let note = |direction: usize, count: usize| {
        bytes[direction].set(bytes[direction].get() + count as u64);
        moved_at.set(now());
        let moved = [bytes[0].get(), bytes[1].get()];
        listed.tunnel().note_bytes(moved, [Engine::Copy; 2]);
    };
    let has_failed = Cell::new(false);
    let (up, down) = (
        Way {
            from: near,
            to: far,
            window: unread_near,
            throttle: pace_up,
            stage: &stages[0],
            has_failed: &has_failed,
        },
        Way {
            from: far,
            to: near,
            window: unread_far,
            throttle: pace_down,
            stage: &stages[1],
            has_failed: &has_failed,
        },
    );
    let up = up.relay(&worker.scratch, order.a_prefix, |count| note(0, count));
    let down = down.relay(&worker.scratch, order.b_prefix, |count| note(1, count));
    let both = async {
        let fault = |a_to_b| move |fault| ExchangeEnd::Fault { a_to_b, fault };
        let mut up = pin!(async { up.await.map_err(fault(true)) });
        let mut down = pin!(async { down.await.map_err(fault(false)) });
        let (is_up, first) = tokio::select! {
            end = &mut up => (true, end),
            end = &mut down => (false, end),
        };
        has_failed.set(first.is_err());
        // Who takes nothing more may have sent something before, which the other side gets.
        let goes_on = match &first {
            Err(ExchangeEnd::Fault { fault, .. }) => fault.side == Side::To,
            _ => true,
        };
        let other = match (goes_on, is_up) {
            (false, _) => Ok(()),
            (true, true) => down.await,
            (true, false) => up.await,
        };
        first.and(other).err().unwrap_or(ExchangeEnd::Closed)
    };
    let is_stuck = Cell::new(false);
    let is_any = |stage| stages.iter().any(|any: &Cell<_>| any.get() == stage);
    let acked = || [near, far].map(Transport::acked_bytes);
    // A way that waits for its receiver does not see that its sender is lost.
    let lost = async || tokio::select! { () = near.lost() => true, () = far.lost() => false };
    let silence = async {
        let (mut idle, mut end) = (order.idle, ExchangeEnd::Idle);
        let mut seen_acked = acked();
        loop {
            let at: Instant = (now() + idle / LOOKS).min(moved_at.get() + idle);
            tokio::select! {
                () = tokio::time::sleep_until(at.into()) => {}
                a_to_b = lost(), if matches!(end, ExchangeEnd::Idle) => {
                    let fault = Fault::new(Side::From, "poll", ErrorKind::ConnectionReset.into());
                    end = ExchangeEnd::Fault { a_to_b, fault };
                    if stages[usize::from(!a_to_b)].get() == Stage::Ended {
                        return end;
                    }
                    idle = idle.min(LAST_BYTES_IDLE);
                    moved_at.set(now());
                }
            }
            let now_acked = acked();
            let was_acked = now_acked != seen_acked;
            seen_acked = now_acked;
            // What is held by pacing is not idle; and what a slow receiver takes does not make room for more at once.
            if is_any(Stage::Held) || is_any(Stage::Writing) && was_acked {
                moved_at.set(now());
            }
            if moved_at.get() + idle <= now() {
                is_stuck.set(true);
                return end;
            }
        }
    };
    let end = tokio::select! {
        biased;
        end = both => Some(end),
        () = worker.sessions.wait_for_cut_off() => None,
        end = silence => Some(end),
    };
    if let Some(ExchangeEnd::Fault { a_to_b, fault }) = &end
        && !is_stuck.get()
    {
        let has_near_failed = *a_to_b == (fault.side == Side::From);
        let survivor = if has_near_failed { far } else { near };
        // Streams of HTTP/2 share their connection with others.
        let tls = survivor.tls().map(TlsStream::socket);
        if let Some(socket) = survivor.tcp().or(tls) {
            worker.deliver(socket).await;
        }
    }
    let receivers = stages.iter().zip([far, near]);
    let is_quiet = receivers.into_iter().all(|(stage, to)| match stage.get() {
        Stage::Ended => true,
        Stage::Waiting => to.unacknowledged_bytes() == Some(0),
        Stage::Held | Stage::Writing => false,
    });
    Relayed {
        bytes: [bytes[0].get(), bytes[1].get()],
        engine: Engine::Copy,
        end,
        is_quiet,
        is_left: false,
    }
}

/// What a direction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// It waits for the receiver.
    #[default]
    Writing,
    /// It waits for the sender.
    Waiting,
    /// It waits for its turn to write.
    Held,
    /// The end was passed on.
    Ended,
}

/// One direction.
struct Way<'t> {
    from: &'t Transport,
    to: &'t Transport,
    window: UnreadWindow,
    throttle: Throttle,
    stage: &'t Cell<Stage>,
    /// Whether the other direction has failed: then an end here is that of a connection that was reset, and not passed on.
    has_failed: &'t Cell<bool>,
}

impl Way<'_> {
    /// Relays to the end, which is passed on. A buffer is borrowed only while there are bytes.
    async fn relay(
        mut self,
        buffers: &Rc<ScratchPool>,
        prefix: &[u8],
        note: impl Fn(usize),
    ) -> Result<(), Fault> {
        let fault = |side, call| move |source| Fault::new(side, call, source);
        let (from, to) = (self.from, self.to);
        let write = async |bytes: &[u8], count: &dyn Fn(usize)| {
            self.stage.set(Stage::Writing);
            let written = write_counting(to, bytes, count).await;
            self.stage.set(Stage::Waiting);
            written.map_err(fault(Side::To, "send"))
        };
        write(prefix, &|_| note(0)).await?;
        loop {
            poll_fn(|cx| from.poll_read_ready(cx))
                .await
                .map_err(fault(Side::From, "recv"))?;
            let mut lent = buffers.take();
            let count = match try_read_some(from, &mut lent.request) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                result => result.map_err(fault(Side::From, "recv"))?,
            };
            if count == 0 && self.has_failed.get() {
                return Ok(());
            }
            if count == 0 {
                to.end().map_err(fault(Side::To, "shutdown"))?;
                self.stage.set(Stage::Ended);
                return Ok(());
            }
            from.took(&mut self.window, count as u64);
            self.stage.set(Stage::Held);
            let held = to.wait_for(&mut self.throttle, count as u64).await;
            if !held.is_zero() {
                note(0);
            }
            write(&lent.request, &note).await?;
        }
    }
}

/// Writes all of `bytes`, and tells `note` of each part that is written.
async fn write_counting(to: &Transport, bytes: &[u8], note: &dyn Fn(usize)) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match to.try_write(rest) {
            Ok(count) => {
                done += count;
                note(count);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll_fn(|cx| to.poll_write_ready(cx)).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
