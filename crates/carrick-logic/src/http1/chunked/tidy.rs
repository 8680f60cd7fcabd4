//! Chunked bodies on their way: size lines of responses that are not in the usual form are put into it, and trailers of requests that are not to
//! reach servers are taken out.
use super::{Chunked, Piece, State, write_chunk_size};
use crate::http1::Refusal;

/// How far a body was followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// So many bytes at the body's start can go on.
    pub bytes: usize,
    /// The body ends with them.
    pub is_over: bool,
}

impl Chunked {
    /// Follows the coding through `buffer` from `start` on, what has come of the body and not gone on yet, and puts it into the usual form, in
    /// place: size lines that only [`lenient`](Self::lenient) accepts become the plain size, without extensions, and trailers that
    /// [`of_request`](Self::of_request) drops are gone. Adds the content that can go on to `content_bytes`.
    ///
    /// What stays behind the bytes that can go on is the beginning of a size line or trailer, to be there at the next call, with more; at the
    /// body's end it is what nobody asked for.
    ///
    /// # Errors
    /// As [`next`](Self::next); nothing of the body may go on then.
    pub fn tidy(
        &mut self,
        buffer: &mut Vec<u8>,
        start: usize,
        content_bytes: &mut u64,
    ) -> Result<Followed, Refusal> {
        // What was followed, and where it ends once it is tidied.
        let (mut used, mut tidied, mut is_over) = (start, start, false);
        while !is_over {
            let before = self.clone();
            let count = match self.next(buffer.get(used..).unwrap_or_default())? {
                Piece::NeedMore => break,
                Piece::Framing(_) if self.is_in_size_line() || self.trailers.is_in_line() => {
                    *self = before;
                    break;
                }
                Piece::Framing(count) if self.trailers.drops_line() => {
                    used += count;
                    continue;
                }
                Piece::Framing(count) if self.is_untidy && self.is_behind_size_line() => {
                    used += count;
                    self.is_untidy = false;
                    let line = size_line(self.chunk_bytes);
                    debug_assert!(tidied + line.len() < used, "it became shorter");
                    if let Some(place) = buffer.get_mut(tidied..tidied + line.len()) {
                        place.copy_from_slice(&line);
                    }
                    tidied += line.len();
                    continue;
                }
                Piece::Framing(count) => count,
                Piece::Data(count) => {
                    *content_bytes += count as u64;
                    count
                }
                Piece::End(count) => {
                    is_over = true;
                    count
                }
            };
            if tidied < used {
                buffer.copy_within(used..used + count, tidied);
            }
            used += count;
            tidied += count;
        }
        buffer.drain(tidied..used);
        Ok(Followed {
            bytes: tidied - start,
            is_over,
        })
    }

    /// Whether a size line has begun and not ended.
    fn is_in_size_line(&self) -> bool {
        self.line_bytes > 0 && !self.is_behind_size_line()
    }

    fn is_behind_size_line(&self) -> bool {
        matches!(
            self.state,
            State::Data
                | State::DataCarriageReturn
                | State::DataLineFeed
                | State::Trailers
                | State::Over
        )
    }
}

/// The usual form.
fn size_line(chunk_bytes: u64) -> Vec<u8> {
    if chunk_bytes == 0 {
        return b"0\r\n".to_vec();
    }
    let mut line = Vec::with_capacity(18);
    write_chunk_size(&mut line, chunk_bytes);
    line
}
