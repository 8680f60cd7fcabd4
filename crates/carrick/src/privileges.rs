//! Privileges: the identity of the process, dropping what only start-up needs, and what a reload can no longer do.
//!
//! Capabilities and user IDs are per thread. The main thread drops them before it starts others, so that no later thread has any.
mod account;
pub mod sandbox;

pub use account::name as user_name;

use crate::config::plan::{Account, Plan};
use rustix::thread::{
    CapabilitiesSecureBits as SecureBits, CapabilitySet, CapabilitySets, capabilities,
    capabilities_secure_bits, clear_ambient_capability_set, configure_capability_in_ambient_set,
    no_new_privs, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits, set_keep_capabilities, set_no_new_privs,
};
use sandbox::Sandboxed;
use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant};

/// Ports below this one need `CAP_NET_BIND_SERVICE`, unless `net.ipv4.ip_unprivileged_port_start` says otherwise.
const UNPRIVILEGED_PORT_START: u16 = 1024;

/// Capabilities for loading the socket engine.
pub const ENGINE: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::PERFMON);

/// Why a reload cannot open a file.
pub const OUT_OF_REACH: &str = "the sandbox allows only files in folders that the configuration named at start ([process] sandbox); restart carrick to use others";

/// How long threads of the engine's self-test may take to exit.
const ALONE_WAIT: Duration = Duration::from_secs(5);

/// Securebits that take away the special meaning of user 0 and set-user-ID programs, irrevocably.
const LOCKED: SecureBits = SecureBits::NO_ROOT
    .union(SecureBits::NO_ROOT_LOCKED)
    .union(SecureBits::NO_SETUID_FIXUP)
    .union(SecureBits::NO_SETUID_FIXUP_LOCKED)
    .union(SecureBits::KEEP_CAPS_LOCKED);

/// The same for ambient capabilities.
const AMBIENT_LOCKED: SecureBits =
    SecureBits::NO_CAP_AMBIENT_RAISE.union(SecureBits::NO_CAP_AMBIENT_RAISE_LOCKED);

/// The identity and privileges of the process.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Identity {
    /// The user's name; its number if it has none.
    pub user: String,
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// The permitted capabilities, such as `CAP_NET_BIND_SERVICE`.
    pub capabilities: Vec<String>,
    /// Whether execve(2) can grant no privileges (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privileges: bool,
    /// The sandbox.
    pub sandbox: Sandboxed,
}

impl Identity {
    /// Reads it for the calling thread. Looks up the user's name, which may block on a directory service.
    ///
    /// # Errors
    /// The kernel refused the query.
    pub fn read() -> io::Result<Self> {
        let uid = rustix::process::geteuid();
        Ok(Self {
            user: account::name(uid.as_raw()),
            uid: uid.as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: rustix::process::getgroups()?
                .into_iter()
                .map(rustix::process::Gid::as_raw)
                .collect(),
            capabilities: names(capabilities(None)?.permitted),
            no_new_privileges: no_new_privs()?,
            sandbox: Sandboxed::off("not set up yet"),
        })
    }
}

impl std::fmt::Display for Identity {
    /// `nobody, without capabilities`
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.capabilities[..] {
            [] => write!(out, "{}, without capabilities", self.user),
            kept => write!(out, "{}, with {}", self.user, kept.join(", ")),
        }
    }
}

/// The privileges dropped at start.
#[derive(Debug)]
pub struct GivenUp {
    capabilities: CapabilitySet,
    changed_user: bool,
    /// The identity since then.
    pub identity: Identity,
}

impl GivenUp {
    /// Whether any privilege was dropped.
    #[must_use]
    pub fn is_something(&self) -> bool {
        self.changed_user || !self.capabilities.is_empty()
    }

    /// Whether what was opened before belongs to another user.
    #[must_use]
    pub fn changed_user(&self) -> bool {
        self.changed_user
    }

    /// Whether the socket engine could have been loaded before.
    #[must_use]
    pub fn has_engine(&self) -> bool {
        may_load_engine(self.capabilities)
    }

    /// The text of an error; if a dropped privilege is the reason, it says so.
    #[must_use]
    pub fn explain(&self, error: &io::Error) -> String {
        let mut text = error.to_string();
        if error.kind() != io::ErrorKind::PermissionDenied {
            return text;
        }
        if self.is_something() {
            let _ = write!(
                text,
                "; carrick dropped its privileges at start and now runs as {}: restart it for changes that need them",
                self.identity
            );
        }
        if self.identity.sandbox.files.in_force {
            let _ = write!(text, "; {OUT_OF_REACH}");
        }
        text
    }
}

/// Becomes the plan's user, if it names one, and drops every capability except `CAP_NET_BIND_SERVICE`, if the plan has a privileged port or
/// uses clients' ports, and `CAP_NET_RAW`, if connections use clients' addresses or a mark. Holds for the calling thread and the threads
/// and programs that it starts, so call it before starting threads, when everything that needs privileges is open or belongs to a
/// short-lived thread.
///
/// # Errors
/// A call failed; says which and what to do. A part may have been done, so the process should exit.
pub fn give_up(plan: &Plan) -> io::Result<GivenUp> {
    let had = capabilities(None)?;
    let mut kept = CapabilitySet::empty();
    // Clients' ports, too: some servers, such as NFS, require a privileged source port.
    if plan.has_port_below(unprivileged_port_start()) || plan.keeps_client_ports() {
        kept |= had.permitted & CapabilitySet::NET_BIND_SERVICE;
    }
    if plan
        .interceptions()
        .any(|one| one.keeps_client || one.local.is_some())
    {
        // For each connection with another machine's address (ip(7), `IP_TRANSPARENT`) or carrick's mark (socket(7), `SO_MARK`).
        kept |= had.permitted & CapabilitySet::NET_RAW;
    }
    let changed_user = reduce(plan.account.as_ref(), had, kept, CapabilitySet::empty())?;
    Ok(GivenUp {
        capabilities: had.permitted - kept,
        changed_user,
        identity: Identity::read()?,
    })
}

