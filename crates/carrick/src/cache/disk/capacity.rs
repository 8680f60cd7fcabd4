//! Taking and giving back capacity: what the configuration allows, and what the file system has room for, whichever is less.
use super::Disk;
use super::entry::{Entry, Stage};
use super::format::file_bytes;
use super::health::Operation;
use super::purge_ticket::PurgeTicket;
use super::room::Room;
use crate::cache::index::Item;
use crate::cache::ledger::Ledger;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

impl Disk {
    /// Whether less than nine tenths of the capacity are taken, so that nothing has to be evicted for a new object.
    pub(in crate::cache) fn is_roomy(&self) -> bool {
        self.ledger.used() < self.ledger.bytes_max() / 10 * 9
            && self.ledger.objects() < self.limits.objects * 9 / 10
    }

    /// Whether a body of so many bytes could be stored now, if necessary in place of others.
    pub(in crate::cache) fn could_take(self: &Arc<Self>, body_bytes: u64) -> bool {
        if body_bytes > self.ledger.object_bytes_max() || self.health.is_resting() {
            return false;
        }
        let has_room = self.has_room(body_bytes);
        if !has_room {
            self.health.note_full(body_bytes, *self.room());
        }
        if self.health.is_time_to_look() {
            // Other programs may have used or freed space.
            let disk = Arc::clone(self);
            self.pool.chore(move || disk.look_for_room());
        }
        has_room
    }

    /// Whether the file system is known to have room for a body. Until all files are indexed, nothing is evicted for it.
    fn has_room(&self, body_bytes: u64) -> bool {
        if self.is_indexed.load(Ordering::Acquire) {
            self.ledger.could_take(file_bytes(0, body_bytes))
        } else {
            let room = *self.room();
            room.free_bytes >= body_bytes.saturating_add(room.reserve_bytes())
        }
    }

    /// Reads how much space the file system has, and evicts what is too much for it. Called by a thread of the pool.
    pub(super) fn look_for_room(&self) {
        match self.folder.room() {
            Ok(room) => {
                *self.room() = room;
                self.keep_to(room);
            }
            Err(error) => self.health.note(Operation::Reading, &error),
        }
    }

    /// Other programs use the file system, too, so there may be less space than the configuration allows. Then objects are evicted until
    /// the reserve is free, and no more than that are taken.
    fn keep_to(&self, room: Room) {
        if !self.is_indexed.load(Ordering::Acquire) {
            return;
        }
        // What waits to be written is not on the file system yet.
        let written_bytes = (self.ledger.used()).saturating_sub(self.pool.write_bytes());
        let there_bytes =
            (written_bytes.saturating_add(room.free_bytes)).saturating_sub(room.reserve_bytes());
        let bytes_max = self.limits.bytes.min(there_bytes);
        self.ledger.limit_bytes(bytes_max);
        while self.ledger.is_above_limit() && self.evict_one() {}
        self.health.note_room(bytes_max);
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes capacity for an object whose file has this length, and evicts others for it; `false`: that is impossible.
    pub(super) fn take(&self, bytes: u64) -> bool {
        self.take_bytes(bytes)
            && (self.take_with(Ledger::try_take_object) || {
                self.ledger.give_back(bytes);
                false
            })
    }

    /// Takes more for an object that is growing; `false`: that is impossible.
    pub(super) fn take_bytes(&self, bytes: u64) -> bool {
        self.ledger.could_take(bytes) && self.take_with(|ledger| ledger.try_take(bytes))
    }

    fn take_with(&self, take: impl Fn(&Ledger) -> bool) -> bool {
        while !take(&self.ledger) {
            if !self.evict_one() {
                return false;
            }
        }
        true
    }

    /// Gives back what [`take`](Self::take) took.
    pub(super) fn give_back(&self, bytes: u64) {
        self.ledger.give_back(bytes);
        self.ledger.give_back_object();
    }

    /// Evicts one object; `false`: there is none.
    fn evict_one(&self) -> bool {
        let Some(evicted) = self.index.evict_one(self.ledger.objects()) else {
            return false;
        };
        self.let_go(&evicted, None);
        if evicted.open_files.load(Ordering::Relaxed) > 0 {
            let left_open = self.left_open.lock();
            left_open
                .unwrap_or_else(PoisonError::into_inner)
                .push(evicted);
            self.has_left_open.store(true, Ordering::Release);
        }
        true
    }

    /// Entries that were evicted while their files were open. An open file keeps its blocks, so memory must close it.
    pub(in crate::cache) fn left_open(&self) -> Vec<Arc<Entry>> {
        // Called at each hit. Reading first keeps the cache line shared between workers.
        if !self.has_left_open.load(Ordering::Relaxed)
            || !self.has_left_open.swap(false, Ordering::Acquire)
        {
            return Vec::new();
        }
        let mut left_open = self
            .left_open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *left_open)
    }

    /// Gives back what an entry that left the index had taken, and removes its file; if the file is still being written, its writer
    /// removes it.
    pub(super) fn let_go(&self, entry: &Arc<Entry>, ticket: Option<&Arc<PurgeTicket>>) {
        self.give_back(entry.charged_bytes());
        if entry.leave() == Stage::There {
            self.remove_file(entry.name, ticket);
        }
        let pending = entry.changes().clear();
        drop(pending);
    }
}
