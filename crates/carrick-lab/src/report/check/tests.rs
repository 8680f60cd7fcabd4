//! Tests of the comparison with the paper: agree, differ, wait, not known.

use super::*;
use crate::experiment::results::Cell;
use crate::report::{fixture, values};

fn judged_on(cells: Vec<Cell>, test: Test) -> Judged {
    let mut figure = fixture::figure("figure-4");
    figure.checks = vec![fixture::check(test)];
    let results = fixture::results(cells, Vec::new());
    let values = values::of(&results, &figure);
    judge(&figure, &values).remove(0)
}

fn judged(test: Test) -> Judged {
    judged_on(fixture::three_sizes(), test)
}

fn rises(of: &str) -> Test {
    Test::Rises { of: of.into() }
}

fn below(of: &str, than: &str, share: f64) -> Test {
    Test::Below {
        of: of.into(),
        than: than.into(),
        share,
    }
}

fn within(min: f64, max: f64) -> Test {
    Test::Within {
        of: "carrick-copy".into(),
        min,
        max,
    }
}

#[test]
fn rising_and_falling() {
    let rising = judged(rises("carrick-copy"));
    assert_eq!(rising.verdict, Verdict::Agree);
    assert_eq!(rising.sentence, "It is so here too, as it should be.");
    assert_eq!(
        rising.evidence,
        "carrick copy: 30 µs at 1 KB, 90 µs at 100 KB"
    );
    let falling = judged(Test::Falls {
        of: "carrick-copy".into(),
    });
    assert_eq!(falling.verdict, Verdict::Differ);
    assert_eq!(falling.sentence, "Not so here, for a reason.");
}

#[test]
fn below_at_a_share_of_the_points() {
    assert_eq!(
        judged(below("carrick-pipe", "carrick-copy", 0.6)).verdict,
        Verdict::Agree
    );
    assert_eq!(
        judged(below("carrick-pipe", "carrick-copy", 2.0 / 3.0)).verdict,
        Verdict::Agree
    );
    let all = judged(below("carrick-pipe", "carrick-copy", 1.0));
    assert_eq!(all.verdict, Verdict::Differ);
    assert_eq!(all.evidence, "below at 2 of 3 common points");
}

#[test]
fn within_bounds() {
    assert_eq!(judged(within(30.0, 90.0)).verdict, Verdict::Agree);
    assert_eq!(judged(within(30.5, 90.0)).verdict, Verdict::Differ);
    assert_eq!(judged(within(0.0, 89.0)).verdict, Verdict::Differ);
}

fn best_at_least(of: &[&str], min: f64, from: f64) -> Judged {
    judged(Test::BestAtLeast {
        of: of.iter().map(|name| (*name).to_owned()).collect(),
        min,
        from,
    })
}

#[test]
fn the_best_of_several_from_a_place_on() {
    let both = ["carrick-copy", "carrick-pipe"];
    let all = best_at_least(&both, 30.0, 0.0);
    assert_eq!(all.verdict, Verdict::Agree, "{}", all.evidence);
    // At 1 KB, copy has 30; from 100 KB on it has 90, which is the best.
    assert_eq!(best_at_least(&both, 40.0, 0.0).verdict, Verdict::Differ);
    let large = best_at_least(&both, 90.0, 102_400.0);
    assert_eq!(large.verdict, Verdict::Agree, "{}", large.evidence);
    assert_eq!(large.evidence, "90 µs at 100 KB by carrick copy");
    // One that waits does not count, and is told of.
    let with_waiting = best_at_least(&["carrick-socket", "carrick-copy"], 90.0, 102_400.0);
    assert_eq!(with_waiting.verdict, Verdict::Agree);
    assert!(
        with_waiting.evidence.contains("only on the points"),
        "{}",
        with_waiting.evidence
    );
    assert_eq!(
        best_at_least(&["carrick-socket"], 1.0, 0.0).verdict,
        Verdict::Waits
    );
    assert_eq!(best_at_least(&both, 1.0, 1e9).verdict, Verdict::Unknown);
}

#[test]
fn what_waits_is_neither_agreement_nor_difference() {
    for test in [
        rises("carrick-socket"),
        below("carrick-socket", "carrick-copy", 0.5),
        below("carrick-copy", "carrick-socket", 0.5),
    ] {
        let waits = judged(test);
        assert_eq!(waits.verdict, Verdict::Waits);
        assert!(
            waits
                .sentence
                .contains("carrick socket waits for the socket engine"),
            "{}",
            waits.sentence
        );
    }
}

#[test]
fn what_failed_or_is_not_there_is_said() {
    let failure = fixture::failed(
        "sizes",
        "haproxy",
        &[("body_bytes", 1024.0)],
        "no such program",
    );
    let failed = judged_on(vec![failure], rises("haproxy"));
    assert_eq!(failed.verdict, Verdict::Unknown);
    assert!(failed.sentence.contains("no such program"));
    let absent = judged(rises("squid"));
    assert_eq!(absent.verdict, Verdict::Unknown);
    assert!(absent.sentence.contains("squid was not measured"));
}

#[test]
fn one_point_has_no_slope_and_lines_need_common_points() {
    let at = |size| [("body_bytes", size)];
    let cells = vec![
        fixture::cell(
            "sizes",
            "carrick-copy",
            &at(1.0),
            "cpu_us_per_request",
            &[1.0],
        ),
        fixture::cell("sizes", "haproxy", &at(2.0), "cpu_us_per_request", &[1.0]),
    ];
    assert_eq!(
        judged_on(cells.clone(), rises("haproxy")).verdict,
        Verdict::Unknown
    );
    assert_eq!(
        judged_on(cells, below("haproxy", "carrick-copy", 0.1)).verdict,
        Verdict::Unknown
    );
}

#[test]
fn gaps_are_mentioned() {
    let mut cells = fixture::three_sizes();
    cells.retain(|cell| cell.series == "carrick-copy");
    cells[1].samples.clear();
    assert!(
        judged_on(cells, rises("carrick-copy"))
            .evidence
            .ends_with("only on the points that were measured")
    );
}

#[test]
fn checks_are_read_from_toml() {
    let text = "test = \"below\"\nof = \"a\"\nthan = \"b\"\nshare = 0.5\nagree = \"yes\"\ndiffer = \"no\"\n";
    let check: Check = toml::from_str(text).unwrap();
    assert_eq!(check.test, below("a", "b", 0.5));
    let again: Check = serde_json::from_str(&serde_json::to_string(&check).unwrap()).unwrap();
    assert_eq!(again, check);
}
