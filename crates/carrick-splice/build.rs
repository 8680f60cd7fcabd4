//! Compiles the BPF programs and generates their skeletons, from which the process has the types that it shares with them.

#[path = "build/bpf.rs"]
mod bpf;

/// The programs, in the order in which they are reported.
const PROGRAMS: [&str; 7] = [
    "sockmap",
    "live",
    "tc",
    "pacing",
    "http",
    "tcp_tuning",
    "syn_defer",
];

/// Programs that only tests load: `bpf/tc/NAME.bpf.c` becomes `NAME.o`.
const TEST_PROGRAMS: [&str; 2] = ["hooks_test", "model"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let compiler = bpf::Compiler::find()?;
    compiler.programs(&PROGRAMS)?;
    for program in TEST_PROGRAMS {
        let source = format!("bpf/tc/{program}.bpf.c");
        let made = compiler.builder(&source, program).build();
        made.map_err(|error| format!("{source}: {error:#}"))?;
    }
    Ok(())
}
