//! Formats lines: `combined` like Apache and nginx with carrick's fields appended, or one JSON object.
//!
//! Every byte from a client is escaped, so that no request can end a line or a quoted field, or reach the terminal on
//! which the log is read.
use super::Record;
use super::clock::Stamp;
use crate::net::transport::tls::Agreed;
use std::io::Write;
use std::time::Duration;

/// Fields from clients are cut after this many bytes; `...` marks the cut.
pub(super) const FIELD_BYTES_MAX: usize = 4096;

/// Appends a line in the combined format.
pub(super) fn combined(out: &mut Vec<u8>, record: &Record<'_>, stamp: &Stamp) {
    display(out, &record.client);
    out.extend_from_slice(b" - ");
    match record.user {
        Some(user) => token(out, user.as_bytes()),
        None => out.push(b'-'),
    }
    out.extend_from_slice(b" [");
    out.extend_from_slice(stamp.combined.as_bytes());
    out.extend_from_slice(b"] \"");
    request_line(out, record);
    out.extend_from_slice(b"\" ");
    number(out, u64::from(record.status));
    out.push(b' ');
    number(out, record.bytes_sent);
    out.extend_from_slice(b" \"");
    quoted_or_dash(out, record.referer);
    out.extend_from_slice(b"\" \"");
    quoted_or_dash(out, record.user_agent);
    out.push(b'"');
    combined_extras(out, record);
    out.push(b'\n');
}

fn request_line(out: &mut Vec<u8>, record: &Record<'_>) {
    if record.method.is_empty() {
        // The line as it came.
        return quoted_or_dash(out, record.target);
    }
    quoted(out, record.method);
    out.push(b' ');
    quoted(out, record.target);
    out.push(b' ');
    out.extend_from_slice(record.version.as_bytes());
}

fn combined_extras(out: &mut Vec<u8>, record: &Record<'_>) {
    out.extend_from_slice(b" mode=");
    out.extend_from_slice(record.job.name().as_bytes());
    out.extend_from_slice(b" port=");
    number(out, u64::from(record.client_port));
    out.extend_from_slice(b" received=");
    number(out, record.bytes_received);
    out.extend_from_slice(b" connect=");
    or_dash(out, record.connect, seconds);
    out.extend_from_slice(b" first_byte=");
    or_dash(out, record.first_byte, seconds);
    out.extend_from_slice(b" total=");
    seconds(out, record.total);
    out.extend_from_slice(b" engine=");
    or_dash(out, record.engine, |out, engine| {
        token(out, engine.as_bytes())
    });
    out.extend_from_slice(b" upstream=");
    or_dash(out, record.upstream, |out, upstream| {
        token(out, upstream.as_bytes())
    });
    out.extend_from_slice(b" server=");
    or_dash(out, record.server.as_ref(), |out, server| {
        display(out, server)
    });
    out.extend_from_slice(if record.reused {
        b" reused=1"
    } else {
        b" reused=0"
    });
    if let Some(version) = record.server_version {
        out.extend_from_slice(b" server_version=");
        out.extend_from_slice(version.as_bytes());
    }
    if let Some(tls) = record.tls {
        for (name, value) in [
            (" tls=", Some(tls.version)),
            (" cipher=", Some(tls.cipher)),
            (" sni=", tls.server_name.as_deref()),
            (" subject=", tls.client_subject.as_deref()),
        ] {
            out.extend_from_slice(name.as_bytes());
            or_dash(out, value, |out, value| token(out, value.as_bytes()));
        }
        out.extend_from_slice(if tls.is_resumed {
            b" resumed=1"
        } else {
            b" resumed=0"
        });
    }
    if let Some(destination) = &record.destination {
        out.extend_from_slice(b" destination=");
        display(out, destination);
    }
    if let Some(cache) = record.cache {
        out.extend_from_slice(b" cache=");
        token(out, cache.as_bytes());
    }
    out.extend_from_slice(b" ended=");
    token(out, record.ended.as_bytes());
}

