//! clsact: programs at an interface as tc filters, for kernels without tcx. They stay when the process is gone.
//!
//! So each filter says whose it is. Its handle is ours by its upper half, and has a slot by its lower half; a process that
//! lives holds its slot by an abstract Unix socket, whose name is free again as soon as it dies, and which belongs to a network
//! namespace, as interfaces do. What has a handle of ours, the name of a program of ours, and a free slot, was left behind.

use super::filters::{self, Filter};
use super::tcx::quietly;
use super::{Direction, HookError, HookPosition, on};
use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHook};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The upper half of our handles.
const HANDLES: u32 = 0xca22_0000;
/// In the handle of filters that are recorded in a folder, and are to outlive the process.
const RECORDED: u32 = 0x8000;
/// Processes in one network namespace that can have filters at a time, of each kind.
const SLOTS: u32 = 256;
/// How the names of our programs begin.
pub(super) const NAME: &str = "carrick";
/// So many priorities are tried; a classifier of another kind may have one.
const PRIORITIES: u32 = 16;
const PRIORITY_MAX: u32 = 0xffff;

/// The right to a handle, for as long as the process lives.
#[derive(Debug)]
pub(in crate::engine::tc) struct Slot {
    pub(super) handle: u32,
    _name: UnixDatagram,
}

impl Slot {
    /// Takes a free one. One that is to outlive the process is none that somebody has left behind.
    pub(super) fn take(is_recorded: bool) -> Result<Slot, HookError> {
        let left = if is_recorded {
            left_behind()?
        } else {
            Vec::new()
        };
        let mut last = io::ErrorKind::AddrInUse.into();
        for slot in 0..SLOTS {
            let handle = HANDLES | if is_recorded { RECORDED } else { 0 } | slot;
            if left.iter().any(|filter| filter.handle == handle) {
                continue;
            }
            match Slot::claim(handle) {
                Ok(slot) => return Ok(slot),
                Err(error) => last = error,
            }
        }
        Err(HookError::new(
            "bind(2)",
            format!("each of {SLOTS} names of tc filters"),
            &last,
        ))
    }

    /// Takes this one, if nobody who lives has it.
    pub(in crate::engine::tc) fn claim(handle: u32) -> io::Result<Slot> {
        let name = format!("carrick-tc-filter-{handle:08x}");
        let address = SocketAddr::from_abstract_name(name)?;
        Ok(Slot {
            handle,
            _name: UnixDatagram::bind_addr(&address)?,
        })
    }
}

/// A filter of ours at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attached {
    pub(super) interface: u32,
    pub(super) direction: Direction,
    pub(super) priority: u32,
    pub(super) handle: u32,
}

/// Whether a filter is one of ours: of this process, of another one, or left behind.
pub(super) fn is_ours(filter: &Filter) -> bool {
    filter.kind == "bpf" && filter.handle & 0xffff_0000 == HANDLES && filter.name.starts_with(NAME)
}

/// Whether it is to outlive its process.
fn is_recorded(filter: &Filter) -> bool {
    filter.handle & RECORDED != 0
}

/// Puts a program on the hook of an interface; in place of the one that has this handle, if there is one, between two packets.
/// Removes what was left behind by processes that are gone. Leaves everybody else's filters, and the qdisc, as they are.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    interface: &super::Interface,
    direction: Direction,
    place: HookPosition,
    slot: &Slot,
) -> Result<Attached, HookError> {
    let on = || on(&interface.name, direction);
    let listed = |error: io::Error| HookError::new("netlink RTM_GETTFILTER", on(), &error);
    prepare(interface, direction)?;
    let mut own = None;
    for filter in filters::filters(interface.index, direction).map_err(listed)? {
        if !is_ours(&filter) {
            continue;
        }
        if filter.handle == slot.handle {
            own = Some(filter.priority);
        } else if !is_recorded(&filter) && Slot::claim(filter.handle).is_ok() {
            let left = Attached {
                interface: interface.index,
                direction,
                priority: filter.priority,
                handle: filter.handle,
            };
            left.detach(&interface.name)?;
        }
    }
    let priorities: Vec<u32> = match (own, place) {
        (Some(priority), _) => vec![priority],
        (None, HookPosition::First) => (1..=PRIORITIES).collect(),
        (None, HookPosition::Last) => (0..PRIORITIES).map(|step| PRIORITY_MAX - step).collect(),
    };
    let mut last = io::Error::from_raw_os_error(libc::EINVAL);
    for priority in priorities {
        let attached = Attached {
            interface: interface.index,
            direction,
            priority,
            handle: slot.handle,
        };
        let outcome = quietly(|| attached.hook(program).replace(own.is_some()).attach());
        match outcome {
            Ok(_) => return Ok(attached),
            // A filter of another kind has this priority, or a foreign one this handle.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EINVAL | libc::EEXIST | libc::EOPNOTSUPP)
                ) =>
            {
                last = error;
            }
            Err(error) => return Err(HookError::new("bpf_tc_attach", on(), &error)),
        }
    }
    Err(HookError::new("bpf_tc_attach", on(), &last).with_remedy(format!(
        "is there a kernel without cls_bpf, or are {PRIORITIES} priorities in use? `tc filter show dev {} {direction}` tells",
        interface.name
    )))
}

