//! Sending what is stored: whole, in ranges, or as 304; also while it is still coming.
use super::ask::{Asking, status_value};
use super::parts::stored_of;
use crate::cache::memory::{Body, BodyReader, Object};
use crate::config::plan::RouteCache;
use crate::context::client::Client;
use crate::context::request_log::RequestLog;
use crate::context::request_log::{IDLE_TIMEOUT, TOO_SLOW};
use crate::http::ktls;
use crate::http::least_rate::ReceiverPace;
use crate::http::outcome::Passed;
use crate::http::prefetch::{Fetch, Page};
use crate::http::while_taken::room_while_taken;
use crate::net::deadline::Timer;
use crate::net::io::Stream;
use crate::net::scratch::Scratch;
use crate::net::transport::Transport;
use crate::reply::{self, Asked, Reply};
use crate::telemetry::metrics::{CacheResult, Limit, WorkerMetrics};
use carrick_logic::cache::{
    Answer, CacheStatus, ContentRange, Multipart, Request, Reuse, UnixTime, multipart, plan_answer,
    stale_on_error, write_answer_fields,
};
use carrick_logic::http1::{self, Method, Version, reason_phrase};
use carrick_splice::{PaceHandle, RateMin, Throttle};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A stored answer, as it is to be sent.
pub struct Source {
    /// How the route wants it.
    pub route: Arc<RouteCache>,
    /// What is sent.
    pub object: Arc<Object>,
    /// How old it is.
    pub reuse: Reuse,
    /// How it came to be sent.
    pub status: CacheStatus<'static>,
    /// Field lines that are for this client only.
    pub own_lines: Vec<u8>,
    /// Whether a cache nearer to the origin had it for a while, if the origin was asked.
    pub is_aged: bool,
    /// Whether the answer says so.
    pub says_status: bool,
    /// The present time.
    pub now: UnixTime,
    /// By which class it is paced, if it has to come from the origin yet.
    pub pace: Option<usize>,
    /// Fetches what it embeds, if it is a page.
    pub fetch: Fetch,
}

impl Source {
    /// The value of `Age`. What the origin has just made or validated has none.
    fn age_s(&self) -> Option<u32> {
        let is_new = matches!(self.result(), CacheResult::Miss | CacheResult::Revalidated);
        (!is_new || self.is_aged).then_some(self.reuse.age_s)
    }

    /// How it came to be sent.
    #[must_use]
    pub fn result(&self) -> CacheResult {
        match self.status.forward_status {
            Some(304) => CacheResult::Revalidated,
            Some(_) => CacheResult::Stale,
            None if self.status.forward.is_some() => CacheResult::Miss,
            None if self.reuse.ttl_s <= 0 => CacheResult::Stale,
            None if self.status.collapsed => CacheResult::Collapsed,
            None => CacheResult::Hit,
        }
    }
}

/// A part of what is sent behind the head.
enum Part {
    Text(Vec<u8>),
    Stored(Range<u64>),
}

