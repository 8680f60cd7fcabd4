//! The memory that the verdict program and the process share: one `struct direction` of bpf/sockmap/sockmap.h per direction.

use super::skeleton::types::direction;
use crate::PaceHandle;
use crate::sys::mmap::Mmap;
use std::mem::{offset_of, size_of};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

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
            directions: self,
            offset: size_of::<direction>() * index as usize,
        }
    }
}

/// One direction of one splice. Each field has one writer: the program or the process.
#[derive(Clone, Copy)]
pub(super) struct Direction<'d> {
    directions: &'d Directions,
    offset: usize,
}

impl Direction<'_> {
    fn read(&self, field: usize) -> u64 {
        self.directions
            .memory
            .word(self.offset + field)
            .load(Ordering::Acquire)
    }

    fn write(&self, field: usize, value: u64) {
        self.directions
            .memory
            .word(self.offset + field)
            .store(value, Ordering::Release);
    }

    /// Makes it as new. Only while no program knows its slot.
    pub(super) fn clear(&self) {
        for field in (0..size_of::<direction>()).step_by(8) {
            self.write(field, 0);
        }
    }

    /// Bytes that the kernel has handed to the receiver's queue.
    pub(super) fn forwarded_bytes(&self) -> u64 {
        self.read(offset_of!(direction, forwarded_bytes))
    }

    /// Bytes that were left to the process.
    pub(super) fn passed_bytes(&self) -> u64 {
        self.read(offset_of!(direction, passed_bytes))
    }

    /// As if so many had been, some of which a worker of the kernel has yet.
    #[cfg(test)]
    pub(super) fn set_passed_bytes(&self, bytes: u64) {
        self.write(offset_of!(direction, passed_bytes), bytes);
    }

    /// Bytes that the process has written to the receiver, of those that were left to it.
    pub(super) fn relayed_bytes(&self) -> u64 {
        self.read(offset_of!(direction, relayed_bytes))
    }

    /// Tells the program how many bytes the process has written. They are in the receiver's TCP before this is seen.
    pub(super) fn set_relayed_bytes(&self, bytes: u64) {
        self.write(offset_of!(direction, relayed_bytes), bytes);
    }

    /// What the receiver's TCP had been given when the splice began.
    pub(super) fn receiver_base(&self) -> u64 {
        self.read(offset_of!(direction, receiver_base))
    }

    /// Sets where the splice begins, how many bytes may wait for the receiver's TCP, and after how many bytes from the sender
    /// nothing more is handed on.
    pub(super) fn begin(&self, receiver_base: u64, backlog_max: u64, bytes_max: u64) {
        self.write(offset_of!(direction, receiver_base), receiver_base);
        self.write(offset_of!(direction, backlog_max), backlog_max);
        self.write(offset_of!(direction, bytes_max), bytes_max);
    }

    /// The receiver is in the map of those that only receive.
    pub(super) fn set_only_receives(&self) {
        self.directions
            .memory
            .half_word(self.offset + offset_of!(direction, only_receives))
            .store(1, Ordering::Release);
    }

    /// Whether bytes were lost.
    pub(super) fn has_gap(&self) -> bool {
        self.directions
            .memory
            .half_word(self.offset + offset_of!(direction, gap))
            .load(Ordering::Acquire)
            != 0
    }

    /// Bytes that the kernel has put into the shelter.
    pub(super) fn sheltered_bytes(&self) -> u64 {
        self.read(offset_of!(direction, sheltered_bytes))
    }

    /// Nothing goes to the shelter any more.
    pub(super) fn leave_shelter(&self) {
        self.directions
            .memory
            .half_word(self.offset + offset_of!(direction, shelter))
            .store(0, Ordering::Release);
    }

    /// Whether the process is to be woken also when something is left to it.
    pub(super) fn set_asleep(&self, asleep: bool) {
        self.directions
            .memory
            .half_word(self.offset + offset_of!(direction, is_asleep))
            .store(u32::from(asleep), Ordering::SeqCst);
    }

    /// Whether, and for which time, the process is to be woken at the agreed end, and when bytes are lost.
    pub(super) fn set_wake(&self, time: u32) {
        self.directions
            .memory
            .half_word(self.offset + offset_of!(direction, wake))
            .store(time, Ordering::SeqCst);
    }

    /// From now on everything goes to the socket at `index` of the map.
    pub(super) fn set_shelter(&self, index: u32) {
        self.directions
            .memory
            .half_word(self.offset + offset_of!(direction, shelter))
            .store(index + 1, Ordering::Release);
    }

    /// How it is paced.
    pub(super) fn set_pace(&self, pace: PaceHandle) {
        self.write(offset_of!(direction, pace), pace.to_bits());
    }

    /// The process is to be woken when so many bytes have been handed on; 0: whatever their number.
    pub(super) fn set_look_bytes(&self, bytes: u64) {
        self.write(offset_of!(direction, look_bytes), bytes);
    }

    /// What is longer, without anything coming the other way, is left to the process.
    pub(super) fn set_run_bytes_max(&self, bytes: u64) {
        self.write(offset_of!(direction, run_bytes_max), bytes);
    }

    /// Whether the program may hand bytes to the receiver.
    pub(super) fn is_redirecting(&self) -> bool {
        self.directions
            .memory
            .half_word(self.offset + offset_of!(direction, redirecting))
            .load(Ordering::Acquire)
            != 0
    }

    /// Whether the program hands bytes to the receiver, where it may, or leaves everything to the process.
    pub(super) fn set_redirecting(&self, redirecting: bool) {
        self.directions
            .memory
            .half_word(self.offset + offset_of!(direction, redirecting))
            .store(u32::from(redirecting), Ordering::Release);
    }
}
