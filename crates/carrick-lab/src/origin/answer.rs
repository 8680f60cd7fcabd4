//! From a request to its answer: the head, written whole, and a plan of the body.

use crate::content::Body;
use crate::content::framing::Decoder;

use super::body_seed;
use super::conditions::{Validators, Verdict, judge};
use super::date::Date;
use super::faults::{Fault, FaultKind};
use super::request::{Head, Refusal};
use super::resource::{Resource, Source, find};
use super::upload::Received;
use super::wishes::{Framing, Wishes};

const CHUNK_BYTES: u64 = 16 * 1024;
const LONG_BYTES: u64 = 64;
const STALL_MS: u64 = 1000;
const GARBAGE_BYTES: usize = 256;

/// What is to be sent behind the head, and what becomes of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The body's bytes.
    pub source: Source,
    /// The first byte of it that is sent.
    pub from: u64,
    /// How many are sent, if nothing goes wrong.
    pub bytes: u64,
    /// How its end is marked.
    pub framing: Framing,
    /// Length of a chunk.
    pub chunk_bytes: u64,
    /// How many trailer fields.
    pub trailers: u64,
    /// Rate of the body in thousands of bits per second; `None`: as fast as it goes.
    pub rate_kbit: Option<u64>,
    /// Pause before the head.
    pub delay_ms: u64,
    /// What goes wrong.
    pub fault: Option<Fault>,
    /// Bytes of the request's body.
    pub received_bytes: u64,
    /// Whether the connection ends behind this answer.
    pub closes: bool,
    /// Whether the client may have sent more than was read, so that a plain close could destroy the answer on its way.
    pub lingers: bool,
}

/// Answers a request. `head` becomes the head of the response.
///
/// `is_last`: the connection has carried as many requests as it may.
#[must_use]
pub fn answer(
    request: &Head<'_>,
    received: Received,
    date: &Date,
    is_last: bool,
    head: &mut Vec<u8>,
) -> Answer {
    let writer = Writer {
        request,
        received,
        date,
        closes: is_last || !request.keeps_alive,
        head,
    };
    let wishes = match &request.wishes {
        Ok(wishes) => wishes,
        Err(reason) => return writer.text(400, reason),
    };
    if request.method == "CONNECT" {
        return writer.text(501, "this is an origin: it opens no tunnels");
    }
    if let Err(reason) = consistent(wishes) {
        return writer.text(400, reason);
    }
    match find(request, wishes) {
        Ok(resource) => writer.resource(wishes, resource),
        Err(refusal) => writer.text(refusal.status, &refusal.reason),
    }
}

/// The reason phrase of a status code (RFC 9110, section 15).
fn phrase(status: u16) -> &'static str {
    let known = http::StatusCode::from_u16(status).ok();
    known
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Unassigned")
}

/// Answers what is no request: says why, and closes.
#[must_use]
pub fn refuse(refusal: &Refusal, date: &Date, head: &mut Vec<u8>) -> Answer {
    let request = Head {
        method: "GET",
        path: "/",
        is_1_1: true,
        keeps_alive: false,
        expects_continue: false,
        is_conditional: false,
        upload: Decoder::Length(0),
        wishes: Ok(Wishes::default()),
        fields: &[],
    };
    let writer = Writer {
        request: &request,
        received: Received::default(),
        date,
        closes: true,
        head,
    };
    let mut answer = writer.text(refusal.status, &refusal.reason);
    answer.lingers = true;
    answer
}

