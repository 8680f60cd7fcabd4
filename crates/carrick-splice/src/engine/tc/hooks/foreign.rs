//! Programs and filters of others on the hooks of an interface: which, and what their presence means.

use super::filters::{self, Filter};
use super::tcx::{self, OnHook};
use super::{AttachMode, Direction, HookError, on};
use libbpf_rs::query::ProgInfoIter;
use std::collections::HashMap;
use std::fmt;

/// What somebody else has put on a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// On which hook.
    pub direction: Direction,
    /// How it is attached.
    pub way: AttachMode,
    /// The number of its BPF program; a filter may have none.
    pub program: Option<u32>,
    /// The program's name, or the filter's kind and priority. Empty where the kernel does not tell it (`CAP_SYS_ADMIN`).
    pub name: String,
    /// Whether it sees packets before carrick does.
    pub is_before: bool,
}

impl fmt::Display for Foreign {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at {} ({})", self.direction, self.way)?;
        if let Some(program) = self.program {
            write!(formatter, ", BPF program {program}")?;
        }
        if !self.name.is_empty() {
            write!(formatter, " `{}`", self.name)?;
        }
        formatter.write_str(match (self.direction, self.is_before) {
            (Direction::Ingress, true) => {
                " runs before carrick: of what it takes, drops, or ends the hook with (TCX_PASS, TC_ACT_OK), carrick sees nothing, \
                 and splices over it stall"
            }
            (Direction::Egress, true) => {
                " runs before carrick: it sees the sequence numbers of the local sockets, and what it ends the hook with is not \
                 translated"
            }
            (Direction::Ingress, false) => {
                " runs behind carrick: it sees everything but the packets of splices, which go on from here"
            }
            (Direction::Egress, false) => {
                " runs behind carrick: it sees every packet, as it goes out"
            }
        })
    }
}

/// What is on the hooks of an interface besides what `is_own` accepts. The programs at tcx need `CAP_NET_ADMIN`.
pub(super) fn look(
    interface: u32,
    name: &str,
    own: impl Fn(&OnHook) -> bool,
    own_filter: impl Fn(&Filter) -> bool,
) -> Result<Vec<Foreign>, HookError> {
    let mut found = Vec::new();
    for direction in Direction::BOTH {
        // First comes tcx, then the filters (`sch_handle_ingress`, net/core/dev.c).
        let programs = match tcx::on_hook(interface, direction) {
            Ok(programs) => programs,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Vec::new(),
            Err(error) => {
                return Err(HookError::new(
                    "BPF_PROG_QUERY",
                    on(name, direction),
                    &error,
                ));
            }
        };
        let mut is_before = true;
        for program in &programs {
            if own(program) {
                is_before = false;
            } else {
                found.push(Foreign {
                    direction,
                    way: AttachMode::Tcx,
                    program: Some(program.program),
                    name: String::new(),
                    is_before,
                });
            }
        }
        let filters = filters::filters(interface, direction).map_err(|error| {
            HookError::new("netlink RTM_GETTFILTER", on(name, direction), &error)
        })?;
        for filter in &filters {
            if own_filter(filter) {
                is_before = false;
            } else {
                found.push(Foreign {
                    direction,
                    way: AttachMode::Clsact,
                    program: filter.program,
                    name: describe(filter),
                    is_before,
                });
            }
        }
    }
    name_programs(&mut found);
    Ok(found)
}

fn describe(filter: &Filter) -> String {
    let Filter {
        kind,
        priority,
        handle,
        name,
        ..
    } = filter;
    let place = format!("{kind}, pref {priority}, handle {handle:#x}");
    if name.is_empty() {
        place
    } else {
        format!("{name}: {place}")
    }
}

/// The kernel tells names to `CAP_SYS_ADMIN` only.
fn name_programs(found: &mut [Foreign]) {
    if found.iter().all(|one| !one.name.is_empty()) {
        return;
    }
    let names: HashMap<u32, String> = ProgInfoIter::default()
        .map(|program| (program.id, program.name.to_string_lossy().into_owned()))
        .collect();
    for one in found.iter_mut().filter(|one| one.name.is_empty()) {
        if let Some(name) = one.program.and_then(|id| names.get(&id)) {
            one.name.clone_from(name);
        }
    }
}
