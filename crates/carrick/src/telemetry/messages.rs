//! The program's messages on standard error. No thread waits for its reader: what that does not take is counted.
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, write};
use rustix::net::{SendFlags, send};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A pipe takes so many bytes together, or none (`PIPE_BUF`).
const PIECE_BYTES: usize = 4096;

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Messages that were not written, or not to their ends.
#[must_use]
pub fn dropped() -> u64 {
    DROPPED.load(Relaxed)
}

/// Standard error, `None` if it is closed. What it was at the first call counts, before privileges are given up.
#[must_use]
pub fn standard_error() -> Option<&'static Messages> {
    static OPENED: LazyLock<Option<Messages>> =
        LazyLock::new(|| Messages::to_standard_error().ok());
    OPENED.as_ref()
}

/// Writes a text to standard error.
pub fn tell(text: &str) {
    if let Some(mut messages) = standard_error() {
        let _ = messages.write(text.as_bytes());
    }
}

/// Writes messages, each in one call of `write`.
#[derive(Debug)]
pub struct Messages {
    output: OwnedFd,
    kind: FileType,
}

impl Messages {
    fn to_standard_error() -> io::Result<Self> {
        let output = io::stderr().as_fd().try_clone_to_owned()?;
        let kind = FileType::from_raw_mode(fstat(&output)?.st_mode);
        // With a mode of its own: that of standard error is shared with other programs.
        let own = match kind {
            FileType::Fifo | FileType::CharacterDevice => open(
                "/proc/self/fd/2",
                OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
                Mode::empty(),
            ),
            _ => Err(Errno::NXIO),
        };
        Ok(Self {
            output: own.unwrap_or(output),
            kind,
        })
    }

    fn try_write(&self, piece: &[u8]) -> rustix::io::Result<usize> {
        if self.kind == FileType::Socket {
            return send(
                &self.output,
                piece,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            );
        }
        // Where it could not be opened anew.
        let mut room = [PollFd::new(&self.output, PollFlags::OUT)];
        match poll(&mut room, Some(&Timespec::default()))? {
            0 => Err(Errno::AGAIN),
            _ => write(&self.output, piece),
        }
    }
}

impl Write for &Messages {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let mut pieces = message.chunks(PIECE_BYTES);
        if !pieces.all(|piece| self.try_write(piece) == Ok(piece.len())) {
            DROPPED.fetch_add(1, Relaxed);
        }
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
