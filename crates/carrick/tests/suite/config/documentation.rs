//! `docs/configuration.md` has exactly the program's keys, limits and defaults.
use carrick::config::tables;

#[test]
fn the_documentation_has_the_tables_of_the_program() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(path).expect("the file");
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
