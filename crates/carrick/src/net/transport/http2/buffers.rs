//! Buffers for bytes on their way through the process. Connections have none of their own, and new memory costs more than
//! the copy into it.
use std::cell::RefCell;

/// The size of each.
pub const BUFFER_BYTES: usize = 64 * 1024;

/// Most that a worker keeps for reuse.
const KEPT_MAX: usize = 16;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer.
#[must_use]
pub fn take() -> Vec<u8> {
    let kept = KEPT.with_borrow_mut(Vec::pop);
    kept.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
}

/// Gives a buffer back, or any other bytes up.
pub fn give(mut buffer: Vec<u8>) {
    if buffer.capacity() != BUFFER_BYTES {
        return;
    }
    buffer.clear();
    KEPT.with_borrow_mut(|kept| {
        if kept.len() < KEPT_MAX {
            kept.push(buffer);
        }
    });
}
