//! The TCP tuning programs: loads and attaches them, and sends them requests.

use super::{cgroup, report::RefusalReason};
use crate::Unavailable;
use crate::sys::sockopt;
use crate::unavailable::may_have;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};
use skeleton::types::tcp_request;
use std::fs::File;
use std::io::Read;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

skeleton!("tcp_tuning.skel.rs");

/// bpf/tcp_tuning/tcp_tuning.h
const LEG_LEVEL: i32 = 0x6361_726b;
const LEG_OPTION: i32 = 1;
const LEG_INITIAL_WINDOW: u32 = 1;
const LEG_RTO_MIN: u32 = 2;
const LEG_DELACK_MAX: u32 = 3;
const LEG_CONGESTION: u32 = 4;
const LEG_HANDSHAKE: u32 = 5;

/// How options that newer kernels have are set here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionSupport {
    /// `TCP_RTO_MIN_US`
    pub(super) rto_min: bool,
    /// `TCP_DELACK_MAX_US`
    pub(super) delayed_ack_max: bool,
    /// `TCP_RTO_MAX_MS`
    pub(super) rto_max: bool,
}

/// What this kernel and this process support.
pub(super) struct Kernel {
    /// The private option.
    pub(super) option: Result<Private, Unavailable>,
    /// The program that sets handshake parameters. Its link holds it.
    pub(super) handshake: Result<Link, Unavailable>,
    /// Whether it can do so for connections that a listener accepts.
    pub(super) listeners: Result<(), Unavailable>,
    /// The length of a kernel clock tick.
    tick: Duration,
    pub(super) options: OptionSupport,
}

/// The private option: the program, and the key that authenticates requests, which must stay secret.
pub(super) struct Private {
    key: [u64; 2],
    _link: Link,
}

/// A request to the program.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request<'a> {
    /// Segments.
    InitialWindow(u32),
    RtoMin(Duration),
    DelayedAckMax(Duration),
    CongestionControl(&'a str),
    Handshake {
        /// Zero: as ever.
        timeout: Duration,
        /// Segments of the first receive window; 0: as ever.
        window_segments: u32,
        /// Of the listener; 0: of the socket's own handshake.
        cookie: u64,
    },
}

impl Kernel {
    pub(super) fn load() -> Kernel {
        crate::refusal::listen();
        let loaded = attach();
        let (option, handshake) = match loaded {
            Ok((option, handshake)) => (Ok(option), handshake),
            Err(because) => (Err(because.clone()), Err(because)),
        };
        let listeners = match &handshake {
            Ok(_) => finds_listeners(),
            Err(because) => Err(because.clone()),
        };
        Kernel {
            option,
            handshake,
            listeners,
            ..Kernel::without_programs()
        }
    }

    pub(super) fn without_programs() -> Kernel {
        let because = Unavailable::new("the programs for legs are not loaded".into());
        Kernel {
            option: Err(because.clone()),
            handshake: Err(because.clone()),
            listeners: Err(because),
            tick: tick(),
            options: OptionSupport::find(),
        }
    }

    /// Sends a request to the program.
    pub(super) fn ask(
        &self,
        socket: BorrowedFd<'_>,
        request: Request<'_>,
    ) -> Result<(), RefusalReason> {
        let needed = match request {
            Request::Handshake { cookie: 0, .. } => self.handshake.as_ref().map(|_| ()),
            Request::Handshake { .. } => self.listeners.as_ref().copied(),
            _ => Ok(()),
        };
        needed.map_err(|because| RefusalReason::Unavailable(because.clone()))?;
        let private = self.option.as_ref();
        let private = private.map_err(|because| RefusalReason::Unavailable(because.clone()))?;
        let bytes = self.encode(private.key, request);
        sockopt::set_bytes(socket, LEG_LEVEL, LEG_OPTION, &bytes).map_err(|error| {
            match error.raw_os_error() {
                // The program did not run: the kernel uses the control group in which the socket was made.
                Some(libc::ENOPROTOOPT) => RefusalReason::Unavailable(Unavailable::new(
                    "the socket was made in another control group than this process' at its start"
                        .into(),
                )),
                _ => RefusalReason::of(&error),
            }
        })
    }

