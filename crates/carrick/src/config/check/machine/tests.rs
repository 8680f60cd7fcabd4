//! What a small machine has not is noted, and nothing else.
use super::{Machine, check};
use crate::config::file::File;
use crate::config::problem::{Problems, Severity, Source};
use crate::config::reader::Section;
use crate::config::section::Keys;
use std::sync::Arc;
use toml::de::DeTable;

const GB: u64 = 1 << 30;

fn notes(text: &str, machine: &Machine) -> Vec<String> {
    let source = Source {
        name: "test.toml".to_owned(),
        text: text.to_owned(),
        is_secret: false,
    };
    let mut problems = Problems::new(Arc::new(source));
    let document = DeTable::parse(text).expect("TOML");
    let root = Section::root(document.get_ref(), File::TABLE, &mut problems);
    let file = File::read(&root, &mut problems);
    check(&file, machine, &mut problems);
    let found = problems.into_sorted();
    assert!(
        found
            .iter()
            .all(|problem| problem.severity == Severity::Note)
    );
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn more_memory_or_workers_than_the_machine_has_is_noted() {
    let machine = Machine {
        memory_bytes: Some(24 * GB + GB / 2),
        cores: 2,
    };
    let cases = [
        (
            "[cache]\nmemory = \"1024 GB\"",
            Some("at most 24 GB of memory"),
        ),
        (
            "[cache]\nmemory = \"25 GB\"",
            Some("at most 24 GB of memory"),
        ),
        ("[cache]\nmemory = \"24 GB\"", None),
        ("[cache]", None),
        ("[workers]\ncount = 1024", Some("on 2 cores only")),
        ("[workers]\ncount = 5", Some("on 2 cores only")),
        ("[workers]\ncount = 4", None),
        ("[workers]\ncount = 0", None),
    ];
    for (text, expected) in cases {
        let found = notes(text, &machine);
        assert_eq!(
            found.len(),
            usize::from(expected.is_some()),
            "{text}: {found:?}"
        );
        for (note, part) in found.iter().zip(expected) {
            assert!(
                note.contains(part) && note.starts_with("test.toml:2:"),
                "{note}"
            );
        }
    }
}

#[test]
fn what_is_not_known_of_the_machine_is_not_noted() {
    let machine = Machine {
        memory_bytes: None,
        cores: u64::MAX,
    };
    let text = "[cache]\nmemory = \"1024 GB\"\n[workers]\ncount = 1024";
    assert!(notes(text, &machine).is_empty());
}

#[test]
fn this_machine_has_memory_and_cores() {
    let here = Machine::here();
    assert!(here.memory_bytes.is_some_and(|bytes| bytes > 0) && here.cores > 0);
}
