//! Buffers that a request needs, owned by the worker and borrowed for the request, so that an idle client holds none.
use carrick_logic::http1::{RequestHead, ResponseHead};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Room of the buffers at first, in bytes: a usual head, or a small response with its head, fits.
pub const BUFFER_BYTES: usize = 16 * 1024;

/// Most sets that are kept for reuse.
const KEPT_MAX: usize = 128;

/// Buffers and parsed heads of one request.
#[derive(Debug)]
pub struct Scratch {
    /// From the client: the head, and what came with it.
    pub request: Vec<u8>,
    /// From the upstream: the head, and what came with it.
    pub response: Vec<u8>,
    /// A rewritten head on its way out.
    pub out: Vec<u8>,
    /// The request's head; its spans are into `request`.
    pub request_head: RequestHead,
    /// The response's head; its spans are into `response`.
    pub response_head: ResponseHead,
}

impl Scratch {
    fn new() -> Self {
        Self {
            request: Vec::with_capacity(BUFFER_BYTES),
            response: Vec::with_capacity(BUFFER_BYTES),
            out: Vec::with_capacity(BUFFER_BYTES),
            request_head: RequestHead::new(),
            response_head: ResponseHead::new(),
        }
    }

    /// Forgets the response before, of which perhaps only a part of the head came.
    pub fn expect_response(&mut self) {
        self.response.clear();
        self.response_head.restart();
    }

    fn reset(&mut self) {
        for buffer in [&mut self.request, &mut self.response, &mut self.out] {
            buffer.clear();
            buffer.shrink_to(2 * BUFFER_BYTES);
        }
        // A connection may have ended within a head: whoever borrows the set next begins at the beginning.
        self.request_head.restart();
        self.response_head.restart();
    }
}

/// The sets that are not lent out.
#[derive(Debug, Default)]
pub struct ScratchPool {
    #[expect(
        clippy::vec_box,
        reason = "a set is lent out and given back with every request: a pointer moves, not the set"
    )]
    kept: RefCell<Vec<Box<Scratch>>>,
}

impl ScratchPool {
    /// Lends a clean set.
    pub fn take(self: &Rc<Self>) -> Lent {
        let scratch = self
            .kept
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Box::new(Scratch::new()));
        Lent {
            scratch: Some(scratch),
            pool: Rc::clone(self),
        }
    }
}

/// A lent set; it goes back when dropped.
#[derive(Debug)]
pub struct Lent {
    scratch: Option<Box<Scratch>>,
    pool: Rc<ScratchPool>,
}

impl Deref for Lent {
    type Target = Scratch;

    #[expect(clippy::expect_used, reason = "the set is only taken out in drop")]
    fn deref(&self) -> &Scratch {
        self.scratch
            .as_ref()
            .expect("a lent set is there until it is dropped")
    }
}

impl DerefMut for Lent {
    #[expect(clippy::expect_used, reason = "the set is only taken out in drop")]
    fn deref_mut(&mut self) -> &mut Scratch {
        self.scratch
            .as_mut()
            .expect("a lent set is there until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(mut scratch) = self.scratch.take() {
            let mut kept = self.pool.kept.borrow_mut();
            if kept.len() < KEPT_MAX {
                scratch.reset();
                kept.push(scratch);
            }
        }
    }
}
