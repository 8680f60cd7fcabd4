//! Whether a later request is answered without the origin, and the request to it otherwise.
use super::differences::Difference;
use super::{Case, NOW, has_capitals, repeats, shown, system_time, unknown};
use carrick_logic::cache::{
    Found, Lookup, Policy, Request, Stored, Variant, look_up, write_conditions,
};
use carrick_logic::http1::Method;
use http_cache_semantics::{BeforeRequest, CachePolicy};
use proptest::test_runner::TestCaseError;
use std::collections::BTreeSet;
use std::slice;

/// Whether both ask the origin about the stored response.
pub fn compare(
    case: &Case,
    first: &Request<'_>,
    second: &Request<'_>,
    stored: &Stored<'_>,
    theirs: &CachePolicy,
    seen: &mut BTreeSet<Difference>,
) -> Result<bool, TestCaseError> {
    let policy = Policy::default();
    let now = NOW.plus(case.later_s);
    let matches = Variant::of(stored.fields, first.fields)
        .is_some_and(|variant| variant.matches(second.fields));
    let found = if matches {
        Found::Stored(&stored.meta)
    } else {
        Found::OtherVariant
    };
    let ours = look_up(second, found, now, &policy);
    let is_used = matches!(
        ours,
        Lookup::Fresh(_) | Lookup::Stale(_) | Lookup::StaleWhileRevalidate(_)
    );
    let there = theirs.before_request(&case.second.request(), system_time(now));
    let difference = match (is_used, there.satisfies_without_revalidation()) {
        (true, false) => used_here(case, ours, stored),
        (false, true) => used_there(case, stored),
        _ => {
            let Lookup::Revalidate(_) = ours else {
                return Ok(false);
            };
            let BeforeRequest::Stale {
                request,
                matches: true,
            } = there
            else {
                return Ok(false);
            };
            compare_conditions(case, second, stored, &request.headers, seen)?;
            return Ok(second.method == Method::Get);
        }
    };
    let Some(difference) = difference else {
        return Err(unknown(
            "use",
            (ours, shown(second, &stored.meta)),
            !is_used,
        ));
    };
    seen.insert(difference);
    Ok(false)
}

fn used_here(case: &Case, ours: Lookup, stored: &Stored<'_>) -> Option<Difference> {
    let asked = &case.second.lines;
    let (first, second) = (&case.first.lines, &case.second.lines);
    let language = |lines: &super::case::Lines| lines.get("accept-language").map(str::to_owned);
    if case.second.method == Method::Head {
        return Some(Difference::HeadFromGet);
    }
    if asked.get("pragma").is_some() && asked.get("cache-control").is_some() {
        return Some(Difference::PragmaBesideDirectives);
    }
    if case.answer.lines.get("vary").is_some() && language(first) != language(second) {
        return Some(Difference::NormalValues);
    }
    match ours {
        Lookup::StaleWhileRevalidate(_) => Some(Difference::StaleWhileRevalidate),
        Lookup::Fresh(_) if stored.meta.immutable && asked.directive("max-age").is_some() => {
            Some(Difference::Immutable)
        }
        Lookup::Stale(reuse)
            if asked.directive("max-stale") == Some((-reuse.ttl_s).to_string().as_str()) =>
        {
            Some(Difference::MaxStaleItself)
        }
        Lookup::Stale(_) if repeats(&case.answer.lines) => Some(Difference::Repeated),
        _ => None,
    }
}

fn used_there(case: &Case, stored: &Stored<'_>) -> Option<Difference> {
    let asked = &case.second.lines;
    if has_capitals(asked) {
        return Some(Difference::Letters);
    }
    if asked.directive("max-age") == Some("x") || asked.directive("max-stale") == Some("x") {
        return Some(Difference::NoNumber);
    }
    if asked.directive("min-fresh") == Some("0") && asked.directive("max-stale").is_some() {
        return Some(Difference::MinFreshZero);
    }
    let is_forbidden = stored.meta.always_validate
        || case.answer.lines.directive("s-maxage").is_some()
        || case.answer.lines.directive("proxy-revalidate").is_some();
    (asked.directive("max-stale").is_some() && is_forbidden).then_some(Difference::StaleForbidden)
}

/// The conditions of a validation.
fn compare_conditions(
    case: &Case,
    request: &Request<'_>,
    stored: &Stored<'_>,
    theirs: &http::HeaderMap,
    seen: &mut BTreeSet<Difference>,
) -> Result<(), TestCaseError> {
    let mut text = Vec::new();
    let _ = write_conditions(&mut text, request, slice::from_ref(stored));
    let ours = carrick_logic::cache::Fields::of_text(&text);
    let line = |name: &str| theirs.get(name).map(|value| value.as_bytes().to_vec());
    let asked = &case.second.lines;
    let (our_date, their_date) = (
        ours.first(b"if-modified-since").map(<[u8]>::to_vec),
        line("if-modified-since"),
    );
    if our_date != their_date {
        let clients = asked
            .get("if-modified-since")
            .map(|date| date.as_bytes().to_vec());
        if clients.is_none() || their_date != clients {
            return Err(unknown("If-Modified-Since", our_date, their_date));
        }
        seen.insert(Difference::ClientsDate);
    }
    // The same tag, weak and strong, is in the list once here, and twice there.
    let tags = |value: Option<Vec<u8>>| -> BTreeSet<String> {
        let text = String::from_utf8(value.unwrap_or_default()).unwrap();
        let each = text.split(", ").filter(|tag| !tag.is_empty());
        each.map(|tag| tag.trim_start_matches("W/").to_owned())
            .collect()
    };
    let our_tags = tags(ours.first(b"if-none-match").map(<[u8]>::to_vec));
    let their_tags = tags(line("if-none-match"));
    if our_tags != their_tags {
        if stored.fields.has(b"etag")
            || asked.get("if-none-match").is_none()
            || !our_tags.is_empty()
        {
            return Err(unknown("If-None-Match", our_tags, their_tags));
        }
        seen.insert(Difference::ClientsTags);
    }
    Ok(())
}
