//! Why an engine of the kernel's cannot be used.

use crate::refusal;
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
        if let Some(refusal) = refusal::take().filter(|refusal| !refusal.log.is_empty()) {
            let (program, why) = (&refusal.program, refusal.tail(1));
            return Unavailable(format!(
                "the kernel refuses its program {program}: {}",
                why.trim()
            ));
        }
        Unavailable(match error.kind() {
            ErrorKind::PermissionDenied if is_the_verifiers(error) => {
                format!("the kernel refuses its program: {error:#}")
            }
            ErrorKind::PermissionDenied => {
                "the privileges CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are missing (start as root, or grant them)".into()
            }
            ErrorKind::NotFound => format!("the kernel lacks something that it needs (BTF?): {error:#}"),
            _ => format!("its program cannot be loaded: {error:#}"),
        })
    }
}

/// Whether it is EACCES, the verifier's word, said to somebody who has the privileges; of privileges the kernel says EPERM.
fn is_the_verifiers(error: &libbpf_rs::Error) -> bool {
    // libbpf-rs keeps the number to itself, but not how the standard library writes it.
    let number = format!("(os error {})", libc::EACCES);
    let is_refused = format!("{error:#}").contains(&number);
    is_refused && rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_verifier_is_no_matter_of_privileges() {
        if !carrick_test::is_root() {
            return;
        }
        let said =
            |errno| Unavailable::explain(&libbpf_rs::Error::from_raw_os_error(errno)).to_string();
        assert!(said(libc::EACCES).starts_with("the kernel refuses its program"));
        assert!(said(libc::EPERM).starts_with("the privileges CAP_BPF"));
    }
}
