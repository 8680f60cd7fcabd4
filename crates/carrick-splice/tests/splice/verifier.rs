//! The verifier's cost of every program is recorded, and stays near the record.

use carrick_splice::verifier;
use std::collections::BTreeSet;
use std::io;

/// With the same kernel and compiler the cost is the same, except for changes in either without a new version.
const TIMES_MAX: f64 = 1.5;

/// Kernels and compilers differ by less: one prunes more, another generates other code. A program that costs ten times
/// as much has a loop or a branch that doubles the paths with each turn.
const TIMES_MAX_ELSEWHERE: f64 = 10.0;

/// Kernels whose rows are checked in.
const KERNELS: [&str; 4] = ["6.1", "6.12", "6.18", "newest"];

/// The compilers with which the programs are known to load, by their version strings.
const COMPILERS: [&str; 3] = [
    "clang version 14.",
    "clang version 16.",
    "clang version 19.",
];

/// All programs of the repository.
fn objects() -> Vec<(&'static str, &'static [u8])> {
    [verifier::OBJECTS, carrick_packet_rules::OBJECTS].concat()
}

/// A program's cost on a kernel, as a compiler generates it.
struct Row {
    program: String,
    processed: u64,
    kernel: String,
    compiler: String,
}

/// The rows of one kernel.
fn rows(kernel: &str) -> Vec<Row> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scripts/kernels/expected"
    );
    let text = std::fs::read_to_string(format!("{folder}/programs.{kernel}")).expect("the rows");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, program, _, processed, _, _, kernel, compiler, _] = cells[..] else {
            panic!("not a row: {line}");
        };
        Row {
            program: program.trim_matches('`').to_owned(),
            processed: processed.parse().expect("a number of instructions"),
            kernel: kernel.to_owned(),
            compiler: compiler.to_owned(),
        }
    };
    text.lines().map(row).collect()
}

/// `6.12` of `6.12.117+deb13-cloud-amd64`.
fn series(kernel: &str) -> String {
    let numbers: Vec<&str> = kernel.split('.').take(2).collect();
    numbers.join(".")
}

/// Netfilter has had programs since Linux 6.4.
fn is_lacked(program: &str, kernel: &str) -> bool {
    kernel == "6.1" && program.starts_with("carrick_syn_")
}

#[test]
fn every_program_is_known_of_each_kernel_and_compiler() {
    let built: BTreeSet<String> = verifier::programs(&objects())
        .expect("the objects")
        .into_iter()
        .collect();
    assert!(!built.is_empty());
    for kernel in KERNELS {
        let rows = rows(kernel);
        for compiler in COMPILERS {
            let by = rows.iter().filter(|row| row.compiler.contains(compiler));
            let known: BTreeSet<String> = by.map(|row| row.program.clone()).collect();
            let missing: Vec<_> = built.difference(&known).collect();
            assert!(
                missing.iter().all(|program| is_lacked(program, kernel)) && known.is_subset(&built),
                "{kernel}, {compiler}: {missing:?} are missing; docs/internals/verifier.md says how rows are made"
            );
        }
    }
}

#[test]
fn no_program_costs_the_verifier_much_more_than_is_known() {
    let here = series(&rustix::system::uname().release().to_string_lossy());
    let rows: Vec<Row> = KERNELS.into_iter().flat_map(rows).collect();
    for (program, verdict) in verifier::verdicts(&objects()).expect("the objects") {
        let cost = match verdict {
            Ok(cost) => cost,
            Err(_) if is_lacked(&program, &here) => continue,
            // The kernel refuses programs with this error, too.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && !rustix::process::geteuid().is_root() =>
            {
                carrick_test::skip!("loading BPF programs needs root: {error}");
                return;
            }
            // Not the verifier's refusal, but that of a policy on bpf(2).
            Err(error) if error.to_string().contains("(os error 1)") => {
                carrick_test::lacks!("{program} may not be loaded here: {error}");
                continue;
            }
            Err(error) => panic!("{program}: {error}"),
        };
        let of_it = || rows.iter().filter(|row| row.program == program);
        let same = of_it().filter(|row| {
            let is_same = |compiler: &&str| {
                row.compiler.contains(*compiler) && verifier::compiler().contains(*compiler)
            };
            series(&row.kernel) == here && COMPILERS.iter().any(is_same)
        });
        let (known, times) = match same.map(|row| row.processed).max() {
            Some(known) => (known, TIMES_MAX),
            None => (
                of_it().map(|row| row.processed).max().expect("a row"),
                TIMES_MAX_ELSEWHERE,
            ),
        };
        assert!(
            cost.processed as f64 <= times * known as f64,
            "{cost:?}: {known} were known; can it be written with fewer branches?"
        );
    }
}
