//! What the kernel notes of forwarded responses (`struct packet_response` of bpf/tc/tc.h), in memory that it shares with the process.

use super::http::{METHODS, status_of};
use super::skeleton::types::packet_response;
use crate::sys::mmap::Mmap;
use std::mem::{offset_of, size_of};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// There are no more records than these, each of about a kilobyte.
const RECORDS_MAX: u32 = 4096;

/// The request that is read before arming did not come by the kernel. Until it is passed on, so much is not settled.
const FIRST_BYTES: u64 = 1;

/// All records, and which of them are free.
pub(super) struct Records {
    memory: Mmap,
    free: Mutex<Vec<u32>>,
}

impl Records {
    /// How many there are where there may be so many splices. The first is nobody's.
    pub(super) fn count(splices_max: u32) -> u32 {
        splices_max.min(RECORDS_MAX) + 1
    }

    pub(super) fn map(map: BorrowedFd<'_>, count: u32) -> std::io::Result<Records> {
        Ok(Records {
            memory: Mmap::map(map, size_of::<packet_response>() * count as usize)?,
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

    /// A field of a record.
    fn word(&self, number: u32, field: usize) -> &AtomicU64 {
        self.memory.word(offset(number) + field)
    }

    /// Likewise, of four bytes.
    fn half_word(&self, number: u32, field: usize) -> &AtomicU32 {
        self.memory.half_word(offset(number) + field)
    }

    /// Adds what stands in a record from there on.
    fn read(&self, number: u32, field: usize, bytes: usize, to: &mut Vec<u8>) {
        self.memory.read(offset(number) + field, bytes, to);
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

    pub(crate) fn watch(&self) -> ResponseWatch {
        ResponseWatch {
            records: Arc::clone(&self.records),
            number: self.number,
        }
    }

    /// Bytes that were forwarded.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.word(offset_of!(packet_response, sent_bytes))
    }

    /// Bytes that the client has acknowledged.
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.word(offset_of!(packet_response, acked_bytes))
    }

    /// When the client has acknowledged something last, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) fn acked_ns(&self) -> u64 {
        self.word(offset_of!(packet_response, acked_ns))
    }

    /// Whether the server's end of stream has been seen, or what nobody has asked for.
    pub(crate) fn has_end(&self) -> bool {
        self.half_word(offset_of!(packet_response, has_end)) != 0
    }

    /// Whether the client has all that it is to get of this server.
    pub(crate) fn is_over(&self) -> bool {
        self.half_word(offset_of!(packet_response, has_end)) & ALL != 0
    }

    /// Whether more than the response has gone to the client, before its head, which did not.
    pub(crate) fn has_spilt(&self) -> bool {
        self.sent_bytes() > self.word(offset_of!(packet_response, whole_end))
    }

    /// Whether what the server sends is forwarded.
    pub(crate) fn has_begun(&self) -> bool {
        self.half_word(offset_of!(packet_response, has_begun)) != 0
    }

    /// Whether it was more than was to be forwarded, so that the connections were given back.
    pub(crate) fn is_back(&self) -> bool {
        self.half_word(offset_of!(packet_response, is_back)) != 0
    }

    /// Requests that the kernel has forwarded.
    pub(crate) fn judged(&self) -> u32 {
        self.half_word(offset_of!(packet_response, judged))
    }

    /// The method of the latest of them.
    pub(crate) fn method(&self) -> Option<&'static str> {
        METHODS
            .get(self.half_word(offset_of!(packet_response, method)) as usize)
            .copied()
    }

    /// What was forwarded up to the end of the response to the process' latest request, if others followed; and its status.
    pub(crate) fn passed(&self) -> (u64, Option<u16>) {
        let status = status_of(self.half_word(offset_of!(packet_response, passed_status)));
        (self.word(offset_of!(packet_response, passed_end)), status)
    }

    /// The process is about to send a request with this method: what it says of lengths holds for its response, and what the server sent
    /// before is none.
    pub(crate) fn ask(&self, is_head: bool) {
        let method = METHODS
            .iter()
            .position(|method| (*method == "HEAD") == is_head);
        let asked_method = offset_of!(packet_response, asked_method);
        let asked_method = self.records.half_word(self.number, asked_method);
        asked_method.store(method.unwrap_or(0) as u32, Release);
        let asked = offset_of!(packet_response, asked);
        let asked = self.records.half_word(self.number, asked);
        asked.fetch_add(1, AcqRel);
    }

