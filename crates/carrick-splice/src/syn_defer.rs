//! Deferred SYNs: they wait in the kernel until the process decides. A proxy that answers for a server can
//! first see whether the server accepts, so that its client learns what it would learn without a proxy.
//!
//! A netfilter rule selects what is deferred: the program runs right behind the chain of priority *mangle* in
//! *prerouting* and defers SYNs that have one of the [`Settings::marks`] there. So no rule is evaluated
//! twice, and what the rules ignore is not touched.
//!
//! | of a SYN | becomes |
//! |---|---|
//! | new | it is dropped, and a [`Reader`] gets it as [`DeferredSyn`] |
//! | repeated while it waits | dropped |
//! | [released](DeferredSyn::release) | sent into the interface again, by which it came; this time it passes, and so do repetitions |
//! | [refused](DeferredSyn::refuse), or [unreachable](DeferredSyn::unreachable) | answered by the interface by which it came; repeated, it is new |
//! | forgotten (`DeferredSyn` is dropped) | nothing; repeated, it is new |
//!
//! **When in doubt, a SYN passes**, and the listener answers it at once: no reader was alive for a second (it
//! is dead, hangs, or ends), its ring is full, the SYN is longer than 1,600 bytes, a fragment, or has IPv6
//! extension headers. SYNs of this machine itself (from loopback) pass, too. When the process ends, in
//! whatever way, the programs are gone with it.
//!
//! **Limits.** 65,536 SYNs are remembered, for 130 seconds; beyond that, the least recently seen are
//! forgotten, at worst to be reported twice. Each reader's ring holds 1 MiB: 6,500 usual SYNs.
//!
//! **Privileges.** Attaching needs `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`, and Linux 6.4 or later; all else, nothing.
//!
//! `docs/internals/splitting.md` explains how it works.

mod deferred;
mod frame;
mod reader;

skeleton!("syn_defer.skel.rs");

pub use deferred::DeferredSyn;
pub use frame::Unreachable;
pub use reader::Reader;

use crate::Unavailable;
use crate::sys::mmap::Mmap;
use crate::unavailable::may_have;
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapType, NF_INET_PRE_ROUTING, NFPROTO_IPV4, NFPROTO_IPV6,
    NetfilterOpts, OpenObject,
};
use skeleton::types;
use std::io;
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Readers there can be: `SYN_READERS_MAX` of bpf/syn_defer/syn_defer.h.
pub const READERS_MAX: usize = 256;

/// Marks there can be: `SYN_MARKS_MAX` of bpf/syn_defer/syn_defer.h.
pub const MARKS_MAX: usize = 64;

/// `SYN_RING_BYTES` of bpf/syn_defer/syn_defer.h.
const RING_BYTES: u32 = 1 << 20;

/// The kernel's function that attaches programs to netfilter.
const NEEDED: &str = "bpf_nf_link_attach";

/// Just behind netfilter's chains of priority *mangle* (`NF_IP_PRI_MANGLE`): the first that is free. The kernel gives a priority that
/// any hook of the network namespace has, such as another process's, to no program (`nf_hook_entries_grow`).
const PRIORITIES: RangeInclusive<i32> = -149..=-134;

/// What to defer, and for how many readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Firewall marks of packets to defer; 0 is none.
    pub marks: Vec<u32>,
    /// The number of reader threads. Each has its own flows.
    pub readers: usize,
    /// Whether only SYNs are deferred that a rule has given a socket (`tproxy`). Rules can then mark SYNs that belong to a connection of
    /// this machine, as at a simultaneous open (RFC 9293 section 3.5), which it has to answer itself.
    pub assigned_only: bool,
    /// A reader that has not run for this long is passed by: its SYNs go on to their servers.
    pub unattended: Duration,
}

/// Four heartbeats of a [`Reader`]; clients repeat a SYN after a second.
pub const UNATTENDED: Duration = Duration::from_secs(1);

/// What was done with SYNs since the programs were attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Deferred, and given to a reader.
    pub deferred: u64,
    /// Dropped, as retransmissions of a deferred one.
    pub repeated: u64,
    /// Passed, because no reader was alive.
    pub unattended: u64,
    /// Passed, because the ring was full.
    pub crowded: u64,
    /// Passed, because they are too long, a fragment, or have extension headers.
    pub not_understood: u64,
}

/// The programs, on the hooks of the network namespace in which they were attached. Shared; detached with the
/// last handle.
#[derive(Clone)]
pub struct SynDefer(Arc<Inner>);

pub(crate) struct Inner {
    decide: OwnedFd,
    send: OwnedFd,
    rings: Vec<MapHandle>,
    counts: MapHandle,
    beats: Mmap,
    /// Keeps the programs attached.
    _links: Vec<Link>,
}

impl std::fmt::Debug for SynDefer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = formatter.debug_struct("SynDefer");
        debug.field("readers", &self.0.rings.len()).finish()
    }
}

impl SynDefer {
    /// Begins to defer, in the network namespace of the calling thread, as soon as there are
    /// [readers](SynDefer::reader). Blocks for some milliseconds.
    ///
    /// The kernel does not support it, or privileges are missing; there are more than [`READERS_MAX`] readers
    /// or [`MARKS_MAX`] marks.
    pub fn attach(settings: &Settings) -> Result<SynDefer, Unavailable> {
        if !(1..=READERS_MAX).contains(&settings.readers) || settings.marks.len() > MARKS_MAX {
            return Err(Unavailable::new(format!(
                "{} readers and {} marks are asked for; there can be {READERS_MAX} and {MARKS_MAX}",
                settings.readers,
                settings.marks.len()
            )));
        }
        if !may_have(NEEDED) {
            return Err(Unavailable::new(format!(
                "it needs Linux 6.4 or later, with CONFIG_NETFILTER_BPF_LINK ({NEEDED})"
            )));
        }
        crate::refusal::listen();
        SynDefer::load(settings).map_err(|error| Unavailable::explain(&error))
    }

