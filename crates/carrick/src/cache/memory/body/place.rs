//! Where the bytes of a body are.
use super::chunk::{CHUNK_BYTES, Chunk};
use super::pieces::{self, Piece};
use super::{Body, copy};
use crate::cache::disk::File;
use rustix::io::{pread, retry_on_intr};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Where the bytes are.
#[derive(Debug)]
pub(in super::super) enum Place {
    /// In an allocation of their own.
    Heap(Box<[u8]>),
    /// In several.
    Chunks(Box<[Chunk]>),
    /// In a file of the disk's.
    File(Arc<File>),
    /// In another body that ended early, of which this is what came.
    Beginning(Arc<Body>),
    /// In several other bodies.
    Pieces(Box<[Piece]>),
}

impl Place {
    /// Fills `buffer` from `from`; so many bytes are there.
    pub(super) fn read_at(&self, buffer: &mut [u8], from: u64) -> io::Result<()> {
        match self {
            Self::Heap(bytes) => copy(bytes, from, buffer),
            Self::Chunks(chunks) => copy_chunks(chunks, from, buffer),
            Self::Beginning(of) => {
                let read = of.read_at(buffer, from)?;
                debug_assert_eq!(read, buffer.len());
            }
            Self::Pieces(pieces) => pieces::read_at(pieces, buffer, from)?,
            Self::File(file) => read_file(file.file()?, buffer, file.start() + from)?,
        }
        Ok(())
    }
}

/// The pieces of `chunks` that have `bytes` bytes from `from` on; so many are there.
pub(super) fn windows(chunks: &[Chunk], from: u64, bytes: u64) -> impl Iterator<Item = &[u8]> {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut skipped = from % CHUNK_BYTES;
    let chunks = chunks.get(from / CHUNK_BYTES..).unwrap_or_default();
    chunks.iter().map_while(move |chunk| {
        let here = chunk.bytes().get(skipped..).unwrap_or_default();
        let here = &here[..here.len().min(left)];
        skipped = 0;
        left -= here.len();
        (!here.is_empty()).then_some(here)
    })
}

/// Fills `buffer` from `from` of `chunks`, which have that much.
pub(super) fn copy_chunks(chunks: &[Chunk], from: u64, mut buffer: &mut [u8]) {
    for window in windows(chunks, from, buffer.len() as u64) {
        let (now, later) = buffer.split_at_mut(window.len());
        now.copy_from_slice(window);
        buffer = later;
    }
    debug_assert!(buffer.is_empty(), "bytes that are counted are there");
}

/// Fills `buffer` from `at` of a file.
fn read_file(file: impl AsFd, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let read = retry_on_intr(|| pread(&file, &mut *buffer, at))?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[read..];
        at += read as u64;
    }
    Ok(())
}
