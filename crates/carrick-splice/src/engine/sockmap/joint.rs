//! Two sockets in the SOCKMAP: their slots, and the bytes between them.

use super::shared::Direction;
use super::shelter::Shelter;
use super::{SocketEngine, filter};
use crate::engine::slot_owner::SlotOwner;
use crate::sys::sockopt::{RECEIVE_LOCK, buffer_locks, set_receive_low_water};
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

/// Bytes that may wait for the receiver's TCP in the kernel's queue. They wait for a kernel worker only, not
/// for the receiver to read (see `has_room` in bpf/sockmap/sockmap.bpf.c).
const BACKLOG_MAX: u64 = 1 << 20;

/// The receive window that a socket needs to be stilled: with a nearly closed one the program runs whatever
/// the low-water mark (`tcp_epollin_ready`). Several segments on loopback, hundreds elsewhere.
const WINDOW_MIN: u32 = 256 << 10;

/// How often what was left to the process is taken before the rest is sheltered; fewer bytes than this need
/// no further round.
const TAKES_BEFORE: u32 = 8;
const FEW_BYTES: u64 = 64 << 10;

/// Why a splice stays with the process.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// All slots are taken.
    Full,
    /// The connection of this side has failed.
    Broken(usize, Fault),
    /// The kernel did not take one of the sockets, usually because its connection is no longer established.
    Kernel(#[allow(dead_code, reason = "seen when debugging")] io::Error),
}

/// What the kernel is to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ways {
    /// Both directions.
    Both,
    /// Side 0's bytes, at most this many. Side 1's input is not touched.
    One {
        /// A piece that would exceed this is left to the process whole.
        bytes_max: u64,
    },
}

/// A slot for two sockets. Dropping it removes them from the maps, in whatever state they are.
pub(crate) struct Joint {
    engine: Arc<SocketEngine>,
    slot: u32,
    cookies: [u64; 2],
    /// The sides whose input the program sees.
    in_map: [bool; 2],
    /// Whether side 1 is in the map `receivers`.
    only_receives: bool,
    /// How often the process has begun to wait.
    waits: u32,
    /// Whether the program must wake it, asleep or not.
    is_waiting: bool,
    /// Bytes read from each socket when it was put into the map.
    consumed_before: [Option<u64>; 2],
    /// For a socket that is being taken out: where its input goes meanwhile.
    shelters: [Option<Shelter>; 2],
}

