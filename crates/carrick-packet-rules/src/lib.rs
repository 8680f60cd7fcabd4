//! Packet rules: which packets of this host's network interfaces are passed up, dropped, given to a local port, or rewritten and sent
//! on, by programs in the kernel. After the rules of NEPPI (Cohen 1999, *Supporting Transparent Caching with URL-Aware
//! Redirection*, section 3.1), which filtered by `ipchains` and rewrote in a module.
//!
//! A set has at most [`RULES_MAX`] rules. They are tried in order, and the first that takes a packet says what happens to it; a packet
//! that none takes is passed up. [`PacketRules::replace`] puts a whole new set in the place of the old one: each packet meets
//! either the one or the other. Each rule counts, and [`PacketRules::counts`] reads the numbers at any time.
//!
//! ```no_run
//! use carrick_packet_rules::{Action, Direction, Match, PacketRules, Protocol, Redirect, Rule};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What hosts of 10.1.0.0/16 ask of port 80 of whatever address of this host, is for port 3128.
//! let web = Rule {
//!     name: "web".into(),
//!     packets: Match {
//!         direction: Some(Direction::Ingress),
//!         protocol: Some(Protocol::Tcp),
//!         source: Some("10.1.0.0/16".parse()?),
//!         destination_ports: 80..=80,
//!         ..Match::default()
//!     },
//!     action: Action::Redirect(Redirect { port: 3128, mark: None }),
//! };
//! let rules = PacketRules::attach(&[web], &["eth0".into()])?;
//! for (rule, count) in rules.rules().iter().zip(rules.counts()?) {
//!     println!("{}: {} packets, {} bytes", rule.name, count.packets, count.bytes);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **What is understood.** TCP and UDP, over IPv4 with or without options, or IPv6 without extension headers, in Ethernet frames
//! with one VLAN tag or none. All else is passed up, whatever the rules say: other protocols, ARP, fragments, extension headers, two
//! tags, packets shorter than they say. So this is no firewall: what drops a prefix does not drop its fragments.
//!
//! **Checksums** are changed by the difference, so that one that was wrong stays wrong; also of packets that the kernel or the interface
//! makes segments of (GSO), or has yet to put the sum in.
//!
//! **Where.** The programs see what is on the wire: what comes in before netfilter, routing and connection tracking, what goes out behind
//! them. They come first on their hooks; what a rule rewrites, passes up or redirects is seen by the programs behind them.
//!
//! **Privileges.** Attaching needs `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`; another set, `CAP_BPF`; reading counts, nothing.
//!
//! `docs/internals/packet-rules.md` tells how it works; `examples/packet_rules.rs` is a program that uses it.

mod check;
mod encode;
mod error;
mod rule;

carrick_splice::skeleton!("rules.skel.rs");

pub use carrick_splice::hooks::{Direction, HookError};
pub use error::RulesError;
pub use rule::{Action, Match, Protocol, Redirect, Rewrite, RewriteTcp, Rule, Timestamps, Window};

use carrick_splice::Unavailable;
use carrick_splice::hooks::{Hooks, Interface, Interfaces, Settings, interfaces};
use encode::NO_INTERFACE;
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenObject};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// So many rules are in a set at most: a packet that none takes is compared with all. `RULES_MAX` of bpf/rules/rules.h.
pub const RULES_MAX: usize = 64;

/// The compiled programs, to see what they cost the kernel (`verifier` of carrick-splice).
#[doc(hidden)]
pub const OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// What a rule has done since the set was put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets that it took, as the kernel has them: what it will make segments of counts once.
    pub packets: u64,
    /// Their bytes, from the IP header on; headers of segments that are yet to be made are not in it.
    pub bytes: u64,
    /// Those of the packets for which it could not be done: with [`Action::Redirect`] they were passed up (nobody listens on the
    /// port), with [`Action::Rewrite`] dropped (no hop is left, the interface has vanished, the kernel has no memory).
    pub failed: u64,
}

/// A set of rules that holds on interfaces of the network namespace in which it was made, until it is dropped.
#[derive(Debug)]
pub struct PacketRules {
    programs: Programs,
    hooks: Hooks,
    /// The set that holds, in its map.
    set: MapHandle,
    rules: Vec<Rule>,
    /// The interfaces as they were when the set was put in place: it has their numbers.
    interfaces: Vec<Interface>,
    /// What the rules had done before the set was made anew for interfaces that have changed.
    before: Vec<Count>,
}

