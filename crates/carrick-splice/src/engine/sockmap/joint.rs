//! Two sockets in the kernel's hands: their slots in the maps, and what is known of the bytes between them.

use super::shared::Direction;
use super::shelter::Shelter;
use super::{SocketEngine, filter};
use crate::engine::slot_owner::SlotOwner;
use crate::sys::tcp_info;
use crate::{Fault, PaceHandle, Side};
use libbpf_rs::{MapCore, MapFlags};
use socket2::SockRef;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::task::{Context, Poll};
use tokio::net::TcpStream;

/// Bytes that may wait for the receiver's TCP in the kernel's queue. They wait for a worker of the kernel only, not for
/// the receiver to read (see `has_room` in bpf/sockmap/sockmap.bpf.c).
const BACKLOG_MAX: u64 = 1 << 20;

/// The receive window that a socket needs, so that it can be stilled: one that is nearly closed asks the program whatever
/// the low-water mark says (`tcp_epollin_ready`). Several segments of loopback, hundreds of others.
const WINDOW_MIN: i32 = 256 << 10;

/// So often what was left to the process is taken before the rest is sheltered; once no more than so many bytes are left, that
/// is enough.
const TAKES_BEFORE: u32 = 8;
const FEW_BYTES: u64 = 64 << 10;

/// Why a splice does not go to the kernel.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// As many splices as can be are there already.
    Full,
    /// The connection of this side has failed.
    Broken(usize, Fault),
    /// The kernel did not take one of the sockets, mostly because its connection is not established any more.
    Kernel(#[allow(dead_code, reason = "seen when debugging")] io::Error),
}

/// What the kernel is to hand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ways {
    /// What comes from either side.
    Both,
    /// What comes from side 0, at most so many bytes. What side 1 receives is none of its business.
    One {
        /// A piece that goes beyond is left to the process whole.
        bytes_max: u64,
    },
}

/// A slot for two sockets. Dropping it takes them out of the kernel's hands, in whatever state they are.
pub(crate) struct Joint {
    engine: Arc<SocketEngine>,
    slot: u32,
    cookies: [u64; 2],
    /// Whose input the program sees.
    in_map: [bool; 2],
    /// Whether side 1 is in the map of those that only receive.
    only_receives: bool,
    /// How often the process has begun to wait for being woken.
    waits: u32,
    /// Whether the program is to wake it, asleep or not.
    is_waiting: bool,
    /// What had been taken out of each socket's queue when it was put into the map.
    consumed_before: [Option<u64>; 2],
    /// Of a socket that is being taken out: where goes what comes meanwhile.
    shelters: [Option<Shelter>; 2],
}

impl Joint {
    /// Puts both sockets into the kernel's hands; both ways, it leaves everything to the process yet. Nobody may be writing to
    /// them. If only one could be put there, the joint is not whole, and
    /// what the kernel has left to the process must be taken before it is dropped.
    pub(crate) fn new(
        engine: &Arc<SocketEngine>,
        sockets: [&TcpStream; 2],
        ways: Ways,
        label: u64,
        pace: [PaceHandle; 2],
    ) -> Result<Joint, Refusal> {
        let slot = engine.take_slot(label).ok_or(Refusal::Full)?;
        let mut joint = Joint {
            engine: Arc::clone(engine),
            slot,
            cookies: [0; 2],
            in_map: [false; 2],
            only_receives: false,
            waits: 0,
            is_waiting: false,
            consumed_before: [None; 2],
            shelters: [None, None],
        };
        let filled = match ways {
            Ways::Both => joint.fill(sockets, pace),
            Ways::One { bytes_max } => joint.fill_one_way(sockets, bytes_max, pace[0]),
        };
        match filled {
            // What is dropped here has no socket in the map.
            Err(error) if !joint.in_map[0] => Err(Refusal::Kernel(error)),
            _ => Ok(joint),
        }
    }

    /// Whether both sockets are in the kernel's hands.
    pub(crate) fn is_whole(&self) -> bool {
        self.in_map == [true, !self.only_receives]
    }

