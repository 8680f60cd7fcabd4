//! Hears when another program changes routing rules or nft tables, so that carrick's are made again if they are gone, or are no longer the
//! first.
use super::rules::PROTOCOL;
use carrick_splice::netlink::{self, Family};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::SocketFlags;
use socket2::{SockFilter, SockRef};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// linux/rtnetlink.h: `RTNLGRP_IPV4_IFADDR`, `RTNLGRP_IPV4_ROUTE` and `_RULE`, `RTNLGRP_IPV6_ROUTE` and `_RULE`.
const ROUTING_GROUPS: u32 = 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 18;
const RTM_DELADDR: u16 = 21;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
/// Where messages have `nlmsg_type`, `ifa_index` and `rtm_protocol`.
const TYPE_AT: u32 = 4;
const INDEX_AT: u32 = 16 + 4;
const PROTOCOL_AT: u32 = 16 + 5;
/// linux/net.h: the interface lo.
const LOOPBACK_IFINDEX: u32 = 1;

/// linux/netfilter/nfnetlink.h: `NFNLGRP_NFTABLES`, and `NFT_MSG_DELTABLE` of `NFNL_SUBSYS_NFTABLES`.
const NFTABLES_GROUPS: u32 = 1 << 6;
const NFT_MSG_DELTABLE: u16 = 10 << 8 | 2;

/// Longer than any message of these groups.
const BUFFER_BYTES: usize = 64 << 10;

/// A program that changes one rule changes others at the same time.
const SETTLE: Duration = Duration::from_millis(100);

/// What is repaired again within a minute waits twice as long each time: another program may undo it.
const CALM: Duration = Duration::from_secs(60);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Tells when to look whether all rules are in place.
#[derive(Debug)]
pub struct Upkeep {
    routing: OwnedFd,
    nftables: OwnedFd,
    buffer: Vec<u8>,
    due: Option<Instant>,
    pause: Duration,
    repaired_at: Option<Instant>,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// The pipe has bytes, or has ended.
    Read,
    /// Look whether all rules are in place.
    Look,
}

impl Upkeep {
    /// Begins to listen, before the rules are made: then no change is missed.
    ///
    /// # Errors
    /// The kernel's: without nftables, or without `CAP_NET_ADMIN`.
    pub fn begin() -> io::Result<Self> {
        let open = |family, groups| netlink::open(family, groups, SocketFlags::NONBLOCK);
        let routing = open(Family::Route, ROUTING_GROUPS)?;
        SockRef::from(&routing).attach_filter(&routing_filter())?;
        Ok(Self {
            routing,
            nftables: open(Family::Netfilter, NFTABLES_GROUPS)?,
            buffer: vec![0; BUFFER_BYTES],
            due: None,
            pause: SETTLE,
            repaired_at: None,
        })
    }

    /// Waits for what is to be done next.
    ///
    /// # Errors
    /// From `poll(2)`, or a socket of netlink.
    pub fn next(&mut self, pipe: impl AsFd) -> io::Result<Next> {
        loop {
            let left = self
                .due
                .map(|due| due.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                self.due = None;
                return Ok(Next::Look);
            }
            let limit = left.map(Timespec::try_from).and_then(Result::ok);
            let mut waiting = [
                PollFd::new(&pipe, PollFlags::IN),
                PollFd::new(&self.routing, PollFlags::IN),
                PollFd::new(&self.nftables, PollFlags::IN),
            ];
            retry_on_intr(|| poll(&mut waiting, limit.as_ref()))?;
            let [pipe, routing, nftables] = waiting.map(|one| !one.revents().is_empty());
            let mut is_heard = false;
            if routing {
                // The filter lets through only what is meant.
                is_heard |= hears(&self.routing, &mut self.buffer, |_| true)?;
            }
            if nftables {
                let is_meant = |kind| kind == NFT_MSG_DELTABLE;
                is_heard |= hears(&self.nftables, &mut self.buffer, is_meant)?;
            }
            if is_heard {
                let is_calm = self.repaired_at.is_none_or(|at| at.elapsed() >= CALM);
                let at = Instant::now() + if is_calm { SETTLE } else { self.pause };
                self.due = Some(self.due.map_or(at, |due| due.min(at)));
            }
            if pipe {
                return Ok(Next::Read);
            }
        }
    }

    /// Something had to be made again.
    pub fn repaired(&mut self) {
        let before = self.repaired_at.replace(Instant::now());
        self.pause = match before.map(|before| before.elapsed()) {
            Some(since) if since < CALM => (self.pause * 2).min(PAUSE_MAX),
            _ => SETTLE,
        };
    }

    /// Something could not be made again: it is to be tried later.
    pub fn failed(&mut self) {
        self.due = Some(Instant::now() + PAUSE_MAX);
    }
}

/// Lets through what changes routing rules or removes carrick's routes: with the last IPv4 address of lo, the kernel removes them without a
/// word. A router hears of many other routes.
fn routing_filter() -> [SockFilter; 11] {
    /// linux/bpf_common.h, linux/filter.h.
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let load = |size, at| SockFilter::new(size, 0, 0, at);
    let jump = |value, if_equal, else_| SockFilter::new(JUMP_IF_EQUAL, if_equal, else_, value);
    // Loads are in network byte order, and netlink is in the machine's.
    let kind = |kind: u16| u32::from(kind.to_be());
    [
        load(LOAD_HALF, TYPE_AT),
        jump(kind(RTM_NEWRULE), 8, 0),
        jump(kind(RTM_DELRULE), 7, 0),
        jump(kind(RTM_DELADDR), 1, 0),
        jump(kind(RTM_DELROUTE), 2, 4),
        load(LOAD_WORD, INDEX_AT),
        jump(LOOPBACK_IFINDEX.to_be(), 3, 2),
        load(LOAD_BYTE, PROTOCOL_AT),
        jump(PROTOCOL.into(), 1, 0),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
}

/// Whether one of the messages that wait is meant, or the kernel had to leave some out.
fn hears(socket: &OwnedFd, buffer: &mut [u8], is_meant: impl Fn(u16) -> bool) -> io::Result<bool> {
    let mut is_heard = false;
    loop {
        match netlink::receive(socket, buffer) {
            Ok(datagram) => {
                let mut messages = netlink::split(datagram.unwrap_or_default());
                is_heard |= messages.any(|(header, _)| is_meant(header.kind));
            }
            Err(Errno::AGAIN) => return Ok(is_heard),
            Err(Errno::NOBUFS | Errno::MSGSIZE) => is_heard = true,
            Err(error) => return Err(error.into()),
        }
    }
}