fn or_dash<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        Some(value) => write(out, value),
        None => out.push(b'-'),
    }
}

fn quoted_or_dash(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        out.push(b'-');
    } else {
        quoted(out, bytes);
    }
}

/// Escapes for use within quotes: as in nginx, quotes, backslashes, control bytes and bytes above 126 become `\xHH`.
fn quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    escaped(out, bytes, |byte| {
        matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
    });
}

/// Escapes for use outside quotes, where a space would end the field, too.
fn token(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        // As in Apache, distinguishes an empty name from a missing one.
        out.extend_from_slice(b"\"\"");
    }
    escaped(out, bytes, |byte| {
        matches!(byte, b'!'..=b'~') && byte != b'"' && byte != b'\\'
    });
}

fn escaped(out: &mut Vec<u8>, bytes: &[u8], is_plain: impl Fn(u8) -> bool) {
    let (mut rest, is_cut) = cut(bytes);
    while let Some(index) = rest.iter().position(|byte| !is_plain(*byte)) {
        let (plain, from_special) = rest.split_at(index);
        out.extend_from_slice(plain);
        let Some((special, after)) = from_special.split_first() else {
            break;
        };
        out.extend_from_slice(b"\\x");
        out.extend_from_slice(&hexadecimal(*special));
        rest = after;
    }
    out.extend_from_slice(rest);
    if is_cut {
        out.extend_from_slice(b"...");
    }
}

/// Appends a line with one JSON object.
pub(super) fn json(out: &mut Vec<u8>, record: &Record<'_>, stamp: &Stamp) {
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(stamp.date_time.as_bytes());
    out.push(b'.');
    digits(out, stamp.millisecond, 3);
    out.extend_from_slice(stamp.offset.as_bytes());
    out.extend_from_slice(b"\",\"client\":\"");
    display(out, &record.client);
    out.extend_from_slice(b"\",\"port\":");
    number(out, u64::from(record.client_port));
    json_text(out, "user", record.user.map(str::as_bytes));
    json_text(out, "mode", Some(record.job.name().as_bytes()));
    json_text(out, "method", present(record.method));
    json_text(out, "target", present(record.target));
    json_text(out, "version", present(record.version.as_bytes()));
    json_number(out, "status", u64::from(record.status));
    json_number(out, "received", record.bytes_received);
    json_number(out, "sent", record.bytes_sent);
    json_text(out, "referer", present(record.referer));
    json_text(out, "user_agent", present(record.user_agent));
    json_seconds(out, "connect", record.connect);
    json_seconds(out, "first_byte", record.first_byte);
    json_seconds(out, "total", Some(record.total));
    json_text(out, "engine", record.engine.map(str::as_bytes));
    json_text(out, "upstream", record.upstream.map(str::as_bytes));
    json_key(out, "server");
    match &record.server {
        Some(server) => {
            out.push(b'"');
            display(out, server);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
    json_key(out, "reused");
    out.extend_from_slice(if record.reused { b"true" } else { b"false" });
    json_text(
        out,
        "server_version",
        record.server_version.map(str::as_bytes),
    );
    json_key(out, "tls");
    match record.tls {
        Some(tls) => json_tls(out, tls),
        None => out.extend_from_slice(b"null"),
    }
    if let Some(cache) = record.cache {
        json_text(out, "cache", Some(cache.as_bytes()));
    }
    if let Some(destination) = &record.destination {
        json_key(out, "destination");
        out.push(b'"');
        display(out, destination);
        out.push(b'"');
    }
    if let Some([client, upstream]) = record.paths {
        json_seconds(out, "client_rtt", client.rtt);
        json_seconds(out, "upstream_rtt", upstream.rtt);
        json_number(out, "client_retransmits", client.retransmissions.into());
        json_number(out, "upstream_retransmits", upstream.retransmissions.into());
    }
    json_text(out, "ended", Some(record.ended.as_bytes()));
    out.extend_from_slice(b"}\n");
}

fn json_tls(out: &mut Vec<u8>, tls: &Agreed) {
    out.extend_from_slice(b"{\"version\":");
    json_string(out, tls.version.as_bytes());
    json_text(out, "cipher", Some(tls.cipher.as_bytes()));
    json_text(out, "sni", tls.server_name.as_deref().map(str::as_bytes));
    json_text(
        out,
        "subject",
        tls.client_subject.as_deref().map(str::as_bytes),
    );
    json_key(out, "resumed");
    out.extend_from_slice(if tls.is_resumed { b"true}" } else { b"false}" });
}

fn present(bytes: &[u8]) -> Option<&[u8]> {
    (!bytes.is_empty()).then_some(bytes)
}

fn json_key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn json_number(out: &mut Vec<u8>, key: &str, value: u64) {
    json_key(out, key);
    number(out, value);
}

fn json_seconds(out: &mut Vec<u8>, key: &str, value: Option<Duration>) {
    json_key(out, key);
    match value {
        Some(duration) => seconds(out, duration),
        None => out.extend_from_slice(b"null"),
    }
}

fn json_text(out: &mut Vec<u8>, key: &str, value: Option<&[u8]>) {
    json_key(out, key);
    match value {
        Some(bytes) => json_string(out, bytes),
        None => out.extend_from_slice(b"null"),
    }
}

/// A JSON string (RFC 8259 section 7) in ASCII: other characters become `\u` and four hexadecimal digits; bytes that are not UTF-8
/// become the text `\x` and two digits.
fn json_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let (bytes, is_cut) = cut(bytes);
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        json_characters(out, chunk.valid());
        for byte in chunk.invalid() {
            out.extend_from_slice(b"\\\\x");
            out.extend_from_slice(&hexadecimal(*byte));
        }
    }
    if is_cut {
        out.extend_from_slice(b"...");
    }
    out.push(b'"');
}