    /// From now on the kernel tells of requests under this name.
    pub(crate) fn tell_as(&self, name: u64) {
        let told_as = offset_of!(packet_response, told_as);
        let told_as = self.records.word(self.number, told_as);
        told_as.store(name, Release);
    }

    /// What was forwarded before the latest response.
    pub(crate) fn head_at(&self) -> u64 {
        self.word(offset_of!(packet_response, head_at))
    }

    /// Tells the kernel that so many more bytes of requests that came to the process have been passed on.
    pub(crate) fn settle(&self, bytes: u64) {
        let settled = offset_of!(packet_response, settled_bytes);
        let settled = self.records.word(self.number, settled);
        settled.fetch_add(bytes, AcqRel);
    }

    /// The beginning of the response before which `sent_bytes` were forwarded, as far as it is known.
    pub(crate) fn head(&self, sent_bytes: u64) -> Vec<u8> {
        let mut head = Vec::new();
        if self.word(offset_of!(packet_response, head_at)) == sent_bytes {
            let bytes = self.half_word(offset_of!(packet_response, head_bytes)) as usize;
            let at = offset_of!(packet_response, head);
            let max = size_of::<packet_response>() - at;
            head.reserve(bytes);
            self.records
                .read(self.number, at, bytes.min(max), &mut head);
        }
        head
    }

    /// The last bytes of what was forwarded.
    pub(crate) fn tail(&self) -> Vec<u8> {
        let mut tail = Vec::new();
        if self.word(offset_of!(packet_response, tail_at)) == self.sent_bytes() {
            let at = offset_of!(packet_response, tail);
            self.records.read(self.number, at, TAIL_BYTES, &mut tail);
        }
        tail
    }

    /// Likewise, that the request is passed on which was read before the record was cleared.
    pub(crate) fn settle_first(&self) {
        self.settle(FIRST_BYTES);
    }

    /// As if something of the latest response had been forwarded and acknowledged.
    #[cfg(test)]
    pub(super) fn note_response_for_tests(&self) {
        for field in [
            offset_of!(packet_response, sent_bytes),
            offset_of!(packet_response, acked_bytes),
        ] {
            let field = self.records.word(self.number, field);
            field.store(self.head_at() + 1, Release);
        }
        self.note_whole();
    }

    /// As if a request had been sent, and nothing of its response had come.
    #[cfg(test)]
    pub(super) fn note_request_for_tests(&self) {
        self.note_begun();
    }

    /// What another splice has left is of no meaning, and a request has been read that is not passed on yet. Only while no program knows
    /// the record.
    pub(crate) fn clear(&self) {
        for field in [
            offset_of!(packet_response, head_bytes),
            offset_of!(packet_response, last_at),
            offset_of!(packet_response, has_end),
            offset_of!(packet_response, has_begun),
            offset_of!(packet_response, is_back),
            offset_of!(packet_response, is_adrift),
            offset_of!(packet_response, interim_bytes),
            offset_of!(packet_response, early_end),
            offset_of!(packet_response, asked_method),
            offset_of!(packet_response, asked),
        ] {
            let field = self.records.half_word(self.number, field);
            field.store(0, Release);
        }
        let passed_bytes = self.word(offset_of!(packet_response, passed_bytes));
        let settled = offset_of!(packet_response, settled_bytes);
        let settled = self.records.word(self.number, settled);
        settled.store(passed_bytes.wrapping_sub(FIRST_BYTES), Release);
        // What another client has never acknowledged, this one need not.
        let acked = offset_of!(packet_response, acked_bytes);
        let acked = self.records.word(self.number, acked);
        acked.store(self.sent_bytes(), Release);
        // Nor is a response to what another one has asked to come.
        let judged_before = offset_of!(packet_response, judged_before);
        let judged_before = self.records.half_word(self.number, judged_before);
        judged_before.store(self.judged(), Release);
        self.note_begun();
    }

    /// Nothing of the next response has been forwarded, and all before is whole.
    fn note_begun(&self) {
        let head = offset_of!(packet_response, head_at);
        let head = self.records.word(self.number, head);
        head.store(self.sent_bytes(), Release);
        self.note_whole();
    }

