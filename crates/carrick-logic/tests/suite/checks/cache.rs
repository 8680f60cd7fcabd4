//! For any two requests and any response: no panic, and the invariants of the cache's decisions hold.
use carrick_logic::cache::{
    Answer, CacheStatus, ContentRange, Extents, Fields, Found, Freshened, Lookup, Meta, Policy,
    Request, Response, Stored, Storing, Times, UnixTime, Uri, Variant, after_validation,
    decide_storing, freshen, has_all, head_effect, invalidated, look_up, may_combine, missing,
    multipart, plan_answer, select, stale_on_error, tags, truncated, write_answer_fields,
    write_conditions, write_range_conditions, write_stored_fields,
};
use carrick_logic::http1::Method;
use std::slice;

const NOW: UnixTime = UnixTime(1_700_000_000);

/// Assumed size of the stored body.
const BODY_BYTES: u64 = 10;

/// `bytes`: a letter for the status, a digit for the policy, then the field lines of a request, of its response, and of
/// a later request, separated by empty lines. Lines may end in any way.
pub fn cache(bytes: &[u8]) {
    let (Some(&status), Some(&bits)) = (bytes.first(), bytes.get(1)) else {
        return;
    };
    let status = [200, 206, 304, 503, 404, 416, 302, 100, 599, 410]
        [usize::from(status.wrapping_sub(b'A')) % 10];
    let (first, rest) = split(&bytes[2..]);
    let (response, second) = split(rest);
    let policy = Policy {
        targeted: if bits & 1 == 1 {
            vec![b"cdn-cache-control".to_vec()]
        } else {
            Vec::new()
        },
        share_set_cookie: bits & 2 == 2,
        negative_ttl_s: u32::from(bits & 4),
        ..Policy::default()
    };
    let first = Request::read(Method::Get, Fields::of_text(first));
    let second = Request::read(Method::Get, Fields::of_text(second));
    let response = Response::read(status, Fields::of_text(response), NOW, &policy);
    exchange(&first, &response, &second, &policy);
    let _ = tags(response.fields);
    assert!(
        invalidated(&uri(), response.fields)
            .iter()
            .all(|path| path.starts_with(b"/"))
    );
}

fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n");
    end.map_or((bytes, b"".as_slice()), |end| {
        (&bytes[..end + 1], &bytes[end + 2..])
    })
}

fn uri() -> Uri<'static> {
    Uri {
        scheme: b"http",
        host: b"h",
        port: 80,
        path_and_query: b"/a/b?c",
    }
}

fn exchange(first: &Request<'_>, response: &Response<'_>, second: &Request<'_>, policy: &Policy) {
    let times = Times {
        request: NOW,
        response: UnixTime(NOW.0 + 2),
    };
    let mut text = Vec::new();
    write_stored_fields(&mut text, response);
    let variant = Variant::of(response.fields, first.fields);
    assert!(
        variant
            .as_ref()
            .is_none_or(|variant| variant.matches(first.fields))
    );
    let meta = match decide_storing(first, &uri(), response, times, policy) {
        Storing::Yes(meta) => {
            let directives = &response.directives;
            assert!(
                !first.directives.no_store && (!directives.no_store || directives.must_understand)
            );
            assert!(response.status != 304 && response.status >= 200);
            meta
        }
        Storing::No(why) => {
            assert!(!why.label().is_empty());
            Meta::of(response, times, policy)
        }
    };
    let stored = Stored {
        meta: meta.clone(),
        fields: Fields::of_text(&text),
    };
    for seconds in [0, 1, 60, 100_000, u64::MAX - NOW.0] {
        use_stored(
            &stored,
            variant.as_ref(),
            second,
            UnixTime(NOW.0 + seconds),
            policy,
        );
    }
    validate(&stored, response, second, times, policy);
}

