//! A kernel pipe that holds bytes between two sockets.

use crate::sys;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::io;
use tokio::net::TcpStream;

/// A smaller pipe is worse than a copy buffer. Beyond `fs.pipe-user-pages-soft` the kernel makes pipes of two
/// pages (`alloc_pipe_info`).
const USABLE_BYTES_MIN: usize = 64 << 10;

/// Both ends of a pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    size_bytes: u32,
}

impl Pipe {
    /// A new pipe of `wanted_bytes`, or of what the kernel gives instead.
    pub(crate) fn open(wanted_bytes: usize) -> io::Result<Pipe> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let size_bytes = match rustix::pipe::fcntl_setpipe_size(&write, wanted_bytes) {
            Ok(size_bytes) => size_bytes,
            // EPERM: above fs.pipe-max-size or the user's limit on pipe memory. The present size may do.
            Err(_) => rustix::pipe::fcntl_getpipe_size(&write)?,
        };
        if size_bytes < USABLE_BYTES_MIN.min(wanted_bytes) {
            return Err(io::Error::other(format!(
                "the kernel gives pipes of {size_bytes} bytes only"
            )));
        }
        Ok(Pipe {
            read,
            write,
            size_bytes: u32::try_from(size_bytes).unwrap_or(u32::MAX),
        })
    }

    /// Its size in bytes, which limits its number of buffers rather than its bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.size_bytes as usize
    }

    /// The read end, for tests.
    pub(crate) fn reader(&self) -> &OwnedFd {
        &self.read
    }

    /// The write end, for tests.
    pub(crate) fn writer(&self) -> &OwnedFd {
        &self.write
    }

    /// Takes up to `bytes_max` from the socket. The pipe must be empty: then `WouldBlock` can only mean that
    /// the socket is.
    #[inline]
    pub(crate) fn fill(&self, from: &TcpStream, bytes_max: usize) -> io::Result<usize> {
        sys::splice_from(from, || {
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            retry_on_intr(|| rustix::pipe::splice(from, None, &self.write, None, bytes_max, flags))
        })
    }

    /// Writes up to `bytes` of its content to the socket.
    #[inline]
    pub(crate) fn drain(&self, to: &TcpStream, bytes: usize, more: bool) -> io::Result<usize> {
        let mut flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        if more {
            flags |= SpliceFlags::MORE;
        }
        sys::splice_to(to, || {
            retry_on_intr(|| rustix::pipe::splice(&self.read, None, to, None, bytes, flags))
        })
    }

    /// Copies up to `bytes` from its front into `other`, by reference, and keeps them.
    pub(crate) fn tee(&self, other: &Pipe, bytes: usize) -> io::Result<usize> {
        Ok(retry_on_intr(|| {
            rustix::pipe::tee(&self.read, &other.write, bytes, SpliceFlags::NONBLOCK)
        })?)
    }

    /// Moves up to `bytes` to a file, at its offset.
    pub(crate) fn drain_to_file(&self, file: impl AsFd, bytes: usize) -> io::Result<usize> {
        let file = file.as_fd();
        Ok(retry_on_intr(|| {
            rustix::pipe::splice(&self.read, None, file, None, bytes, SpliceFlags::MOVE)
        })?)
    }

    /// Reads from its front into `buffer`.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| {
            rustix::io::read(&self.read, &mut *buffer)
        })?)
    }

    /// Writes into it, for tests.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::write(&self.write, bytes))?)
    }
}

#[cfg(test)]
mod tests;
