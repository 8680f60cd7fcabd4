//! Buffers for a request, owned by the worker and borrowed for the request, so that an idle client has none.
use super::spares::Spares;
use carrick_logic::http1::{RequestHead, ResponseHead};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Initial size of the buffers, in bytes: enough for a usual head, or a small response with its head.
pub const BUFFER_BYTES: usize = 16 * 1024;

thread_local! {
    /// Buffers for responses, lent when there is something to read: few serve many requests that wait, and stay in
    /// the processor's caches.
    static RESPONSES: Spares<Vec<u8>> = const { Spares::new() };
}

/// Buffers and parsed heads of one request.
#[derive(Debug)]
pub struct Scratch {
    /// From the client: the head, and bytes read with it.
    pub request: Vec<u8>,
    /// From the upstream: the head, and bytes read with it. Has no room before [`response_room`].
    pub response: Vec<u8>,
    /// A rewritten head to be sent.
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
            response: Vec::new(),
            out: Vec::with_capacity(BUFFER_BYTES),
            request_head: RequestHead::new(),
            response_head: ResponseHead::new(),
        }
    }

    /// Clears the previous response, which may be partial.
    pub fn expect_response(&mut self) {
        self.response.clear();
        self.response_head.restart();
    }

    fn reset(&mut self) {
        for buffer in [&mut self.request, &mut self.response, &mut self.out] {
            buffer.clear();
            buffer.shrink_to(2 * BUFFER_BYTES);
        }
        if self.response.capacity() > 0 {
            RESPONSES.with(|spares| spares.give(std::mem::take(&mut self.response)));
        }
        // The connection may have ended within a head; the next borrower starts with a clean parser.
        self.request_head.restart();
        self.response_head.restart();
    }
}

/// Room for more of a response, which is about to be read.
pub fn response_room(response: &mut Vec<u8>) {
    if response.capacity() == 0 {
        *response = RESPONSES.with(Spares::take).unwrap_or_default();
    }
    if response.len() == response.capacity() {
        response.reserve(response.len().max(BUFFER_BYTES));
    }
}

/// The sets that are not borrowed.
#[derive(Debug, Default)]
pub struct ScratchPool(Spares<Box<Scratch>>);

impl ScratchPool {
    /// Borrows a clean set.
    pub fn take(self: &Rc<Self>) -> Lent {
        let scratch = self.0.take().unwrap_or_else(|| Box::new(Scratch::new()));
        Lent {
            scratch: Some(scratch),
            pool: Rc::clone(self),
        }
    }

    /// Drops the sets that nobody has needed since the last call. To be called now and then.
    pub fn tidy(&self) {
        self.0.tidy();
        RESPONSES.with(Spares::tidy);
    }
}

/// A borrowed set; dropping it returns it.
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
            scratch.reset();
            self.pool.0.give(scratch);
        }
    }
}
