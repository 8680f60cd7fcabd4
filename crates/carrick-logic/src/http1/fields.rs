//! Field lines: `httparse` reads them, and what it refuses is named; the names that carrick acts on are recognised.
use super::{Field, FieldName, Form, Refusal, Span, syntax};
use std::ops::Range;

/// The most that [`HeadLimits::fields_max`](super::HeadLimits::fields_max) is taken for: `httparse` fills an array on the stack.
pub(super) const FIELDS_CAP: usize = 512;

/// Parses the field lines in `block`, the empty line at its end included. The caller has counted the lines and seen that
/// each ends with CR LF, which `httparse` alone would not insist on.
pub(super) fn parse(
    bytes: &[u8],
    block: Range<usize>,
    lines: usize,
    fields: &mut Vec<Field>,
) -> Result<(), Refusal> {
    match lines {
        0..=16 => fill::<16>(bytes, block, fields),
        17..=48 => fill::<48>(bytes, block, fields),
        _ => fill_many(bytes, block, fields),
    }
}

/// Parses the field lines in `block` as [`parse`] does, and those that it refuses: lines that end with LF alone, and names with white space
/// before the colon. RFC 9112 section 5.1 has a proxy remove that from a response; here it is not part of the name.
pub(super) fn parse_leniently(
    bytes: &[u8],
    block: Range<usize>,
    (lines, has_bare_lf): (usize, bool),
    fields: &mut Vec<Field>,
) -> Result<(), Refusal> {
    // `httparse` would not say where it took LF for a line end.
    if !has_bare_lf && parse(bytes, block.clone(), lines, fields).is_ok() {
        return Ok(());
    }
    read_lines(bytes, block, fields)
}

#[cold]
fn read_lines(bytes: &[u8], block: Range<usize>, fields: &mut Vec<Field>) -> Result<(), Refusal> {
    let text = bytes.get(block).unwrap_or_default();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Ok(());
        }
        if let Some(mistake) = mistake_in_line(line, Form::Lenient) {
            return Err(mistake);
        }
        let colon = memchr::memchr(b':', line).ok_or(MALFORMED)?;
        let name = syntax::trim(line.get(..colon).unwrap_or_default());
        let value = syntax::trim(line.get(colon + 1..).unwrap_or_default());
        fields.push(Field {
            name: span_within(bytes, name),
            value: span_within(bytes, value),
            known: recognise(name),
        });
    }
    Ok(())
}

/// Apart, so that the rare large array does not make the common call's stack frame large.
#[inline(never)]
fn fill_many(bytes: &[u8], block: Range<usize>, fields: &mut Vec<Field>) -> Result<(), Refusal> {
    fill::<FIELDS_CAP>(bytes, block, fields)
}

fn fill<const LINES: usize>(
    bytes: &[u8],
    block: Range<usize>,
    fields: &mut Vec<Field>,
) -> Result<(), Refusal> {
    let text = bytes.get(block).unwrap_or_default();
    let mut headers = [httparse::EMPTY_HEADER; LINES];
    let Ok(httparse::Status::Complete((used, headers))) =
        httparse::parse_headers(text, &mut headers)
    else {
        return Err(name_the_mistake(text));
    };
    if used != text.len() {
        return Err(MALFORMED);
    }
    fields.extend(headers.iter().map(|header| Field {
        name: span_within(bytes, header.name.as_bytes()),
        value: span_within(bytes, header.value),
        known: recognise(header.name.as_bytes()),
    }));
    Ok(())
}

/// Where `part`, a slice of `bytes`, lies in it.
fn span_within(bytes: &[u8], part: &[u8]) -> Span {
    let start = part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
    debug_assert!(start + part.len() <= bytes.len());
    Span::new(start, start + part.len())
}

/// Which of the names that carrick acts on `name` is; names are compared without case (RFC 9110 section 5.1).
pub(super) fn recognise(name: &[u8]) -> FieldName {
    use FieldName as F;
    let candidates: &[(&[u8], FieldName)] = match name.len() {
        2 => &[(b"te", F::Te)],
        3 => &[(b"via", F::Via)],
        4 => &[(b"host", F::Host), (b"date", F::Date)],
        5 => &[(b"proxy", F::Proxy)],
        6 => &[(b"cookie", F::Cookie), (b"expect", F::Expect)],
        7 => &[(b"upgrade", F::Upgrade), (b"trailer", F::Trailer)],
        8 => &[(b"cdn-loop", F::CdnLoop)],
        9 => &[(b"forwarded", F::Forwarded)],
        10 => &[
            (b"connection", F::Connection),
            (b"keep-alive", F::KeepAlive),
        ],
        12 => &[(b"max-forwards", F::MaxForwards)],
        13 => &[(b"authorization", F::Authorization)],
        14 => &[(b"content-length", F::ContentLength)],
        15 => &[(b"x-forwarded-for", F::XForwardedFor)],
        16 => &[
            (b"proxy-connection", F::ProxyConnection),
            (b"x-forwarded-host", F::XForwardedHost),
        ],
        17 => &[
            (b"transfer-encoding", F::TransferEncoding),
            (b"x-forwarded-proto", F::XForwardedProto),
        ],
        18 => &[(b"proxy-authenticate", F::ProxyAuthenticate)],
        19 => &[(b"proxy-authorization", F::ProxyAuthorization)],
        _ => &[],
    };
    candidates
        .iter()
        .find(|(known, _)| name[0] | 0x20 == known[0] && name.eq_ignore_ascii_case(known))
        .map_or_else(|| recognise_other(name), |&(_, field)| field)
}

