//! Rewritten heads keep their meaning, and have no other reading.
use super::LIMITS;
use super::heads::{request_is_unambiguous, response_is_unambiguous};
use carrick_logic::http1::{
    Field, Forwarded, HeadLimits, Mark, Method, NamedIn, Progress, RequestHead, RequestRewrite,
    ResponseBody, ResponseHead, ResponseRewrite, StatedIn, TargetForm, Version, write_request,
    write_response,
};
use std::net::IpAddr;

/// A rewritten request means the same to the next hop. The first byte selects the options.
pub fn rewrite_request(bytes: &[u8]) {
    let Some((&options, bytes)) = bytes.split_first() else {
        return;
    };
    let mut head = RequestHead::new();
    if head.parse(bytes, &LIMITS) != Ok(Progress::Complete) {
        return;
    }
    let how = RequestRewrite {
        form: if options & 1 == 0 {
            TargetForm::Origin
        } else {
            TargetForm::Absolute
        },
        default_host: "",
        name: "carrick",
        named_in: if options & 2 == 0 {
            NamedIn::CdnLoop
        } else {
            NamedIn::Via
        },
        mark: (options & 4 != 0).then(|| Mark::new(7)),
        client: IpAddr::from(if options & 4 == 0 {
            [192, 0, 2, 1]
        } else {
            [0, 0, 0, 0]
        }),
        forwarded: [
            Forwarded::Unchanged,
            Forwarded::XForwarded,
            Forwarded::Standard,
            Forwarded::Remove,
        ][usize::from(options >> 3 & 3)],
        stated_in: match options & 32 {
            0 => StatedIn::XForwardedFor,
            _ => StatedIn::Forwarded,
        },
        pass_proxy_authorization: options & 32 != 0,
        pass_upgrade: options & 64 != 0,
        pass_te_trailers: false,
        drop_expect: options & 128 != 0,
        omitted: &[],
        added: &[],
    };
    let mut out = Vec::new();
    write_request(&mut out, bytes, &head, &how);
    let limits = HeadLimits {
        head_bytes_max: 2 * LIMITS.head_bytes_max,
        fields_max: LIMITS.fields_max + 8,
    };
    let mut next = RequestHead::new();
    let result = next.parse(&out, &limits);
    if head.host.is_empty() {
        // An HTTP/1.0 request without a host: `Host` is empty, which our strict parser refuses.
        return assert_eq!(result.map_err(|refusal| refusal.label), Err("bad_host"));
    }
    assert_eq!(result, Ok(Progress::Complete), "{}", out.escape_ascii());
    assert_eq!(next.head_bytes, out.len());
    assert_eq!(next.version, Version::Http11);
    assert_eq!(next.method_text.of(&out), head.method_text.of(bytes));
    assert_eq!(
        (next.host.of(&out), next.port),
        (head.host.of(bytes), head.port)
    );
    assert_eq!((next.body, next.keep_alive), (head.body, true));
    assert_eq!(
        next.expects_continue,
        head.expects_continue && !how.drop_expect
    );
    assert_eq!(next.wants_upgrade, head.wants_upgrade && how.pass_upgrade);
    assert_eq!(
        next.query.map(|query| query.of(&out)),
        head.query.map(|query| query.of(bytes))
    );
    let is_without_path =
        head.path.is_empty() && head.method != Method::Options && head.method != Method::Connect;
    let path = if is_without_path {
        b"/"
    } else {
        head.path.of(bytes)
    };
    if !next.path.is_empty() || head.query.is_none() {
        assert_eq!(next.path.of(&out), path);
    }
    let host = next.field(&out, "host");
    assert_eq!(
        next.fields.first().map(|field| field.value.of(&out)),
        host,
        "Host comes first"
    );
    hop_by_hop_fields_are_gone(&out, &next.fields, next.wants_upgrade);
    if next.head_bytes < LIMITS.head_bytes_max && next.fields.len() < 64 {
        request_is_unambiguous(&out, &next);
    }
    let mut again = Vec::new();
    let unchanged = RequestRewrite {
        named_in: NamedIn::Nothing,
        mark: None,
        forwarded: Forwarded::Unchanged,
        ..how
    };
    write_request(&mut again, &out, &next, &unchanged);
    assert_eq!(
        sorted_lines(&again, true),
        sorted_lines(&out, true),
        "rewriting is idempotent"
    );
}