    fn load(settings: &Settings) -> libbpf_rs::Result<SynDefer> {
        let mut object = MaybeUninit::<OpenObject>::uninit();
        let mut open = skeleton::SynDeferSkelBuilder::default().open(&mut object)?;
        if let Some(rodata) = &mut open.maps.rodata_data {
            rodata.readers = settings.readers as u32;
            rodata.assigned_only = u32::from(settings.assigned_only);
            rodata.unattended_ns = settings.unattended.as_nanos() as u64;
        }
        let loaded = open.load()?;
        let mut rings = Vec::new();
        for number in 0..settings.readers as u32 {
            let ring = make_ring()?;
            let descriptor = ring.as_fd().as_raw_fd().to_ne_bytes();
            let key = number.to_ne_bytes();
            loaded
                .maps
                .syn_rings
                .update(&key, &descriptor, MapFlags::ANY)?;
            rings.push(ring);
        }
        for mark in settings.marks.iter().filter(|mark| **mark != 0) {
            let mark = mark.to_ne_bytes();
            loaded.maps.syn_marks.update(&mark, &mark, MapFlags::ANY)?;
        }
        let owned = |program: &libbpf_rs::ProgramMut<'_>| {
            let copied = program.as_fd().try_clone_to_owned();
            copied.map_err(libbpf_rs::Error::from)
        };
        let beats = Mmap::map(loaded.maps.syn_beats.as_fd(), size_of::<types::syn_beats>())
            .map_err(libbpf_rs::Error::from)?;
        let attach = |protocol_family| {
            let attach_at = |priority| {
                loaded
                    .progs
                    .carrick_syn_defer
                    .attach_netfilter_with_opts(NetfilterOpts {
                        protocol_family,
                        hooknum: NF_INET_PRE_ROUTING,
                        priority,
                        ..NetfilterOpts::default()
                    })
            };
            let mut attached = PRIORITIES.map(attach_at);
            let free = attached.find(|one| !one.as_ref().is_err_and(is_taken));
            free.unwrap_or_else(|| Err(all_taken().into()))
        };
        Ok(SynDefer(Arc::new(Inner {
            decide: owned(&loaded.progs.carrick_syn_decide)?,
            send: owned(&loaded.progs.carrick_syn_send)?,
            counts: MapHandle::try_from(&loaded.maps.syn_counts)?,
            rings,
            beats,
            _links: vec![attach(NFPROTO_IPV4)?, attach(NFPROTO_IPV6)?],
        })))
    }

    /// The reader of this number, below [`Settings::readers`], for the calling thread. From now on, its part
    /// of the SYNs is deferred; two readers of one number would take them from each other. Must be called in
    /// a tokio runtime.
    ///
    /// # Errors
    /// There is no such number; the kernel's.
    pub fn reader(&self, number: usize) -> io::Result<Reader> {
        Reader::open(Arc::clone(&self.0), number)
    }

    /// What was done so far.
    ///
    /// # Errors
    /// The kernel's.
    pub fn counts(&self) -> io::Result<Counts> {
        let each = self.0.counts.lookup_percpu(&[0; 4], MapFlags::ANY);
        let each = each.map_err(io::Error::other)?.unwrap_or_default();
        let mut sum = [0_u64; 5];
        for counts in &each {
            let words = counts.as_chunks().0.iter().copied();
            for (sum, word) in sum.iter_mut().zip(words) {
                *sum += u64::from_ne_bytes(word);
            }
        }
        let [deferred, repeated, unattended, crowded, not_understood] = sum;
        Ok(Counts {
            deferred,
            repeated,
            unattended,
            crowded,
            not_understood,
        })
    }
}

/// Whether SYNs can be deferred here, for `carrick doctor`: tried without a mark, so that none is.
pub(crate) fn probe() -> io::Result<String> {
    let settings = Settings {
        marks: Vec::new(),
        readers: 1,
        assigned_only: true,
        unattended: UNATTENDED,
    };
    SynDefer::attach(&settings).map_err(io::Error::other)?;
    Ok("clients of transparent listeners are answered once their server has accepted".into())
}

/// Whether the priority is another hook's. libbpf-rs tells the number only in its text.
fn is_taken(error: &libbpf_rs::Error) -> bool {
    format!("{error:#}").contains(&io::Error::from_raw_os_error(libc::EBUSY).to_string())
}

fn all_taken() -> io::Error {
    let (first, last) = (PRIORITIES.start(), PRIORITIES.end());
    io::Error::other(format!(
        "other programs have all priorities from {first} to {last} of netfilter's prerouting"
    ))
}

fn make_ring() -> libbpf_rs::Result<MapHandle> {
    let options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as libbpf_rs::libbpf_sys::size_t,
        ..Default::default()
    };
    MapHandle::create(
        MapType::RingBuf,
        Some("carrick_syn_ring"),
        0,
        0,
        RING_BYTES,
        &options,
    )
}

#[cfg(test)]
mod tests;
