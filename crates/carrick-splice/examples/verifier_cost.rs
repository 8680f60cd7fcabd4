//! Prints what each BPF program costs the verifier of this kernel, as rows of the table in `docs/internals/verifier.md`. As root:
//!
//!     cargo run -p carrick-splice --example verifier_cost
#![allow(clippy::print_stdout, reason = "it is what it is for")]

use carrick_splice::verifier;

fn main() -> std::io::Result<()> {
    let kernel = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    for cost in verifier::costs()? {
        println!(
            "| `{}` | {} | {} | {} | {} | {kernel} | {} |",
            cost.program,
            cost.instructions,
            cost.processed,
            cost.states,
            cost.stack,
            verifier::compiler(),
        );
    }
    Ok(())
}
