//! What a request asks the origin to be: the keys, declared once, and how they are read from a query and from fields.

use std::borrow::Cow;

use crate::content::framing::digits;

use super::faults::FaultKind;

/// Longest body in bytes that can be asked for: 2^50.
pub const BODY_BYTES_MAX: u64 = 1 << 50;
/// Longest chunk in bytes.
pub const CHUNK_BYTES_MAX: u64 = 1 << 24;
/// Longest delay or stall in milliseconds: an hour.
pub const PAUSE_MS_MAX: u64 = 3_600_000;
/// Most trailer fields.
pub const TRAILERS_MAX: u64 = 16;
/// What the name of a field begins with that stands for a key.
pub const FIELD_PREFIX: &str = "X-Lab-";

/// How the end of a body is marked (RFC 9112, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By `Content-Length`.
    Length,
    /// By the chunked coding; for HTTP/1.0, which has none, as `Close`.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// Which entity tag a response has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagKind {
    /// One that stands for the same bytes.
    Strong,
    /// One that stands for the same meaning.
    Weak,
}

/// All that a request may ask for; what is `None` was not asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes<'a> {
    /// Length of the body in bytes.
    pub length: Option<u64>,
    /// Seed of the body.
    pub seed: Option<u64>,
    /// The value of `Cache-Control`.
    pub cache: Option<Cow<'a, str>>,
    /// The value of `Vary`.
    pub vary: Option<Cow<'a, str>>,
    /// The value of `Content-Type`.
    pub content_type: Option<Cow<'a, str>>,
    /// Which `ETag`.
    pub tag: Option<TagKind>,
    /// Whether there is a `Last-Modified`.
    pub last_modified: bool,
    /// Pause before the head, in milliseconds.
    pub delay_ms: u64,
    /// Rate of the body in thousands of bits per second.
    pub rate_kbit: Option<u64>,
    /// How the body ends.
    pub framing: Option<Framing>,
    /// Length of a chunk in bytes.
    pub chunk_bytes: Option<u64>,
    /// Status code.
    pub status: Option<u16>,
    /// How many trailer fields.
    pub trailers: u64,
    /// Whether the response says what was received.
    pub echo: bool,
    /// What goes wrong.
    pub fault: Option<FaultKind>,
    /// Body bytes before it does.
    pub after: Option<u64>,
    /// How long a stall lasts, in milliseconds.
    pub stall_ms: Option<u64>,
}

/// One key: the same name in a query (`delay_ms=5`) and, behind [`FIELD_PREFIX`], as a field (`X-Lab-Delay-Ms: 5`).
pub struct Key {
    /// Its name in a query.
    pub name: &'static str,
    /// What a value looks like, for documentation and complaints.
    pub value: &'static str,
    /// What it does.
    pub means: &'static str,
    /// Stores a value; `None`: it is not right.
    set: for<'a> fn(&mut Wishes<'a>, Cow<'a, str>) -> Option<()>,
}

