//! The sandbox: restricts the files and system calls of the process once it serves, enforced by the kernel. It is set up while there is one
//! thread, so it holds for all of them, and it is irreversible.
mod calls;
mod files;

use crate::config::plan::{Plan, Sandbox};
use std::io;
use std::path::Path;

/// One part of the sandbox: whether it is in force, and details or a reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SandboxPart {
    /// Whether the kernel enforces it.
    pub in_force: bool,
    /// Details, or the reason why not.
    pub detail: String,
}

/// Both parts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Sandboxed {
    /// Which files can be reached (Landlock).
    pub files: SandboxPart,
    /// Which system calls are refused (seccomp).
    pub calls: SandboxPart,
}

impl SandboxPart {
    fn of(outcome: Result<String, String>) -> Self {
        let in_force = outcome.is_ok();
        let (Ok(detail) | Err(detail)) = outcome;
        Self { in_force, detail }
    }
}

impl Sandboxed {
    /// Not set up yet, or switched off.
    #[must_use]
    pub fn off(why: &str) -> Self {
        let part = || SandboxPart::of(Err(why.to_owned()));
        Self {
            files: part(),
            calls: part(),
        }
    }

    /// `files by Landlock, system calls by seccomp`
    #[must_use]
    pub fn summary(&self) -> String {
        let part = |name: &str, part: &SandboxPart| {
            let is = if part.in_force { "" } else { "not in force: " };
            format!("{name}: {is}{}", part.detail)
        };
        format!(
            "{}; {}",
            part("files", &self.files),
            part("system calls", &self.calls)
        )
    }
}

/// Sets it up as the plan says; `source` is the configuration file. It is irreversible: everything that it forbids must be open already, and
/// threads that it must confine must not run yet.
///
/// # Errors
/// The plan requires it and a part is unavailable; says which and why.
pub fn enter(plan: &Plan, source: Option<&Path>) -> io::Result<Sandboxed> {
    if plan.sandbox == Sandbox::Off {
        return Ok(Sandboxed::off("switched off by [process] sandbox"));
    }
    let sandboxed = Sandboxed {
        files: SandboxPart::of(files::restrict(plan, source)),
        // Last, since it refuses system calls that Landlock needs.
        calls: SandboxPart::of(calls::restrict()),
    };
    if plan.sandbox == Sandbox::Required && !(sandboxed.files.in_force && sandboxed.calls.in_force)
    {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "[process] sandbox = \"required\", but it is unavailable ({}); use \"auto\" to run with what this kernel has",
                sandboxed.summary()
            ),
        ));
    }
    Ok(sandboxed)
}

/// Whether this kernel has both parts, for `carrick doctor`. Changes nothing.
pub fn probe() -> [(&'static str, Result<String, String>); 2] {
    [
        ("sandbox, files", files::probe()),
        ("sandbox, calls", calls::probe()),
    ]
}