impl Joint {
    /// Puts both sockets into the maps. Both ways, everything is left to the process at first. Nothing may
    /// write to them meanwhile. If only one could be put there, the joint is not whole, and what the kernel
    /// has left to the process must be taken before it is dropped.
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
            // Dropped here, it has no socket in the map.
            Err(error) if !joint.in_map[0] => Err(Refusal::Kernel(error)),
            _ => Ok(joint),
        }
    }

    /// Whether both sockets are in the maps.
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
        // Nothing comes the other way. Clears what an earlier splice left there.
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

    /// The direction from this side.
    fn way(&self, side: usize) -> Direction<'_> {
        self.engine.directions.get(self.index(side))
    }

    /// Bytes from this side that the kernel has forwarded.
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

    /// Tells the kernel how many of these bytes the process has written to the other side. Once it is all of
    /// them, the kernel goes on.
    pub(crate) fn set_relayed_bytes(&self, side: usize, bytes: u64) {
        self.way(side).set_relayed_bytes(bytes);
    }

    /// Turns forwarding from this side on or off.
    pub(crate) fn set_redirecting(&self, side: usize, redirecting: bool) {
        self.way(side).set_redirecting(redirecting);
    }

    /// Leaves runs of more bytes without an answer to the process, in both directions.
    pub(crate) fn set_run_bytes_max(&self, bytes: u64) {
        for side in [0, 1] {
            self.way(side).set_run_bytes_max(bytes);
        }
    }

    /// Wakes the process when this many bytes from this side have been forwarded. `None`: never.
    pub(crate) fn set_look_bytes(&self, side: usize, bytes: Option<u64>) {
        self.way(side).set_look_bytes(bytes.unwrap_or(0));
    }

    /// Whether the kernel may forward what comes from this side.
    pub(crate) fn is_redirecting(&self, side: usize) -> bool {
        self.way(side).is_redirecting()
    }

    /// Leaves everything from this side to the process. Setting an option takes the socket's lock, so
    /// afterwards no program runs that does not know.
    pub(crate) fn stop(&self, side: usize, socket: &TcpStream) {
        self.set_redirecting(side, false);
        if self.in_map[side] {
            // It fails only for a closed descriptor.
            let _ = set_receive_low_water(socket, 1);
        }
    }

    /// Bytes from this side that the kernel has forwarded and `receiver`'s TCP does not have yet. `None` if
    /// the receiver's connection is gone, and they with it.
    ///
    /// Exact while nothing more is forwarded: after bytes were left to the process, until it has relayed
    /// them.
    pub(crate) fn backlog_bytes(
        &self,
        side: usize,
        receiver: &TcpStream,
    ) -> io::Result<Option<u64>> {
        let way = self.way(side);
        let given = way.receiver_base() + way.forwarded_bytes() + way.relayed_bytes();
        Ok(tcp_info::written_bytes(receiver)?.map(|written| given.saturating_sub(written)))
    }

    /// Whether the kernel still handles what this socket receives.
    pub(crate) fn is_in_map(&self, side: usize) -> bool {
        self.in_map[side]
    }

    /// Prepares to sleep: the process is woken when something is left to it, or a connection ends or fails.
    /// The caller then checks whether something was left to it before
    /// ([`passed_bytes`](Joint::passed_bytes)). False if there is no notifier.
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
        // It may have ended before it was watched.
        Ok(notifier.is_working())
    }

    /// The program must wake the process from now on.
    fn wait(&mut self, asleep: bool) {
        self.slot_owner().is_woken.store(false, SeqCst);
        self.waits = self.waits.checked_add(1).unwrap_or(1);
        self.is_waiting = true;
        for side in [0, 1] {
            let way = self.way(side);
            way.set_asleep(asleep);
            way.set_wake(self.waits);
        }
        // A barrier before checking what the program has done.
        fence(SeqCst);
    }

    fn slot_owner(&self) -> &SlotOwner {
        &self.engine.slot_owners[self.slot as usize]
    }

    /// Whether there is a reason to wake up. If not, registers `cx`.
    pub(crate) fn poll_woken(&self, cx: &mut Context<'_>) -> Poll<()> {
        let slot_owner = self.slot_owner();
        slot_owner.remember(cx);
        if slot_owner.is_woken.load(SeqCst) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Arranges to wake `cx` when the kernel forwards the last byte before the boundary, or loses one: epoll
    /// reports neither. The caller then checks whether it has happened before. False if there is no notifier.
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

    /// Takes a socket out of the map and returns what arrived meanwhile. `None`: a kernel worker still has
    /// something, or another socket uses the shelter; call again later, and read nothing from the socket
    /// until then. `take` takes what the kernel has left to the process so far and returns the total number
    /// of those bytes. Nothing may wait for this socket's own TCP.
    ///
    /// A socket that leaves the map forgets what was left to the process and not taken (`sk_psock_drop`), and
    /// loses a piece that the program handles at that moment (`sk_psock_verdict_recv`). So its input first
    /// goes to the shelter; and the socket is stilled: with a high low-water mark, arriving data rests in its
    /// queue without a call of the program (`tcp_data_ready`), except with a FIN, which a filter drops.
    /// Setting the mark takes the socket's lock, so afterwards no program runs that does not know.
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
                let _ = set_receive_low_water(socket, 1);
                self.give_up(side);
            }
        }
        outcome
    }

    /// Whether a socket is being taken out: [`take_out`](Joint::take_out) is to be called again.
    pub(crate) fn is_leaving(&self, side: usize) -> bool {
        self.shelters[side].is_some()
    }

    /// Removes a socket with whatever the kernel holds of it.
    pub(crate) fn give_up(&mut self, side: usize) {
        // Nothing more goes to the shelter; and what is in it must not surface in another connection.
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
        let fault = |source| Fault::new(Side::From, "socket", source);
        if !self.is_leaving(side) && !self.begin_leaving(side, socket, &mut take)? {
            return Ok(None);
        }
        if self.in_map[side] {
            // Reading would consume the error that the owner is to find.
            if is_closed(socket) {
                return Err(fault(io::ErrorKind::ConnectionReset.into()));
            }
            if take(self)? != self.passed_bytes(side) {
                // A kernel worker is about to put it into the queue.
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

    /// Sends input to the shelter from now on. False: another socket uses it.
    fn begin_leaving(
        &mut self,
        side: usize,
        socket: &TcpStream,
        mut take: impl FnMut(&Joint) -> Result<u64, Fault>,
    ) -> Result<bool, Fault> {
        let fault = |source| Fault::new(Side::From, "setsockopt", source);
        self.set_redirecting(side, false);
        // Takes most of it first, so that the shelter is needed only briefly. A fast sender adds more
        // meanwhile, but less each time.
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
        // From here on, no more is left to the process.
        set_receive_low_water(socket, 1).map_err(fault)?;
        Ok(true)
    }

    /// Takes a socket out of the map once the process has everything left to it.
    fn leave_map(&mut self, side: usize, socket: &TcpStream) -> io::Result<()> {
        let room = SockRef::from(socket).recv_buffer_size()?;
        set_receive_low_water(socket, room.min(i32::MAX as usize) as u32)?;
        let is_filtered = filter::attach(socket, self.engine.hold_end.as_fd())?;
        self.remove(side);
        if is_filtered {
            filter::detach(socket)?;
        }
        // This announces what rests in the queue. And it takes the lock: what went to the shelter is counted.
        set_receive_low_water(socket, 1)?;
        if self.has_gap(side, socket)? {
            let gap = "the kernel lost bytes while the socket was taken out";
            return Err(io::Error::other(gap));
        }
        Ok(())
    }

    /// Whether bytes have left this socket's queue and are not accounted for.
    fn has_gap(&self, side: usize, socket: &TcpStream) -> io::Result<bool> {
        let way = self.way(side);
        if way.has_gap() {
            return Ok(true);
        }
        let known = way.forwarded_bytes() + way.passed_bytes() + way.sheltered_bytes();
        let consumed = tcp_info::consumed_bytes(socket)?;
        Ok(match (self.consumed_before[side], consumed) {
            (Some(before), Some(after)) => after.wrapping_sub(before) != known,
            // A closed connection need not be complete.
            _ => false,
        })
    }

    fn remove(&mut self, side: usize) {
        // Both fail only if the socket was closed or reset and so left the map.
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

/// Ensures a receive buffer large enough for stilling. Setting the low-water mark lets the buffer grow to
/// that, and the kernel still tunes it (`tcp_set_rcvlowat`).
fn make_room(socket: &TcpStream) -> io::Result<()> {
    if buffer_locks(socket)? & RECEIVE_LOCK != 0
        && SockRef::from(socket).recv_buffer_size()? < 2 * WINDOW_MIN as usize
    {
        return Err(io::Error::other("its receive buffer is small and fixed"));
    }
    set_receive_low_water(socket, WINDOW_MIN)?;
    set_receive_low_water(socket, 1)
}

/// Whether a connection is closed altogether.
pub(crate) fn is_closed(socket: &TcpStream) -> bool {
    tcp_info::is_closed(socket)
}
