//! Why an engine of the kernel's cannot be used.

use libbpf_rs::ErrorKind;

/// Why the engine cannot be used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(String);

impl Unavailable {
    pub(crate) fn new(because: String) -> Unavailable {
        Unavailable(because)
    }

    /// Because its programs could not be loaded.
    pub(crate) fn explain(error: &libbpf_rs::Error) -> Unavailable {
        Unavailable(match error.kind() {
            ErrorKind::PermissionDenied => {
                "the privileges CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are missing (start as root, or grant them)".into()
            }
            ErrorKind::NotFound => format!("the kernel lacks something that it needs (BTF?): {error:#}"),
            _ => format!("its program cannot be loaded: {error:#}"),
        })
    }
}