/// Sends the answer to the request in `scratch`; how far it came, and whether the client was told that its connection stays open.
pub async fn send(
    client: &mut Client,
    scratch: &mut Scratch,
    source: &Source,
    log: &mut RequestLog,
) -> (Passed, bool) {
    let object = &source.object;
    let reader = object.body().reader();
    let is_whole = object.is_whole() && !object.is_file();
    if !is_whole {
        client.downstream.push_held();
    }
    let total_bytes = object.total_bytes();
    if total_bytes.is_none() && object.part().is_none() {
        return broken_off(client, scratch, log).await;
    }
    let known_bytes = total_bytes.unwrap_or(object.progress().bytes);
    let request = Request::of_head(&scratch.request_head, &scratch.request);
    let answer = plan_answer(
        &request,
        &stored_of(object),
        known_bytes,
        source.now,
        &source.route.policy,
    );
    let keep_alive = scratch.request_head.keep_alive
        && !client.downstream.is_last
        && !client.context.worker.sessions.is_draining();
    let is_head = scratch.request_head.method == Method::Head;
    scratch.out.clear();
    let (status, parts) = write_head(
        &mut scratch.out,
        source,
        answer,
        total_bytes,
        (scratch.request_head.version, keep_alive),
        client.context.listener.via.of_responses(),
    );
    if let Some(hsts) = reply::hsts(&client.context)
        && !stored_of(object).fields.has(b"strict-transport-security")
    {
        http1::add_field(&mut scratch.out, reply::HSTS, hsts);
    }
    log.status = status;
    let parts = if is_head { Vec::new() } else { parts };
    let page = match parts.first() {
        Some(Part::Stored(_)) if status == 200 => Page::of_stored(
            &client.context,
            scratch,
            (object, &source.route),
            source.now,
            source.fetch,
        ),
        _ => None,
    };
    let is_at_hand = source.status.forward_status.is_none()
        && matches!(source.result(), CacheResult::Hit | CacheResult::Stale);
    let first_byte = is_at_hand.then_some(log.begun);
    // What is stored already is the process' own work; what is being fetched keeps to the pace of what is spliced.
    let is_fetched = matches!(source.result(), CacheResult::Miss | CacheResult::Collapsed);
    let pace = if is_fetched {
        let [_, to_client] = client.paced(source.pace);
        to_client
    } else {
        PaceHandle::default()
    };
    if let Some(Part::Stored(range)) = parts.first()
        && object.is_file()
    {
        ktls::before_body(client, range.end - range.start);
    }
    let throttle = Throttle::new(pace, client.context.worker.splicer.pacer());
    let sending = Sending {
        reader,
        first_byte,
        throttle,
        more: is_whole && has_next(scratch),
    };
    let before = log.sent;
    let passed = send_parts(client, &mut scratch.out, sending, parts, log).await;
    let pacer = &client.context.worker.pacer;
    if is_fetched {
        pacer.splices();
    } else {
        pacer.served(log.sent - before, is_at_hand);
    }
    if let (Some(page), Passed::ClientGone(_)) = (page, passed) {
        page.abort();
    }
    if let Passed::ClientGone(how) | Passed::UpstreamBroke(how) = passed {
        log.ended = how;
        let limits = &client.context.metrics().limits;
        match how {
            TOO_SLOW => limits.reached(Limit::RateMin),
            IDLE_TIMEOUT => limits.reached(Limit::IdleTimeout),
            _ => {}
        }
    }
    (passed, keep_alive)
}

/// What was found has broken off since then: not even its length is known any more.
async fn broken_off(
    client: &mut Client,
    scratch: &Scratch,
    log: &mut RequestLog,
) -> (Passed, bool) {
    let reply = Reply::new(
        502,
        "no_response",
        "The upstream closed the connection before its response was whole.",
    );
    let asked = Asked {
        method: scratch.request_head.method,
        version: scratch.request_head.version,
        keep_alive: false,
        is_late_call: None,
    };
    let passed = match reply::send(client, &reply, asked, log).await {
        true => Passed::Whole,
        false => Passed::ClientGone("client_reset"),
    };
    (passed, false)
}

/// Whether what is stored may be sent, since the origin cannot be asked (RFC 5861 section 4).
pub fn stale(scratch: &Scratch, asking: &Asking, now: UnixTime) -> Option<(Arc<Object>, Reuse)> {
    let object = asking.stored.as_ref()?;
    let request = Request::of_head(&scratch.request_head, &scratch.request);
    let reuse = stale_on_error(&request, &object.meta(), now, &asking.route.policy)?;
    Some((Arc::clone(object), reuse))
}

impl Asking {
    /// What is stored, as it is sent once the origin was asked.
    pub fn source(
        &self,
        object: Arc<Object>,
        reuse: Reuse,
        now: UnixTime,
        pace: Option<usize>,
    ) -> Source {
        Source {
            route: Arc::clone(&self.route),
            object,
            reuse,
            status: self.status,
            own_lines: self.own_lines.clone(),
            is_aged: self.is_aged,
            says_status: self.says_status,
            now,
            pace,
            fetch: self.fetch,
        }
    }
}

