//! The kernel's records of forwarded responses (`struct packet_response` of bpf/tc/tc.h), in shared memory.

use super::http::{METHODS, RequestFields, status_of};
use super::skeleton::types::{packet_response, request_fields};
use crate::sys::mmap::Mmap;
use std::collections::VecDeque;
use std::mem::{offset_of, size_of};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// The most records, of about a kilobyte each.
const RECORDS_MAX: u32 = 4096;

/// The request that is read before arming did not pass the kernel. Until it is passed on, this much counts as
/// unsettled.
const FIRST_BYTES: u64 = 1;

/// All records, and which of them are free.
pub(super) struct Records {
    memory: Mmap,
    /// Who gives one back may be ahead of a packet that still reads it, so that the one given back first is taken first.
    free: Mutex<VecDeque<u32>>,
}

impl Records {
    /// The number of records for this many splices. The first is never used.
    pub(super) fn count(splices_max: u32) -> u32 {
        splices_max.min(RECORDS_MAX) + 1
    }

    pub(super) fn map(map: BorrowedFd<'_>, count: u32) -> std::io::Result<Records> {
        Ok(Records {
            memory: Mmap::map(map, size_of::<packet_response>() * count as usize)?,
            free: Mutex::new((1..count).collect()),
        })
    }

    /// A free record.
    pub(super) fn take(self: &Arc<Records>) -> Option<Record> {
        let number = self.free().pop_front()?;
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

    /// Appends the record's bytes from there on.
    fn read(&self, number: u32, field: usize, bytes: usize, to: &mut Vec<u8>) {
        self.memory.read(offset(number) + field, bytes, to);
    }

    fn free(&self) -> std::sync::MutexGuard<'_, VecDeque<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The record of one splice. Its counts only grow, and start from what an earlier splice left.
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

    /// Bytes forwarded.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.word(offset_of!(packet_response, sent_bytes))
    }