/// All keys.
pub const KEYS: &[Key] = &[
    Key {
        name: "length",
        value: "bytes, at most 2^50",
        means: "length of the body; wins over the path, and makes any path a body",
        set: |wishes, value| number(&mut wishes.length, &value, 0..=BODY_BYTES_MAX),
    },
    Key {
        name: "seed",
        value: "0 to 2^64-1",
        means: "seed of the body; without it, it follows from the path (and from the fields that `vary` names)",
        set: |wishes, value| number(&mut wishes.seed, &value, 0..=u64::MAX),
    },
    Key {
        name: "cache",
        value: "a `Cache-Control` value, such as `no-store` or `max-age=60`",
        means: "the `Cache-Control` of the response; without it there is none",
        set: |wishes, value| text(&mut wishes.cache, value),
    },
    Key {
        name: "vary",
        value: "names of fields, with commas between",
        means: "the `Vary` of the response; the body then depends on those fields of the request",
        set: |wishes, value| text(&mut wishes.vary, value),
    },
    Key {
        name: "type",
        value: "a media type",
        means: "the `Content-Type` of the response",
        set: |wishes, value| text(&mut wishes.content_type, value),
    },
    Key {
        name: "etag",
        value: "`1` (strong) or `weak`",
        means: "an `ETag`, from seed and length",
        set: |wishes, value| {
            wishes.tag = match &*value {
                "0" => None,
                "1" | "strong" => Some(TagKind::Strong),
                "weak" => Some(TagKind::Weak),
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        name: "last_modified",
        value: "`1` or `0`",
        means: "a `Last-Modified`, from the seed",
        set: |wishes, value| flag(&mut wishes.last_modified, &value),
    },
    Key {
        name: "delay_ms",
        value: "milliseconds, at most an hour",
        means: "pause before the head",
        set: |wishes, value| number_or_zero(&mut wishes.delay_ms, &value, PAUSE_MS_MAX),
    },
    Key {
        name: "rate_kbit",
        value: "thousands of bits per second, 1 to 100000000",
        means: "rate of the body",
        set: |wishes, value| number(&mut wishes.rate_kbit, &value, 1..=100_000_000),
    },
    Key {
        name: "framing",
        value: "`length`, `chunked` or `close`",
        means: "how the end of the body is marked; `chunked` becomes `close` for HTTP/1.0",
        set: |wishes, value| {
            wishes.framing = Some(match &*value {
                "length" => Framing::Length,
                "chunked" => Framing::Chunked,
                "close" => Framing::Close,
                _ => return None,
            });
            Some(())
        },
    },
    Key {
        name: "chunk_bytes",
        value: "bytes, 1 to 16777216",
        means: "length of a chunk, 16384 without it",
        set: |wishes, value| number(&mut wishes.chunk_bytes, &value, 1..=CHUNK_BYTES_MAX),
    },
    Key {
        name: "status",
        value: "200 to 599",
        means: "status code; conditions and ranges only work with 200",
        set: |wishes, value| {
            let mut status = None;
            number(&mut status, &value, 200..=599)?;
            wishes.status = u16::try_from(status?).ok();
            Some(())
        },
    },
    Key {
        name: "trailers",
        value: "0 to 16",
        means: "so many trailer fields, `X-Lab-Trailer-1: 1` and so on; needs chunks and asks for them",
        set: |wishes, value| number_or_zero(&mut wishes.trailers, &value, TRAILERS_MAX),
    },
    Key {
        name: "echo",
        value: "`1` or `0`",
        means: "`X-Lab-Received-Bytes` and `X-Lab-Received-Crc32` say what body the request had",
        set: |wishes, value| flag(&mut wishes.echo, &value),
    },
    Key {
        name: "fault",
        value: "`reset`, `close`, `stall`, `garbage`, `long`, `refuse` or `bad-chunk`",
        means: "what goes wrong",
        set: |wishes, value| {
            wishes.fault = Some(FaultKind::of_name(&value)?);
            Some(())
        },
    },
    Key {
        name: "after",
        value: "bytes",
        means: "body bytes before the fault, 0 without it; for `long`, the bytes too many, 64 without it",
        set: |wishes, value| number(&mut wishes.after, &value, 0..=BODY_BYTES_MAX),
    },
    Key {
        name: "stall_ms",
        value: "milliseconds, at most an hour",
        means: "how long `stall` lasts, 1000 without it",
        set: |wishes, value| number(&mut wishes.stall_ms, &value, 0..=PAUSE_MS_MAX),
    },
    Key {
        name: "n",
        value: "anything",
        means: "nothing: it makes URLs different from each other, as does a parameter without `=`",
        set: |_, _| Some(()),
    },
];

impl<'a> Wishes<'a> {
    /// Reads a query, the part of a target behind the question mark.
    ///
    /// # Errors
    /// A sentence that names the parameter and says what would be right.
    pub fn read_query(&mut self, query: &'a str) -> Result<(), String> {
        for parameter in query.split('&') {
            let Some((name, value)) = parameter.split_once('=') else {
                continue;
            };
            let key = key(name).ok_or_else(|| unknown("parameter", name))?;
            decoded(value)
                .and_then(|value| (key.set)(self, value))
                .ok_or_else(|| wrong("parameter", name, value, key))?;
        }
        Ok(())
    }

    /// Reads a field, if its name begins with [`FIELD_PREFIX`].
    ///
    /// # Errors
    /// A sentence that names the field and says what would be right.
    pub fn read_field(&mut self, name: &str, value: &'a [u8]) -> Result<(), String> {
        let prefix = FIELD_PREFIX.as_bytes();
        if name.len() <= prefix.len()
            || !name.as_bytes()[..prefix.len()].eq_ignore_ascii_case(prefix)
        {
            return Ok(());
        }
        // The prefix is ASCII, so that this is a boundary of characters.
        let key = key(&name[prefix.len()..]).ok_or_else(|| unknown("field", name))?;
        str::from_utf8(value)
            .ok()
            .and_then(|value| (key.set)(self, Cow::Borrowed(value.trim_ascii())))
            .ok_or_else(|| wrong("field", name, &String::from_utf8_lossy(value), key))
    }
}

fn key(name: &str) -> Option<&'static Key> {
    let same = |a: u8, b: u8| a == b.to_ascii_lowercase() || (a == b'_' && b == b'-');
    KEYS.iter().find(|key| {
        key.name.len() == name.len() && key.name.bytes().zip(name.bytes()).all(|(a, b)| same(a, b))
    })
}

fn unknown(what: &str, name: &str) -> String {
    let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    format!("no {what} `{name}`; there are {}", names.join(", "))
}

fn wrong(what: &str, name: &str, value: &str, key: &Key) -> String {
    format!(
        "{what} `{name}`: `{value}` is not right; it takes {}",
        key.value
    )
}

fn number(
    place: &mut Option<u64>,
    value: &str,
    allowed: std::ops::RangeInclusive<u64>,
) -> Option<()> {
    *place = Some(digits(value).filter(|number| allowed.contains(number))?);
    Some(())
}

fn number_or_zero(place: &mut u64, value: &str, max: u64) -> Option<()> {
    *place = digits(value).filter(|&number| number <= max)?;
    Some(())
}

fn flag(place: &mut bool, value: &str) -> Option<()> {
    *place = match value {
        "1" => true,
        "0" => false,
        _ => return None,
    };
    Some(())
}

/// A value that goes into a field of the response: not empty, and nothing in it that would end the field.
fn text<'a>(place: &mut Option<Cow<'a, str>>, value: Cow<'a, str>) -> Option<()> {
    let fits = !value.is_empty() && value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    fits.then(|| *place = Some(value))
}

/// Takes away the percent-encoding (RFC 3986, section 2.1); `None` if it is not right.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    if !value.contains('%') {
        return Some(Cow::Borrowed(value));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let mut half = || char::from(rest.next()?).to_digit(16);
            u8::try_from(half()? * 16 + half()?).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests;