/// Whether the wishes go together.
fn consistent(wishes: &Wishes<'_>) -> Result<(), &'static str> {
    let is_chunked = matches!(wishes.framing, None | Some(Framing::Chunked));
    if wishes.trailers > 0 && !is_chunked {
        return Err("trailers need framing=chunked");
    }
    match wishes.fault {
        Some(FaultKind::BadChunk) if !is_chunked => Err("fault=bad-chunk needs framing=chunked"),
        Some(FaultKind::Long)
            if wishes.trailers > 0 || !matches!(wishes.framing, None | Some(Framing::Length)) =>
        {
            Err("fault=long needs framing=length")
        }
        None if wishes.after.is_some() => Err("after needs a fault"),
        Some(FaultKind::Stall) | None => Ok(()),
        _ if wishes.stall_ms.is_some() => Err("stall_ms needs fault=stall"),
        _ => Ok(()),
    }
}

/// Writes the head of one response.
struct Writer<'a, 'b> {
    request: &'a Head<'b>,
    received: Received,
    date: &'a Date,
    closes: bool,
    head: &'a mut Vec<u8>,
}

impl Writer<'_, '_> {
    /// A short text; with a status that is an error, why it is one.
    fn text(mut self, status: u16, reason: &str) -> Answer {
        let text = format!("{reason}\n").into_bytes();
        self.closes |= status == 501;
        let wishes = Wishes::default();
        let mut answer = self.plan(
            &wishes,
            status,
            Source::Stored(text.clone()),
            text.len() as u64,
        );
        self.begin(status);
        self.field(b"Content-Type", b"text/plain");
        self.end(&mut answer);
        answer
    }

    fn resource(mut self, wishes: &Wishes<'_>, resource: Resource) -> Answer {
        let Resource {
            source,
            bytes,
            seed,
            content_type,
        } = resource;
        let validators = Validators::new(wishes, seed, bytes);
        let verdict =
            if self.request.is_conditional && wishes.status.is_none_or(|status| status == 200) {
                judge(self.request, &validators, bytes)
            } else {
                Verdict::Whole
            };
        let status = match verdict {
            Verdict::Whole => wishes.status.unwrap_or(200),
            Verdict::Part { .. } => 206,
            Verdict::NotModified => 304,
            Verdict::PreconditionFailed => 412,
            Verdict::Unsatisfiable => 416,
        };
        let mut answer = self.plan(wishes, status, source, bytes);
        self.begin(status);
        self.head.extend_from_slice(b"Accept-Ranges: bytes\r\n");
        match verdict {
            Verdict::Part { from, bytes: part } => {
                (answer.from, answer.bytes) = (from, part);
                self.head.extend_from_slice(b"Content-Range: bytes ");
                self.number(from);
                self.head.push(b'-');
                self.number(from + part - 1);
                self.head.push(b'/');
                self.number(bytes);
                self.head.extend_from_slice(b"\r\n");
            }
            Verdict::Unsatisfiable => {
                answer.bytes = 0;
                self.head.extend_from_slice(b"Content-Range: bytes */");
                self.number(bytes);
                self.head.extend_from_slice(b"\r\n");
            }
            Verdict::PreconditionFailed => answer.bytes = 0,
            Verdict::Whole | Verdict::NotModified => {}
        }
        if status != 304 {
            let content_type = wishes.content_type.as_deref().unwrap_or(content_type);
            self.field(b"Content-Type", content_type.as_bytes());
        }
        self.metadata(wishes, &validators);
        if wishes.echo {
            self.head.extend_from_slice(b"X-Lab-Received-Bytes: ");
            self.number(self.received.bytes);
            self.head.extend_from_slice(b"\r\n");
            let checksum = format!("{:08x}", self.received.crc32());
            self.field(b"X-Lab-Received-Crc32", checksum.as_bytes());
        }
        self.end(&mut answer);
        answer
    }

    /// The plan as wished, before method, status and faults have their say.
    fn plan(&self, wishes: &Wishes<'_>, status: u16, source: Source, bytes: u64) -> Answer {
        let needs_chunks = wishes.trailers > 0 || wishes.fault == Some(FaultKind::BadChunk);
        let asked = match wishes.framing {
            None if needs_chunks => Framing::Chunked,
            asked => asked.unwrap_or(Framing::Length),
        };
        let framing = match asked {
            Framing::Chunked if !self.request.is_1_1 => Framing::Close,
            other => other,
        };
        let is_long = wishes.fault == Some(FaultKind::Long);
        Answer {
            status,
            source,
            from: 0,
            bytes,
            framing,
            chunk_bytes: wishes.chunk_bytes.unwrap_or(CHUNK_BYTES),
            trailers: wishes.trailers,
            rate_kbit: wishes.rate_kbit,
            delay_ms: wishes.delay_ms,
            fault: wishes.fault.map(|kind| Fault {
                kind,
                after: wishes.after.unwrap_or(if is_long { LONG_BYTES } else { 0 }),
                stall_ms: wishes.stall_ms.unwrap_or(STALL_MS),
            }),
            received_bytes: self.received.bytes,
            closes: false,
            lingers: false,
        }
    }

    fn begin(&mut self, status: u16) {
        self.head.clear();
        if status == 200 {
            self.head.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        } else {
            self.head.extend_from_slice(b"HTTP/1.1 ");
            self.number(u64::from(status));
            self.head.push(b' ');
            self.head.extend_from_slice(phrase(status).as_bytes());
            self.head.extend_from_slice(b"\r\n");
        }
        self.head.extend_from_slice(b"Server: carrick-lab\r\n");
        self.field(b"Date", self.date.text());
    }

    fn metadata(&mut self, wishes: &Wishes<'_>, validators: &Validators) {
        if let Some(cache) = &wishes.cache {
            self.field(b"Cache-Control", cache.as_bytes());
        }
        if let Some(vary) = &wishes.vary {
            self.field(b"Vary", vary.as_bytes());
        }
        if let Some(tag) = &validators.tag {
            self.field(b"ETag", tag.text());
        }
        if let Some(modified) = validators.modified {
            self.field(b"Last-Modified", Date::of(modified).text());
        }
    }

    /// Framing and connection, then what method, status and fault leave of the body.
    fn end(self, answer: &mut Answer) {
        let Writer {
            request,
            head,
            mut closes,
            ..
        } = self;
        // RFC 9110, sections 15.3.5 and 15.4.5: never a body, whatever the fields say.
        let is_bodiless = matches!(answer.status, 204 | 304);
        if answer.status == 205 {
            (answer.bytes, answer.framing) = (0, Framing::Length);
        }
        let announced = answer.bytes;
        match answer.framing {
            _ if is_bodiless => {}
            Framing::Length => {
                head.extend_from_slice(b"Content-Length: ");
                head.extend_from_slice(itoa::Buffer::new().format(announced).as_bytes());
                head.extend_from_slice(b"\r\n");
            }
            Framing::Chunked => {
                head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
                for number in 1..=answer.trailers {
                    head.extend_from_slice(
                        format!("Trailer: X-Lab-Trailer-{number}\r\n").as_bytes(),
                    );
                }
            }
            Framing::Close => closes = true,
        }
        if is_bodiless || request.method == "HEAD" {
            (answer.bytes, answer.framing) = (0, Framing::Length);
        }
        match answer.fault.map(|fault| fault.kind) {
            Some(FaultKind::Garbage | FaultKind::Refuse) => {
                (answer.bytes, answer.framing) = (0, Framing::Length);
                closes = true;
            }
            Some(FaultKind::Reset | FaultKind::Close | FaultKind::BadChunk) => closes = true,
            _ => {}
        }
        if closes {
            head.extend_from_slice(b"Connection: close\r\n");
        } else if !request.is_1_1 {
            head.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        head.extend_from_slice(b"\r\n");
        match answer.fault.map(|fault| fault.kind) {
            Some(FaultKind::Refuse) => head.clear(),
            Some(FaultKind::Garbage) => {
                head.clear();
                let noise = Body::of_seed(body_seed(request.path));
                head.extend_from_slice(noise.piece(0, GARBAGE_BYTES));
            }
            _ => {}
        }
        answer.closes = closes;
        answer.lingers = closes && request.keeps_alive;
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, b": ", value, b"\r\n"] {
            self.head.extend_from_slice(part);
        }
    }

    fn number(&mut self, number: u64) {
        self.head
            .extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}

#[cfg(test)]
mod tests;