    fn fill(&mut self, sockets: [&TcpStream; 2], pace: [PaceHandle; 2]) -> io::Result<()> {
        for socket in sockets {
            make_room(socket)?;
        }
        for side in [0, 1] {
            let way = self.way(side);
            way.clear();
            let base = tcp_info::base_bytes(sockets[1 - side])?;
            way.begin(base, BACKLOG_MAX, u64::MAX);
            way.set_pace(pace[side]);
        }
        for side in [0, 1] {
            self.insert(side, sockets[side])?;
        }
        Ok(())
    }

    fn fill_one_way(
        &mut self,
        [from, to]: [&TcpStream; 2],
        bytes_max: u64,
        pace: PaceHandle,
    ) -> io::Result<()> {
        make_room(from)?;
        self.only_receives = true;
        let way = self.way(0);
        way.clear();
        way.begin(tcp_info::base_bytes(to)?, BACKLOG_MAX, bytes_max);
        way.set_only_receives();
        way.set_pace(pace);
        // Nothing comes the other way. Whoever looks sees that, and not what was there before.
        self.way(1).clear();
        way.set_redirecting(true);
        let descriptor = u64::try_from(to.as_raw_fd()).unwrap_or(u64::MAX);
        self.engine
            .receivers
            .update(
                &self.index(1).to_ne_bytes(),
                &descriptor.to_ne_bytes(),
                MapFlags::NO_EXIST,
            )
            .map_err(io::Error::other)?;
        self.insert(0, from)
    }

    /// Shows what this socket receives to the program.
    fn insert(&mut self, side: usize, socket: &TcpStream) -> io::Result<()> {
        self.consumed_before[side] = tcp_info::consumed_bytes(socket)?;
        let cookie = rustix::net::sockopt::socket_cookie(socket)?;
        self.cookies[side] = cookie;
        let index = self.index(side).to_ne_bytes();
        self.engine
            .slots
            .update(&cookie.to_ne_bytes(), &index, MapFlags::ANY)
            .map_err(io::Error::other)?;
        let descriptor = u64::try_from(socket.as_raw_fd()).unwrap_or(u64::MAX);
        self.engine
            .sockets
            .update(&index, &descriptor.to_ne_bytes(), MapFlags::NO_EXIST)
            .map_err(io::Error::other)?;
        self.in_map[side] = true;
        Ok(())
    }

    fn index(&self, side: usize) -> u32 {
        2 * self.slot + u32::from(side == 1)
    }

