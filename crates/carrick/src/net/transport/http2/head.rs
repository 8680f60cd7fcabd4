//! The head of a message of HTTP/1.1, as it comes in writes.
use bytes::Bytes;
use carrick_logic::http1::HeadLimits;
use rustix::io::Errno;

/// More than a head has that was within the limits on heads before carrick added its fields.
pub(super) const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 4 << 20,
    fields_max: 1 << 14,
};

/// What a field costs in the size of a list besides its bytes (RFC 9113 section 6.5.2).
pub const FIELD_BYTES: usize = 32;

/// What ends it.
const END: &[u8] = b"\r\n\r\n";

/// The beginning of a head.
#[derive(Debug, Default)]
pub(super) struct HeadText(Vec<u8>);

impl HeadText {
    /// Whether nothing of it has come.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes bytes of the head: how many, and the head, if that is all of it.
    pub(super) fn take(&mut self, bytes: &[u8]) -> rustix::io::Result<(usize, Option<Bytes>)> {
        if self.0.is_empty()
            && let Some(at) = memchr::memmem::find(bytes, END)
        {
            let head = bytes.get(..at + END.len()).unwrap_or_default();
            return Ok((head.len(), Some(Bytes::copy_from_slice(head))));
        }
        let before = self.0.len();
        // The end may be cut in two.
        let from = before.saturating_sub(END.len() - 1);
        self.0.extend_from_slice(bytes);
        let Some(at) = memchr::memmem::find(&self.0[from..], END) else {
            return match self.0.len() > LIMITS.head_bytes_max {
                true => Err(Errno::MSGSIZE),
                false => Ok((bytes.len(), None)),
            };
        };
        let end = from + at + END.len();
        self.0.truncate(end);
        let text = std::mem::take(&mut self.0).into();
        Ok((end - before, Some(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_whole_however_it_is_cut() {
        const TEXT: &[u8] = b"GET / HTTP/1.1\r\na: b\r\n\r\n";
        let all = [TEXT, b"body"].concat();
        for cut in 0..TEXT.len() {
            let mut head = HeadText::default();
            assert_eq!(head.take(&all[..cut]).unwrap(), (cut, None));
            let (count, text) = head.take(&all[cut..]).unwrap();
            assert_eq!((cut + count, &text.unwrap()[..]), (TEXT.len(), TEXT));
        }
    }
}
