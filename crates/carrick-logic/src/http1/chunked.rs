//! The chunked transfer coding (RFC 9112 section 7.1), followed strictly while it is passed on.
use super::Refusal;

/// What the next bytes of a chunked body are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes of framing: chunk sizes, extensions, line ends, trailers.
    Framing(usize),
    /// So many bytes of content, all in the buffer.
    Data(usize),
    /// So many bytes of framing, and the body is over with the last of them.
    End(usize),
    /// Nothing can be said before more bytes are there (the buffer was empty).
    NeedMore,
}

/// Where in a chunked body a connection stands. It keeps no bytes: every byte is consumed as it is looked at.
#[derive(Debug, Clone)]
pub struct Chunked {}

impl Chunked {
    /// At the start of a body. Limits: chunk size at most 2^60, a size line at most 256 bytes, trailers at most 8 KB.
    #[must_use]
    pub fn new() -> Self {
        todo!()
    }

    /// Says what the first bytes of `bytes` are, and moves past them.
    ///
    /// # Errors
    /// Refuses bad sizes, bare LF, odd extensions, and trailers that would change framing or routing (RFC 9110 section 6.5.1).
    pub fn next(&mut self, bytes: &[u8]) -> Result<Piece, Refusal> {
        let _ = bytes;
        todo!()
    }

    /// Bytes of the current chunk's content that have not come yet: they can be spliced without being looked at.
    #[must_use]
    pub fn data_left(&self) -> u64 {
        todo!()
    }

    /// Counts content that went by without being looked at; at most [`data_left`](Self::data_left).
    pub fn skip_data(&mut self, bytes: u64) {
        let _ = bytes;
        todo!()
    }
}
