//! Why an engine of the kernel's cannot be used.

use crate::refusal;
use crate::sys::release;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use rustix::thread::{CapabilitySet, capabilities};
use std::io;
use std::path::Path;

/// Where a kernel tells its types, without which no program of ours is loaded.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The oldest Linux that all programs are made for.
const OLDEST: (u32, u32) = (6, 1);

/// What the kernel keeps from root: `none [integrity] confidentiality`.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// Why nothing connects to 127.0.0.1 (ENETUNREACH).
const NO_LOOPBACK: &str = "loopback is down (ip link set lo up)";

const LOCKED_DOWN: &str = "the kernel is locked down, and lets BPF programs read nothing of its memory (lockdown=confidentiality; \"integrity\" would do)";

/// What failed on loopback, with the cause where it is down.
pub(crate) fn on_loopback(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENETUNREACH) => io::Error::other(NO_LOOPBACK),
        _ => error,
    }
}

/// Why the engine cannot be used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(String);

impl Unavailable {
    #[doc(hidden)]
    #[must_use]
    pub fn new(because: String) -> Unavailable {
        Unavailable(because)
    }

    /// Loads programs, in silence, or says why they cannot be loaded.
    #[doc(hidden)]
    pub fn unless_loaded<T>(load: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, Unavailable> {
        refusal::listen();
        load().map_err(|error| Unavailable::explain(&error))
    }

    /// Because its programs could not be loaded.
    pub(crate) fn explain(error: &libbpf_rs::Error) -> Unavailable {
        let support = BpfSupport::look();
        if let Some(refusal) = refusal::take().filter(|refusal| !refusal.log.is_empty()) {
            let (program, why) = (&refusal.program, refusal.tail(1));
            if hides_helper(&why) && support.is_confidential {
                return Unavailable(LOCKED_DOWN.into());
            }
            return Unavailable(format!(
                "the kernel refuses its program {program}: {}{}",
                why.trim(),
                support.age()
            ));
        }
        Unavailable(explain(&format!("{error:#}"), &support))
    }
}

/// Whether the kernel has a function, by its types; where it does not tell them, it may.
pub(crate) fn may_have(function: &str) -> bool {
    Btf::from_vmlinux().map_or(true, |kernel| {
        kernel.type_by_name::<Func<'_>>(function).is_some()
    })
}

/// Whether the verifier knows nothing of a function, as those that read kernel memory are where that is locked down.
fn hides_helper(verifier: &str) -> bool {
    verifier.contains("cannot use helper") || verifier.contains("unknown func")
}

/// What matters here for the question whether programs can be loaded.
#[derive(Debug, Clone, Default)]
struct BpfSupport {
    has_btf: bool,
    has_privileges: bool,
    is_confidential: bool,
    is_old: bool,
}

impl BpfSupport {
    fn look() -> BpfSupport {
        let has = capabilities(None).map(|sets| sets.effective);
        let has = has.unwrap_or(CapabilitySet::empty());
        let wanted = CapabilitySet::BPF | CapabilitySet::PERFMON;
        let is_privileged = has.contains(wanted) || has.contains(CapabilitySet::SYS_ADMIN);
        let lockdown = std::fs::read_to_string(LOCKDOWN).unwrap_or_default();
        BpfSupport {
            has_btf: Path::new(BTF).exists(),
            has_privileges: is_privileged && has.contains(CapabilitySet::NET_ADMIN),
            is_confidential: lockdown.contains("[confidentiality]"),
            is_old: release::is_before(OLDEST),
        }
    }

    /// What is said of a kernel that is too old behind what it says itself.
    fn age(&self) -> &'static str {
        if self.is_old {
            " (Linux 6.1 or later is needed)"
        } else {
            ""
        }
    }
}

/// What the error of a call, which libbpf-rs tells as a text only, means here.
fn explain(error: &str, support: &BpfSupport) -> String {
    let is = |errno: i32| error.contains(&format!("(os error {errno})"));
    if is(libc::ENOSYS) {
        return "there is no bpf(2): the kernel is without CONFIG_BPF_SYSCALL, or a filter of system calls hides it (containers)".into();
    }
    if is(libc::ENETUNREACH) {
        return NO_LOOPBACK.into();
    }
    // Of privileges the kernel says EPERM; EACCES is the verifier's word, too.
    if is(libc::EPERM) || (is(libc::EACCES) && !support.has_privileges) {
        return if !support.has_privileges {
            "the privileges CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are missing (start as root, or grant them)".into()
        } else if support.is_confidential {
            LOCKED_DOWN.into()
        } else {
            "bpf(2) is refused in spite of CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: by a filter of system calls or a security module \
             (in a container: allow it bpf(2), or start it with --privileged)"
                .into()
        };
    }
    if !support.has_btf {
        return format!(
            "the kernel does not tell its types: there is no {BTF} (CONFIG_DEBUG_INFO_BTF; in a container: /sys is not the kernel's)"
        );
    }
    if is(libc::EACCES) {
        return format!("the kernel refuses its program: {error}{}", support.age());
    }
    format!("its program cannot be loaded: {error}{}", support.age())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lack_is_named_with_what_would_be_right() {
        let well = BpfSupport {
            has_btf: true,
            has_privileges: true,
            is_confidential: false,
            is_old: false,
        };
        let nobody = BpfSupport {
            has_privileges: false,
            ..well.clone()
        };
        let locked = BpfSupport {
            is_confidential: true,
            ..well.clone()
        };
        let no_types = BpfSupport {
            has_btf: false,
            ..well.clone()
        };
        for (errno, support, wanted) in [
            (libc::EPERM, &nobody, "the privileges CAP_BPF"),
            (libc::EACCES, &nobody, "the privileges CAP_BPF"),
            (libc::EPERM, &well, "bpf(2) is refused in spite of CAP_BPF"),
            (libc::EPERM, &locked, "the kernel is locked down"),
            (libc::EACCES, &well, "the kernel refuses its program: "),
            (libc::ENOSYS, &nobody, "there is no bpf(2)"),
            (libc::ESRCH, &no_types, "the kernel does not tell its types"),
            (libc::ENETUNREACH, &well, "loopback is down"),
            (libc::EINVAL, &well, "its program cannot be loaded: "),
        ] {
            let error = libbpf_rs::Error::from_raw_os_error(errno);
            let said = explain(&format!("{error:#}"), support);
            assert!(said.starts_with(wanted), "{errno} {support:?}: {said}");
        }
    }
}