    /// As `struct tcp_request`.
    fn encode(&self, key: [u64; 2], request: Request<'_>) -> [u8; size_of::<tcp_request>()] {
        let mut bytes = [0; size_of::<tcp_request>()];
        let mut put = |offset: usize, value: &[u8]| {
            bytes[offset..][..value.len()].copy_from_slice(value);
        };
        let micros = |duration: Duration| u32::try_from(duration.as_micros()).unwrap_or(u32::MAX);
        let (ask, value) = match request {
            Request::InitialWindow(segments) => (LEG_INITIAL_WINDOW, segments),
            Request::RtoMin(duration) => (LEG_RTO_MIN, micros(duration)),
            Request::DelayedAckMax(duration) => (LEG_DELACK_MAX, micros(duration)),
            Request::CongestionControl(name) => {
                // The last byte stays zero.
                let name = name.as_bytes();
                let length = name.len().min(super::CONGESTION_CONTROL_BYTES_MAX);
                put(offset_of!(tcp_request, name), &name[..length]);
                (LEG_CONGESTION, 0)
            }
            Request::Handshake {
                timeout,
                window_segments,
                cookie,
            } => {
                put(
                    offset_of!(tcp_request, segments),
                    &window_segments.to_ne_bytes(),
                );
                put(offset_of!(tcp_request, cookie), &cookie.to_ne_bytes());
                (LEG_HANDSHAKE, ticks(timeout, self.tick))
            }
        };
        put(offset_of!(tcp_request, key), &key[0].to_ne_bytes());
        put(offset_of!(tcp_request, key) + 8, &key[1].to_ne_bytes());
        put(offset_of!(tcp_request, ask), &ask.to_ne_bytes());
        put(offset_of!(tcp_request, value), &value.to_ne_bytes());
        bytes
    }
}

impl OptionSupport {
    /// Tests them on an unused socket.
    fn find() -> OptionSupport {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let has = |option| {
            let read = |socket: &socket2::Socket| {
                sockopt::get(socket.as_fd(), libc::IPPROTO_TCP, option).is_ok()
            };
            socket.as_ref().is_ok_and(read)
        };
        OptionSupport {
            rto_min: has(sockopt::TCP_RTO_MIN_US),
            delayed_ack_max: has(sockopt::TCP_DELACK_MAX_US),
            rto_max: has(sockopt::TCP_RTO_MAX_MS),
        }
    }
}

/// Loads the programs, and attaches them to the control group of this process: the private option, and, if
/// the kernel supports it, the handshake program.
fn attach() -> Result<(Private, Result<Link, Unavailable>), Unavailable> {
    let group = cgroup::own().map_err(Unavailable::new)?;
    let open = |path: &Path| {
        let opened = File::open(path);
        opened.map_err(|error| Unavailable::new(format!("{}: {error}", path.display())))
    };
    let mut key = [0; 16];
    let random = open(Path::new("/dev/urandom"))?.read_exact(&mut key);
    random.map_err(|error| Unavailable::new(format!("/dev/urandom: {error}")))?;
    let (low, high) = key.split_at(8);
    let key = [low, high].map(|half| half.try_into().map_or(0, u64::from_ne_bytes));

    let explain = |error: libbpf_rs::Error| Unavailable::explain(&error);
    let mut object = MaybeUninit::<OpenObject>::uninit();
    let mut skeleton = skeleton::TcpTuningSkelBuilder::default()
        .open(&mut object)
        .map_err(explain)?;
    if let Some(constants) = &mut skeleton.maps.rodata_data {
        constants.secret.key = key;
    }
    let loaded = skeleton.load().map_err(explain)?;
    let attach = |program: &libbpf_rs::ProgramMut<'_>| {
        let link = program.attach_cgroup(group.as_raw_fd());
        link.map_err(|error| {
            Unavailable::new(format!(
                "the control group of this process does not take its program: {error:#}"
            ))
        })
    };
    let option = Private {
        key,
        _link: attach(&loaded.progs.carrick_tcp_option)?,
    };
    Ok((option, attach(&loaded.progs.carrick_tcp_handshake)))
}

/// Whether the program can find a handshake's listener: by a kernel function of Linux 6.2 and later.
fn finds_listeners() -> Result<(), Unavailable> {
    const NEEDED: &str = "bpf_cast_to_kern_ctx";
    if may_have(NEEDED) {
        return Ok(());
    }
    Err(Unavailable::new(format!(
        "for listeners it needs Linux 6.2 ({NEEDED})"
    )))
}

/// The length of a kernel clock tick: the coarse clock advances in ticks.
fn tick() -> Duration {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    Duration::try_from(tick).unwrap_or(Duration::from_millis(10))
}

/// A time in ticks, at least one; 0 for none.
fn ticks(time: Duration, tick: Duration) -> u32 {
    let ticks = time.as_nanos().div_ceil(tick.as_nanos().max(1));
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