/// Lines in any order; `Max-Forwards` is decremented each time.
fn sorted_lines(text: &[u8], is_request: bool) -> Vec<&[u8]> {
    let is_count = |line: &[u8]| {
        line.get(..13)
            .is_some_and(|name| name.eq_ignore_ascii_case(b"max-forwards:"))
    };
    let mut lines: Vec<&[u8]> = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !is_request || !is_count(line))
        .collect();
    lines.sort_unstable();
    lines
}

fn hop_by_hop_fields_are_gone(bytes: &[u8], fields: &[Field], upgrades: bool) {
    for field in fields {
        let name = String::from_utf8_lossy(field.name.of(bytes)).to_lowercase();
        assert!(
            !["keep-alive", "proxy-connection", "te"].contains(&name.as_str()),
            "{name}"
        );
        assert!(upgrades || name != "upgrade");
        let value = String::from_utf8_lossy(field.value.of(bytes));
        let ours = [
            "Upgrade",
            "close",
            "keep-alive",
            "close, Upgrade",
            "keep-alive, Upgrade",
        ];
        let is_ours = ours.contains(&&*value);
        assert!(name != "connection" || is_ours, "{value}");
    }
}

/// A rewritten response has the same end for the client. The first byte selects method and options.
pub fn rewrite_response(bytes: &[u8]) {
    let Some((&options, bytes)) = bytes.split_first() else {
        return;
    };
    let method =
        [Method::Get, Method::Head, Method::Connect, Method::Post][usize::from(options & 3)];
    let mut head = ResponseHead::new();
    if head.parse(bytes, method, &LIMITS) != Ok(Progress::Complete) {
        return;
    }
    let how = ResponseRewrite {
        via: if options & 4 == 0 { "" } else { "carrick" },
        client_version: if options & 8 == 0 {
            Version::Http11
        } else {
            Version::Http10
        },
        keep_alive: options & 16 != 0,
        add_chunked: options & 32 != 0,
        pass_upgrade: options & 64 != 0,
    };
    let mut out = Vec::new();
    write_response(&mut out, bytes, &head, &how);
    let limits = HeadLimits {
        head_bytes_max: 2 * LIMITS.head_bytes_max,
        fields_max: LIMITS.fields_max + 8,
    };
    let mut seen = ResponseHead::new();
    assert_eq!(
        seen.parse_strictly(&out, method, &limits),
        Ok(Progress::Complete),
        "{}",
        out.escape_ascii()
    );
    assert_eq!(seen.head_bytes, out.len());
    assert_eq!((seen.status, seen.version), (head.status, Version::Http11));
    assert_eq!(seen.reason.of(&out), head.reason.of(bytes));
    let ends_at_close = head.ends_at_close(how.client_version, how.add_chunked);
    let body = match head.body {
        ResponseBody::Chunked if how.client_version == Version::Http10 => ResponseBody::UntilClose,
        ResponseBody::UntilClose if !ends_at_close => ResponseBody::Chunked,
        body => body,
    };
    assert_eq!(seen.body, body);
    assert_eq!(seen.ends_at_close(how.client_version, false), ends_at_close);
    if !seen.is_interim() {
        assert_eq!(seen.keep_alive, how.keep_alive && !ends_at_close);
    }
    hop_by_hop_fields_are_gone(&out, &seen.fields, how.pass_upgrade || head.status == 426);
    if seen.head_bytes < LIMITS.head_bytes_max && seen.fields.len() < 64 {
        response_is_unambiguous(&out, &seen, method);
    }
    let mut again = Vec::new();
    write_response(&mut again, &out, &seen, &ResponseRewrite { via: "", ..how });
    assert_eq!(
        sorted_lines(&again, false),
        sorted_lines(&out, false),
        "rewriting is idempotent"
    );
}
