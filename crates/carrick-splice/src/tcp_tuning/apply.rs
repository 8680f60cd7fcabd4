//! Applies a profile to a socket, option by option, and records the result.

use super::kernel::{Kernel, Request};
use super::report::{Applied, RefusalReason, Refused, Setting};
use super::{Moment, Profile, measure};
use crate::sys::sockopt;
use crate::sys::sockopt::{TCP_DELACK_MAX_US, TCP_RTO_MAX_MS, TCP_RTO_MIN_US};
use crate::{Unavailable, tcp};
use libc::{IPPROTO_TCP, SOL_SOCKET};
use socket2::SockRef;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Always available, to any process (`tcp_reno` is part of TCP itself).
const PLAINEST: &str = "reno";

/// Congestion controls that compute the pacing rate of the first flight when they start, not when the window
/// changes, have this name or begin with it (`bbr_init_pacing_rate_from_rtt`).
const PACES_FROM_THE_BEGINNING: &str = "bbr";

/// A socket, and the results so far.
struct ProfileSetter<'a> {
    kernel: &'a Kernel,
    socket: BorrowedFd<'a>,
    moment: Moment,
    applied: Applied,
}

pub(super) fn apply(
    kernel: &Kernel,
    socket: BorrowedFd<'_>,
    profile: &Profile,
    moment: Moment,
) -> Applied {
    let mut setter = ProfileSetter {
        kernel,
        socket,
        moment,
        applied: Applied::default(),
    };
    // The receive buffer determines the window scale, and the clamp is cut to it.
    setter.buffers(profile);
    setter.windows(profile);
    setter.timers(profile);
    setter.limits(profile);
    setter.handshake(profile);
    setter.congestion(profile);
    setter.applied
}

