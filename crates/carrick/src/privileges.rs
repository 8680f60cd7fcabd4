//! What the process may do: who it is, how it gives up what only its start needs, and what a reload cannot have any more.
//!
//! Capabilities and users belong to threads. They are given up by the only one that starts others, so that all later ones have none.
mod account;
pub mod sandbox;

use crate::config::plan::{Account, Plan};
use rustix::thread::{
    CapabilitiesSecureBits as SecureBits, CapabilitySet, CapabilitySets, capabilities,
    capabilities_secure_bits, clear_ambient_capability_set, configure_capability_in_ambient_set,
    no_new_privs, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits, set_keep_capabilities, set_no_new_privs,
};
use sandbox::Sandboxed;
use std::io;
use std::time::{Duration, Instant};

/// Ports below this one need `CAP_NET_BIND_SERVICE`, unless the system says otherwise (`net.ipv4.ip_unprivileged_port_start`).
const UNPRIVILEGED_PORT_START: u16 = 1024;

/// What loading the socket engine needs.
pub const ENGINE: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::PERFMON);

/// Why a file cannot be opened that a reload names.
pub const OUT_OF_REACH: &str = "since its start carrick reaches no files but those in the folders that its configuration named then ([process] sandbox): others wait for a restart";

/// How long threads of the engine's self-test may take to be gone.
const ALONE_WAIT: Duration = Duration::from_secs(5);

/// What root's user number and programs with a set-user-ID bit mean: nothing any more, for good.
const LOCKED: SecureBits = SecureBits::NO_ROOT
    .union(SecureBits::NO_ROOT_LOCKED)
    .union(SecureBits::NO_SETUID_FIXUP)
    .union(SecureBits::NO_SETUID_FIXUP_LOCKED)
    .union(SecureBits::KEEP_CAPS_LOCKED);

/// The same for capabilities that programs would inherit.
const AMBIENT_LOCKED: SecureBits =
    SecureBits::NO_CAP_AMBIENT_RAISE.union(SecureBits::NO_CAP_AMBIENT_RAISE_LOCKED);

/// Who the process is and what it may do.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Standing {
    /// The user's name; its number if it has none.
    pub user: String,
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// The further groups.
    pub groups: Vec<u32>,
    /// The permitted capabilities, such as `CAP_NET_BIND_SERVICE`.
    pub capabilities: Vec<String>,
    /// Whether starting another program can give it none (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privileges: bool,
    /// What the kernel keeps it from.
    pub sandbox: Sandboxed,
}

impl Standing {
    /// As the kernel has it for the calling thread. Looks the user's name up; may block on a directory service.
    ///
    /// # Errors
    /// The kernel refused to say.
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

impl std::fmt::Display for Standing {
    /// `nobody, without capabilities`
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.capabilities[..] {
            [] => write!(out, "{}, without capabilities", self.user),
            kept => write!(out, "{}, with {}", self.user, kept.join(", ")),
        }
    }
}

/// What the process gave up when it started.
#[derive(Debug)]
pub struct GivenUp {
    capabilities: CapabilitySet,
    changed_user: bool,
    /// Who it is since then.
    pub standing: Standing,
}

impl GivenUp {
    /// Whether anything was.
    #[must_use]
    pub fn is_something(&self) -> bool {
        self.changed_user || !self.capabilities.is_empty()
    }

    /// Whether the socket engine could have been loaded before.
    #[must_use]
    pub fn has_engine(&self) -> bool {
        may_load_engine(self.capabilities)
    }

    /// An error as the log shows it: what was refused for want of something that was given up says so.
    #[must_use]
    pub fn explain(&self, error: &io::Error) -> String {
        if error.kind() != io::ErrorKind::PermissionDenied {
            error.to_string()
        } else if self.is_something() {
            format!(
                "{error}; carrick gave its privileges up when it started and goes on as {}: what needs them waits for a restart",
                self.standing
            )
        } else if self.standing.sandbox.files.in_force {
            format!("{error}; {OUT_OF_REACH}")
        } else {
            error.to_string()
        }
    }
}

/// Becomes the plan's user, if it names one, and gives up every capability but `CAP_NET_BIND_SERVICE` if the plan has a
/// port that needs it, or connections are to have clients' ports, and `CAP_NET_RAW` if connections are to have clients' addresses or a mark; for this process, and for whatever it
/// could start. To be called when everything that needs privileges is open, or in the hands of a thread that ends soon, and before other threads
/// are started: it is for the calling thread, and for those that it starts.
///
/// # Errors
/// It cannot be done; says which call failed and what to do. The process should end then: it may have done a part.
pub fn give_up(plan: &Plan) -> io::Result<GivenUp> {
    let had = capabilities(None)?;
    let mut kept = CapabilitySet::empty();
    // Ports of clients, too: some servers (of NFS, say) let in nobody who has no privileged one.
    if plan.has_port_below(unprivileged_port_start()) || plan.keeps_client_ports() {
        kept |= had.permitted & CapabilitySet::NET_BIND_SERVICE;
    }
    if plan
        .interceptions()
        .any(|one| one.keeps_client || one.local.is_some())
    {
        // For each connection that is to have another machine's address (ip(7), `IP_TRANSPARENT`), or carrick's mark (socket(7), `SO_MARK`).
        kept |= had.permitted & CapabilitySet::NET_RAW;
    }
    let changed_user = reduce(plan.account.as_ref(), had, kept, CapabilitySet::empty())?;
    Ok(GivenUp {
        capabilities: had.permitted - kept,
        changed_user,
        standing: Standing::read()?,
    })
}

/// Becomes another user, if one is named, and gives up every capability but `kept`, which programs that are started from now on
/// have as well. While there is one thread only.
///
/// # Errors
/// As [`give_up`]; and if `kept` is not there.
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

/// Whether the user is another one now. `inherited` is of `kept`.
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
            "privileges were to be given up and are there still",
        ));
    }
    Ok(changed_user)
}

/// Empties the bounding set, but for `inherited`, and locks root's ways to capabilities. More than is needed, as no program can
/// be started that has more than this one has; so what is not possible here (some containers) does no harm. Whether the locks are
/// set, with which capabilities outlive a change of the user.
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

/// Waits until this is the only thread: others may be about to end.
///
/// # Errors
/// There are others, which would keep their privileges.
pub fn wait_until_alone() -> io::Result<()> {
    let give_up_at = Instant::now() + ALONE_WAIT;
    // Without /proc it cannot be seen; nothing is started before this by design.
    while let Ok(threads) = std::fs::read_dir("/proc/self/task") {
        match threads.count() {
            0 | 1 => break,
            count if Instant::now() >= give_up_at => {
                return Err(io::Error::other(format!(
                    "{count} threads run that would keep their privileges; this is a mistake in carrick, please report it"
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
            "carrick cannot give up its privileges: {call}: {error} (does a filter of system calls forbid it, such as SystemCallFilter= of systemd?)"
        ),
    )
}

/// Whether these suffice to load the socket engine.
#[must_use]
pub fn may_load_engine(has: CapabilitySet) -> bool {
    // CAP_SYS_ADMIN stands for the two newer ones (capabilities(7)).
    has.contains(ENGINE) || has.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN)
}

/// The first port that needs no privilege.
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
