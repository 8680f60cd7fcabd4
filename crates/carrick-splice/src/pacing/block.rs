//! The control block (`struct pace_block` of bpf/pacing/pacing.h): in memory that workers and BPF programs share.

use super::skeleton;
use super::skeleton::types::{pace_block, pace_bucket, pace_class, pace_credit, pace_worker};
use crate::sys::mmap::Mmap;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, OpenObject};
use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// How many workers it has room for.
pub(super) const WORKERS: usize = array_len::<pace_worker>(
    offset_of!(pace_block, workers),
    offset_of!(pace_block, credits),
);

/// How many classes.
pub(super) const CLASSES: usize = array_len::<pace_class>(
    offset_of!(pace_block, classes),
    offset_of!(pace_block, buckets),
);

/// How many buckets.
pub(super) const BUCKETS: usize =
    array_len::<pace_bucket>(offset_of!(pace_block, buckets), size_of::<pace_block>());

const fn array_len<T>(start: usize, end: usize) -> usize {
    (end - start) / size_of::<T>()
}

/// The memory, and the map that it is, if it is one.
pub(super) struct Block {
    memory: Mmap,
    map: Option<MapHandle>,
}

impl Block {
    /// A block in which nothing is paced.
    pub(super) fn new() -> io::Result<Block> {
        let bytes = size_of::<pace_block>();
        if let Ok(map) = new_map()
            && let Ok(memory) = Mmap::map(map.as_fd(), bytes)
        {
            return Ok(Block {
                memory,
                map: Some(map),
            });
        }
        Ok(Block {
            memory: Mmap::anonymous(bytes)?,
            map: None,
        })
    }

    pub(super) fn map(&self) -> Option<BorrowedFd<'_>> {
        self.map.as_ref().map(AsFd::as_fd)
    }

    /// Grows when classes and buckets are changed.
    pub(super) fn changes(&self) -> &AtomicU64 {
        self.memory.word(offset_of!(pace_block, changes))
    }

    /// A field of a worker.
    pub(super) fn worker(&self, worker: u8, field: usize) -> &AtomicU64 {
        let at = usize::from(worker) % WORKERS * size_of::<pace_worker>();
        self.memory
            .word(offset_of!(pace_block, workers) + at + field)
    }

    /// A field of the credit that a class has with a worker.
    pub(super) fn credit(&self, worker: u8, class: u8, field: usize) -> &AtomicU64 {
        let number = usize::from(worker) % WORKERS * CLASSES + usize::from(class) % CLASSES;
        let at = number * size_of::<pace_credit>();
        self.memory
            .word(offset_of!(pace_block, credits) + at + field)
    }

    /// A field of a class.
    pub(super) fn class(&self, class: u8, field: usize) -> &AtomicU64 {
        let at = usize::from(class) % CLASSES * size_of::<pace_class>();
        self.memory
            .word(offset_of!(pace_block, classes) + at + field)
    }

    /// Makes a bucket one without limits that owes nothing.
    pub(super) fn clear_bucket(&self, bucket: u32) {
        for field in (0..size_of::<pace_bucket>()).step_by(size_of::<u64>()) {
            self.bucket(bucket, field).store(0, Relaxed);
        }
    }

    /// A field of a bucket.
    pub(super) fn bucket(&self, bucket: u32, field: usize) -> &AtomicU64 {
        let at = bucket as usize % BUCKETS * size_of::<pace_bucket>();
        self.memory
            .word(offset_of!(pace_block, buckets) + at + field)
    }
}

fn new_map() -> libbpf_rs::Result<MapHandle> {
    let printed = libbpf_rs::set_print(None);
    let mut object = MaybeUninit::<OpenObject>::uninit();
    let map = skeleton::PacingSkelBuilder::default()
        .open(&mut object)
        .and_then(|open| MapHandle::try_from(&open.load()?.maps.pace));
    libbpf_rs::set_print(printed);
    map
}
