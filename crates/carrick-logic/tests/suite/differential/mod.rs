//! Made-up exchanges, judged here and by the crate `http-cache-semantics`, which has other authors. What they do not
//! agree about must belong to a known class of differences.
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

/// What one comparison says: the classes of the differences that were seen.
type Compared = Result<BTreeSet<Difference>, TestCaseError>;

/// What was asked for.
const URI: Uri<'_> = Uri {
    scheme: b"http",
    host: b"h",
    port: 80,
    path_and_query: b"/x",
};

/// Asked for and answered at once.
const AT_ONCE: Times = Times {
    request: NOW,
    response: NOW,
};

/// The other's opinion of an exchange that was over at `at`.
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

/// Fails the case, saying what each of the two thinks.
fn unknown(what: &str, ours: impl std::fmt::Debug, theirs: impl std::fmt::Debug) -> TestCaseError {
    TestCaseError::fail(format!("{what}: here {ours:?}, there {theirs:?}"))
}

/// Judges a case from its storing to its update. What one step answers differently is the end of it: later steps follow
/// from earlier ones.
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
        meta: &meta,
        fields: Fields::of_text(&fields),
    };
    let text = case.second.lines.text();
    let second = read(case.second.method, &text);
    if using::compare(case, &first, &second, &stored, &there, &mut seen)? && seen.is_empty() {
        updating::compare(case, &second, &stored, &there, &mut seen)?;
    }
    Ok(seen)
}

/// So many cases.
fn config(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Judges cases; the classes of the differences that were seen.
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

/// Whether a directive is written in letters that the other does not know.
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

/// Whether the other takes the answer for one with `no-cache`, or `private`, that is about some fields only.
fn names_fields(lines: &case::Lines, directive: &str) -> bool {
    lines
        .get("cache-control")
        .is_some_and(|list| list.contains(&format!("{directive}=\"")))
}

/// What was decided when the request was stored, and what it says, for messages.
fn shown(request: &Request<'_>, meta: &Meta) -> String {
    format!("{:?} {meta:?}", request.directives)
}
