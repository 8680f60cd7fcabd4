//! `docs/configuration.md` has the program's keys, limits and defaults; the cache's policy, each reason not to store.
use carrick::cache::memory::NotTaken;
use carrick::config::tables;
use carrick_logic::cache::{NotFilled, NotStored};

/// A page of the documentation.
fn page(name: &str) -> String {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::fs::read_to_string(docs.join(name)).expect("the file")
}

#[test]
fn the_documentation_has_the_tables_of_the_program() {
    let text = page("configuration.md");
    for table in tables()
        .into_iter()
        .filter(|table| table.title != "the file")
    {
        assert!(
            text.contains(&format!("`{}`\n", table.title)),
            "there is no section `{}`",
            table.title
        );
        let rows = table.markdown();
        assert!(
            text.contains(&rows),
            "`carrick generate configuration` has for {}:\n{rows}",
            table.title
        );
    }
    let keys: usize = tables()
        .into_iter()
        .filter(|table| table.title != "the file")
        .map(|table| table.keys.len())
        .sum();
    let documented = text.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(documented, keys, "a row for each key, and no other");
}

#[test]
fn the_documentation_has_each_reason_why_a_response_is_not_stored() {
    let text = page("internals/cache-policy.md");
    let labels = [
        NotStored::ALL.map(NotStored::label).as_slice(),
        &NotFilled::ALL.map(NotFilled::label),
        &NotTaken::ALL.map(NotTaken::label),
    ]
    .concat();
    let cells: Vec<_> = text
        .lines()
        .filter_map(|row| row.split('|').nth(2))
        .collect();
    for label in labels {
        let label = format!("`{label}`");
        assert!(cells.iter().any(|cell| cell.contains(&label)), "{label}");
    }
}