impl PacketRules {
    /// Puts rules on the network interfaces of these names, or on all that carry Ethernet frames if there are none; loopback never.
    /// Interfaces that are to come are taken up by [`PacketRules::refresh`]. Blocks for some milliseconds.
    ///
    /// # Errors
    /// A rule that makes no sense, or names an interface that is not there or does not have the programs; too many rules; missing
    /// privileges; no interface takes the programs. Nothing is changed then.
    pub fn attach(rules: &[Rule], interfaces: &[String]) -> Result<PacketRules, RulesError> {
        check::check(rules)?;
        let programs = Programs::load()?;
        let settings = Settings {
            interfaces: if interfaces.is_empty() {
                Interfaces::All
            } else {
                Interfaces::Named(interfaces.to_vec())
            },
            ..Settings::default()
        };
        let hooks = Hooks::attach(
            programs.arriving.as_fd(),
            programs.leaving.as_fd(),
            settings,
        )?;
        if hooks.attached().next().is_none() {
            let refused: Vec<String> = hooks.refused().iter().map(ToString::to_string).collect();
            let why = if refused.is_empty() {
                "there is no network interface but loopback".into()
            } else {
                refused.join("; ")
            };
            return Err(Unavailable::new(why).into());
        }
        let here = self::interfaces().map_err(not_listed)?;
        check_interfaces(rules, &here, &hooks)?;
        let set = programs.install(rules, &here)?;
        Ok(PacketRules {
            programs,
            hooks,
            set,
            rules: rules.to_vec(),
            interfaces: here,
            before: vec![Count::default(); rules.len()],
        })
    }

    /// Puts other rules in the place of these, all at once, and says what these have done in all. Counting begins anew. Blocks for some
    /// milliseconds: afterwards no packet meets the old rules any more.
    ///
    /// # Errors
    /// As of [`PacketRules::attach`]; the old rules hold then.
    pub fn replace(&mut self, rules: &[Rule]) -> Result<Vec<Count>, RulesError> {
        check::check(rules)?;
        let here = interfaces().map_err(not_listed)?;
        check_interfaces(rules, &here, &self.hooks)?;
        let set = self.programs.install(rules, &here)?;
        let old = std::mem::replace(&mut self.set, set);
        let counts = read(&old, &self.before);
        self.rules = rules.to_vec();
        self.interfaces = here;
        self.before = vec![Count::default(); rules.len()];
        counts
    }

    /// Looks at the interfaces again: new ones that are wanted get the programs, and rules that name one which was made anew, or renamed, take
    /// it. A rule whose interface has vanished takes nothing; one whose `exit` has vanished fails. Counts go on.
    ///
    /// # Errors
    /// The interfaces cannot be listed; the kernel refuses the set. The rules hold as they did.
    pub fn refresh(&mut self) -> Result<(), RulesError> {
        self.hooks.refresh()?;
        let here = interfaces().map_err(not_listed)?;
        let named = |name: &str| index(&here, name) != index(&self.interfaces, name);
        if self.rules.iter().flat_map(Rule::names).any(named) {
            let set = self.programs.install(&self.rules, &here)?;
            let old = std::mem::replace(&mut self.set, set);
            self.before = read(&old, &self.before)?;
        }
        self.interfaces = here;
        Ok(())
    }

    /// What each rule has done, in their order. One moment for each rule, not for all of them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn counts(&self) -> Result<Vec<Count>, RulesError> {
        read(&self.set, &self.before)
    }

    /// The rules that hold.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The names of the interfaces that have the programs, as of the last look.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        let attached = self.hooks.attached();
        attached.map(|attachment| attachment.interface().name.as_str())
    }

    /// The interfaces that do not, and why, as of the last look.
    pub fn refused(&self) -> impl Iterator<Item = String> {
        self.hooks.refused().iter().map(ToString::to_string)
    }
}

/// The loaded programs.
#[derive(Debug)]
struct Programs {
    arriving: OwnedFd,
    leaving: OwnedFd,
    /// Its one element is the set that holds.
    sets: MapHandle,
}

impl Programs {
    fn load() -> Result<Programs, RulesError> {
        Ok(Unavailable::unless_loaded(Programs::open_and_load)?)
    }

