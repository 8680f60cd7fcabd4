//! Why packet rules cannot be used: which rule, or which call, and what would be right.

use super::RULES_MAX;
use carrick_splice::Unavailable;
use carrick_splice::hooks::HookError;

/// Why packet rules cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// A rule says what cannot be done.
    #[error("packet rule {number} ({name}): {problem}: {remedy}")]
    Rule {
        /// Its place in the set, from 1 on.
        number: usize,
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
        /// What would be right.
        remedy: String,
    },
    /// The set has no room for so many rules.
    #[error(
        "{count} packet rules are more than a set has room for: give at most {RULES_MAX}, with wider prefixes or port ranges"
    )]
    TooMany {
        /// How many were given.
        count: usize,
    },
    /// The programs cannot be loaded, or no interface takes them.
    #[error("packet rules cannot be used here: {0}")]
    Unavailable(#[from] Unavailable),
    /// The interfaces cannot be looked at.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// The kernel refuses a set of rules, or to tell its counts.
    #[error("{call} of the packet rules: {cause}")]
    Kernel {
        /// The call.
        call: &'static str,
        /// What the kernel said, and what can be done.
        cause: String,
    },
}

impl RulesError {
    /// A call that failed.
    pub(super) fn kernel(call: &'static str, error: &libbpf_rs::Error) -> RulesError {
        let cause = match error.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => {
                "the privilege CAP_BPF is missing (start as root, or grant it)".into()
            }
            _ => format!("{error:#}"),
        };
        RulesError::Kernel { call, cause }
    }
}
