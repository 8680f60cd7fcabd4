//! Sending a body's bytes to a connection.
use super::Body;
use super::place::{Place, arena};
use rustix::io::retry_on_intr;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::io::{self, ErrorKind, IoSlice};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Most bytes of a body under way that are copied, under its lock, for one `send(2)`.
const COPIED_BYTES_MAX: u64 = 16 * 1024;

impl Body {
    /// Sends `prefix`, then bytes from `from` on, at most `bytes_max` of those that are there; returns how many bytes
    /// went, those of `prefix` counted. Does not wait for more to come.
    ///
    /// # Errors
    /// `WouldBlock` if the connection takes none, of which the runtime takes note; else those of `send(2)` and
    /// `sendfile(2)`.
    pub fn send(
        &self,
        to: &TcpStream,
        from: u64,
        bytes_max: u64,
        prefix: &[u8],
    ) -> io::Result<usize> {
        let there = self.have().bytes.saturating_sub(from).min(bytes_max);
        if there == 0 {
            return send_copy(to, prefix, &[], false);
        }
        let mut copied = Vec::new();
        let place = self.place_or(|heap| {
            copied.extend_from_slice(window(heap, from, there.min(COPIED_BYTES_MAX)));
        });
        match place {
            None => send_copy(to, prefix, &copied, false),
            Some(Place::Heap(bytes)) => send_copy(to, prefix, window(bytes, from, there), false),
            Some(Place::Beginning(of)) => of.send(to, from, there, prefix),
            Some(Place::Pieces(_)) => {
                let piece = self.piece(from).ok_or(ErrorKind::UnexpectedEof)?;
                let bytes_max = there.min(piece.range.end - from);
                piece.body.send(to, from - piece.start, bytes_max, prefix)
            }
            Some(place) => self.send_file(to, place, from, there, prefix),
        }
    }

    fn send_file(
        &self,
        to: &TcpStream,
        place: &Place,
        mut from: u64,
        mut bytes: u64,
        prefix: &[u8],
    ) -> io::Result<usize> {
        let arena = arena(&self.memory)?;
        let mut sent = 0;
        if !prefix.is_empty() {
            sent = send_copy(to, prefix, &[], true)?;
            if sent < prefix.len() {
                return Ok(sent);
            }
        }
        while bytes > 0 {
            let run = place.run(from).ok_or(ErrorKind::UnexpectedEof)?;
            // `sendfile(2)` moves at most 0x7ffff000 bytes.
            let count = usize::try_from(run.bytes.min(bytes)).unwrap_or(usize::MAX);
            // That less went than was offered does not say that the connection is full: the readiness stays until a call
            // says that it is gone.
            let result = to.try_io(Interest::WRITABLE, || {
                let mut at = run.start;
                Ok(retry_on_intr(|| {
                    rustix::fs::sendfile(to, arena, Some(&mut at), count)
                })?)
            });
            match result {
                Ok(0) => {
                    return if sent > 0 {
                        Ok(sent)
                    } else {
                        Err(ErrorKind::UnexpectedEof.into())
                    };
                }
                Ok(now) => {
                    sent += now;
                    from += now as u64;
                    bytes -= now as u64;
                    if now < count {
                        break;
                    }
                }
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}

/// `bytes` of `all` from `from` on, which are there.
fn window(all: &[u8], from: u64, bytes: u64) -> &[u8] {
    let from = usize::try_from(from).unwrap_or(usize::MAX).min(all.len());
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    &all[from..from.saturating_add(bytes).min(all.len())]
}

/// Sends `head` and `rest` as one. A connection that takes less is full: the readiness is taken back at once.
fn send_copy(to: &TcpStream, head: &[u8], rest: &[u8], more: bool) -> io::Result<usize> {
    let flags = if more {
        SendFlags::NOSIGNAL | SendFlags::MORE
    } else {
        SendFlags::NOSIGNAL
    };
    let offered = head.len() + rest.len();
    if offered == 0 {
        return Ok(0);
    }
    let mut sent = 0;
    let result = to.try_io(Interest::WRITABLE, || {
        sent = match (head, rest) {
            (bytes, []) | ([], bytes) => retry_on_intr(|| rustix::net::send(to, bytes, flags))?,
            _ => {
                let parts = [IoSlice::new(head), IoSlice::new(rest)];
                retry_on_intr(|| {
                    rustix::net::sendmsg(to, &parts, &mut SendAncillaryBuffer::default(), flags)
                })?
            }
        };
        if sent < offered {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(())
    });
    match result {
        Err(error) if sent == 0 => Err(error),
        _ => Ok(sent),
    }
}
