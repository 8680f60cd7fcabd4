//! Whether a response is stored.
use super::case::Lines;
use super::differences::Difference;
use super::{AT_ONCE, Case, URI, has_capitals, names_fields, repeats, unknown};
use carrick_logic::cache::{
    Meta, NotStored, Policy, Request, Response, Storing, Variant, decide_storing,
};
use http_cache_semantics::CachePolicy;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeSet;

/// Statuses that the other implementation knows.
const KNOWN: [u16; 14] = [
    200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 501,
];

/// The decisions, if both store it.
pub fn compare(
    case: &Case,
    request: &Request<'_>,
    response: &Response<'_>,
    theirs: &CachePolicy,
    seen: &mut BTreeSet<Difference>,
) -> Result<Option<Meta>, TestCaseError> {
    let decision = decide_storing(request, &URI, response, AT_ONCE, &Policy::default());
    let ours = match decision {
        Storing::Yes(_) if Variant::of(response.fields, request.fields).is_none() => {
            Err(NotStored::VaryEverything)
        }
        Storing::Yes(meta) => Ok(meta),
        Storing::No(why) => Err(why),
    };
    let difference = match (&ours, theirs.is_storable()) {
        (Ok(meta), true) => return Ok(Some(meta.clone())),
        (Err(_), false) => return Ok(None),
        (Err(why), true) => more_is_stored_there(case, request, *why),
        (Ok(_), false) => more_is_stored_here(case.answer.status, &case.answer.lines),
    };
    let Some(difference) = difference else {
        return Err(unknown("storing", ours, theirs.is_storable()));
    };
    seen.insert(difference);
    Ok(None)
}

fn more_is_stored_there(case: &Case, request: &Request<'_>, why: NotStored) -> Option<Difference> {
    use carrick_logic::http1::Method;
    let lines = &case.answer.lines;
    let cannot_be_validated = lines.get("etag").is_none() && lines.get("last-modified").is_none();
    match why {
        NotStored::Method if request.method == Method::Head => Some(Difference::AnswerToHead),
        NotStored::Method => Some(Difference::AnswerToPost),
        NotStored::SetCookie => Some(Difference::SetCookie),
        NotStored::VaryEverything => Some(Difference::VaryEverything),
        NotStored::NoLifetime | NotStored::Useless if cannot_be_validated => {
            Some(Difference::Useless)
        }
        NotStored::ResponseNoStore if has_capitals(lines) => Some(Difference::Letters),
        NotStored::Authorization if repeats(lines) => Some(Difference::Repeated),
        _ => None,
    }
}

/// Why the other does not store a response that is stored here.
pub fn more_is_stored_here(status: u16, lines: &Lines) -> Option<Difference> {
    if !KNOWN.contains(&status) {
        return Some(Difference::OtherStatus);
    }
    if lines.directive("no-store").is_some() {
        return lines
            .directive("must-understand")
            .map(|_| Difference::MustUnderstand);
    }
    names_fields(lines, "private").then_some(Difference::NamedFields)
}
