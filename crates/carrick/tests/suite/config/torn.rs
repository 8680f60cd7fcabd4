//! Files that were truncated or damaged anywhere: they are refused or parsed, with problems that can be shown, and without a panic.
use super::{examples, parse};
use carrick::config::problem::render;

fn try_it(text: &str) {
    match parse(text) {
        Ok(loaded) => {
            let _ = render(&loaded.problems, true);
        }
        Err(rejected) => {
            assert!(
                !rejected.problems.is_empty(),
                "refused without a reason: {text}"
            );
            assert!(!render(&rejected.problems, false).is_empty());
            for problem in &rejected.problems {
                if let Some(place) = &problem.place {
                    assert!(
                        place.source.text.get(place.span.clone()).is_some(),
                        "{problem} has no position in {text}"
                    );
                }
            }
        }
    }
}

fn complete() -> String {
    std::fs::read_to_string(examples().join("complete.toml")).expect("the file")
}

#[test]
fn a_file_that_was_cut_off() {
    let text = complete();
    for end in (0..text.len()).step_by(3) {
        if let Some(text) = text.get(..end) {
            try_it(text);
        }
    }
}

#[test]
fn a_file_with_a_byte_changed() {
    const OTHERS: [&str; 8] = ["\"", "[", "]", "{", "\n", "é", "\0", "9"];
    let text = complete();
    for (index, other) in (0..text.len()).step_by(5).zip(OTHERS.iter().cycle()) {
        let mut changed = text.clone();
        changed.replace_range(index..=index, other);
        try_it(&changed);
    }
}

#[test]
fn every_value_replaced_by_one_of_another_kind() {
    const OTHERS: [&str; 9] = [
        "true",
        "1979-05-27",
        "[]",
        "{}",
        "[[]]",
        "-9223372036854775808",
        "nan",
        "\"\\u0000\"",
        "\"😀\"",
    ];
    let text = complete();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some((key, _)) = line.split_once('=').filter(|(key, _)| !key.contains('#')) else {
            continue;
        };
        for other in OTHERS {
            let changed = format!("{key}= {other}");
            let mut lines = lines.clone();
            lines[index] = &changed;
            try_it(&lines.join("\n"));
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    for text in [
        "[".repeat(100_000),
        "a = ".to_owned() + &"[".repeat(100_000),
        "a = ".to_owned() + &"{a=".repeat(100_000),
        format!("a{} = 1", ".a".repeat(100_000)),
    ] {
        assert!(parse(&text).is_err());
    }
}
