//! A request is over: its line in the access log, and its counts.
use super::request_context::RequestContext;
use super::request_log::{COMPLETE, LEFT, RequestLog};
use crate::net::deadline::now;
use crate::telemetry::access_log::Record;
use crate::telemetry::engine_name;
use crate::telemetry::job::Job;
use crate::telemetry::metrics::CacheResult;
use carrick_logic::http1::{RequestHead, Version, without_user_information};
use std::borrow::Cow;
use std::time::Duration;

impl RequestLog {
    /// Writes the log line and counts the request. `bytes` is the buffer of `head`; no head: it could not be read.
    pub fn finish(&self, context: &RequestContext, bytes: &[u8], head: Option<&RequestHead>) {
        let worker = &context.worker;
        let job = Job::from(&context.listener.mode);
        let counters = worker.metrics().job(job);
        let total = (now() - self.begun).saturating_sub(self.over_for);
        counters.requests.count(self.status);
        if self.over_for != Duration::MAX {
            counters.request_seconds.observe(total);
        }
        if let Some(connect) = self.connect {
            worker.metrics().connect_seconds.observe(connect);
        }
        if let Some(first_byte) = self.first_byte {
            worker.metrics().first_byte_seconds.observe(first_byte);
        }
        worker.metrics().client_bytes_received.add(self.received);
        worker.metrics().client_bytes_sent.add(self.sent);
        if let Some(result) = self.cache {
            worker.metrics().cache.count(result, self.sent);
        }
        if !worker.telemetry.log.is_on() {
            return;
        }
        let field = |name| {
            head.and_then(|head| head.field(bytes, name))
                .unwrap_or_default()
        };
        let (method, target) = match head {
            Some(head) => (
                head.method_text.of(bytes),
                Cow::Borrowed(target_text(bytes, head)),
            ),
            None => {
                let (method, target) = unread(bytes, context.is_http2);
                (method, cut_short(target))
            }
        };
        self.write(
            context,
            job,
            total,
            RequestWords {
                method,
                target: &target,
                version: match head.map(|head| head.version) {
                    _ if context.is_http2 => "HTTP/2.0",
                    Some(Version::Http11) => "HTTP/1.1",
                    Some(Version::Http10) => "HTTP/1.0",
                    None => "",
                },
                referer: field("referer"),
                user_agent: field("user-agent"),
            },
        );
    }

    /// Writes the log line of a tunnel without HTTP and counts it.
    pub fn finish_tunnel(&self, context: &RequestContext, target: &[u8], version: &'static str) {
        let job = Job::from(&context.listener.mode);
        let counters = context.metrics().job(job);
        let total = now() - self.begun;
        counters.requests.count(self.status);
        if let Some(connect) = self.connect {
            context.metrics().connect_seconds.observe(connect);
        }
        context.metrics().client_bytes_received.add(self.received);
        context.metrics().client_bytes_sent.add(self.sent);
        if context.worker.telemetry.log.is_on() {
            let words = RequestWords {
                method: b"TUNNEL",
                target,
                version,
                referer: b"",
                user_agent: b"",
            };
            self.write(context, job, total, words);
        }
    }

    fn write(&self, context: &RequestContext, job: Job, total: Duration, words: RequestWords<'_>) {
        let plan = context.live.plan();
        let who = self.client.unwrap_or(context.address);
        context.worker.telemetry.log.write(&Record {
            client: who.ip(),
            client_port: who.port(),
            user: self.user.as_deref(),
            method: words.method,
            target: &without_user_information(words.target),
            version: words.version,
            status: self.status,
            bytes_received: self.received,
            bytes_sent: self.sent,
            referer: &without_user_information(words.referer),
            user_agent: words.user_agent,
            job,
            upstream: self
                .upstream
                .and_then(|index| plan.upstreams.get(index))
                .map(|upstream| upstream.name.as_str()),
            server: self.server,
            tls: context.tls.as_deref(),
            destination: context.original,
            engine: self.engine.map(engine_name),
            connect: self.connect,
            first_byte: self.first_byte,
            total,
            reused: self.reused,
            server_version: self.is_server_http2.then_some("HTTP/2.0"),
            paths: self.paths,
            cache: self.cache.map(CacheResult::name),
            // Whatever else a session notes after the end of the drain, it was the drain that ended it.
            ended: match self.ended {
                COMPLETE | LEFT => self.ended,
                _ if context.worker.sessions.has_cut_off() => "drain",
                ended => ended,
            },
        });
    }
}

struct RequestWords<'a> {
    method: &'a [u8],
    target: &'a [u8],
    version: &'static str,
    referer: &'a [u8],
    user_agent: &'a [u8],
}

/// The request target as it was written: between the first and the last space of the request line.
pub fn target_text<'b>(bytes: &'b [u8], head: &RequestHead) -> &'b [u8] {
    let line = memchr::memchr(b'\r', bytes)
        .and_then(|end| bytes.get(..end))
        .unwrap_or_default();
    let start = head.method_text.end as usize + 1;
    memchr::memrchr(b' ', line)
        .and_then(|end| line.get(start..end))
        .unwrap_or_default()
}

/// The method and the target to show of a request that could not be read: its first line, of which nothing is known to be a
/// method. By HTTP/2 it is a line that carrick has written.
fn unread(bytes: &[u8], is_http2: bool) -> (&[u8], &[u8]) {
    let line = bytes
        .split(|byte| matches!(byte, b'\r' | b'\n'))
        .next()
        .unwrap_or_default();
    match memchr::memchr(b' ', line).filter(|_| is_http2) {
        Some(space) => {
            let target = &line[space + 1..];
            let target = target.strip_suffix(b" HTTP/1.1").unwrap_or(target);
            (&line[..space], target)
        }
        None => (b"", line),
    }
}

fn cut_short(text: &[u8]) -> Cow<'_, [u8]> {
    const SHOWN_BYTES_MAX: usize = 200;
    match without_user_information(text) {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..SHOWN_BYTES_MAX).unwrap_or(text)),
        Cow::Owned(mut text) => {
            text.truncate(SHOWN_BYTES_MAX);
            Cow::Owned(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_request_that_could_not_be_read() {
        let cases = [
            ("GET /a HTTP/1.1\r\nHost: a", false, ("", "GET /a HTTP/1.1")),
            ("GET /a HTTP/1.1\r\nHost: a", true, ("GET", "/a")),
            ("CONNECT a,b HTTP/1.1\r\n", true, ("CONNECT", "a,b")),
            ("GET /not-whole", true, ("GET", "/not-whole")),
            ("", true, ("", "")),
            ("\x16\x03\x01", false, ("", "\x16\x03\x01")),
        ];
        for (text, is_http2, (method, target)) in cases {
            let shown = unread(text.as_bytes(), is_http2);
            assert_eq!(shown, (method.as_bytes(), target.as_bytes()));
        }
    }
}
