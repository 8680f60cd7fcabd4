//! Finding the end of a head, each byte looked at once however many reads it comes in.
use super::{Form, HeadLimits, Refusal};

/// The most that [`HeadLimits::head_bytes_max`] is taken for; keeps every [`Span`](super::Span) in range.
const HEAD_BYTES_CAP: usize = 16 * 1024 * 1024;

const BARE_LF: Refusal = Refusal::bad(
    "bare_lf",
    "a line of the head ends with LF alone; lines end with CR LF",
);

/// How far the search for the head's end came. Lines end with CR LF: RFC 9112 section 2.2 allows a bare LF to be taken
/// for a line end, but then two parsers can see different fields. Only a head of [`Form::Lenient`] may have some.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scan {
    looked_at: usize,
    line_start: usize,
    field_lines: usize,
    has_bare_lf: bool,
}

impl Scan {
    /// Whether `bytes` must be a new head: nothing was looked at yet, or more than is there.
    pub(super) fn is_new_for(&self, bytes: &[u8]) -> bool {
        self.looked_at == 0 || bytes.len() < self.looked_at
    }

    /// Whether the first line is over.
    pub(super) fn has_first_line(&self) -> bool {
        self.line_start > 0
    }

    /// Offset of the first field line, once there is a first line and before [`fields`](Self::fields) moved on.
    pub(super) fn field_lines(&self) -> usize {
        self.field_lines
    }

    /// Offset of the line that is searched for its end.
    pub(super) fn line_start(&self) -> usize {
        self.line_start
    }

    /// Whether one of the lines ended with LF alone.
    pub(super) fn has_bare_lf(&self) -> bool {
        self.has_bare_lf
    }

    /// Length of the first line without its line end, if it is all there.
    pub(super) fn first_line(
        &mut self,
        window: &[u8],
        form: Form,
    ) -> Result<Option<usize>, Refusal> {
        let unseen = window.get(self.looked_at..).unwrap_or_default();
        let Some(found) = memchr::memchr(b'\n', unseen) else {
            self.looked_at = window.len();
            return Ok(None);
        };
        let line_feed = self.looked_at + found;
        self.looked_at = line_feed + 1;
        self.line_start = line_feed + 1;
        match line_feed.checked_sub(1) {
            Some(end) if window[end] == b'\r' => Ok(Some(end)),
            _ => {
                self.note_bare_lf(form)?;
                Ok(Some(line_feed))
            }
        }
    }

    /// Length of the whole head, if it is all there. To be called after the first line was found.
    pub(super) fn fields(
        &mut self,
        window: &[u8],
        fields_max: usize,
        form: Form,
    ) -> Result<Option<usize>, Refusal> {
        let unseen = window.get(self.looked_at..).unwrap_or_default();
        for found in memchr::memchr_iter(b'\n', unseen) {
            let line_feed = self.looked_at + found;
            let line_end = if window[line_feed - 1] == b'\r' {
                line_feed - 1
            } else {
                self.note_bare_lf(form)?;
                line_feed
            };
            if line_end == self.line_start {
                return Ok(Some(line_feed + 1));
            }
            self.line_start = line_feed + 1;
            self.field_lines += 1;
            if self.field_lines > fields_max.min(super::fields::FIELDS_CAP) {
                return Err(Refusal::new(
                    431,
                    "too_many_fields",
                    "the head has more field lines than are allowed here",
                ));
            }
        }
        self.looked_at = window.len();
        Ok(None)
    }

    fn note_bare_lf(&mut self, form: Form) -> Result<(), Refusal> {
        self.has_bare_lf = true;
        match form {
            Form::Strict => Err(BARE_LF),
            Form::Lenient => Ok(()),
        }
    }
}

/// The bytes that a head may fill, and whether there is no room beyond them.
pub(super) fn window<'b>(bytes: &'b [u8], limits: &HeadLimits) -> (&'b [u8], bool) {
    let room = limits.head_bytes_max.min(HEAD_BYTES_CAP);
    match bytes.get(..room) {
        Some(window) => (window, true),
        None => (bytes, false),
    }
}
