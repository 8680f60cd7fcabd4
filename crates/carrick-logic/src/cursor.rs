//! Reading big-endian numbers and length-prefixed blocks from the front of a slice.

/// What is left to read. Every method gives `None`, and may have read a part, when there is too little.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many bytes are left.
    pub(crate) fn remaining(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn take_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn take_u8(&mut self) -> Option<u8> {
        self.take_array().map(u8::from_be_bytes)
    }

    pub(crate) fn take_u16(&mut self) -> Option<u16> {
        self.take_array().map(u16::from_be_bytes)
    }

    /// A block with its length in two bytes before it.
    pub(crate) fn take_block(&mut self) -> Option<&'b [u8]> {
        let length = self.take_u16()?;
        self.take(usize::from(length))
    }

    /// A block with its length in one byte before it.
    pub(crate) fn take_short_block(&mut self) -> Option<&'b [u8]> {
        let length = self.take_u8()?;
        self.take(usize::from(length))
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}
