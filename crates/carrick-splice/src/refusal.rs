//! The verifier's message when it rejects a program: libbpf prints it, and returns only a number.

use libbpf_rs::{PrintLevel, set_print};
use std::cell::RefCell;
use std::sync::Once;

/// A program that the verifier has rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub program: String,
    /// The verifier's log, without its statistics.
    pub log: String,
}

thread_local! {
    static LAST: RefCell<Option<Refusal>> = const { RefCell::new(None) };
}

/// Silences libbpf in the whole process; a verifier's log for this thread is [`take`]n.
pub(crate) fn listen() {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        set_print(Some((PrintLevel::Warn, |_, text| {
            if let Some(refusal) = Refusal::read(&text) {
                LAST.set(Some(refusal));
            }
        })));
    });
    LAST.take();
}

/// Why this thread's last program was rejected; clears it.
pub(crate) fn take() -> Option<Refusal> {
    LAST.take()
}

impl Refusal {
    /// Reads what libbpf prints (`bpf_object_load_prog`).
    fn read(text: &str) -> Option<Refusal> {
        let (before, rest) = text.split_once("-- BEGIN PROG LOAD LOG --")?;
        let (log, _) = rest.split_once("-- END PROG LOAD LOG --")?;
        // Linux 7.3 adds a long explanation behind the word that others print.
        let lines = log
            .lines()
            .take_while(|line| !line.starts_with("Verification failed:"))
            .filter(|line| !line.trim().is_empty() && !line.starts_with("processed "));
        Some(Refusal {
            program: before.split('\'').nth(1)?.to_owned(),
            log: lines.collect::<Vec<_>>().join("\n"),
        })
    }

    /// The last lines, at most this many.
    pub(crate) fn tail(&self, lines_max: usize) -> String {
        let lines: Vec<&str> = self.log.lines().collect();
        lines[lines.len().saturating_sub(lines_max)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_last_word_is_found() {
        let said = "libbpf: prog 'carrick_arriving': -- BEGIN PROG LOAD LOG --\n\
                    0: R1=ctx()\n5: (85) call bpf_skb_load_bytes#26\nR4 invalid zero-sized read\n\
                    processed 6 insns (limit 1000000) max_states_per_insn 0\n-- END PROG LOAD LOG --\n";
        let refusal = Refusal::read(said).expect("a refusal");
        assert_eq!(refusal.program, "carrick_arriving");
        assert_eq!(refusal.tail(1), "R4 invalid zero-sized read");
        assert_eq!(refusal.tail(9).lines().count(), 3);
        let said = said.replace(
            "processed",
            "\nVerification failed: Memory Access Safety\n\nSuggestion:\n  Test it.\n\nprocessed",
        );
        assert_eq!(Refusal::read(&said), Some(refusal));
        for other in [
            "",
            "libbpf: prog 'a': BPF program load failed: Invalid argument\n",
            "-- BEGIN PROG LOAD LOG --",
        ] {
            assert_eq!(Refusal::read(other), None);
        }
    }
}