    fn open_and_load() -> libbpf_rs::Result<Programs> {
        let mut object = MaybeUninit::<OpenObject>::uninit();
        let loaded = skeleton::RulesSkelBuilder::default()
            .open(&mut object)?
            .load()?;
        let owned = |program: &libbpf_rs::ProgramMut<'_>| {
            let copied = program.as_fd().try_clone_to_owned();
            copied.map_err(libbpf_rs::Error::from)
        };
        Ok(Programs {
            arriving: owned(&loaded.progs.carrick_rules_in)?,
            leaving: owned(&loaded.progs.carrick_rules_out)?,
            sets: MapHandle::try_from(&loaded.maps.rule_sets)?,
        })
    }

    /// Makes a set, and puts it in the place of the one that holds.
    fn install(&self, rules: &[Rule], here: &[Interface]) -> Result<MapHandle, RulesError> {
        let bytes = encode::set(rules, |name| index(here, name).unwrap_or(NO_INTERFACE));
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as libbpf_rs::libbpf_sys::size_t,
            ..Default::default()
        };
        let value_bytes = bytes.len() as u32;
        let kind = MapType::PercpuArray;
        let set = MapHandle::create(kind, Some("carrick_rules"), 4, value_bytes, 1, &options)
            .map_err(|error| RulesError::kernel("BPF_MAP_CREATE", &error))?;
        let cpus =
            libbpf_rs::num_possible_cpus().map_err(|error| RulesError::kernel("CPUs", &error))?;
        set.update_percpu(&KEY, &vec![bytes; cpus], MapFlags::ANY)
            .and_then(|()| {
                let descriptor = set.as_fd().as_raw_fd().to_ne_bytes();
                // When it returns, no program has the old one any more (`maybe_wait_bpf_programs` of the kernel).
                self.sets.update(&KEY, &descriptor, MapFlags::ANY)
            })
            .map_err(|error| RulesError::kernel("BPF_MAP_UPDATE_ELEM", &error))?;
        Ok(set)
    }
}

/// Of the one element of both maps.
const KEY: [u8; 4] = [0; 4];

/// Sums up what the rules of a set have done on all CPUs, on top of what they had done before.
fn read(set: &MapHandle, before: &[Count]) -> Result<Vec<Count>, RulesError> {
    let cpus = set
        .lookup_percpu(&KEY, MapFlags::ANY)
        .map_err(|error| RulesError::kernel("BPF_MAP_LOOKUP_ELEM", &error))?
        .unwrap_or_default();
    let counts = before.iter().enumerate().map(|(place, before)| {
        let counts = cpus.iter().map(|set| encode::count(set, place));
        counts.fold(*before, |sum, count| Count {
            packets: sum.packets + count.packets,
            bytes: sum.bytes + count.bytes,
            failed: sum.failed + count.failed,
        })
    });
    Ok(counts.collect())
}

fn index(here: &[Interface], name: &str) -> Option<u32> {
    let found = here.iter().find(|interface| interface.name == name);
    found.map(|interface| interface.index)
}

fn not_listed(error: std::io::Error) -> RulesError {
    RulesError::Kernel {
        call: "netlink RTM_GETLINK",
        cause: error.to_string(),
    }
}

/// Whether the interfaces that rules name are there, and those whose packets they take have the programs.
fn check_interfaces(rules: &[Rule], here: &[Interface], hooks: &Hooks) -> Result<(), RulesError> {
    let names = |interfaces: Vec<&Interface>| {
        let names: Vec<&str> = interfaces.iter().map(|one| one.name.as_str()).collect();
        names.join(", ")
    };
    for (place, rule) in rules.iter().enumerate() {
        for name in rule.names() {
            if index(here, name).is_none() {
                let problem = format!("there is no interface {name}");
                let remedy = format!("name one of {}", names(here.iter().collect()));
                return Err(check::in_rule(place, rule, (problem, remedy)));
            }
        }
        if let Some(name) = &rule.packets.interface
            && !index(here, name).is_some_and(|index| hooks.has(index))
        {
            let mut refused = hooks.refused().iter();
            let problem = match refused.find(|refused| refused.interface == *name) {
                Some(refused) => refused.to_string(),
                None => format!("interface {name} is not among those that packet rules are on"),
            };
            let attached = hooks.attached().map(|attachment| attachment.interface());
            let remedy = format!("name one of {}", names(attached.collect()));
            return Err(check::in_rule(place, rule, (problem, remedy)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
