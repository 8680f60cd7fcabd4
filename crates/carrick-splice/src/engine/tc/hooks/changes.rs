//! Hears of changes of links, addresses, routes, rules and tc filters, from the kernel.

use super::HookError;
use crate::netlink::{self, Family};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// linux/rtnetlink.h: `RTMGRP_LINK`, `RTMGRP_TC`, addresses, routes and rules of both families, and `RTNLGRP_NEXTHOP`.
const GROUPS: u32 = 1 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18 | 1 << 31;

/// Longer than any message of these groups.
const BUFFER_BYTES: usize = 32 << 10;

/// What has changed since it was last asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changed {
    /// An interface appeared, vanished, went up or down, was renamed, or became a port.
    pub links: bool,
    /// An address came or went.
    pub addresses: bool,
    /// A route, a next hop or a rule for routing came or went.
    pub routes: bool,
    /// A tc filter or qdisc came or went. (Programs at tcx do not announce themselves.)
    pub filters: bool,
}

impl Changed {
    /// Everything may have changed.
    pub const ALL: Changed = Changed {
        links: true,
        addresses: true,
        routes: true,
        filters: true,
    };

    #[cfg(test)]
    /// Whether there is anything.
    #[must_use]
    pub fn is_any(self) -> bool {
        self != Changed::default()
    }
}

/// A socket at which the kernel tells of changes in the network namespace in which it was opened. It becomes readable with each.
/// Needs no privileges.
#[derive(Debug)]
pub struct Changes(OwnedFd);

impl Changes {
    /// Begins to listen. Open it before looking at what there is, and look again after each change: then none is missed.
    ///
    /// # Errors
    /// The kernel's; a netlink socket may be forbidden.
    pub fn open() -> Result<Changes, HookError> {
        netlink::open(Family::Route, GROUPS, SocketFlags::NONBLOCK)
            .map(Changes)
            .map_err(|error| {
                HookError::new("netlink socket(2)", "the group of route changes", &error)
            })
    }

    /// What has changed since the last call; never waits. If the kernel had to leave messages out, everything may have.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&self) -> io::Result<Changed> {
        let mut changed = Changed::default();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match netlink::receive(&self.0, &mut buffer) {
                Ok(Some(datagram)) => {
                    for (header, _) in netlink::split(datagram) {
                        note(&mut changed, header.kind);
                    }
                }
                Ok(None) => {}
                Err(Errno::AGAIN) => return Ok(changed),
                Err(Errno::NOBUFS | Errno::MSGSIZE) => changed = Changed::ALL,
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[cfg(test)]
    /// Waits for a change, at most so long; nothing has changed if that is over. Blocks.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&self, at_most: std::time::Duration) -> io::Result<Changed> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let limit = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let mut descriptors = [PollFd::new(&self.0, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut descriptors, Some(&limit)))?;
        self.take()
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `RTM_NEW...` and `RTM_DEL...` of linux/rtnetlink.h; each kind has four numbers.
fn note(changed: &mut Changed, kind: u16) {
    match kind {
        16..=19 => changed.links = true,
        20..=23 => changed.addresses = true,
        24..=27 | 32..=35 | 104..=107 => changed.routes = true,
        36..=47 => changed.filters = true,
        _ => {}
    }
}
