//! The effect of a 304 on a stored response.
use super::case::{Answered, Lines};
use super::differences::Difference;
use super::{Case, NOW, URI, numbers, storing, system_time, unknown};
use carrick_logic::cache::{
    Fields, Freshened, Policy, Request, Response, Stored, Times, Validated, after_validation,
    freshen, write_conditions,
};
use http_cache_semantics::{AfterResponse, CachePolicy};
use proptest::test_runner::TestCaseError;
use std::collections::{BTreeMap, BTreeSet};
use std::slice;

/// Whether it applies to the stored response, and the result.
pub fn compare(
    case: &Case,
    request: &Request<'_>,
    stored: &Stored<'_>,
    theirs: &CachePolicy,
    seen: &mut BTreeSet<Difference>,
) -> Result<(), TestCaseError> {
    let policy = Policy::default();
    let now = NOW.plus(case.later_s);
    let text = case.update.lines.text();
    let update = Response::read(304, Fields::of_text(text.as_bytes()), now, &policy);
    let sent = write_conditions(&mut Vec::new(), request, slice::from_ref(stored));
    let ours = after_validation(
        request,
        slice::from_ref(stored),
        sent,
        &update,
        now,
        &policy,
    );
    let is_updated = matches!(ours, Validated::Freshen(0));
    let there = theirs.after_response(
        &case.second.request(),
        &case.update.response(),
        system_time(now),
    );
    let (policy_there, parts) = match (is_updated, there) {
        (false, AfterResponse::Modified(..)) => return Ok(()),
        (true, AfterResponse::NotModified(policy, parts)) => (policy, parts),
        (_, there) => {
            let is_there = matches!(there, AfterResponse::NotModified(..));
            let Some(difference) = selection(&case.update.lines, stored, is_updated) else {
                return Err(unknown("304", ours, is_there));
            };
            seen.insert(difference);
            return Ok(());
        }
    };
    let times = Times {
        request: now,
        response: now,
    };
    let mut fields = Vec::new();
    let freshened = freshen(&mut fields, request, &URI, stored, &update, times, &policy);
    let Freshened::Updated(meta) = freshened else {
        // Whether it may still be stored was compared before, for other responses.
        return Ok(());
    };
    let their_age_s = policy_there.age(system_time(now)).as_secs();
    compare_fields(case, Fields::of_text(&fields), &parts.headers, seen)?;
    if !seen.is_empty() {
        return Ok(());
    }
    if !policy_there.is_storable() {
        let merged = lines_of(Fields::of_text(&fields), &case.update.lines);
        let difference = storing::more_is_stored_here(case.answer.status, &merged);
        let unexpected = || unknown("storing after 304", meta, false);
        seen.insert(difference.ok_or_else(unexpected)?);
        return Ok(());
    }
    // The numbers are compared as those of a first response with the same fields.
    let merged = Answered {
        status: case.answer.status,
        lines: lines_of(Fields::of_text(&fields), &case.update.lines),
    };
    numbers::compare(&case.second, &merged, &meta, now, seen)?;
    if seen.is_empty() && u64::from(meta.age_s(now)) != their_age_s {
        let ages = [&case.answer, &case.update].map(|answer| answer.lines.get("age"));
        seen.insert(match ages {
            [Some(_), None] => Difference::AgeOfUpdate,
            [None, Some(_)] => Difference::AddedFields,
            _ => return Err(unknown("age after 304", meta.age_s(now), their_age_s)),
        });
    }
    Ok(())
}

fn selection(update: &Lines, stored: &Stored<'_>, is_updated: bool) -> Option<Difference> {
    let (tag, modified) = (update.get("etag"), update.get("last-modified"));
    match (tag, modified) {
        _ if !is_updated => None,
        (None, None) => Some(Difference::NoValidator),
        (Some(_), Some(_)) if stored.etag().is_none() => Some(Difference::NewTag),
        _ => None,
    }
}

/// Generated fields, except `Age`.
const NAMES: [&str; 9] = [
    "cache-control",
    "date",
    "expires",
    "last-modified",
    "etag",
    "vary",
    "set-cookie",
    "pragma",
    "x-part",
];

/// Fields that belong to this response only, or are generated for each.
const APART: [&str; 3] = ["age", "date", "warning"];

fn compare_fields(
    case: &Case,
    ours: Fields<'_>,
    theirs: &http::HeaderMap,
    seen: &mut BTreeSet<Difference>,
) -> Result<(), TestCaseError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut ours: BTreeMap<String, String> = (ours.iter())
        .map(|(name, value)| (text(name).to_ascii_lowercase(), text(value)))
        .collect();
    let mut theirs: BTreeMap<String, String> = (theirs.iter())
        .map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes())))
        .filter(|(name, _)| !APART.contains(&name.as_str()))
        .collect();
    ours.retain(|name, _| !APART.contains(&name.as_str()));
    let update = &case.update.lines;
    let before = ours.len();
    // Fields that only the update has.
    ours.retain(|name, value| {
        theirs.contains_key(name) || update.get(name) != Some(value.as_str())
    });
    if ours.len() != before {
        seen.insert(Difference::AddedFields);
    }
    let withholds = [&case.answer.lines, update].into_iter().any(|lines| {
        let list = lines.get("cache-control").unwrap_or_default();
        list.contains("=\"x-part\"")
    });
    if withholds && !ours.contains_key("x-part") && theirs.remove("x-part").is_some() {
        seen.insert(Difference::NamedFields);
    }
    if let (Some(kept), Some(new)) = (ours.get("etag"), theirs.get_mut("etag"))
        && kept.strip_prefix("W/") == Some(new.as_str())
    {
        new.clone_from(kept);
        seen.insert(Difference::WeakTag);
    }
    if ours != theirs {
        return Err(unknown("fields", ours, theirs));
    }
    Ok(())
}

/// The lines of a stored response, as those of a new response with the update's age.
fn lines_of(fields: Fields<'_>, update: &Lines) -> Lines {
    let value = |name: &str| fields.first(name.as_bytes());
    let stored = NAMES.into_iter().filter_map(|name| {
        let value = String::from_utf8_lossy(value(name)?).into_owned();
        Some((name, value))
    });
    let age = update.get("age").map(|age| ("age", age.to_owned()));
    Lines(stored.chain(age).collect())
}
