//! Random exchanges, evaluated here and by the crate `http-cache-semantics`, which has other authors. Disagreements
//! must belong to a known class of differences.
mod case;
mod differences;
mod numbers;
mod storing;
mod updating;
mod using;

use carrick_logic::cache::{
    Fields, Meta, Policy, Request, Response, Stored, Times, UnixTime, Uri, write_stored_fields,
};
use case::{Answered, Asked, Case, NOW, case, read, system_time};
use differences::{ALL, Difference};
use http_cache_semantics::{CacheOptions, CachePolicy};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The result of a comparison: the classes of differences that occurred.
type Compared = Result<BTreeSet<Difference>, TestCaseError>;

/// The requested URI.
const URI: Uri<'_> = Uri {
    scheme: b"http",
    host: b"h",
    port: 80,
    path_and_query: b"/x",
};

/// Requested and answered at the same moment.
const AT_ONCE: Times = Times {
    request: NOW,
    response: NOW,
};

/// The other implementation's view of an exchange that ended at `at`.
fn theirs(asked: &Asked, answered: &Answered, at: UnixTime) -> CachePolicy {
    let options = CacheOptions {
        shared: true,
        ..CacheOptions::default()
    };
    CachePolicy::new_options(
        &asked.request(),
        &answered.response(),
        system_time(at),
        options,
    )
}

/// Fails the case, with both results.
fn unknown(what: &str, ours: impl std::fmt::Debug, theirs: impl std::fmt::Debug) -> TestCaseError {
    TestCaseError::fail(format!("{what}: here {ours:?}, there {theirs:?}"))
}

/// Compares a case from storing to update. It ends at the first difference, since later steps depend on earlier ones.
fn compare(case: &Case) -> Compared {
    let policy = Policy::default();
    let (asked, answered) = (case.first.lines.text(), case.answer.lines.text());
    let first = read(case.first.method, &asked);
    let response = Response::read(
        case.answer.status,
        Fields::of_text(answered.as_bytes()),
        NOW,
        &policy,
    );
    let there = theirs(&case.first, &case.answer, NOW);
    let mut seen = BTreeSet::new();
    let Some(meta) = storing::compare(case, &first, &response, &there, &mut seen)? else {
        return Ok(seen);
    };
    numbers::compare(
        &case.first,
        &case.answer,
        &meta,
        NOW.plus(case.later_s),
        &mut seen,
    )?;
    if !seen.is_empty() {
        return Ok(seen);
    }
    let mut fields = Vec::new();
    write_stored_fields(&mut fields, &response);
    let stored = Stored {
        meta: meta.clone(),
        fields: Fields::of_text(&fields),
    };
    let text = case.second.lines.text();
    let second = read(case.second.method, &text);
    if using::compare(case, &first, &second, &stored, &there, &mut seen)? && seen.is_empty() {
        updating::compare(case, &second, &stored, &there, &mut seen)?;
    }
    Ok(seen)
}

/// This number of cases.
fn config(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Compares cases; returns the classes of differences that occurred.
fn judge(mut runner: TestRunner) -> BTreeSet<Difference> {
    let seen = RefCell::new(BTreeSet::new());
    let result = runner.run(&case(), |case| {
        seen.borrow_mut().extend(compare(&case)?);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    seen.into_inner()
}

#[test]
fn all_differences_are_known() {
    judge(TestRunner::new(config(10_000)));
}

#[test]
fn no_class_of_differences_is_there_for_nothing() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let seen = judge(TestRunner::new_with_rng(config(40_000), rng));
    let never: Vec<_> = ALL.iter().filter(|class| !seen.contains(class)).collect();
    assert!(never.is_empty(), "{never:?}");
}

/// Whether a directive is spelled in letters that the other does not know.
fn has_capitals(lines: &case::Lines) -> bool {
    let has = |(name, _): &(&str, &str)| name.bytes().any(|byte| byte.is_ascii_uppercase());
    lines.directives().iter().any(has)
}

/// Whether a directive is repeated with another argument.
fn repeats(lines: &case::Lines) -> bool {
    let all = lines.directives();
    all.iter().any(|(name, argument)| {
        let argument = argument.trim_matches('"');
        all.iter()
            .any(|(other, value)| name == other && argument != *value)
    })
}

/// Whether the other mistakes the response for one with an unqualified `no-cache` or `private`.
fn names_fields(lines: &case::Lines, directive: &str) -> bool {
    lines
        .get("cache-control")
        .is_some_and(|list| list.contains(&format!("{directive}=\"")))
}

/// The decision when the request was stored, and its state, for messages.
fn shown(request: &Request<'_>, meta: &Meta) -> String {
    format!("{:?} {meta:?}", request.directives)
}
