//! The body of a request: its end is found, it is counted, and thrown away.

use super::request::{Refusal, Upload};

/// Longest line of a chunk's length, with its extensions, and longest trailer section, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// zlib's checksum, so that anybody can compute it.
const CRC32: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

/// What was received of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// How many bytes, without the framing.
    pub bytes: u64,
    /// Their checksum so far; `None`: nobody asked.
    register: Option<u32>,
}

impl Received {
    /// Nothing yet; the checksum costs time, and is for those who ask.
    #[must_use]
    pub fn new(wants_checksum: bool) -> Self {
        Self {
            bytes: 0,
            register: wants_checksum.then_some(0),
        }
    }

    /// The CRC-32 (as of zlib) of the bytes; 0 if nobody asked.
    #[must_use]
    pub fn crc32(&self) -> u32 {
        self.register.unwrap_or(0)
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(register) = &mut self.register {
            // A finished checksum is the reflected state with all bits turned over: undone, it goes on.
            let mut digest = CRC32.digest_with_initial((!*register).reverse_bits());
            digest.update(bytes);
            *register = digest.finalize();
        }
    }
}

/// Where in a body the decoder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// So many bytes up to the end of the body.
    Length(u64),
    /// In the line with a chunk's length.
    Size,
    /// So many bytes up to the end of a chunk.
    Chunk(u64),
    /// In the line end behind a chunk.
    ChunkEnd,
    /// In the trailer section.
    Trailers,
    /// Behind the body.
    End,
}

/// Finds the end of one body.
#[derive(Clone, Debug)]
pub struct Decoder {
    place: Place,
    received: Received,
    trailer_bytes: usize,
}

impl Decoder {
    /// At the beginning of a body.
    #[must_use]
    pub fn new(upload: Upload, wants_checksum: bool) -> Self {
        let place = match upload {
            Upload::Length(0) => Place::End,
            Upload::Length(bytes) => Place::Length(bytes),
            Upload::Chunked => Place::Size,
        };
        Self {
            place,
            received: Received::new(wants_checksum),
            trailer_bytes: 0,
        }
    }

    /// What was received, once the end was reached.
    #[must_use]
    pub fn finished(&self) -> Option<Received> {
        (self.place == Place::End).then_some(self.received)
    }

    /// Takes bytes; how many of them it used. It leaves those behind the body, and those of a line that is not complete.
    ///
    /// # Errors
    /// When the chunked coding (RFC 9112, section 7.1) is wrong.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match self.place {
                Place::End => return Ok(used),
                Place::Length(left) | Place::Chunk(left) => {
                    let count =
                        usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    if count == 0 {
                        return Ok(used);
                    }
                    self.received.add(&rest[..count]);
                    used += count;
                    self.place = match (self.place, left - count as u64) {
                        (Place::Length(_), 0) => Place::End,
                        (Place::Length(_), left) => Place::Length(left),
                        (_, 0) => Place::ChunkEnd,
                        (_, left) => Place::Chunk(left),
                    };
                }
                Place::Size | Place::ChunkEnd | Place::Trailers => {
                    let Some(line) = line(rest)? else {
                        return Ok(used);
                    };
                    self.take_line(line)?;
                    used += line.len() + 2;
                }
            }
        }
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), Refusal> {
        self.place = match self.place {
            Place::ChunkEnd if line.is_empty() => Place::Size,
            Place::ChunkEnd => return Err(Refusal::new(400, "a chunk is longer than its length")),
            Place::Trailers if line.is_empty() => Place::End,
            Place::Trailers => {
                self.trailer_bytes += line.len();
                if self.trailer_bytes > LINE_BYTES_MAX {
                    return Err(Refusal::new(431, "the trailers are too long"));
                }
                Place::Trailers
            }
            _ => match chunk_size(line) {
                Some(0) => Place::Trailers,
                Some(size) => Place::Chunk(size),
                None => return Err(Refusal::new(400, "the length of a chunk is no number")),
            },
        };
        Ok(())
    }
}

/// The first line, without its end; `None`: it is not complete.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) if end > 0 && bytes[end - 1] == b'\r' => Ok(Some(&bytes[..end - 1])),
        Some(_) => Err(Refusal::new(
            400,
            "a line of the chunked coding ends without CR",
        )),
        None if bytes.len() > LINE_BYTES_MAX => Err(Refusal::new(
            400,
            "a line of the chunked coding is too long",
        )),
        None => Ok(None),
    }
}

/// The length in front of a chunk; extensions are ignored.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii_end();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16)
        .ok()
        .filter(|_| is_number)
}

#[cfg(test)]
mod tests;
