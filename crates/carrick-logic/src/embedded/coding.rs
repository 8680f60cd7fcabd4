//! Content codings of pages (RFC 9110 section 8.4.1). Browsers take `br` and `zstd` by TLS only, which does not pass here.
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::io::Write;

/// So many coded bytes are taken at one go: with the best ratio of deflate (1032) they become 2 MB for a moment.
const PIECE_BYTES: usize = 2048;

/// A coding that is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// None.
    Identity,
    /// `gzip`, `x-gzip`
    Gzip,
    /// `deflate`: by the RFC in the format of zlib, by some servers without.
    Deflate,
}

impl Coding {
    /// What the values of `Content-Encoding` say, joined by commas; `None`: several, or another.
    #[must_use]
    pub fn of(value: &[u8]) -> Option<Self> {
        let value = value.trim_ascii();
        let is = |name: &[u8]| value.eq_ignore_ascii_case(name);
        if value.is_empty() || is(b"identity") {
            Some(Self::Identity)
        } else if is(b"gzip") || is(b"x-gzip") {
            Some(Self::Gzip)
        } else {
            is(b"deflate").then_some(Self::Deflate)
        }
    }
}

/// Takes a coding off, piece by piece.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// How many more decoded bytes are needed.
    left_bytes: usize,
}

#[derive(Debug)]
enum State {
    Identity,
    Gzip(MultiGzDecoder<Vec<u8>>),
    /// The first byte tells the format.
    Unsure,
    Zlib(ZlibDecoder<Vec<u8>>),
    Raw(DeflateDecoder<Vec<u8>>),
    Broken,
}

impl Decoder {
    /// At most `bytes_max` bytes are wanted, without the coding.
    #[must_use]
    pub fn new(coding: Coding, bytes_max: usize) -> Self {
        Self {
            state: match coding {
                Coding::Identity => State::Identity,
                Coding::Gzip => State::Gzip(MultiGzDecoder::new(Vec::new())),
                Coding::Deflate => State::Unsure,
            },
            left_bytes: bytes_max,
        }
    }

    /// Whether enough was decoded, or the input is not in its coding.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left_bytes == 0 || matches!(self.state, State::Broken)
    }

    /// Takes the next bytes, and calls `wanted` with what they are without the coding.
    pub fn take(&mut self, bytes: &[u8], mut wanted: impl FnMut(&[u8])) {
        for piece in bytes.chunks(PIECE_BYTES) {
            if self.is_over() {
                return;
            }
            if let State::Unsure = self.state {
                // RFC 1950 section 2.2: the lower half of the first byte is the method, 8. No encoder begins a raw stream so.
                self.state = if piece[0] & 0x0f == 8 {
                    State::Zlib(ZlibDecoder::new(Vec::new()))
                } else {
                    State::Raw(DeflateDecoder::new(Vec::new()))
                };
            }
            let (decoded, is_right) = match &mut self.state {
                State::Identity => (piece.to_vec(), true),
                State::Gzip(decoder) => decoded(decoder, piece, MultiGzDecoder::get_mut),
                State::Zlib(decoder) => decoded(decoder, piece, ZlibDecoder::get_mut),
                State::Raw(decoder) => decoded(decoder, piece, DeflateDecoder::get_mut),
                State::Unsure | State::Broken => return,
            };
            if !is_right {
                self.state = State::Broken;
            }
            let count = decoded.len().min(self.left_bytes);
            self.left_bytes -= count;
            if count > 0 {
                wanted(&decoded[..count]);
            }
        }
    }
}

/// What has come out, and whether what went in was in the coding.
fn decoded<D: Write>(
    decoder: &mut D,
    piece: &[u8],
    out: fn(&mut D) -> &mut Vec<u8>,
) -> (Vec<u8>, bool) {
    let is_right = decoder.write_all(piece).and_then(|()| decoder.flush());
    (std::mem::take(out(decoder)), is_right.is_ok())
}
