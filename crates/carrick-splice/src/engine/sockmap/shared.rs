//! The memory shared by the verdict program and the process: one `struct direction` of bpf/sockmap/sockmap.h
//! per direction.

use super::skeleton::types::direction;
use crate::PaceHandle;
use crate::sys::mmap::Mmap;
use std::mem::{offset_of, size_of};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// All directions, mapped into this process.
pub(super) struct Directions {
    memory: Mmap,
    count: u32,
}

impl Directions {
    /// Maps the array map `map`, which has `count` entries.
    pub(super) fn map(map: BorrowedFd<'_>, count: u32) -> std::io::Result<Directions> {
        let bytes = size_of::<direction>() * count as usize;
        Ok(Directions {
            memory: Mmap::map(map, bytes)?,
            count,
        })
    }

    /// One direction.
    pub(super) fn get(&self, index: u32) -> Direction<'_> {
        assert!(index < self.count, "a direction that does not exist");
        Direction {
            memory: &self.memory,
            offset: size_of::<direction>() * index as usize,
        }
    }
}

/// One direction of one splice. Each field has one writer: the program or the process.
#[derive(Clone, Copy)]
pub(super) struct Direction<'d> {
    memory: &'d Mmap,
    offset: usize,
}

impl Direction<'_> {
    fn read(&self, field: usize) -> u64 {
        self.memory
            .word(self.offset + field)
            .load(Ordering::Acquire)
    }

    fn write(&self, field: usize, value: u64) {
        (self.memory.word(self.offset + field)).store(value, Ordering::Release);
    }

    fn half_word(&self, field: usize) -> &AtomicU32 {
        self.memory.half_word(self.offset + field)
    }

    /// Resets it. Only while no program knows its slot.
    pub(super) fn clear(&self) {
        for field in (0..size_of::<direction>()).step_by(8) {
            self.write(field, 0);
        }
    }

    /// Bytes forwarded to the receiver's queue.
    pub(super) fn forwarded_bytes(&self) -> u64 {
        self.read(offset_of!(direction, forwarded_bytes))
    }

    /// Bytes left to the process.
    pub(super) fn passed_bytes(&self) -> u64 {
        self.read(offset_of!(direction, passed_bytes))
    }

    /// Sets this number, of which a kernel worker still has some.
    #[cfg(test)]
    pub(super) fn set_passed_bytes(&self, bytes: u64) {
        self.write(offset_of!(direction, passed_bytes), bytes);
    }

    /// Of these, bytes that the process has written to the receiver.
    pub(super) fn relayed_bytes(&self) -> u64 {
        self.read(offset_of!(direction, relayed_bytes))
    }

    /// Tells the program how many bytes the process has written. They are in the receiver's TCP before this is seen.
    pub(super) fn set_relayed_bytes(&self, bytes: u64) {
        self.write(offset_of!(direction, relayed_bytes), bytes);
    }

    /// Bytes in the receiver's TCP when the splice began.
    pub(super) fn receiver_base(&self) -> u64 {
        self.read(offset_of!(direction, receiver_base))
    }

    /// Sets where the splice begins, how many bytes may wait for the receiver's TCP, and the number of bytes
    /// after which forwarding stops.
    pub(super) fn begin(&self, receiver_base: u64, backlog_max: u64, bytes_max: u64) {
        self.write(offset_of!(direction, receiver_base), receiver_base);
        self.write(offset_of!(direction, backlog_max), backlog_max);
        self.write(offset_of!(direction, bytes_max), bytes_max);
    }

    /// The receiver is in the map `receivers`.
    pub(super) fn set_only_receives(&self) {
        self.half_word(offset_of!(direction, only_receives))
            .store(1, Ordering::Release);
    }

    /// Whether bytes were lost.
    pub(super) fn has_gap(&self) -> bool {
        self.half_word(offset_of!(direction, gap))
            .load(Ordering::Acquire)
            != 0
    }

    /// Bytes that the kernel has put into the shelter.
    pub(super) fn sheltered_bytes(&self) -> u64 {
        self.read(offset_of!(direction, sheltered_bytes))
    }

    /// Stops the use of the shelter.
    pub(super) fn leave_shelter(&self) {
        self.half_word(offset_of!(direction, shelter))
            .store(0, Ordering::Release);
    }

    /// Whether to wake the process also when something is left to it.
    pub(super) fn set_asleep(&self, asleep: bool) {
        self.half_word(offset_of!(direction, is_asleep))
            .store(u32::from(asleep), Ordering::SeqCst);
    }

    /// The number of the wait for which to wake the process at the boundary, and when bytes are lost; 0: do
    /// not.
    pub(super) fn set_wake(&self, time: u32) {
        self.half_word(offset_of!(direction, wake))
            .store(time, Ordering::SeqCst);
    }

    /// Sends everything to the socket at `index` of the map from now on.
    pub(super) fn set_shelter(&self, index: u32) {
        self.half_word(offset_of!(direction, shelter))
            .store(index + 1, Ordering::Release);
    }

    /// Its pacing.
    pub(super) fn set_pace(&self, pace: PaceHandle) {
        self.write(offset_of!(direction, pace), pace.to_bits());
    }

    /// Wakes the process when this many bytes have been forwarded; 0: never.
    pub(super) fn set_look_bytes(&self, bytes: u64) {
        self.write(offset_of!(direction, look_bytes), bytes);
    }

    /// Leaves longer runs without an answer to the process.
    pub(super) fn set_run_bytes_max(&self, bytes: u64) {
        self.write(offset_of!(direction, run_bytes_max), bytes);
    }

    /// Whether the program may forward to the receiver.
    pub(super) fn is_redirecting(&self) -> bool {
        self.half_word(offset_of!(direction, redirecting))
            .load(Ordering::Acquire)
            != 0
    }

    /// Sets whether the program forwards to the receiver, or leaves everything to the process.
    pub(super) fn set_redirecting(&self, redirecting: bool) {
        self.half_word(offset_of!(direction, redirecting))
            .store(u32::from(redirecting), Ordering::Release);
    }
}