/// Writes the head of an answer; its status, and what follows the head.
fn write_head(
    out: &mut Vec<u8>,
    source: &Source,
    answer: Answer,
    total_bytes: Option<u64>,
    (version, keep_alive): (Version, bool),
    via: &str,
) -> (u16, Vec<Part>) {
    let stored = stored_of(&source.object);
    let status = match &answer {
        Answer::NotModified => 304,
        Answer::Whole if source.object.part().is_some() => 200,
        Answer::Whole => source.object.meta().status,
        Answer::Range(_) | Answer::Ranges(_) => 206,
        Answer::Unsatisfiable => 416,
    };
    // Without the machinery of `format!`, which costs more than the rest of a short head.
    for part in [
        b"HTTP/1.1 ".as_slice(),
        itoa::Buffer::new().format(status).as_bytes(),
        b" ",
        reason_phrase(status).as_bytes(),
        b"\r\n",
    ] {
        out.extend_from_slice(part);
    }
    write_answer_fields(out, &stored, &answer, source.age_s());
    // With neither there is room for a second `Content-Type`.
    if !matches!(answer, Answer::Ranges(_) | Answer::Unsatisfiable) {
        out.extend_from_slice(&source.own_lines);
    }
    let mut put = |text: std::fmt::Arguments<'_>| {
        let _ = io::Write::write_fmt(out, text);
    };
    let parts = match answer {
        Answer::NotModified => Vec::new(),
        // RFC 9110 section 8.6: it has none.
        Answer::Whole if status == 204 => Vec::new(),
        Answer::Whole => {
            let total_bytes = total_bytes.unwrap_or_default();
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(total_bytes).as_bytes());
            out.extend_from_slice(b"\r\n");
            vec![Part::Stored(0..total_bytes)]
        }
        Answer::Range(range) => {
            put(format_args!(
                "Content-Length: {}\r\n",
                range.end.saturating_sub(range.start)
            ));
            out.extend_from_slice(b"Content-Range: ");
            let part = ContentRange {
                start: range.start,
                end: range.end,
                total_bytes,
            };
            part.write(out);
            out.extend_from_slice(b"\r\n");
            vec![Part::Stored(range)]
        }
        Answer::Ranges(ranges) => {
            let total_bytes = total_bytes.unwrap_or_default();
            let content_type = stored.fields.first(b"content-type");
            let laid_out = multipart(ranges, total_bytes, content_type, boundary());
            put(format_args!("Content-Length: {}\r\n", laid_out.body_bytes));
            for part in [b"Content-Type: ", laid_out.content_type.as_slice(), b"\r\n"] {
                out.extend_from_slice(part);
            }
            parts_of(laid_out)
        }
        Answer::Unsatisfiable => {
            put(format_args!(
                "Content-Length: 0\r\nContent-Range: bytes */{}\r\n",
                total_bytes.unwrap_or_default()
            ));
            Vec::new()
        }
    };
    // RFC 9110 section 7.8: a sender of `Upgrade` lists it in `Connection`. Only a 426 is stored with it.
    let has_upgrade = status == 426 && stored.fields.has(b"upgrade");
    let options: &[u8] = match (keep_alive, version, has_upgrade) {
        (false, _, false) => b"Connection: close\r\n",
        (false, _, true) => b"Connection: close, Upgrade\r\n",
        (true, Version::Http10, false) => b"Connection: keep-alive\r\n",
        (true, Version::Http10, true) => b"Connection: keep-alive, Upgrade\r\n",
        (true, Version::Http11, false) => b"",
        (true, Version::Http11, true) => b"Connection: Upgrade\r\n",
    };
    out.extend_from_slice(options);
    let said = source.says_status.then(|| status_value(&source.status));
    for (name, value) in [
        (b"Via: 1.1 ".as_slice(), Some(via.as_bytes())),
        (b"Cache-Status: ", said.as_deref().map(str::as_bytes)),
    ] {
        for part in [name, value.unwrap_or_default(), b"\r\n"] {
            if value.is_some_and(|value| !value.is_empty()) {
                out.extend_from_slice(part);
            }
        }
    }
    out.extend_from_slice(b"\r\n");
    (status, parts)
}

