//! Copying field lines into a new head: lines that are as we would write them go in runs, all others are written anew.
use super::{Field, syntax};
use std::ops::Range;

/// Fields that stay although `Connection` names them. RFC 9110 section 7.6.1 forbids senders to name what is for all
/// recipients, and clients have done it to make a proxy strip what the upstream relies on.
const NOT_FOR_THIS_HOP_ONLY: [&[u8]; 35] = [
    b"accept",
    b"accept-encoding",
    b"age",
    b"authorization",
    b"cache-control",
    b"cdn-loop",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"date",
    b"etag",
    b"expect",
    b"expires",
    b"forwarded",
    b"host",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"location",
    b"max-forwards",
    b"origin",
    b"pragma",
    b"range",
    b"set-cookie",
    b"trailer",
    b"transfer-encoding",
    b"vary",
    b"via",
    b"www-authenticate",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
];

/// Whether one of the `Connection` fields names `field`, and may do so.
pub(super) fn is_for_this_hop(bytes: &[u8], fields: &[Field], field: &Field) -> bool {
    let name = field.name.of(bytes);
    let is_same = |other: &[u8]| name.eq_ignore_ascii_case(other);
    fields
        .iter()
        .filter(|field| field.known == super::FieldName::Connection)
        .any(|connection| syntax::elements(connection.value.of(bytes)).any(is_same))
        && !NOT_FOR_THIS_HOP_ONLY.into_iter().any(is_same)
}

/// Appends field lines to a head.
pub(super) struct LineWriter<'a> {
    out: &'a mut Vec<u8>,
    bytes: &'a [u8],
    /// Whole lines of `bytes` that are still to be appended.
    run: Range<usize>,
}

impl<'a> LineWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, bytes: &'a [u8]) -> Self {
        Self {
            out,
            bytes,
            run: 0..0,
        }
    }

    /// Appends `field` as it is, in the one form `name: value` that no parser reads otherwise.
    #[inline]
    pub(super) fn keep(&mut self, field: &Field) {
        let start = field.name.start as usize;
        let (name_end, value_start) = (field.name.end as usize, field.value.start as usize);
        let value_end = field.value.end as usize;
        let is_plain = value_start == name_end + 2
            && self.bytes.get(name_end + 1) == Some(&b' ')
            && self.bytes.get(value_end..value_end + 2) == Some(b"\r\n");
        if !is_plain {
            return self.put(&[
                field.name.of(self.bytes),
                b": ",
                field.value.of(self.bytes),
                b"\r\n",
            ]);
        }
        if self.run.end != start {
            self.flush();
            self.run.start = start;
        }
        self.run.end = value_end + 2;
    }

    /// Appends bytes, which are to make up whole lines in the end.
    pub(super) fn put(&mut self, parts: &[&[u8]]) {
        self.flush();
        for part in parts {
            self.out.extend_from_slice(part);
        }
    }

    /// Appends what `write` says, such as an address.
    pub(super) fn put_text(&mut self, text: std::fmt::Arguments<'_>) {
        self.flush();
        // Writing to a Vec does not fail.
        let _ = std::io::Write::write_fmt(self.out, text);
    }

    /// Appends the empty line that ends the head.
    pub(super) fn finish(mut self) {
        self.put(&[b"\r\n"]);
    }

    fn flush(&mut self) {
        self.out
            .extend_from_slice(self.bytes.get(self.run.clone()).unwrap_or_default());
        self.run = 0..0;
    }
}