fn use_stored(
    stored: &Stored<'_>,
    variant: Option<&Variant>,
    request: &Request<'_>,
    now: UnixTime,
    policy: &Policy,
) {
    let meta = &stored.meta;
    let extents = meta
        .part()
        .map_or(Extents::whole(BODY_BYTES), Extents::part);
    let is_match =
        variant.and_then(|variant| select([(variant, meta)].into_iter(), request.fields));
    let found = match is_match {
        None => Found::OtherVariant,
        Some(_) if extents.satisfies(request.range, policy.ranges_max) => Found::Stored(meta),
        Some(_) => Found::PartOnly(meta),
    };
    let decision = look_up(request, found, now, policy);
    if let Lookup::Fresh(reuse) = decision {
        assert!(
            meta.is_fresh(now)
                && reuse.ttl_s > 0
                && reuse.age_s == meta.age_s(now)
                && !meta.always_validate
        );
    }
    let _ = stale_on_error(request, meta, now, policy);
    let mut status = Vec::new();
    CacheStatus::of(decision).write(&mut status, b"carrick");
    assert!(status.iter().all(|byte| (b' '..=b'~').contains(byte)));
    send(stored, request, now, policy);
    complete(stored, &extents, request, now, policy);
}

/// With the missing parts, everything is there.
fn complete(
    stored: &Stored<'_>,
    held: &Extents,
    request: &Request<'_>,
    now: UnixTime,
    policy: &Policy,
) {
    let Some(missing) = missing(request, stored, held, now, policy) else {
        return;
    };
    assert!(missing.start < missing.end && !held.has(&missing));
    assert!(write_range_conditions(&mut Vec::new(), stored, &missing));
    let mut held = held.clone();
    let part = ContentRange {
        start: missing.start,
        end: missing.end,
        total_bytes: held.total_bytes(),
    };
    if part.total_bytes.is_some() && held.add(part) {
        assert!(has_all(request, stored, &held, now, policy));
    }
}

fn send(stored: &Stored<'_>, request: &Request<'_>, now: UnixTime, policy: &Policy) {
    let answer = plan_answer(request, stored, BODY_BYTES, now, policy);
    let mut out = Vec::new();
    write_answer_fields(&mut out, stored, &answer, Some(7));
    assert!(out.ends_with(b"Age: 7\r\n"));
    match answer {
        Answer::Range(range) => assert!(range.start < range.end && range.end <= BODY_BYTES),
        Answer::Ranges(ranges) => {
            assert!(
                ranges.len() > 1
                    && ranges
                        .iter()
                        .all(|range| range.start < range.end && range.end <= BODY_BYTES)
            );
            let body = multipart(ranges, BODY_BYTES, stored.fields.first(b"content-type"), 7);
            let bytes: u64 = body
                .parts
                .iter()
                .map(|part| part.head.len() as u64 + part.range.end - part.range.start)
                .sum();
            assert_eq!(bytes + body.end.len() as u64, body.body_bytes);
        }
        Answer::NotModified | Answer::Whole | Answer::Unsatisfiable => {}
    }
}

fn validate(
    stored: &Stored<'_>,
    response: &Response<'_>,
    request: &Request<'_>,
    times: Times,
    policy: &Policy,
) {
    let mut conditions = Vec::new();
    let sent = write_conditions(&mut conditions, request, slice::from_ref(stored));
    assert_eq!(sent.any, !conditions.is_empty());
    let _ = after_validation(
        request,
        slice::from_ref(stored),
        sent,
        response,
        times.response,
        policy,
    );
    let _ = head_effect(stored, Some(BODY_BYTES), response);
    let _ = may_combine(stored, response, &stored.meta);
    let _ = write_range_conditions(&mut conditions, stored, &(1..BODY_BYTES));
    let _ = truncated(&stored.meta, 3, Some(BODY_BYTES));
    let mut fields = Vec::new();
    if let Freshened::Updated(meta) = freshen(
        &mut fields,
        request,
        &uri(),
        stored,
        response,
        times,
        policy,
    ) {
        assert!(!request.directives.no_store);
        assert_eq!(
            (meta.status, meta.part()),
            (stored.meta.status, stored.meta.part())
        );
    }
}
