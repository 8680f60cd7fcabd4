//! What went wrong with a hook: which call, on what, and what can be done about it.

use rustix::io::Errno;
use std::fmt;
use std::io;

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookError {
    /// The call to the kernel, or what was tried.
    pub call: &'static str,
    /// What it was about: an interface and a direction, or a file.
    pub on: String,
    /// What the kernel said.
    pub cause: String,
    /// What can be done; may be empty.
    pub remedy: String,
    /// The kernel's error number, where there is one.
    pub errno: Option<i32>,
}

impl fmt::Display for HookError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}: {}", self.call, self.on, self.cause)?;
        if self.remedy.is_empty() {
            return Ok(());
        }
        write!(formatter, " ({})", self.remedy)
    }
}

impl std::error::Error for HookError {}

impl HookError {
    /// A call to the kernel that failed, with the advice that its error calls for.
    pub(in crate::engine::tc) fn new(
        call: &'static str,
        on: impl Into<String>,
        error: &io::Error,
    ) -> HookError {
        HookError {
            call,
            on: on.into(),
            cause: error.to_string(),
            remedy: remedy(error).to_owned(),
            errno: error.raw_os_error(),
        }
    }

    /// Something that is not as it has to be.
    pub(in crate::engine::tc) fn wrong(
        call: &'static str,
        on: impl Into<String>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> HookError {
        HookError {
            call,
            on: on.into(),
            cause: cause.into(),
            remedy: remedy.into(),
            errno: None,
        }
    }

    /// Replaces the advice by a better one.
    pub(super) fn with_remedy(mut self, remedy: impl Into<String>) -> HookError {
        self.remedy = remedy.into();
        self
    }

    /// Whether privileges are missing.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self.errno, Some(libc::EPERM | libc::EACCES))
    }

    /// Whether the interface does not exist any more.
    #[must_use]
    pub fn is_vanished(&self) -> bool {
        self.errno == Some(libc::ENODEV)
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "the privileges CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are missing: start as root, or grant them"
        }
        Some(Errno::NODEV) => "the interface has vanished; nothing is to be done",
        Some(Errno::RANGE) => {
            "64 programs are on this hook, more it does not take; bpftool net shows whose"
        }
        Some(Errno::NOMEM | Errno::NOSPC | Errno::DQUOT | Errno::NFILE | Errno::MFILE) => {
            "there is no room left in the kernel or in the limits of this process"
        }
        _ => "",
    }
}