impl ProfileSetter<'_> {
    fn note(&mut self, setting: Setting, outcome: Result<(), RefusalReason>) {
        if let Err(why) = outcome {
            self.applied.refused.push(Refused { setting, why });
        }
    }

    /// Sets an integer option, if the profile has it.
    fn option(&mut self, setting: Setting, level: i32, name: i32, value: Option<u32>) {
        if let Some(value) = value {
            let outcome = sockopt::set(self.socket, level, name, value);
            self.note(setting, outcome.map_err(|error| RefusalReason::of(&error)));
        }
    }

    fn buffers(&mut self, profile: &Profile) {
        if let Some(asked) = profile.send_buffer_bytes {
            self.applied.send_buffer_bytes = self.buffer(&SEND_BUFFER, asked);
        }
        if let Some(asked) = profile.receive_buffer_bytes {
            self.applied.receive_buffer_bytes = self.buffer(&RECEIVE_BUFFER, asked);
        }
    }

    /// Sets a buffer's size: first as any process may; if that is cut, with `CAP_NET_ADMIN`. Returns its
    /// size.
    fn buffer(&mut self, buffer: &Buffer, asked: u32) -> Option<u32> {
        let got = |socket| {
            // The kernel adds as much again for its overhead (socket(7)).
            sockopt::get(socket, SOL_SOCKET, buffer.option).map(|bytes| bytes / 2)
        };
        let set = |option| sockopt::set(self.socket, SOL_SOCKET, option, asked);
        // It may have inherited its listener's, set while the process was privileged: setting it again would
        // cut it.
        let locks = sockopt::get(self.socket, SOL_SOCKET, sockopt::SO_BUF_LOCK).unwrap_or(0);
        if locks & buffer.lock != 0 && got(self.socket).is_ok_and(|has| has == asked) {
            return Some(asked);
        }
        let mut has = set(buffer.option).and_then(|()| got(self.socket));
        if has.as_ref().is_ok_and(|has| *has < asked) && set(buffer.by_force).is_ok() {
            has = got(self.socket);
        }
        match has {
            Ok(has) if has < asked => {
                let limit = buffer.limit;
                let why = RefusalReason::Reduced {
                    asked,
                    got: has,
                    limit,
                };
                self.note(buffer.setting, Err(why));
                Some(has)
            }
            Ok(has) => Some(has),
            Err(error) => {
                self.note(buffer.setting, Err(RefusalReason::of(&error)));
                None
            }
        }
    }

    fn windows(&mut self, profile: &Profile) {
        let clamp = profile.window_clamp_bytes;
        self.option(
            Setting::WindowClamp,
            IPPROTO_TCP,
            libc::TCP_WINDOW_CLAMP,
            clamp,
        );
        if let Some(bytes) = profile.segment_bytes_max
            && self.moment != Moment::Connected
        {
            let outcome = tcp::limit_segments(&self.socket, bytes);
            self.note(
                Setting::SegmentLimit,
                outcome.map_err(|error| RefusalReason::of(&error)),
            );
        }
    }

    fn timers(&mut self, profile: &Profile) {
        let timeout = profile.user_timeout.map(millis);
        self.option(
            Setting::UserTimeout,
            IPPROTO_TCP,
            libc::TCP_USER_TIMEOUT,
            timeout,
        );
        if let Some(keepalive) = profile.keepalive {
            let keepalive = socket2::TcpKeepalive::new()
                .with_time(keepalive.idle)
                .with_interval(keepalive.interval)
                .with_retries(keepalive.probes.into());
            let outcome = SockRef::from(&self.socket).set_tcp_keepalive(&keepalive);
            self.note(
                Setting::Keepalive,
                outcome.map_err(|error| RefusalReason::of(&error)),
            );
        }
        let options = self.kernel.options;
        if let Some(least) = profile.rto_min {
            let plain = options.rto_min.then_some(TCP_RTO_MIN_US);
            self.timer(Setting::RtoMin, plain, least, Request::RtoMin(least));
        }
        if let Some(longest) = profile.delayed_ack_max {
            let plain = options.delayed_ack_max.then_some(TCP_DELACK_MAX_US);
            self.timer(
                Setting::DelayedAckMax,
                plain,
                longest,
                Request::DelayedAckMax(longest),
            );
        }
        if options.rto_max {
            let longest = profile.rto_max.map(millis);
            self.option(Setting::RtoMax, IPPROTO_TCP, TCP_RTO_MAX_MS, longest);
        } else if profile.rto_max.is_some() {
            let because = Unavailable::new("it needs Linux 6.15 (TCP_RTO_MAX_MS)".into());
            self.note(Setting::RtoMax, Err(RefusalReason::Unavailable(because)));
        }
        let quick = (profile.quick_ack && self.moment == Moment::Connected).then_some(1);
        self.option(Setting::QuickAck, IPPROTO_TCP, libc::TCP_QUICKACK, quick);
    }

    /// Sets a timer by the option of newer kernels, otherwise by the program.
    fn timer(&mut self, setting: Setting, plain: Option<i32>, time: Duration, ask: Request<'_>) {
        if plain.is_some() {
            self.option(
                setting,
                IPPROTO_TCP,
                plain.unwrap_or_default(),
                Some(micros(time)),
            );
        } else {
            let outcome = self.kernel.ask(self.socket, ask);
            self.note(setting, outcome);
        }
    }

    fn limits(&mut self, profile: &Profile) {
        if let Some(rate) = profile.pacing_rate {
            let rate = rate.to_ne_bytes();
            let outcome =
                sockopt::set_bytes(self.socket, SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate);
            self.note(
                Setting::PacingRate,
                outcome.map_err(|error| RefusalReason::of(&error)),
            );
        }
        let unsent = profile.unsent_low_water_bytes;
        self.option(
            Setting::UnsentLowWater,
            IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            unsent,
        );
    }

    fn handshake(&mut self, profile: &Profile) {
        let window = profile.initial_receive_window_segments;
        let is_asked = profile.rto_initial.is_some() || window.is_some();
        if !is_asked || self.moment == Moment::Connected {
            return;
        }
        let outcome = self.ask_of_handshake(profile);
        for (setting, is_asked) in [
            (Setting::RtoInitial, profile.rto_initial.is_some()),
            (Setting::InitialReceiveWindow, window.is_some()),
        ] {
            if is_asked {
                self.note(setting, outcome.clone());
            }
        }
    }

    fn ask_of_handshake(&self, profile: &Profile) -> Result<(), RefusalReason> {
        let cookie = match self.moment {
            Moment::Listening => SockRef::from(&self.socket).cookie(),
            Moment::Connecting | Moment::Connected => Ok(0),
        };
        let request = Request::Handshake {
            timeout: profile.rto_initial.unwrap_or_default(),
            window_segments: profile.initial_receive_window_segments.unwrap_or(0),
            cookie: cookie.map_err(|error| RefusalReason::of(&error))?,
        };
        self.kernel.ask(self.socket, request)
    }

    /// The number of whole segments, at least one.
    fn segments(&self, bytes: u32) -> io::Result<u32> {
        let segment_bytes = measure(&self.socket)?.segment_bytes.max(1);
        Ok((bytes / segment_bytes).max(1))
    }

    fn congestion(&mut self, profile: &Profile) {
        if let Some(bytes) = profile.initial_window_bytes
            && self.moment == Moment::Connected
        {
            match self.initial_window(bytes) {
                Ok(segments) => {
                    self.applied.initial_window_segments = Some(segments);
                    self.make_room(bytes);
                }
                Err(why) => self.note(Setting::InitialWindow, Err(why)),
            }
        }
        if let Some(name) = &profile.congestion_control {
            let outcome = self.congestion_control(name);
            self.note(Setting::CongestionControl, outcome);
        }
    }

    /// Sets the first flight in bytes; returns it in segments. Before the congestion control changes, so that
    /// the new one starts with it; the old one is restarted if necessary.
    fn initial_window(&self, bytes: u32) -> Result<u32, RefusalReason> {
        if let Err(because) = &self.kernel.option {
            return Err(RefusalReason::Unavailable(because.clone()));
        }
        let segments = self
            .segments(bytes)
            .map_err(|error| RefusalReason::of(&error))?;
        let socket = SockRef::from(&self.socket);
        let old = socket
            .tcp_congestion()
            .map_err(|error| RefusalReason::of(&error))?;
        let paces = old.starts_with(PACES_FROM_THE_BEGINNING.as_bytes());
        if paces {
            // Success is not visible here: on failure the flight is slower, not smaller.
            let _ = socket.set_tcp_congestion(PLAINEST.as_bytes());
        }
        let outcome = self
            .kernel
            .ask(self.socket, Request::InitialWindow(segments));
        if paces {
            let name = String::from_utf8_lossy(&old);
            self.congestion_control(name.trim_end_matches('\0'))?;
        }
        match outcome {
            Ok(()) => Ok(segments),
            Err(RefusalReason::Kernel(libc::EINVAL)) => Err(RefusalReason::TooLate),
            Err(why) => Err(why),
        }
    }

    /// Linux sized the send buffer for ten segments before this window was set. Unless it was set by hand, it
    /// gets room for the window, and Linux keeps tuning it. What exceeds `net.core.wmem_max` is sent with the
    /// first acknowledgements.
    fn make_room(&self, bytes: u32) {
        let get = |option| sockopt::get(self.socket, SOL_SOCKET, option);
        let Ok(locks) = get(sockopt::SO_BUF_LOCK) else {
            return;
        };
        if locks & SEND_BUFFER.lock != 0
            || get(SEND_BUFFER.option).is_ok_and(|has| has / 2 >= bytes)
        {
            return;
        }
        let set = |option, value| sockopt::set(self.socket, SOL_SOCKET, option, value);
        if set(SEND_BUFFER.option, bytes).is_ok() {
            // It would now count as set by hand, and stay fixed.
            let _ = set(sockopt::SO_BUF_LOCK, locks);
        }
    }

    fn congestion_control(&self, name: &str) -> Result<(), RefusalReason> {
        let socket = SockRef::from(&self.socket);
        let Err(error) = socket.set_tcp_congestion(name.as_bytes()) else {
            return Ok(());
        };
        match error.raw_os_error() {
            Some(libc::ENOENT) => Err(RefusalReason::NoSuchCongestionControl {
                asked: name.to_owned(),
                available: sysctl("tcp_available_congestion_control"),
            }),
            Some(libc::EPERM) => {
                let asked = self
                    .kernel
                    .ask(self.socket, Request::CongestionControl(name));
                asked.map_err(|_| RefusalReason::RestrictedCongestionControl {
                    asked: name.to_owned(),
                    allowed: sysctl("tcp_allowed_congestion_control"),
                })
            }
            _ => Err(RefusalReason::of(&error)),
        }
    }
}

