//! The local copy of a body: its destination, progress and errors.

use crate::Splicer;
use crate::relay::pipe::Pipe;
use rustix::io::{Errno, retry_on_intr};
use std::io;
use std::os::fd::BorrowedFd;

/// Where a copy of the body goes.
#[derive(Default)]
pub enum LocalCopy<'a> {
    /// No copy.
    #[default]
    None,
    /// To this function, piece by piece, in order, without gaps.
    To(&'a mut dyn FnMut(&[u8])),
    /// To this file, at its offset, which advances. Writing may block the thread for as long as the disk
    /// takes.
    File(BorrowedFd<'a>),
}

/// A local copy in progress. If its file fails, the copy ends and the transfer goes on.
pub(crate) struct Sink<'a> {
    target: LocalCopy<'a>,
    copied_bytes: u64,
    fault: Option<io::Error>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(target: LocalCopy<'a>) -> Sink<'a> {
        Sink {
            target,
            copied_bytes: 0,
            fault: None,
        }
    }

    /// A sink for transfers without a copy.
    pub(crate) fn none() -> Sink<'a> {
        Sink::new(LocalCopy::None)
    }

    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        !matches!(self.target, LocalCopy::None) && self.fault.is_none()
    }

    pub(crate) fn is_for_process(&self) -> bool {
        matches!(self.target, LocalCopy::To(_))
    }

    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    pub(crate) fn fault(&self) -> Option<&io::Error> {
        self.fault.as_ref()
    }

    /// Takes the next bytes of the body.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if !self.is_wanted() {
            return;
        }
        match &mut self.target {
            LocalCopy::None => {}
            LocalCopy::To(call) => {
                call(bytes);
                self.copied_bytes += bytes.len() as u64;
            }
            LocalCopy::File(file) => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    match retry_on_intr(|| rustix::io::write(*file, rest)) {
                        Ok(0) => return self.fail(io::ErrorKind::WriteZero.into()),
                        Ok(written) => {
                            self.copied_bytes += written as u64;
                            rest = &rest[written..];
                        }
                        Err(errno) => return self.fail(errno.into()),
                    }
                }
            }
        }
    }

    /// Takes the next bytes of the body, which are all that `pipe` holds. Returns the bytes left in it: more
    /// than 0 only if the copy failed.
    pub(crate) fn write_from(&mut self, pipe: &Pipe, mut bytes: usize, splicer: &Splicer) -> usize {
        if let LocalCopy::File(file) = self.target {
            while bytes > 0 {
                match pipe.drain_to_file(file, bytes) {
                    Ok(0) => break,
                    Ok(moved) => {
                        self.copied_bytes += moved as u64;
                        bytes -= moved;
                    }
                    // A file that cannot be spliced to, such as one opened with O_APPEND, is written through
                    // a buffer.
                    Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                        break;
                    }
                    Err(error) => {
                        self.fail(error);
                        return bytes;
                    }
                }
            }
        }
        if bytes == 0 {
            return 0;
        }
        let mut buffer = splicer.take_buffer();
        while bytes > 0 && self.is_wanted() {
            let room = buffer.len().min(bytes);
            match pipe.read(&mut buffer[..room]) {
                Ok(0) => self.fail(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    bytes -= read;
                    self.write(&buffer[..read]);
                }
                Err(error) => self.fail(error),
            }
        }
        splicer.put_buffer(buffer);
        bytes
    }

    /// Ends the copy, incomplete.
    pub(crate) fn fail(&mut self, error: io::Error) {
        self.fault = Some(error);
    }
}