fn recognise_other(name: &[u8]) -> FieldName {
    if !syntax::is_plain_name(name) {
        FieldName::Odd
    } else if tells_of_client(name) {
        FieldName::XOther
    } else {
        FieldName::Other
    }
}

/// Names with these prefixes describe the client, or its certificate.
const OF_CLIENT_PREFIXES: [&[u8]; 3] = [b"x-forwarded", b"x-ssl-client", b"ssl-client"];

/// Further names by which proxies describe a request's sender, and its original target. Servers and
/// frameworks trust them.
const OF_CLIENT: [&[u8]; 38] = [
    b"ali-cdn-real-ip",
    b"cf-connecting-ip",
    b"cf-connecting-ipv6",
    b"client-cert",
    b"client-cert-chain",
    b"client-ip",
    b"fastly-client-ip",
    b"fly-client-ip",
    b"forwarded",
    b"forwarded-for",
    b"forwarded-for-ip",
    b"front-end-https",
    b"proxy-client-ip",
    b"true-client-ip",
    b"wl-proxy-client-ip",
    b"x-amzn-mtls-clientcert",
    b"x-appengine-user-ip",
    b"x-arr-clientcert",
    b"x-azure-clientip",
    b"x-azure-socketip",
    b"x-client-ip",
    b"x-cluster-client-ip",
    b"x-envoy-external-address",
    b"x-host",
    b"x-original-for",
    b"x-original-forwarded-for",
    b"x-original-host",
    b"x-original-proto",
    b"x-originating-ip",
    b"x-proxyuser-ip",
    b"x-real-ip",
    b"x-real-port",
    b"x-remote-addr",
    b"x-remote-ip",
    b"x-scheme",
    b"x-url-scheme",
    b"x-vercel-forwarded-for",
    b"x-client-port",
];

/// Whether a field with this name describes the client, even if only a gateway reads it as such a one.
pub(super) fn tells_of_client(name: &[u8]) -> bool {
    let second = name.get(1).map_or(0, |byte| byte | 0x20);
    let may_be = matches!(
        (name[0] | 0x20, second),
        (b'x' | b'c' | b'f' | b't', _) | (b'a' | b'w', b'l') | (b'p', b'r') | (b's', b's')
    );
    let begins_so = |prefix: &[u8]| syntax::may_begin_as(name, prefix);
    may_be
        && (OF_CLIENT_PREFIXES.into_iter().any(begins_so)
            || OF_CLIENT
                .iter()
                .any(|other| syntax::may_pass_for(name, other)))
}

/// Whether a request's field with this name is a proxy's to write or to take out: in a trailer, behind all that a proxy looks at, it is no word
/// of anybody's.
pub(super) fn belongs_to_proxies(name: &[u8]) -> bool {
    let written: [&[u8]; 3] = [b"via", b"cdn-loop", b"proxy"];
    tells_of_client(name)
        || written
            .iter()
            .any(|other| syntax::may_pass_for(name, other))
}

/// The value of the first field with this name.
pub(super) fn first<'b>(fields: &[Field], bytes: &'b [u8], name: &str) -> Option<&'b [u8]> {
    fields
        .iter()
        .find(|field| field.name.of(bytes).eq_ignore_ascii_case(name.as_bytes()))
        .map(|field| field.value.of(bytes))
}

const MALFORMED: Refusal = Refusal::bad(
    "malformed_field",
    "a field line is malformed; it is `name: value`",
);

/// Says which rule the lines in `text` break, given that `httparse` refuses them.
#[cold]
fn name_the_mistake(text: &[u8]) -> Refusal {
    text.split_inclusive(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r\n").unwrap_or(line))
        .take_while(|line| !line.is_empty())
        .find_map(|line| mistake_in_line(line, Form::Strict))
        .unwrap_or(MALFORMED)
}

fn mistake_in_line(line: &[u8], form: Form) -> Option<Refusal> {
    if matches!(line, [b' ' | b'\t', ..]) {
        return Some(Refusal::bad(
            "line_folding",
            "a field line begins with white space; a field has one line (RFC 9112 section 5.2)",
        ));
    }
    let Some(colon) = memchr::memchr(b':', line) else {
        return Some(Refusal::bad(
            "missing_colon",
            "a field line has no colon; it is `name: value`",
        ));
    };
    let (name, value) = line.split_at(colon);
    let name = match form {
        Form::Strict => name,
        // The line does not begin with white space.
        Form::Lenient => syntax::trim(name),
    };
    if name.is_empty() {
        return Some(Refusal::bad(
            "empty_field_name",
            "a field line has no name before its colon",
        ));
    }
    if name.ends_with(b" ") || name.ends_with(b"\t") {
        return Some(Refusal::bad(
            "space_before_colon",
            "white space stands between a field's name and its colon (RFC 9112 section 5.1)",
        ));
    }
    if !syntax::is_token(name) {
        return Some(Refusal::bad(
            "bad_field_name",
            "a field's name has a byte that no name may have",
        ));
    }
    if value.contains(&b'\r') {
        return Some(Refusal::bad("bare_cr", "a field's value has CR without LF"));
    }
    (!syntax::is_text(value)).then_some(Refusal::bad(
        "control_byte",
        "a field's value has a control byte",
    ))
}
