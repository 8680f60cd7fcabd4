//! Prints what each BPF program costs the verifier of this kernel, as rows of `scripts/kernels/expected/programs.*`, and why it refuses
//! others. As root:
//!
//!     cargo run -p carrick-splice --example verifier_cost
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is what it is for"
)]

use carrick_splice::verifier;
use std::process::ExitCode;

fn main() -> std::io::Result<ExitCode> {
    let kernel = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let objects = [verifier::OBJECTS, carrick_packet_rules::OBJECTS].concat();
    let mut refused = 0;
    for (program, verdict) in verifier::verdicts(&objects)? {
        match verdict {
            Ok(cost) => println!(
                "| `{program}` | {} | {} | {} | {} | {kernel} | {} |",
                cost.instructions,
                cost.processed,
                cost.states,
                cost.stack,
                verifier::compiler(),
            ),
            Err(error) => {
                refused += 1;
                eprintln!("{program} is refused: {error}");
            }
        }
    }
    Ok(ExitCode::from(u8::from(refused > 0)))
}
