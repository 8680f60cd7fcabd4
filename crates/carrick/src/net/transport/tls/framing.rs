//! Where records begin in a stream (RFC 8446 section 5.1): the kernel can take over only there.

/// The bytes before the content of a record: its type, a version, and the length of the content.
const HEADER_BYTES: usize = 5;

/// Follows a stream from its first byte on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Framing {
    /// Bytes of a header that have passed.
    header_bytes: usize,
    /// The length that they say, so far.
    length: usize,
    /// Bytes of the content that have not passed.
    left_bytes: usize,
}

impl Framing {
    /// These bytes have passed.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        while let [byte, rest @ ..] = bytes {
            if self.left_bytes > 0 {
                let count = self.left_bytes.min(bytes.len());
                self.left_bytes -= count;
                bytes = bytes.get(count..).unwrap_or_default();
                continue;
            }
            self.header_bytes += 1;
            // The last two are the length.
            self.length = (self.length << 8 | usize::from(*byte)) & 0xffff;
            if self.header_bytes == HEADER_BYTES {
                *self = Self {
                    left_bytes: self.length,
                    ..Self::default()
                };
            }
            bytes = rest;
        }
    }

    /// Whether the next byte is the first of a record.
    #[must_use]
    pub fn is_between_records(&self) -> bool {
        self.header_bytes == 0 && self.left_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records with contents of these lengths.
    fn records(lengths: &[usize]) -> Vec<u8> {
        let record = |length: &usize| {
            let [high, low] = u16::try_from(*length).unwrap().to_be_bytes();
            [&[23, 3, 3, high, low], &*vec![0xff; *length]].concat()
        };
        lengths.iter().flat_map(record).collect()
    }

    #[test]
    fn records_end_where_they_say() {
        let lengths = [0, 1, 300, 16_640, 0, 2];
        let stream = records(&lengths);
        let mut ends = vec![0];
        for length in lengths {
            ends.push(ends.last().unwrap() + HEADER_BYTES + length);
        }
        let mut framing = Framing::default();
        for (at, byte) in stream.iter().enumerate() {
            assert_eq!(framing.is_between_records(), ends.contains(&at), "{at}");
            framing.pass(&[*byte]);
        }
        assert!(framing.is_between_records());
    }

    #[test]
    fn pieces_do_not_matter() {
        let stream = records(&[5, 70, 1000, 0, 3]);
        let mut single = Framing::default();
        for end in 0..stream.len() {
            for start in [0, end / 3, end / 2, end] {
                let mut framing = Framing::default();
                framing.pass(&stream[..start]);
                framing.pass(&stream[start..end]);
                assert_eq!(framing, single);
            }
            single.pass(&stream[end..=end]);
        }
    }
}