/// A separator of parts. It cannot be guessed, and so not be put into a body.
fn boundary() -> u128 {
    let mut bytes = [0; 16];
    // Where there is none, the kernel is older than what carrick runs on.
    let _ = getrandom::fill(&mut bytes);
    u128::from_ne_bytes(bytes)
}

fn parts_of(laid_out: Multipart) -> Vec<Part> {
    let mut parts = Vec::with_capacity(2 * laid_out.parts.len() + 1);
    for part in laid_out.parts {
        parts.push(Part::Text(part.head));
        parts.push(Part::Stored(part.range));
    }
    parts.push(Part::Text(laid_out.end));
    parts
}

/// The most that is given to the kernel with one call, so that other sessions get their turn.
const BURST_BYTES_MAX: u64 = 1 << 20;

/// The least that is worth a call, where many read the same long body.
const BURST_BYTES_MIN: u64 = 256 << 10;

/// What all who read one body are given in a round, if that is more than the least for each: of those who have asked at the same time, none
/// is to be done long before the others.
const ROUND_BYTES: u64 = 16 << 20;

/// How much of so many bytes of a body with this many readers is given to the kernel with one call. What one call can take is not
/// divided: the calls would cost three times as much, and it does not take long.
fn burst_bytes(bytes: u64, readers: usize) -> u64 {
    if bytes <= BURST_BYTES_MAX {
        return BURST_BYTES_MAX;
    }
    let share = ROUND_BYTES / u64::try_from(readers.max(1)).unwrap_or(u64::MAX);
    share.clamp(BURST_BYTES_MIN, BURST_BYTES_MAX)
}

/// How a body ends of which the disk does not have what it had.
const DISK_FAILED: &str = "cache_disk";
/// Where the bytes come from.
struct Sending {
    reader: BodyReader,
    /// When the request began, until the first byte of its answer is sent, if that is to be counted.
    first_byte: Option<Instant>,
    throttle: Throttle,
    /// Whether the next answer may follow at once: then both go in the same segments.
    more: bool,
}

/// Whether the head of another request has come already (a pipeline).
fn has_next(scratch: &Scratch) -> bool {
    let behind = scratch.request.get(scratch.request_head.head_bytes..);
    scratch.request_head.keep_alive
        && behind.is_some_and(|behind| memchr::memmem::find(behind, b"\r\n\r\n").is_some())
}

impl Sending {
    /// Some bytes were sent.
    fn count(&mut self, metrics: &WorkerMetrics) {
        if let Some(begun) = self.first_byte.take() {
            metrics.cache.first_byte_seconds.observe(begun.elapsed());
        }
    }
}

