//! What `carrick doctor` tells of the hooks: each interface, and what of this machine is in the way of IP-level splices.

mod netfilter;
mod rules;

pub use rules::OWN_PROTOCOL;

use super::clsact;
use super::filters;
use super::foreign::{self, Foreign};
use super::pins;
use super::{AttachMode, Interface, Interfaces, tcx};
use crate::Reason;
use libbpf_rs::ProgramType;
use rustix::thread::CapabilitySet;
use std::fmt;
use std::io;
use std::path::Path;

/// An interface, as the packet engine would use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceFact {
    /// Its name.
    pub name: String,
    /// How the programs would be attached, or why they cannot be.
    pub usable: Result<AttachMode, String>,
    /// What is worth knowing: programs and filters of others, and what they mean.
    pub notes: Vec<String>,
}

/// Something of this machine that is in the way of IP-level splices, or changes what they do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// What it is.
    pub name: &'static str,
    /// What of it is here.
    pub found: String,
    /// What that means.
    pub effect: String,
    /// What can be done about it.
    pub remedy: String,
    /// Why `auto` does not use the packet engine where this is.
    pub keeps_auto_off: Option<Reason>,
}

impl fmt::Display for InterfaceFact {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.usable {
            Ok(way) => write!(formatter, "{}: by {way}", self.name)?,
            Err(reason) => write!(formatter, "{}: no, {reason}", self.name)?,
        }
        self.notes
            .iter()
            .try_for_each(|note| write!(formatter, "; {note}"))
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Obstacle {
            name,
            found,
            effect,
            remedy,
            keeps_auto_off,
        } = self;
        write!(formatter, "{name}: {found}. {effect}")?;
        if !remedy.is_empty() {
            write!(formatter, " {remedy}")?;
        }
        if keeps_auto_off.is_some() {
            write!(formatter, " `auto` does not use the engine here.")?;
        }
        Ok(())
    }
}

/// All interfaces of this network namespace. Attaches nothing. Without `CAP_NET_ADMIN` it does not see programs of others at tcx, and
/// says so.
///
/// # Errors
/// They cannot be listed.
pub fn interface_facts() -> io::Result<Vec<InterfaceFact>> {
    let facts = super::interfaces()?.iter().map(fact).collect();
    Ok(facts)
}

fn fact(interface: &Interface) -> InterfaceFact {
    let mut fact = InterfaceFact {
        name: interface.name.clone(),
        usable: Ok(AttachMode::Tcx),
        notes: Vec::new(),
    };
    if let Some(unsupported) = interface.unsupported(&Interfaces::All) {
        fact.usable = Err(unsupported.to_string());
        return fact;
    }
    let way = if tcx::is_there(interface.index) {
        AttachMode::Tcx
    } else {
        AttachMode::Clsact
    };
    fact.usable = Ok(way);
    if way == AttachMode::Clsact
        && let Ok(Some(qdisc)) = filters::qdisc(interface.index)
        && qdisc != "clsact"
    {
        fact.usable = Err(format!(
            "a qdisc `{qdisc}` is in the place of `clsact` (tc qdisc show dev {})",
            interface.name
        ));
    }
    if let Some(program) = interface.xdp_program {
        fact.notes.push(format!(
            "XDP program {program} sees packets first; what it takes is not spliced"
        ));
    }
    // Hooks of a carrick that runs are no news.
    let others = foreign::look(interface.index, &interface.name, |_| false, clsact::is_ours);
    match others {
        Ok(others) => fact.notes.extend(
            others
                .into_iter()
                .filter(|one| !one.name.starts_with(clsact::NAME))
                .map(|one| Foreign {
                    // carrick would be the first.
                    is_before: one.is_before
                        && way == AttachMode::Clsact
                        && one.way == AttachMode::Tcx,
                    ..one
                })
                .map(|one| one.to_string()),
        ),
        Err(error) if error.is_permission() => fact
            .notes
            .push("programs of others cannot be seen without CAP_NET_ADMIN".to_owned()),
        Err(error) => fact.notes.push(error.to_string()),
    }
    fact
}

/// What of this machine is in the way of IP-level splices. What cannot be looked at without privileges is told, too.
#[must_use]
pub fn obstacles() -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    obstacles.extend(programs());
    obstacles.extend(file_system());
    obstacles.extend(netfilter::obstacles(Path::new("/proc/sys/net/netfilter")));
    obstacles.extend(rules::marks());
    obstacles.extend(reverse_path(Path::new("/proc/sys/net/ipv4/conf")));
    obstacles
}

/// Whether the kernel has tc programs at all; nothing is said without the privileges to try.
fn programs() -> Option<Obstacle> {
    let has = rustix::thread::capabilities(None).ok()?.effective;
    let needed = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
    if !has.contains(needed) || ProgramType::SchedCls.is_supported().unwrap_or(true) {
        return None;
    }
    Some(Obstacle {
        name: "tc BPF",
        found: "the kernel refuses programs of type sched_cls".to_owned(),
        effect: "The packet engine cannot be used.".to_owned(),
        remedy: "Use a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF.".to_owned(),
        keeps_auto_off: None,
    })
}

fn file_system() -> Option<Obstacle> {
    if pins::mounted().is_some() {
        return None;
    }
    Some(Obstacle {
        name: "BPF file system",
        found: "none is mounted".to_owned(),
        effect: "Spliced tunnels end with the process.".to_owned(),
        remedy: "mount -t bpf bpf /sys/fs/bpf".to_owned(),
        keeps_auto_off: None,
    })
}

/// Interfaces on which IPv4 packets are dropped unless the way back is the same. `folder` is `net/ipv4/conf`.
fn reverse_path(folder: &Path) -> Option<Obstacle> {
    let setting = |interface: &str| -> u32 {
        std::fs::read_to_string(folder.join(interface).join("rp_filter"))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    };
    // The larger one holds (`IN_DEV_RPFILTER`).
    let all = setting("all");
    let strict: Vec<String> = super::interfaces()
        .unwrap_or_default()
        .into_iter()
        .filter(|interface| interface.unsupported(&Interfaces::All).is_none())
        .filter(|interface| setting(&interface.name).max(all) == 1)
        .map(|interface| interface.name)
        .collect();
    if strict.is_empty() {
        return None;
    }
    Some(Obstacle {
        name: "rp_filter",
        found: format!("strict (1) on {}", strict.join(", ")),
        effect: "Connections whose packets come in at another interface than the answers leave by do not come up, and transparent \
                 mode may be caught by it, too. Packets of a splice are not checked."
            .to_owned(),
        remedy: "Where routes differ in that way: sysctl -w net.ipv4.conf.INTERFACE.rp_filter=2"
            .to_owned(),
        keeps_auto_off: Some(Reason::PacketReversePath),
    })
}
