//! The age of a response, and its lifetime.
use super::differences::Difference;
use super::{Answered, Asked, names_fields, system_time, theirs, unknown};
use carrick_logic::cache::{LifetimeFrom, Meta, SECONDS_MAX, UnixTime};
use proptest::test_runner::TestCaseError;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// Both numbers, and whether they make it fresh at `now`.
pub fn compare(
    asked: &Asked,
    answered: &Answered,
    meta: &Meta,
    now: UnixTime,
    seen: &mut BTreeSet<Difference>,
) -> Result<(), TestCaseError> {
    let lines = &answered.lines;
    let there = theirs(asked, answered, meta.response_time);
    let resident_s = now.since(meta.response_time);
    let their_age_s = there.age(system_time(now)).as_secs();
    let our_age_s = u64::from(meta.age_s(now));
    let apparent_s = u64::from(meta.response_time.since(meta.date));
    if our_age_s != their_age_s {
        if our_age_s != apparent_s + u64::from(resident_s) || our_age_s < their_age_s {
            return Err(unknown("age", our_age_s, their_age_s));
        }
        seen.insert(Difference::ApparentAge);
    }
    // Without an age, the remaining time is the whole lifetime.
    let ageless = Answered {
        lines: lines.without("age"),
        ..answered.clone()
    };
    let their_lifetime_s = theirs(asked, &ageless, meta.response_time)
        .time_to_live(SystemTime::UNIX_EPOCH)
        .as_secs();
    let our_lifetime_s = u64::from(meta.lifetime_s);
    if our_lifetime_s != their_lifetime_s {
        let Some(difference) = lifetime(answered, meta, their_lifetime_s) else {
            return Err(unknown(
                "lifetime",
                (our_lifetime_s, meta.lifetime_from),
                their_lifetime_s,
            ));
        };
        seen.extend(difference);
    }
    if meta.always_validate {
        // A response that must always be validated has no lifetime there.
        return match their_lifetime_s {
            0 => Ok(()),
            _ => Err(unknown("no-cache", meta, their_lifetime_s)),
        };
    }
    if seen.is_empty() {
        let stale_there = their_lifetime_s <= their_age_s;
        if meta.is_fresh(now) == stale_there {
            return Err(unknown("freshness", meta.ttl_s(now), their_lifetime_s));
        }
        let left = Duration::from_secs(their_lifetime_s.saturating_sub(their_age_s));
        if u64::try_from(meta.ttl_s(now)).unwrap_or(0) != left.as_secs() {
            return Err(unknown("time to live", meta.ttl_s(now), left));
        }
    }
    Ok(())
}

/// Why lifetimes differ; `Some(None)`: they differ without consequences.
fn lifetime(answered: &Answered, meta: &Meta, their_s: u64) -> Option<Option<Difference>> {
    let lines = &answered.lines;
    let our_s = u64::from(meta.lifetime_s);
    let is_named = |name| lines.directive(name).is_some();
    if their_s == 0 {
        // It must always be validated: the same here, and the lifetime has no meaning.
        if meta.always_validate {
            return Some(None);
        }
        if names_fields(lines, "no-cache") {
            return Some(Some(Difference::NamedFields));
        }
        if is_named("proxy-revalidate") {
            return Some(Some(Difference::ProxyRevalidate));
        }
        if lines.get("pragma").is_some()
            && !lines.0.iter().any(|(name, _)| *name == "cache-control")
        {
            return Some(Some(Difference::PragmaOfResponse));
        }
    }
    if our_s == u64::from(SECONDS_MAX) && their_s > our_s {
        return Some(Some(Difference::LargeNumber));
    }
    let is_old = |name| {
        lines
            .get(name)
            .is_some_and(|date: &str| !date.ends_with("GMT") && date != "0")
    };
    if is_old("date") || is_old("expires") {
        return Some(Some(Difference::ObsoleteDate));
    }
    if lines.directive("max-age") == Some("") && !is_named("s-maxage") && our_s == 0 {
        return Some(Some(Difference::NumberMissing));
    }
    if is_named("immutable") && !meta.lifetime_from.is_explicit()
        || is_named("immutable") && meta.lifetime_from == LifetimeFrom::Expires
    {
        return (their_s >= 86_400).then_some(Some(Difference::ImmutableLifetime));
    }
    match meta.lifetime_from {
        LifetimeFrom::Heuristic if our_s == 86_400 && their_s > our_s => {
            Some(Some(Difference::LongGuess))
        }
        _ => None,
    }
}