    /// Bytes acknowledged by the client.
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.word(offset_of!(packet_response, acked_bytes))
    }

    /// When the client last acknowledged something, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) fn acked_ns(&self) -> u64 {
        self.word(offset_of!(packet_response, acked_ns))
    }

    /// Whether the server has sent its FIN, or unrequested data.
    pub(crate) fn has_end(&self) -> bool {
        self.half_word(offset_of!(packet_response, has_end)) != 0
    }

    /// Whether the client has everything it gets from this server.
    pub(crate) fn is_over(&self) -> bool {
        self.half_word(offset_of!(packet_response, has_end)) & ALL != 0
    }

    /// Whether unrequested data went to the client ahead of its head, which did not.
    pub(crate) fn has_spilt(&self) -> bool {
        self.sent_bytes() > self.word(offset_of!(packet_response, whole_end))
    }

    /// Whether the server's data is forwarded.
    pub(crate) fn has_begun(&self) -> bool {
        self.half_word(offset_of!(packet_response, has_begun)) != 0
    }

    /// Whether the server sent more than was to be forwarded, so that the connections were returned.
    pub(crate) fn is_back(&self) -> bool {
        self.half_word(offset_of!(packet_response, is_back)) != 0
    }

    /// Whether a packet came that was to be forwarded and could not be.
    pub(crate) fn is_stuck(&self) -> bool {
        self.half_word(offset_of!(packet_response, is_stuck)) != 0
    }

    /// Likewise, one of the server's.
    pub(crate) fn is_stuck_by_server(&self) -> bool {
        self.half_word(offset_of!(packet_response, is_stuck)) & STUCK_SERVER != 0
    }

    /// Requests forwarded by the kernel.
    pub(crate) fn classified(&self) -> u32 {
        self.half_word(offset_of!(packet_response, classified))
    }

    /// The method of the latest of them.
    pub(crate) fn method(&self) -> Option<&'static str> {
        METHODS
            .get(self.half_word(offset_of!(packet_response, method)) as usize)
            .copied()
    }

    /// Writes what requests get that the kernel forwards from the next arming on.
    pub(crate) fn append(&self, fields: &RequestFields) {
        let at = |field| offset_of!(packet_response, fields) + field;
        self.write(at(offset_of!(request_fields, text)), fields.text());
        self.write(at(offset_of!(request_fields, host)), fields.host());
        for (field, bytes) in [
            (offset_of!(request_fields, bytes), fields.text().len()),
            (offset_of!(request_fields, host_bytes), fields.host().len()),
        ] {
            let field = self.records.half_word(self.number, at(field));
            field.store(u32::try_from(bytes).unwrap_or(0), Release);
        }
    }

    /// Writes bytes to a field, and zeros up to a whole word.
    fn write(&self, field: usize, bytes: &[u8]) {
        for (number, bytes) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let place = self.records.word(self.number, field + 8 * number);
            place.store(u64::from_ne_bytes(word), Release);
        }
    }

    /// The end of the response to the process's latest request, in bytes forwarded, if others followed; and
    /// its status.
    pub(crate) fn passed(&self) -> (u64, Option<u16>) {
        let status = status_of(self.half_word(offset_of!(packet_response, passed_status)));
        (self.word(offset_of!(packet_response, passed_end)), status)
    }

    /// Announces a request of the process with this method, which determines the length of its response; data
    /// the server sent before is no response to it.
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

    /// The kernel reports requests under this name from now on.
    pub(crate) fn tell_as(&self, name: u64) {
        let told_as = offset_of!(packet_response, told_as);
        let told_as = self.records.word(self.number, told_as);
        told_as.store(name, Release);
    }

    /// Bytes forwarded before the latest response.
    pub(crate) fn head_at(&self) -> u64 {
        self.word(offset_of!(packet_response, head_at))
    }

    /// Tells the kernel that this many more bytes of the process's requests were passed on.
    pub(crate) fn settle(&self, bytes: u64) {
        let settled = offset_of!(packet_response, settled_bytes);
        let settled = self.records.word(self.number, settled);
        settled.fetch_add(bytes, AcqRel);
    }

    /// The kept beginning of the response that starts at `sent_bytes`.
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

    /// Of the response that starts at `sent_bytes`, whether all of it was forwarded; `None`: its head did not say how long it is.
    pub(crate) fn has_whole(&self, sent_bytes: u64) -> Option<bool> {
        // In this order, since the end is known before the last byte arrives.
        let sent = self.sent_bytes();
        let whole_end = self.word(offset_of!(packet_response, whole_end));
        let is_known = self.head_at() == sent_bytes && whole_end > sent_bytes;
        is_known.then_some(sent == whole_end)
    }

    /// The last bytes forwarded.
    pub(crate) fn tail(&self) -> Vec<u8> {
        let mut tail = Vec::new();
        if self.word(offset_of!(packet_response, tail_at)) == self.sent_bytes() {
            let at = offset_of!(packet_response, tail);
            self.records.read(self.number, at, TAIL_BYTES, &mut tail);
        }
        tail
    }

    /// Likewise, for the request that was read before the record was cleared.
    pub(crate) fn settle_first(&self) {
        self.settle(FIRST_BYTES);
    }

    /// Sets the record as if a part of the latest response had been forwarded and acknowledged.
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

    /// Sets the record as if a request had been sent, and none of its response received.
    #[cfg(test)]
    pub(super) fn note_request_for_tests(&self) {
        self.note_begun();
    }

    /// Clears what another splice has left; one request has been read that is not passed on yet. Only while
    /// no program knows the record.
    pub(crate) fn clear(&self) {
        for field in [
            offset_of!(packet_response, head_bytes),
            offset_of!(packet_response, last_at),
            offset_of!(packet_response, has_end),
            offset_of!(packet_response, has_begun),
            offset_of!(packet_response, is_back),
            offset_of!(packet_response, is_stuck),
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
        // This client owes no acknowledgement for another's data.
        let acked = offset_of!(packet_response, acked_bytes);
        let acked = self.records.word(self.number, acked);
        acked.store(self.sent_bytes(), Release);
        // Nor is another client's response outstanding.
        let classified_before = offset_of!(packet_response, classified_before);
        let classified_before = self.records.half_word(self.number, classified_before);
        classified_before.store(self.classified(), Release);
        self.note_begun();
    }

    /// Marks everything forwarded as whole responses, with none of the next one.
    fn note_begun(&self) {
        let head = offset_of!(packet_response, head_at);
        let head = self.records.word(self.number, head);
        head.store(self.sent_bytes(), Release);
        self.note_whole();
    }

    /// Marks all forwarded responses as whole: the next one begins behind them.
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

/// A view of a splice's record from elsewhere. Once that splice is gone, another may have the record.
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

/// Progress of the response to a forwarded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToldResponse {
    /// The record's forwarded bytes at its last byte so far, counted as by
    /// [`RequestEvent`](crate::requests::RequestEvent).
    pub end: u64,
    /// Its status, if its first line is known.
    pub status: Option<u16>,
    /// Whether another request has followed: then the response is complete.
    pub is_over: bool,
    /// Whether it is known not to match its head yet: more is to come, or more has come; or its head is
    /// interim.
    pub is_partial: bool,
    /// Whether it is known to be whole.
    pub is_whole: bool,
}

impl ResponseWatch {
    /// The response to the last reported request.
    #[must_use]
    pub fn told(&self) -> ToldResponse {
        let told_end = self.word(offset_of!(packet_response, told_end));
        if told_end == LATEST {
            // In this order, since the end is known before the last byte arrives.
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
        // Unknown behind an interim head in the same packet: that head is not searched for.
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

/// The offset of a record.
fn offset(number: u32) -> usize {
    number as usize * size_of::<packet_response>()
}

impl Drop for Record {
    fn drop(&mut self) {
        self.records.free().push_back(self.number);
    }
}

/// bpf/tc/tc.h: `RESPONSE_ALL`.
const ALL: u32 = 4;

/// `STUCK_SERVER` of the same file.
const STUCK_SERVER: u32 = 2;

/// `PACKET_LATEST`.
const LATEST: u64 = u64::MAX;

/// `PACKET_TAIL_BYTES`.
const TAIL_BYTES: usize = 5;