    /// All responses that were forwarded are known to be whole: the next one begins behind them.
    pub(crate) fn note_whole(&self) {
        let whole = offset_of!(packet_response, whole_end);
        let whole = self.records.word(self.number, whole);
        whole.store(self.sent_bytes(), Release);
    }

    fn word(&self, field: usize) -> u64 {
        self.records.word(self.number, field).load(Acquire)
    }

    fn half_word(&self, field: usize) -> u32 {
        self.records.half_word(self.number, field).load(Acquire)
    }
}

/// A look at the record of a splice from elsewhere. Once that splice is gone, another one may have it.
#[derive(Clone)]
pub struct ResponseWatch {
    records: Arc<Records>,
    number: u32,
}

impl std::fmt::Debug for ResponseWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ResponseWatch({})", self.number)
    }
}

/// How far the response to a request has come that was forwarded by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToldResponse {
    /// What had been forwarded in this record up to its last byte so far, as [`RequestEvent`](crate::requests::RequestEvent) counts.
    pub end: u64,
    /// Its status, if its first line is known.
    pub status: Option<u16>,
    /// Whether another request has followed: then nothing is added to it any more.
    pub is_over: bool,
    /// Whether it is known that it is not what its head says, yet: more is to come, or more has come; or its head is an interim one.
    pub is_partial: bool,
    /// Whether it is known to be whole.
    pub is_whole: bool,
}

impl ResponseWatch {
    /// The response to the latest request of which the kernel has told.
    #[must_use]
    pub fn told(&self) -> ToldResponse {
        let told_end = self.word(offset_of!(packet_response, told_end));
        if told_end == LATEST {
            // In this order: an end that is known is known before the last byte.
            let end = self.word(offset_of!(packet_response, sent_bytes));
            let whole_end = self.word(offset_of!(packet_response, whole_end));
            let status = self.latest_status();
            let is_interim = status.is_some_and(|status| status < 200);
            let has_end = whole_end > self.word(offset_of!(packet_response, head_at));
            return ToldResponse {
                end,
                status,
                is_over: false,
                is_partial: is_interim || end < whole_end || has_end && end > whole_end,
                is_whole: has_end && end == whole_end,
            };
        }
        ToldResponse {
            end: told_end,
            status: status_of(self.half_word(offset_of!(packet_response, told_status))),
            is_over: true,
            is_partial: false,
            is_whole: false,
        }
    }

    /// The status of the latest response, if its first line is known.
    fn latest_status(&self) -> Option<u16> {
        let last_at = self.half_word(offset_of!(packet_response, last_at));
        let head_bytes = self.half_word(offset_of!(packet_response, head_bytes));
        let max = packet_response::default().head.len() as u32 - 12;
        if last_at > max || head_bytes < last_at + 12 {
            return None;
        }
        let mut digits = Vec::with_capacity(3);
        let head = offset_of!(packet_response, head) + last_at as usize;
        self.records.read(self.number, head + 9, 3, &mut digits);
        let status = std::str::from_utf8(&digits).ok()?.parse().ok()?;
        // Behind an interim head in the same packet, that of a head which is not looked for.
        let sent_bytes = self.word(offset_of!(packet_response, sent_bytes))
            - self.word(offset_of!(packet_response, head_at));
        let interim_bytes = self.half_word(offset_of!(packet_response, interim_bytes));
        let is_interim = status < 200 && status != 101;
        (!is_interim || sent_bytes == u64::from(interim_bytes)).then_some(status)
    }

    fn word(&self, field: usize) -> u64 {
        self.records.word(self.number, field).load(Acquire)
    }

    fn half_word(&self, field: usize) -> u32 {
        self.records.half_word(self.number, field).load(Acquire)
    }
}

/// Where a record begins.
fn offset(number: u32) -> usize {
    number as usize * size_of::<packet_response>()
}

impl Drop for Record {
    fn drop(&mut self) {
        self.records.free().push(self.number);
    }
}

/// bpf/tc/tc.h: `RESPONSE_ALL`.
const ALL: u32 = 4;

/// `PACKET_LATEST`.
const LATEST: u64 = u64::MAX;

/// `PACKET_TAIL_BYTES`.
const TAIL_BYTES: usize = 5;