/// Makes the qdisc that filters hang on, if there is none.
fn prepare(interface: &super::Interface, direction: Direction) -> Result<(), HookError> {
    let on = on(&interface.name, direction);
    let qdisc = filters::qdisc(interface.index)
        .map_err(|error| HookError::new("netlink RTM_GETQDISC", on.clone(), &error))?;
    match qdisc.as_deref() {
        Some("clsact") => Ok(()),
        Some(other) => Err(HookError::wrong(
            "bpf_tc_hook_create",
            on,
            format!(
                "a qdisc `{other}` is in the place of `clsact`, and has no filters for what goes out"
            ),
            format!(
                "if nobody needs it: tc qdisc del dev {0} ingress; its filters work with clsact, too: tc qdisc add dev {0} clsact",
                interface.name
            ),
        )),
        None => quietly(|| {
            let mut hook = TcHook::new(NO_PROGRAM);
            hook.ifindex(interface.index.cast_signed())
                .attach_point(point(direction))
                .create()
                .map(|_| ())
        })
        .map_err(|error| {
            let is_lacking = matches!(
                error.raw_os_error(),
                Some(libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP)
            );
            let error = HookError::new("bpf_tc_hook_create", on, &error);
            if is_lacking {
                error.with_remedy(
                    "the kernel lacks the qdisc clsact: CONFIG_NET_SCH_INGRESS, module sch_ingress",
                )
            } else {
                error
            }
        }),
    }
}

/// For calls that need none.
const NO_PROGRAM: BorrowedFd<'static> = rustix::fs::CWD;

impl Attached {
    /// Removes it, if it is still ours. That it has gone already is no error. Needs `CAP_NET_ADMIN`.
    pub(super) fn detach(&self, name: &str) -> Result<(), HookError> {
        let failed =
            |call, error: io::Error| HookError::new(call, on(name, self.direction), &error);
        if !self
            .stands()
            .map_err(|error| failed("netlink RTM_GETTFILTER", error))?
        {
            return Ok(());
        }
        match quietly(|| self.hook(NO_PROGRAM).detach()) {
            Err(error) if !is_gone(&error) => {
                Err(failed("bpf_tc_detach", error).with_remedy(format!(
                    "as root: tc filter del dev {name} {} pref {} handle {:#x} bpf",
                    self.direction, self.priority, self.handle
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether it is there, and ours.
    pub(super) fn stands(&self) -> io::Result<bool> {
        Ok(filters::filters(self.interface, self.direction)?
            .iter()
            .any(|filter| {
                is_ours(filter) && filter.handle == self.handle && filter.priority == self.priority
            }))
    }

    fn hook(&self, program: BorrowedFd<'_>) -> TcHook {
        let mut hook = TcHook::new(program);
        hook.ifindex(self.interface.cast_signed())
            .attach_point(point(self.direction))
            .handle(self.handle)
            .priority(self.priority);
        hook
    }
}

/// Removes the filters of ours that have this handle at an interface.
pub(super) fn detach_all(
    interface: u32,
    direction: Direction,
    handle: u32,
) -> Result<(), HookError> {
    let name = format!("interface {interface}");
    let listed = filters::filters(interface, direction)
        .map_err(|error| HookError::new("netlink RTM_GETTFILTER", on(&name, direction), &error))?;
    for filter in listed {
        if is_ours(&filter) && filter.handle == handle {
            let attached = Attached {
                interface,
                direction,
                priority: filter.priority,
                handle,
            };
            attached.detach(&name)?;
        }
    }
    Ok(())
}

/// The filters of ours on all interfaces whose slot nobody has who lives.
fn left_behind() -> Result<Vec<Attached>, HookError> {
    let mut left = Vec::new();
    for interface in super::listed()? {
        for direction in Direction::BOTH {
            let found = match filters::filters(interface.index, direction) {
                Ok(found) => found,
                // It has vanished just now.
                Err(error) if is_gone(&error) => continue,
                Err(error) => {
                    let on = on(&interface.name, direction);
                    return Err(HookError::new("netlink RTM_GETTFILTER", on, &error));
                }
            };
            let found = found.iter().filter(|filter| is_ours(filter));
            left.extend(
                found
                    .filter(|filter| Slot::claim(filter.handle).is_ok())
                    .map(|filter| Attached {
                        interface: interface.index,
                        direction,
                        priority: filter.priority,
                        handle: filter.handle,
                    }),
            );
        }
    }
    Ok(left)
}

/// Removes the filters of ours that dead processes have left, with or without a record, and says which.
pub(in crate::engine::tc) fn clean() -> Result<Vec<String>, HookError> {
    let mut removed = Vec::new();
    for filter in left_behind()? {
        let name = format!("number {}", filter.interface);
        filter.detach(&name)?;
        removed.push(format!(
            "tc filter {:#x} on {}",
            filter.handle,
            on(&name, filter.direction)
        ));
    }
    Ok(removed)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ENODEV | libc::EINVAL)
    )
}

const fn point(direction: Direction) -> libbpf_rs::TcAttachPoint {
    match direction {
        Direction::Ingress => TC_INGRESS,
        Direction::Egress => TC_EGRESS,
    }
}
