//! The chunked coding (RFC 9112, section 7.1), read in whatever pieces it comes.

use super::{Garbled, HEAD_BYTES_MAX};

/// Where in the coding the input is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    place: Place,
    /// Of the chunk whose size is being read, or that is being received: what is missing.
    bytes: u64,
    /// Hexadecimal digits of the size until now.
    digits: u8,
    /// Bytes of extensions and trailers until now.
    extra_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Size,
    Extension,
    SizeEnd,
    Data,
    DataReturn,
    DataEnd,
    TrailerStart,
    Trailer,
    TrailerEnd,
    LastEnd,
    Done,
}

impl Chunks {
    /// Takes `input`, gives the pieces of the body to `body`, and says how much of the input belonged to the coding.
    pub(super) fn take<E: From<Garbled>>(
        &mut self,
        input: &[u8],
        mut body: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut at = 0;
        while at < input.len() && self.place != Place::Done {
            if self.place == Place::Data {
                let most = usize::try_from(self.bytes).unwrap_or(usize::MAX);
                let piece = &input[at..][..most.min(input.len() - at)];
                body(piece)?;
                at += piece.len();
                self.bytes -= piece.len() as u64;
                if self.bytes == 0 {
                    self.place = Place::DataReturn;
                }
            } else {
                self.place = self.step(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    pub(super) fn is_done(&self) -> bool {
        self.place == Place::Done
    }

    /// The place after one byte of the coding itself.
    fn step(&mut self, byte: u8) -> Result<Place, Garbled> {
        let next = match (self.place, byte) {
            (Place::Size, b'\r') if self.digits > 0 => Place::SizeEnd,
            (Place::Size, b';' | b' ' | b'\t') if self.digits > 0 => Place::Extension,
            (Place::Size, byte) => {
                let digit = char::from(byte)
                    .to_digit(16)
                    .ok_or_else(|| wrong("a chunk's size", byte))?;
                if self.digits == 15 {
                    return Err(Garbled(String::from(
                        "a chunk's size has more than 15 digits",
                    )));
                }
                self.digits += 1;
                self.bytes = self.bytes * 16 + u64::from(digit);
                Place::Size
            }
            (Place::Extension, b'\r') => Place::SizeEnd,
            (Place::Extension | Place::Trailer | Place::TrailerStart, b'\n') => {
                return Err(wrong("a line of the chunked coding", byte));
            }
            (Place::Extension, _) => self.more(Place::Extension)?,
            (Place::SizeEnd, b'\n') => {
                self.digits = 0;
                if self.bytes == 0 {
                    Place::TrailerStart
                } else {
                    Place::Data
                }
            }
            (Place::DataReturn, b'\r') => Place::DataEnd,
            (Place::DataEnd, b'\n') => Place::Size,
            (Place::TrailerStart, b'\r') => Place::LastEnd,
            (Place::TrailerStart, _) => self.more(Place::Trailer)?,
            (Place::Trailer, b'\r') => Place::TrailerEnd,
            (Place::Trailer, _) => self.more(Place::Trailer)?,
            (Place::TrailerEnd, b'\n') => Place::TrailerStart,
            (Place::LastEnd, b'\n') => Place::Done,
            (Place::SizeEnd, _) => return Err(wrong("the end of a chunk's size", byte)),
            (Place::DataReturn | Place::DataEnd, _) => {
                return Err(wrong("the end of a chunk", byte));
            }
            (Place::TrailerEnd | Place::LastEnd, _) => {
                return Err(wrong("the end of the chunked coding", byte));
            }
            (Place::Data, _) => Place::Data,
            (Place::Done, _) => Place::Done,
        };
        Ok(next)
    }

    fn more(&mut self, place: Place) -> Result<Place, Garbled> {
        self.extra_bytes += 1;
        if self.extra_bytes > HEAD_BYTES_MAX {
            return Err(Garbled(format!(
                "extensions and trailers are longer than {HEAD_BYTES_MAX} bytes"
            )));
        }
        Ok(place)
    }
}

fn wrong(place: &str, byte: u8) -> Garbled {
    Garbled(format!("the byte {byte:#04x} cannot stand in {place}"))
}
