//! What the kernel notes of forwarded responses (`struct packet_response` of bpf/packet.h), in memory that it shares with the process.

use super::skeleton::types::packet_response;
use crate::mapped::Mapped;
use std::mem::{offset_of, size_of};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, PoisonError};

/// There are no more records than these, each of about a kilobyte.
const RECORDS_MAX: u32 = 4096;

/// All records, and which of them are free.
pub(super) struct Records {
    memory: Mapped,
    free: Mutex<Vec<u32>>,
}

impl Records {
    /// How many there are where there may be so many splices. The first is nobody's.
    pub(super) fn count(splices_max: u32) -> u32 {
        splices_max.min(RECORDS_MAX) + 1
    }

    pub(super) fn map(map: BorrowedFd<'_>, count: u32) -> std::io::Result<Records> {
        Ok(Records {
            memory: Mapped::map(map, size_of::<packet_response>() * count as usize)?,
            free: Mutex::new((1..count).rev().collect()),
        })
    }

    /// A free record.
    pub(super) fn take(self: &Arc<Records>) -> Option<Record> {
        let number = self.free().pop()?;
        Some(Record {
            records: Arc::clone(self),
            number,
        })
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The record of one splice. What it says of counts only grows; another splice may have left something in it.
pub(crate) struct Record {
    records: Arc<Records>,
    number: u32,
}

impl Record {
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Bytes that were forwarded.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.word(offset_of!(packet_response, sent_bytes))
    }

    /// Bytes that the client has acknowledged.
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.word(offset_of!(packet_response, acked_bytes))
    }

    /// Whether the server's end of stream has come.
    pub(crate) fn has_end(&self) -> bool {
        self.half_word(offset_of!(packet_response, has_end)) != 0
    }

    /// The beginning of the response before which `sent_bytes` were forwarded, as far as it is known.
    pub(crate) fn head(&self, sent_bytes: u64) -> Vec<u8> {
        let mut head = Vec::new();
        if self.word(offset_of!(packet_response, head_at)) == sent_bytes {
            let bytes = self.half_word(offset_of!(packet_response, head_bytes)) as usize;
            let at = self.offset() + offset_of!(packet_response, head);
            let max = size_of::<packet_response>() - offset_of!(packet_response, head);
            head.reserve(bytes);
            self.records.memory.read(at, bytes.min(max), &mut head);
        }
        head
    }

    /// The last bytes of what was forwarded.
    pub(crate) fn tail(&self) -> Vec<u8> {
        let mut tail = Vec::new();
        if self.word(offset_of!(packet_response, tail_at)) == self.sent_bytes() {
            let at = self.offset() + offset_of!(packet_response, tail);
            self.records.memory.read(at, TAIL_BYTES, &mut tail);
        }
        tail
    }

    /// What another splice has left is of no meaning. Only while no program knows the record.
    pub(super) fn clear(&self) {
        for field in [
            offset_of!(packet_response, head_bytes),
            offset_of!(packet_response, has_end),
        ] {
            let field = self.records.memory.half_word(self.offset() + field);
            field.store(0, std::sync::atomic::Ordering::Release);
        }
    }

    fn offset(&self) -> usize {
        self.number as usize * size_of::<packet_response>()
    }

    fn word(&self, field: usize) -> u64 {
        self.records
            .memory
            .word(self.offset() + field)
            .load(Acquire)
    }

    fn half_word(&self, field: usize) -> u32 {
        self.records
            .memory
            .half_word(self.offset() + field)
            .load(Acquire)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.records.free().push(self.number);
    }
}

/// `PACKET_TAIL_BYTES`.
const TAIL_BYTES: usize = 5;