fn json_characters(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    while let Some(index) = rest
        .bytes()
        .position(|byte| !matches!(byte, b' '..=b'~') || byte == b'"' || byte == b'\\')
    {
        let (plain, from_special) = rest.split_at(index);
        out.extend_from_slice(plain.as_bytes());
        let mut characters = from_special.chars();
        match characters.next() {
            Some('"') => out.extend_from_slice(b"\\\""),
            Some('\\') => out.extend_from_slice(b"\\\\"),
            Some(special) => {
                for unit in special.encode_utf16(&mut [0; 2]) {
                    let [high, low] = unit.to_be_bytes();
                    out.extend_from_slice(b"\\u");
                    out.extend_from_slice(&hexadecimal(high));
                    out.extend_from_slice(&hexadecimal(low));
                }
            }
            None => {}
        }
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

fn cut(bytes: &[u8]) -> (&[u8], bool) {
    match bytes.get(..FIELD_BYTES_MAX) {
        Some(start) if bytes.len() > FIELD_BYTES_MAX => (start, true),
        _ => (bytes, false),
    }
}

fn hexadecimal(byte: u8) -> [u8; 2] {
    let digit = |nibble: u8| {
        if nibble < 10 {
            b'0' + nibble
        } else {
            b'a' + nibble - 10
        }
    };
    [digit(byte >> 4), digit(byte & 15)]
}

/// Seconds with six decimals.
fn seconds(out: &mut Vec<u8>, duration: Duration) {
    number(out, duration.as_secs());
    out.push(b'.');
    digits(out, duration.subsec_micros(), 6);
}

/// A number below 10 to the power of `width`, with leading zeros.
fn digits(out: &mut Vec<u8>, value: u32, width: usize) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(value);
    out.extend(std::iter::repeat_n(b'0', width.saturating_sub(text.len())));
    out.extend_from_slice(text.as_bytes());
}

fn number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn display(out: &mut Vec<u8>, value: &impl std::fmt::Display) {
    // Writing into a `Vec` cannot fail.
    let _ = write!(out, "{value}");
}