/// Sends the head in `out`, and the parts.
async fn send_parts(
    client: &mut Client,
    out: &mut Vec<u8>,
    mut sending: Sending,
    parts: Vec<Part>,
    log: &mut RequestLog,
) -> Passed {
    let (context, downstream) = (&client.context, &mut client.downstream);
    let live = Rc::clone(&context.live);
    let (limits, timeouts) = (&live.plan().limits, &live.plan().timeouts);
    let mut pace = ReceiverPace::new((limits.rate_min > 0).then_some(RateMin {
        bytes_per_second: limits.rate_min,
        grace: timeouts.head,
    }));
    for part in parts {
        let range = match part {
            Part::Text(text) => {
                log.sent += text.len() as u64;
                out.extend_from_slice(&text);
                continue;
            }
            Part::Stored(range) => range,
        };
        let mut at = range.start;
        while at < range.end {
            let progress = tokio::select! {
                biased;
                more = sending.reader.more(&mut downstream.timer, timeouts.idle, at) => more,
                // Nothing may be there to be written for long, which would show it.
                () = downstream.transport.lost() => return Passed::ClientGone("client_reset"),
            };
            let end = match progress {
                Ok(progress) if progress.bytes > at => progress.bytes.min(range.end),
                Ok(_) => return Passed::UpstreamBroke("upstream_closed"),
                Err(_) => return Passed::UpstreamBroke(IDLE_TIMEOUT),
            };
            let body = sending.reader.body();
            let burst_bytes = burst_bytes(range.end - range.start, body.readers());
            let bytes = (end - at)
                .min(burst_bytes)
                .min(sending.throttle.piece_bytes());
            if let Some(fetched) = body.fetch(at, bytes) {
                match downstream.timer.within(timeouts.idle, fetched).await {
                    Ok(Ok(true)) => {}
                    Ok(_) => {
                        body.spoil();
                        return Passed::UpstreamBroke(DISK_FAILED);
                    }
                    Err(_) => return Passed::UpstreamBroke(IDLE_TIMEOUT),
                }
            }
            (downstream.transport.wait_for(&mut sending.throttle, bytes)).await;
            let means = (&mut downstream.timer, timeouts.idle);
            let burst = (&out[..], (at, bytes), sending.more);
            let sent = send_burst(means, &downstream.transport, body, burst, &mut pace).await;
            match sent {
                Ok(Ok(())) => sending.count(context.metrics()),
                // The file has become shorter than it was.
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    sending.reader.body().spoil();
                    return Passed::UpstreamBroke(DISK_FAILED);
                }
                Ok(Err(_)) => return Passed::ClientGone("client_reset"),
                Err(how) => return Passed::ClientGone(how),
            }
            out.clear();
            at += bytes;
            log.sent += bytes;
            if burst_bytes < BURST_BYTES_MAX && at < range.end {
                tokio::task::yield_now().await;
            }
        }
    }
    if out.is_empty() {
        downstream.holds.set(sending.more);
        return Passed::Whole;
    }
    let means = (&mut downstream.timer, timeouts.idle);
    let burst = (&out[..], (0, 0), sending.more);
    let body = sending.reader.body();
    let sent = send_burst(means, &downstream.transport, body, burst, &mut pace).await;
    match sent {
        Ok(Ok(())) => {
            sending.count(context.metrics());
            downstream.holds.set(sending.more);
            Passed::Whole
        }
        Ok(Err(_)) => Passed::ClientGone("client_reset"),
        Err(how) => Passed::ClientGone(how),
    }
}

/// Sends `out`, and `bytes` stored bytes from `at` on, to a client that takes something at least every `idle`, and keeps to its
/// pace.
///
/// # Errors
/// How the response has ended, if the client did not take it in time.
async fn send_burst(
    (timer, idle): (&mut Timer, Duration),
    stream: &Transport,
    body: &Body,
    (mut out, (mut at, mut bytes), more): (&[u8], (u64, u64), bool),
    pace: &mut ReceiverPace,
) -> Result<io::Result<()>, &'static str> {
    let mut done = 0;
    pace.begin();
    while !out.is_empty() || bytes > 0 {
        match body.send(stream, at, bytes, out, more) {
            Ok(sent) => {
                done += sent;
                let of_out = sent.min(out.len());
                out = out.get(of_out..).unwrap_or_default();
                at += (sent - of_out) as u64;
                bytes -= (sent - of_out) as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let room = poll_fn(|cx| stream.poll_write_ready(cx));
                let patience = (&mut *timer, idle);
                let ready = room_while_taken(patience, stream, room, (pace, done)).await?;
                if let Err(error) = ready {
                    return Ok(Err(error));
                }
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    pace.end(done).then_some(Ok(())).ok_or(TOO_SLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_bodies_of_many_readers_are_sent_in_turns() {
        let mb = 1 << 20;
        for (bytes, readers, expected) in [
            (mb, 1000, mb),
            (10 * mb, 1, mb),
            (10 * mb, 32, mb / 2),
            (10 * mb, 1000, mb / 4),
        ] {
            assert_eq!(burst_bytes(bytes, readers), expected, "{bytes} {readers}");
        }
    }
}