    /// What comes from this side.
    fn way(&self, side: usize) -> Direction<'_> {
        self.engine.directions.get(self.index(side))
    }

    /// Bytes from this side that the kernel has handed on.
    pub(crate) fn forwarded_bytes(&self, side: usize) -> u64 {
        self.way(side).forwarded_bytes()
    }

    /// Bytes from this side that were left to the process.
    pub(crate) fn passed_bytes(&self, side: usize) -> u64 {
        self.way(side).passed_bytes()
    }

    /// Whether bytes from this side were lost: the kernel had no memory to cut a piece.
    pub(crate) fn is_broken(&self, side: usize) -> bool {
        self.way(side).has_gap()
    }

    /// Tells the kernel how many of these bytes the process has written to the other side. When it is all of them, the
    /// kernel goes on.
    pub(crate) fn set_relayed_bytes(&self, side: usize, bytes: u64) {
        self.way(side).set_relayed_bytes(bytes);
    }

    /// Lets the kernel hand on what comes from this side, or does not.
    pub(crate) fn set_redirecting(&self, side: usize, redirecting: bool) {
        self.way(side).set_redirecting(redirecting);
    }

    /// Leaves to the process what comes without an answer for so many bytes, either way.
    pub(crate) fn set_run_bytes_max(&self, bytes: u64) {
        for side in [0, 1] {
            self.way(side).set_run_bytes_max(bytes);
        }
    }

    /// Wakes the process when so many bytes from this side have been handed on. `None`: whatever their number.
    pub(crate) fn set_look_bytes(&self, side: usize, bytes: Option<u64>) {
        self.way(side).set_look_bytes(bytes.unwrap_or(0));
    }

    /// Whether the kernel may hand on what comes from this side.
    pub(crate) fn is_redirecting(&self, side: usize) -> bool {
        self.way(side).is_redirecting()
    }

    /// Leaves everything to the process that comes from this side. Afterwards no program is under way that does not know of
    /// it: setting an option takes the socket's lock.
    pub(crate) fn stop(&self, side: usize, socket: &TcpStream) {
        self.set_redirecting(side, false);
        if self.in_map[side] {
            // It fails for nothing but a closed descriptor.
            let _ = tcp_info::set_receive_low_water(socket, 1);
        }
    }

    /// Bytes from this side that the kernel has handed on and that `receiver`'s TCP does not have yet. `None` if the
    /// receiver's connection is gone, and they with it.
    ///
    /// Exact while nothing more is handed on: after bytes were left to the process, until it has relayed them.
    pub(crate) fn backlog_bytes(
        &self,
        side: usize,
        receiver: &TcpStream,
    ) -> io::Result<Option<u64>> {
        let way = self.way(side);
        let given = way.receiver_base() + way.forwarded_bytes() + way.relayed_bytes();
        Ok(tcp_info::written_bytes(receiver)?.map(|written| given.saturating_sub(written)))
    }

    /// Whether what this socket receives is still in the kernel's hands.
    pub(crate) fn is_in_map(&self, side: usize) -> bool {
        self.in_map[side]
    }

    /// From now on the process sleeps: it is woken when something is left to it, or a connection ends or fails. Whoever
    /// calls this looks afterwards whether something was left to it before ([`passed_bytes`](Joint::passed_bytes)).
    /// False if there is nobody to wake it.
    pub(crate) fn sleep(&mut self, connections: [BorrowedFd<'_>; 2]) -> io::Result<bool> {
        let engine = Arc::clone(&self.engine);
        let Some(notifier) = engine.notifier() else {
            return Ok(false);
        };
        self.wait(true);
        for (side, connection) in connections.into_iter().enumerate() {
            if let Err(error) = notifier.watch(connection, self.slot) {
                if side == 1 {
                    let _ = notifier.forget(connections[0]);
                }
                self.stop_waking();
                return Err(error);
            }
        }
        // It may have ended before it could be told.
        Ok(notifier.is_working())
    }

    /// The program is to wake the process from now on.
    fn wait(&mut self, asleep: bool) {
        self.slot_owner().is_woken.store(false, SeqCst);
        self.waits = self.waits.checked_add(1).unwrap_or(1);
        self.is_waiting = true;
        for side in [0, 1] {
            let way = self.way(side);
            way.set_asleep(asleep);
            way.set_wake(self.waits);
        }
        // Between this and a look at what the program has done.
        fence(SeqCst);
    }

    fn slot_owner(&self) -> &SlotOwner {
        &self.engine.slot_owners[self.slot as usize]
    }

    /// Whether there is a reason to wake up. If not, `cx` learns of it.
    pub(crate) fn poll_woken(&self, cx: &mut Context<'_>) -> Poll<()> {
        let slot_owner = self.slot_owner();
        slot_owner.remember(cx);
        if slot_owner.is_woken.load(SeqCst) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Sees to `cx` being woken when the kernel hands on the last byte before the agreed end, or loses one: epoll does not
    /// tell. Whoever calls this looks afterwards whether it has happened before. False if there is nobody to wake it.
    pub(crate) fn listen(&mut self, cx: &mut Context<'_>) -> bool {
        let is_heard = self.engine.notifier().is_some();
        if is_heard {
            self.slot_owner().remember(cx);
            if !self.is_waiting || self.slot_owner().is_woken.load(SeqCst) {
                self.wait(false);
            }
        }
        is_heard
    }

    /// The process is awake.
    pub(crate) fn wake_up(&mut self, connections: [BorrowedFd<'_>; 2]) {
        self.stop_waking();
        if let Some(notifier) = self.engine.notifier() {
            for connection in connections {
                // Fails only if it is not there.
                let _ = notifier.forget(connection);
            }
        }
    }

    fn stop_waking(&mut self) {
        self.is_waiting = false;
        for side in [0, 1] {
            self.way(side).set_wake(0);
        }
        self.slot_owner().forget();
    }

    /// Takes a socket out of the kernel's hands and gives what came in meanwhile. `None`: a worker of the kernel has something yet, or the
    /// shelter is another one's; whoever gets that calls this again in a while, and reads nothing from the socket until then.
    /// `take` takes what the kernel has left to the process until now and tells how many bytes that are since the beginning.
    /// Nothing may wait for this socket's own TCP.
    ///
    /// A socket that leaves the map forgets what was left to the process and not taken (`sk_psock_drop`), and a piece that
    /// the program looks at in that moment is lost (`sk_psock_verdict_recv`). So from the beginning what comes goes to the
    /// shelter; and the socket is stilled: with a high low-water mark, what arrives rests in its queue and the program is
    /// not asked (`tcp_data_ready`), but for an end of stream, which a filter holds back. Setting the mark takes the socket's
    /// lock, so that afterwards no program is under way that knows of nothing.
    pub(crate) fn take_out(
        &mut self,
        side: usize,
        socket: &TcpStream,
        take: impl FnMut(&Joint) -> Result<u64, Fault>,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let outcome = self.take_out_by(side, socket, take);
        match &outcome {
            Ok(None) => {}
            Ok(Some(_)) => *self.engine.shelter() = self.shelters[side].take(),
            Err(_) => {
                let _ = tcp_info::set_receive_low_water(socket, 1);
                self.give_up(side);
            }
        }
        outcome
    }

    /// Whether a socket is being taken out: [`take_out`](Joint::take_out) is to be called again.
    pub(crate) fn is_leaving(&self, side: usize) -> bool {
        self.shelters[side].is_some()
    }

    /// Removes a socket with whatever the kernel has of it.
    pub(crate) fn give_up(&mut self, side: usize) {
        // Nothing more goes to the shelter; and whatever is in it must not surface in somebody else's connection.
        self.way(side).leave_shelter();
        self.remove(side);
        if let Some(mut shelter) = self.shelters[side].take() {
            shelter.soil();
            *self.engine.shelter() = Some(shelter);
        }
    }

    fn take_out_by(
        &mut self,
        side: usize,
        socket: &TcpStream,
        mut take: impl FnMut(&Joint) -> Result<u64, Fault>,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let fault = |source| Fault {
            side: Side::From,
            call: "socket",
            source,
        };
        if !self.is_leaving(side) && !self.begin_leaving(side, socket, &mut take)? {
            return Ok(None);
        }
        if self.in_map[side] {
            // Reading would take the error that the owner is to find.
            if is_closed(socket) {
                return Err(fault(io::ErrorKind::ConnectionReset.into()));
            }
            if take(self)? != self.passed_bytes(side) {
                // A worker of the kernel is about to put it into the queue.
                return Ok(None);
            }
            self.leave_map(side, socket).map_err(fault)?;
        }
        let sheltered_bytes = self.way(side).sheltered_bytes();
        match &mut self.shelters[side] {
            Some(shelter) => shelter.take(sheltered_bytes).map_err(fault),
            None => Ok(None),
        }
    }

    /// What comes goes to the shelter from now on. False: somebody else has that.
    fn begin_leaving(
        &mut self,
        side: usize,
        socket: &TcpStream,
        mut take: impl FnMut(&Joint) -> Result<u64, Fault>,
    ) -> Result<bool, Fault> {
        let fault = |source| Fault {
            side: Side::From,
            call: "setsockopt",
            source,
        };
        self.set_redirecting(side, false);
        // Most of it first, so that the shelter is needed for a moment only. While a fast sender goes on, more comes meanwhile, but
        // less each time.
        for _ in 0..TAKES_BEFORE {
            let taken = take(self)?;
            if self.passed_bytes(side) - taken <= FEW_BYTES {
                break;
            }
        }
        let engine = Arc::clone(&self.engine);
        let Some(shelter) = engine.shelter().take() else {
            return Ok(false);
        };
        let shelter = self.shelters[side].insert(shelter);
        shelter.make_clean(&engine.sockets).map_err(fault)?;
        let index = shelter.index();
        self.way(side).set_shelter(index);
        // What is left to the process does not grow any more.
        tcp_info::set_receive_low_water(socket, 1).map_err(fault)?;
        Ok(true)
    }

    /// Takes a socket out of the map, of which the process has all that was left to it.
    fn leave_map(&mut self, side: usize, socket: &TcpStream) -> io::Result<()> {
        let room = SockRef::from(socket).recv_buffer_size()?;
        tcp_info::set_receive_low_water(socket, i32::try_from(room).unwrap_or(i32::MAX))?;
        let is_filtered = filter::attach(socket, self.engine.hold_end.as_fd())?;
        self.remove(side);
        if is_filtered {
            filter::detach(socket)?;
        }
        // Whatever rests in the queue is announced by this. And it takes the lock: what was put into the shelter is counted.
        tcp_info::set_receive_low_water(socket, 1)?;
        if self.has_gap(side, socket)? {
            let gap = "the kernel lost bytes while the socket was taken out";
            return Err(io::Error::other(gap));
        }
        Ok(())
    }

    /// Whether bytes have left this socket's queue and came out nowhere.
    fn has_gap(&self, side: usize, socket: &TcpStream) -> io::Result<bool> {
        let way = self.way(side);
        if way.has_gap() {
            return Ok(true);
        }
        let known = way.forwarded_bytes() + way.passed_bytes() + way.sheltered_bytes();
        let consumed = tcp_info::consumed_bytes(socket)?;
        Ok(match (self.consumed_before[side], consumed) {
            (Some(before), Some(after)) => after.wrapping_sub(before) != known,
            // Of a connection that is gone nobody expects everything.
            _ => false,
        })
    }

    fn remove(&mut self, side: usize) {
        // Both fail only if the socket has left the map by itself, having been closed or reset.
        let _ = self.engine.sockets.delete(&self.index(side).to_ne_bytes());
        let _ = self.engine.slots.delete(&self.cookies[side].to_ne_bytes());
        self.in_map[side] = false;
    }
}

impl Drop for Joint {
    fn drop(&mut self) {
        self.stop_waking();
        for side in [0, 1] {
            self.set_redirecting(side, false);
            if self.in_map[side] || self.is_leaving(side) {
                self.give_up(side);
            } else if self.cookies[side] != 0 {
                let _ = self.engine.slots.delete(&self.cookies[side].to_ne_bytes());
            }
        }
        if self.only_receives {
            // Fails only if the socket has left the map by itself.
            let _ = self.engine.receivers.delete(&self.index(1).to_ne_bytes());
        }
        self.engine.give_slot(self.slot);
    }
}

/// Sees to a receive buffer of a size at which the socket can be stilled. Setting the low-water mark lets the buffer grow
/// as far, and the kernel still sizes it by itself (`tcp_set_rcvlowat`).
fn make_room(socket: &TcpStream) -> io::Result<()> {
    if tcp_info::has_fixed_receive_buffer(socket)?
        && SockRef::from(socket).recv_buffer_size()? < 2 * WINDOW_MIN as usize
    {
        return Err(io::Error::other("its receive buffer is small and fixed"));
    }
    tcp_info::set_receive_low_water(socket, WINDOW_MIN)?;
    tcp_info::set_receive_low_water(socket, 1)
}

/// Whether a connection is gone altogether.
pub(crate) fn is_closed(socket: &TcpStream) -> bool {
    tcp_info::is_closed(socket)
}
