//! The body of a request: its end is found, it is counted, and thrown away.

use crate::content::framing::{self, Garbled};

/// zlib's checksum: tools for it are everywhere.
const CRC32: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

/// What was received of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// How many bytes, without the framing.
    pub bytes: u64,
    /// Their checksum so far, if the client has asked for it.
    register: Option<u32>,
}

impl Received {
    /// Nothing yet. The checksum costs time, so it is computed only if asked for.
    #[must_use]
    pub fn new(wants_checksum: bool) -> Self {
        Self {
            bytes: 0,
            register: wants_checksum.then_some(0),
        }
    }

    /// The CRC-32 (as of zlib) of the bytes; 0 if it was not asked for.
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

/// Finds the end of one body.
#[derive(Clone, Debug)]
pub struct Decoder {
    framing: framing::Decoder,
    received: Received,
}

impl Decoder {
    /// At the beginning of a body.
    #[must_use]
    pub fn new(framing: framing::Decoder, wants_checksum: bool) -> Self {
        Self {
            framing,
            received: Received::new(wants_checksum),
        }
    }

    /// What was received, once the end was reached.
    #[must_use]
    pub fn finished(&self) -> Option<Received> {
        self.framing.is_done().then_some(self.received)
    }

    /// Takes bytes; how many of them belong to the body.
    ///
    /// # Errors
    /// When the chunked coding is wrong.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, Garbled> {
        self.framing.take(bytes, |piece| {
            self.received.add(piece);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
