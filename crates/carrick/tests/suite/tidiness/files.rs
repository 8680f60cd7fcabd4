//! What every file keeps to: its first line, its length, and what it does not have in it.
use super::{Written, assert_none, written};

/// A file that is longer is about more than one thing.
const LINES_MAX: usize = 600;

/// Parts of paths that exist on one machine only, and hosts of package registries. Written in two parts, so that this file
/// has none of them.
const FOREIGN: &[(&str, &str)] = &[
    ("/ho", "me/"),
    ("/Use", "rs/"),
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("crates", ".io"),
    ("registry.npm", "js.org"),
    ("py", "pi.org"),
    ("python", "hosted.org"),
    ("docker", ".io/"),
    ("proxy.go", "lang.org"),
];

/// Words that say that something is not finished.
const UNFINISHED: &[(&str, &str)] = &[
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("HA", "CK"),
    ("WI", "P"),
];

/// Made by cargo, which names its registry there.
const GENERATED: &[&str] = &["Cargo.lock", "fuzz/Cargo.lock"];

#[test]
fn every_source_file_begins_with_what_it_is_for() {
    let mut complaints = Vec::new();
    for file in written() {
        let mut lines = file.text.lines();
        let first = lines.next().unwrap_or_default();
        let says_it = match file.extension() {
            "rs" => first.strip_prefix("//! "),
            "c" | "h" => first
                .strip_prefix("// ")
                .or_else(|| first.strip_prefix("/* ")),
            "lua" => first.strip_prefix("-- "),
            _ if first.starts_with("#!") => lines.next().and_then(|line| line.strip_prefix("# ")),
            _ => continue,
        };
        if says_it.is_none_or(|words| words.split_whitespace().count() < 2) {
            complaints.push(format!("{}:1: says what the file is for", file.name));
        }
    }
    assert_none(&complaints);
}

#[test]
fn no_file_is_too_long() {
    let mut complaints = Vec::new();
    for file in written() {
        let lines = file.text.lines().count();
        if matches!(file.extension(), "rs" | "c" | "h") && lines > LINES_MAX {
            complaints.push(format!(
                "{}: {lines} lines, more than {LINES_MAX}: split it",
                file.name
            ));
        }
    }
    assert_none(&complaints);
}

#[test]
fn no_file_names_a_place_of_one_machine_or_a_registry() {
    let words: Vec<String> = FOREIGN
        .iter()
        .map(|(first, second)| format!("{first}{second}"))
        .collect();
    assert_none(&lines_with(|line| {
        words
            .iter()
            .find(|word| line.contains(word.as_str()))
            .cloned()
    }));
}

#[test]
fn nothing_is_left_unfinished() {
    let words: Vec<String> = UNFINISHED
        .iter()
        .map(|(first, second)| format!("{first}{second}"))
        .collect();
    assert_none(&lines_with(|line| {
        let mut tokens = line.split(|letter: char| !letter.is_ascii_alphanumeric());
        tokens
            .find(|token| words.iter().any(|word| word == token))
            .map(str::to_owned)
    }));
}

/// The lines in which `find` finds something.
fn lines_with(find: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for Written { name, text } in written()
        .iter()
        .filter(|file| !GENERATED.contains(&file.name.as_str()))
    {
        for (index, line) in text.lines().enumerate() {
            if let Some(found) = find(line) {
                complaints.push(format!("{name}:{}: {found}", index + 1));
            }
        }
    }
    complaints
}
