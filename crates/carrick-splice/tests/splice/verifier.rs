//! What the verifier looks at stays near to what the checked-in table says, and the table has every program.

use carrick_splice::verifier;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Kernels and compilers differ by less: one prunes more, the other makes other code. A program that needs ten times as much has
/// a loop or a branch that doubles the ways through it with each turn; it loads slowly, and the next change, or the next kernel,
/// reaches the limit of a million.
const TIMES_MAX: u64 = 10;

/// The compilers with which the programs are known to load, by what they call themselves.
const COMPILERS: [&str; 3] = [
    "clang version 14.",
    "clang version 16.",
    "clang version 19.",
];

/// The rows of the table, by column.
fn rows() -> Vec<Vec<String>> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/internals/verifier.md"
    );
    let text = std::fs::read_to_string(path).expect("the page");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &str| {
        let cells = row.split('|').map(|cell| cell.trim().trim_matches('`'));
        cells.map(ToOwned::to_owned).collect()
    };
    rows.map(cells).collect()
}

/// The largest number in the table for each program.
fn table() -> BTreeMap<String, u64> {
    let mut table = BTreeMap::new();
    for row in rows() {
        let [_, program, _, processed, ..] = &row[..] else {
            panic!("a short row: {row:?}");
        };
        let processed: u64 = processed.parse().expect("a number of instructions");
        let most = table.entry(program.clone()).or_insert(0);
        *most = processed.max(*most);
    }
    table
}

#[test]
fn the_table_has_every_program_and_no_other() {
    let listed: BTreeSet<String> = table().into_keys().collect();
    let built: BTreeSet<String> = verifier::programs()
        .expect("the objects")
        .into_iter()
        .collect();
    assert!(!built.is_empty());
    assert_eq!(
        listed, built,
        "docs/internals/verifier.md says how it is made"
    );
}

#[test]
fn the_table_has_every_program_as_each_compiler_makes_it() {
    let rows = rows();
    for program in table().into_keys() {
        let mut own = rows.iter().filter(|row| row.get(1) == Some(&program));
        let count = |compiler: &str| {
            let is_of = |row: &&Vec<String>| row.get(7).is_some_and(|cell| cell.contains(compiler));
            own.clone().filter(is_of).count()
        };
        assert_eq!(COMPILERS.map(count), [1; 3], "{program} by {COMPILERS:?}");
        assert!(own.all(|row| row.len() == 9), "{program}");
    }
}

#[test]
fn no_program_costs_the_verifier_ten_times_what_the_table_says() {
    let costs = match verifier::costs() {
        Ok(costs) => costs,
        // So the kernel refuses programs as well.
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied
                && !rustix::process::geteuid().is_root() =>
        {
            carrick_test::skip!("loading BPF programs needs root: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let table = table();
    for cost in costs {
        let listed = table[&cost.program];
        assert!(
            cost.processed <= TIMES_MAX * listed,
            "{cost:?}: the table says {listed}; is there a way to say it to the verifier with fewer branches?"
        );
    }
}