/// Becomes the user, if one is named, and drops every capability but `kept`, which child programs inherit. Requires a single thread.
///
/// # Errors
/// See [`give_up`]; or the process does not have `kept`.
pub fn keep_only(account: Option<&Account>, kept: CapabilitySet) -> io::Result<()> {
    let had = capabilities(None)?;
    reduce(account, had, kept, kept)?;
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(one) {
            configure_capability_in_ambient_set(one, true)
                .map_err(|error| failed("prctl PR_CAP_AMBIENT_RAISE", error))?;
        }
    }
    Ok(())
}

/// Whether the user changed. `inherited` is a subset of `kept`.
fn reduce(
    account: Option<&Account>,
    had: CapabilitySets,
    kept: CapabilitySet,
    inherited: CapabilitySet,
) -> io::Result<bool> {
    set_no_new_privs(true).map_err(|error| failed("prctl PR_SET_NO_NEW_PRIVS", error))?;
    clear_ambient_capability_set()
        .map_err(|error| failed("prctl PR_CAP_AMBIENT_CLEAR_ALL", error))?;
    let keeps_over_change = had.effective.contains(CapabilitySet::SETPCAP) && lock(inherited);
    let changed_user = match account {
        Some(account) => {
            if !keeps_over_change {
                set_keep_capabilities(true)
                    .map_err(|error| failed("prctl PR_SET_KEEPCAPS", error))?;
            }
            account::become_user(account, had.effective)?
        }
        None => false,
    };
    let wanted = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: inherited,
    };
    if capabilities(None)? != wanted {
        set_capabilities(None, wanted).map_err(|error| failed("capset", error))?;
    }
    if !keeps_over_change && account.is_some() {
        set_keep_capabilities(false).map_err(|error| failed("prctl PR_SET_KEEPCAPS", error))?;
    }
    if capabilities(None)? != wanted {
        return Err(io::Error::other(
            "the process still has privileges that it dropped",
        ));
    }
    Ok(changed_user)
}

/// Empties the bounding set except for `inherited`, and sets the securebits. Only a second line of defence, since no program can be started
/// with more than this one has; so failure (in some containers) is harmless. Returns whether the securebits are set, under which
/// capabilities survive a change of user.
fn lock(inherited: CapabilitySet) -> bool {
    // The kernel refuses the first number that it does not know.
    let _ = (0..u64::BITS)
        .map(|number| CapabilitySet::from_bits_retain(1 << number))
        .filter(|one| !inherited.contains(*one))
        .try_for_each(remove_capability_from_bounding_set);
    let locked = if inherited.is_empty() {
        LOCKED | AMBIENT_LOCKED
    } else {
        LOCKED
    };
    capabilities_secure_bits().is_ok_and(|bits| set_capabilities_secure_bits(bits | locked).is_ok())
}

/// Waits until this is the only thread, as others may be about to exit.
///
/// # Errors
/// Other threads exist; they would keep their privileges.
pub fn wait_until_alone() -> io::Result<()> {
    let give_up_at = Instant::now() + ALONE_WAIT;
    // Without /proc the check is impossible; by design no thread has been started yet.
    while let Ok(threads) = std::fs::read_dir("/proc/self/task") {
        match threads.count() {
            0 | 1 => break,
            count if Instant::now() >= give_up_at => {
                return Err(io::Error::other(format!(
                    "{count} threads would keep their privileges; this is a bug in carrick, please report it"
                )));
            }
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(())
}

fn failed(call: &str, error: rustix::io::Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(
        error.kind(),
        format!(
            "carrick cannot drop its privileges: {call}: {error} (does a seccomp filter forbid it, such as systemd's SystemCallFilter=?)"
        ),
    )
}

/// Whether these capabilities suffice to load the socket engine.
#[must_use]
pub fn may_load_engine(has: CapabilitySet) -> bool {
    // CAP_SYS_ADMIN includes the two newer ones (capabilities(7)).
    has.contains(ENGINE) || has.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN)
}

/// The first unprivileged port.
#[must_use]
pub fn unprivileged_port_start() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(UNPRIVILEGED_PORT_START)
}

/// `CAP_BPF` and so on.
#[must_use]
pub fn names(set: CapabilitySet) -> Vec<String> {
    (0..u64::BITS)
        .map(|number| (number, CapabilitySet::from_bits_retain(1 << number)))
        .filter(|(_, one)| set.contains(*one))
        .map(|(number, one)| match one.iter_names().next() {
            Some((name, _)) => format!("CAP_{name}"),
            None => format!("capability {number}"),
        })
        .collect()
}

#[cfg(test)]
mod tests;
