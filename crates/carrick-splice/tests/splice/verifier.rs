//! What the verifier looks at stays near to what the checked-in table says, and the table has every program.

use carrick_splice::verifier;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Kernels and compilers differ by less: one prunes more, the other makes other code. A program that needs ten times as much has
/// a loop or a branch that doubles the ways through it with each turn; it loads slowly, and the next change, or the next kernel,
/// reaches the limit of a million.
const TIMES_MAX: u64 = 10;

/// The largest number in the table for each program.
fn table() -> BTreeMap<String, u64> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/internals/verifier.md"
    );
    let text = std::fs::read_to_string(path).expect("the page");
    let mut table = BTreeMap::new();
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, program, _, processed, ..] = cells[..] else {
            panic!("a short row: {row}");
        };
        let processed: u64 = processed.parse().expect("a number of instructions");
        let most = table
            .entry(program.trim_matches('`').to_owned())
            .or_insert(0);
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
fn no_program_costs_the_verifier_ten_times_what_the_table_says() {
    let costs = match verifier::costs() {
        Ok(costs) => costs,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            eprintln!("skipped: loading BPF programs needs root: {error}");
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
