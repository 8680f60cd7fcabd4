//! Sending a body's bytes to a connection.
use super::Body;
use super::storage::{Storage, windows};
use crate::cache::disk::File;
use crate::cache::memory::chunk::{CHUNK_BYTES, Chunk};
use crate::net::io::Stream;
use rustix::io::retry_on_intr;
use std::io::{self, ErrorKind, IoSlice};
use tokio::io::Interest;

/// Bytes of a body under way that are copied under its lock for one `send(2)`, at most.
const COPIED_BYTES_MAX: u64 = 16 * 1024;

/// Buffers of one `sendmsg(2)`: a megabyte at any offset, and the prefix.
const PIECES_MAX: usize = 18;

impl Body {
    /// Sends `prefix`, then the bytes that are there from offset `from` on, at most `bytes_max`; returns how many bytes were sent, with
    /// those of `prefix`. Does not wait for more to come. With `more`, the kernel holds back a last segment that is not full, to fill it
    /// with what is sent next.
    ///
    /// # Errors
    /// `WouldBlock` if the connection takes none: the runtime then waits for it to be writable. Else those of `sendmsg(2)` and
    /// `sendfile(2)`.
    pub fn send<S: Stream>(
        &self,
        to: &S,
        from: u64,
        bytes_max: u64,
        prefix: &[u8],
        more: bool,
    ) -> io::Result<usize> {
        let there = self.progress().bytes.saturating_sub(from).min(bytes_max);
        if there == 0 {
            return send_pieces(to, prefix, [], more);
        }
        let mut copied = Vec::new();
        let mut held: Vec<Chunk> = Vec::new();
        let storage = self.storage_or(|under_way| {
            if under_way.chunks.is_empty() {
                let bytes = there.min(COPIED_BYTES_MAX);
                copied.extend_from_slice(window(&under_way.heap, from, bytes));
            } else {
                let first = usize::try_from(from).unwrap_or(usize::MAX) / CHUNK_BYTES;
                let chunks = under_way.chunks.iter().skip(first);
                held.extend(chunks.take(PIECES_MAX).cloned());
            }
        });
        match storage {
            None if held.is_empty() => send_pieces(to, prefix, [copied.as_slice()], more),
            None => {
                let from = from % CHUNK_BYTES as u64;
                send_pieces(to, prefix, windows(&held, from, there), more)
            }
            Some(Storage::Heap(bytes)) => {
                send_pieces(to, prefix, [window(bytes, from, there)], more)
            }
            Some(Storage::Inside(object)) => {
                send_pieces(to, prefix, [window(object.inside(), from, there)], more)
            }
            Some(Storage::Chunks(chunks)) => {
                send_pieces(to, prefix, windows(chunks, from, there), more)
            }
            Some(Storage::Beginning(of)) => of.send(to, from, there, prefix, more),
            Some(Storage::File(file)) => send_file(to, file, from, there, prefix),
            Some(Storage::Pieces(_)) => {
                let piece = self.piece(from).ok_or(ErrorKind::UnexpectedEof)?;
                let bytes_max = there.min(piece.range.end - from);
                piece
                    .body
                    .send(to, from - piece.start, bytes_max, prefix, more)
            }
        }
    }
}

fn send_file<S: Stream>(
    to: &S,
    file: &File,
    from: u64,
    mut bytes: u64,
    prefix: &[u8],
) -> io::Result<usize> {
    let (mut at, file) = (file.start() + from, file.file()?);
    let mut sent = 0;
    if !prefix.is_empty() {
        sent = send_pieces(to, prefix, [], true)?;
        if sent < prefix.len() {
            return Ok(sent);
        }
    }
    let Some(tcp) = to.sink(bytes) else {
        let mut piece = vec![0; usize::try_from(bytes.min(COPIED_BYTES_MAX)).unwrap_or_default()];
        let count = retry_on_intr(|| rustix::io::pread(file, &mut piece, at))?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        return match send_pieces(to, &piece[..count], [], false) {
            Ok(now) => Ok(sent + now),
            Err(_) if sent > 0 => Ok(sent),
            Err(error) => Err(error),
        };
    };
    while bytes > 0 {
        // `sendfile(2)` moves at most 0x7ffff000 bytes.
        let count = usize::try_from(bytes).unwrap_or(usize::MAX);
        // A short count does not mean that the connection is full: it counts as writable until a call says `WouldBlock`.
        let result = tcp.try_io(Interest::WRITABLE, || {
            let mut at = at;
            Ok(retry_on_intr(|| {
                rustix::fs::sendfile(tcp, file, Some(&mut at), count)
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
                to.note_sunk(now as u64);
                sent += now;
                at += now as u64;
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

/// `bytes` bytes of `all` from `from` on, or as many as there are.
fn window(all: &[u8], from: u64, bytes: u64) -> &[u8] {
    let from = usize::try_from(from).unwrap_or(usize::MAX).min(all.len());
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    &all[from..from.saturating_add(bytes).min(all.len())]
}

/// Sends `prefix` and `rest`, or as much of them as one call takes. A connection that takes less is full, and counts as not writable
/// from then on.
fn send_pieces<'b, S: Stream>(
    to: &S,
    prefix: &'b [u8],
    rest: impl IntoIterator<Item = &'b [u8]>,
    more: bool,
) -> io::Result<usize> {
    let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
    let mut count = 0;
    let mut offered = 0;
    let all = [prefix].into_iter().chain(rest);
    for (piece, place) in all.filter(|piece| !piece.is_empty()).zip(&mut pieces) {
        *place = IoSlice::new(piece);
        offered += piece.len();
        count += 1;
    }
    if offered == 0 {
        return Ok(0);
    }
    to.try_send(&pieces[..count], offered, more)
}