/// One of the two buffers of a socket.
struct Buffer {
    setting: Setting,
    option: i32,
    by_force: i32,
    /// Its bit in `SO_BUF_LOCK`: set by hand.
    lock: u32,
    limit: &'static str,
}

const SEND_BUFFER: Buffer = Buffer {
    setting: Setting::SendBuffer,
    option: libc::SO_SNDBUF,
    by_force: libc::SO_SNDBUFFORCE,
    lock: 1,
    limit: "net.core.wmem_max",
};

const RECEIVE_BUFFER: Buffer = Buffer {
    setting: Setting::ReceiveBuffer,
    option: libc::SO_RCVBUF,
    by_force: libc::SO_RCVBUFFORCE,
    lock: 2,
    limit: "net.core.rmem_max",
};

impl RefusalReason {
    /// The kernel's error.
    pub(super) fn of(error: &io::Error) -> RefusalReason {
        // Always an errno: the kernel returned all these errors, except for buffers that are too short.
        RefusalReason::Kernel(error.raw_os_error().unwrap_or(libc::EINVAL))
    }
}

pub(super) fn rehearse(kernel: &Kernel, profile: &Profile) -> io::Result<Vec<Refused>> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    let mut refused = Vec::new();
    let mut take = |applied: Applied| {
        for one in applied.refused {
            if !refused
                .iter()
                .any(|known: &Refused| known.setting == one.setting)
            {
                refused.push(one);
            }
        }
    };
    take(apply(kernel, listener.as_fd(), profile, Moment::Listening));
    take(apply(kernel, socket.as_fd(), profile, Moment::Connecting));
    socket.connect(&listener.local_addr()?.into())?;
    take(apply(kernel, socket.as_fd(), profile, Moment::Connected));
    Ok(refused)
}

/// A TCP sysctl's value, for messages.
fn sysctl(name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
    text.map_or_else(
        |error| format!("what cannot be read ({error})"),
        |text| text.trim().to_owned(),
    )
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
