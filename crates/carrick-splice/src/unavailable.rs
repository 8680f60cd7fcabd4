//! Why an engine of the kernel's cannot be used.

use crate::refusal;
use rustix::thread::{CapabilitySet, capabilities};
use std::path::Path;

/// Where a kernel tells its types, without which no program of ours is loaded.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// What the kernel keeps from root: `none [integrity] confidentiality`.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

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
        Unavailable(explain(&format!("{error:#}"), &Here::look()))
    }
}

/// What matters here for the question whether programs can be loaded.
#[derive(Debug, Clone, Default)]
struct Here {
    has_btf: bool,
    has_privileges: bool,
    is_confidential: bool,
}

impl Here {
    fn look() -> Here {
        let has = capabilities(None).map(|sets| sets.effective);
        let has = has.unwrap_or(CapabilitySet::empty());
        let wanted = CapabilitySet::BPF | CapabilitySet::PERFMON;
        let is_privileged = has.contains(wanted) || has.contains(CapabilitySet::SYS_ADMIN);
        let lockdown = std::fs::read_to_string(LOCKDOWN).unwrap_or_default();
        Here {
            has_btf: Path::new(BTF).exists(),
            has_privileges: is_privileged && has.contains(CapabilitySet::NET_ADMIN),
            is_confidential: lockdown.contains("[confidentiality]"),
        }
    }
}

/// What the error of a call, which libbpf-rs tells as a text only, means here.
fn explain(error: &str, here: &Here) -> String {
    let is = |errno: i32| error.contains(&format!("(os error {errno})"));
    if is(libc::ENOSYS) {
        return "there is no bpf(2): the kernel is without CONFIG_BPF_SYSCALL, or a filter of system calls hides it (containers)".into();
    }
    // Of privileges the kernel says EPERM; EACCES is the verifier's word, too.
    if is(libc::EPERM) || (is(libc::EACCES) && !here.has_privileges) {
        return if !here.has_privileges {
            "the privileges CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are missing (start as root, or grant them)".into()
        } else if here.is_confidential {
            "the kernel is locked down, and lets BPF programs read nothing of its memory (lockdown=confidentiality; \"integrity\" would do)".into()
        } else {
            "bpf(2) is refused in spite of CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: by a filter of system calls or a security module \
             (in a container: allow it bpf(2), or start it with --privileged)"
                .into()
        };
    }
    if !here.has_btf {
        return format!(
            "the kernel does not tell its types: there is no {BTF} (CONFIG_DEBUG_INFO_BTF; in a container: /sys is not the kernel's)"
        );
    }
    if is(libc::EACCES) {
        return format!("the kernel refuses its program: {error}");
    }
    format!("its program cannot be loaded: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lack_is_named_with_what_would_be_right() {
        let well = Here {
            has_btf: true,
            has_privileges: true,
            is_confidential: false,
        };
        let nobody = Here {
            has_privileges: false,
            ..well.clone()
        };
        let locked = Here {
            is_confidential: true,
            ..well.clone()
        };
        let no_types = Here {
            has_btf: false,
            ..well.clone()
        };
        for (errno, here, wanted) in [
            (libc::EPERM, &nobody, "the privileges CAP_BPF"),
            (libc::EACCES, &nobody, "the privileges CAP_BPF"),
            (libc::EPERM, &well, "bpf(2) is refused in spite of CAP_BPF"),
            (libc::EPERM, &locked, "the kernel is locked down"),
            (libc::EACCES, &well, "the kernel refuses its program: "),
            (libc::ENOSYS, &nobody, "there is no bpf(2)"),
            (libc::ESRCH, &no_types, "the kernel does not tell its types"),
            (libc::EINVAL, &well, "its program cannot be loaded: "),
        ] {
            let error = libbpf_rs::Error::from_raw_os_error(errno);
            let said = explain(&format!("{error:#}"), here);
            assert!(said.starts_with(wanted), "{errno} {here:?}: {said}");
        }
    }
}
