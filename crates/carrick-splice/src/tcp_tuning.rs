//! TCP profiles: the TCP settings of each leg of a relay, for links whose two sides differ much, such as a
//! satellite link and an office network.
//!
//! A [`Profile`] holds the settings. [`TcpTuning::set`] applies it to a socket, and reports the result. A
//! [`Selector`] chooses a profile by the leg's side, its peer's network, the interface towards the peer, and
//! the round-trip time; [`measure`] reads a leg's statistics.
//!
//! Most of a profile is socket options that any process may set. Three settings are not: the initial window,
//! timers before Linux 6.15, and parameters of the handshake. For these the service loads BPF programs while
//! it is privileged ([`TcpTuning::load`]); afterwards they serve the process without privileges, until it
//! ends. Where they are unavailable, the rest still works, and [`TcpTuning::option`] and
//! [`TcpTuning::handshake`] say why.
//!
//! **Moments.** A socket gets its profile twice: before the handshake ([`Moment::Listening`] for a listener,
//! whose connections inherit it, or [`Moment::Connecting`]), and after it ([`Moment::Connected`]), before
//! data is sent. Each time, the settings that take effect then are applied:
//!
//! | setting | before | after |
//! |---|---|---|
//! | segment limit, initial time-out, initial receive window | yes | no: the handshake is over |
//! | initial window | no: the handshake begins it anew | yes |
//! | receive buffer, window clamp | yes: the handshake scales windows by them | yes, as far as that scale reaches |
//! | quick acknowledgements | no | yes |
//! | all else | yes | yes |
//!
//! ```
//! use carrick_splice::tcp_tuning::{TcpTuning, Moment, Profile, bandwidth_delay_bytes, measure};
//! use std::time::Duration;
//! # use std::net::{TcpListener, TcpStream};
//!
//! # fn main() -> std::io::Result<()> {
//! let service = TcpTuning::load();
//! // 20 Mbit/s over a geostationary satellite.
//! let satellite = Profile {
//!     initial_window_bytes: Some(64 << 10),
//!     send_buffer_bytes: Some(bandwidth_delay_bytes(20_000_000 / 8, Duration::from_millis(600))),
//!     pacing_rate: Some(20_000_000 / 8),
//!     ..Profile::default()
//! };
//! satellite.check().map_err(std::io::Error::other)?;
//! # let listener = TcpListener::bind("127.0.0.1:0")?;
//! for refused in service.set(&listener, &satellite, Moment::Listening).refused {
//!     println!("clients' connections do without: {refused}");
//! }
//! # let _client = TcpStream::connect(listener.local_addr()?)?;
//! let (connection, _) = listener.accept()?;
//! let applied = service.set(&connection, &satellite, Moment::Connected);
//! println!("a first flight of {:?} segments", applied.initial_window_segments);
//! println!("a round trip of {:?}", measure(&connection)?.rtt);
//! # Ok(())
//! # }
//! ```
//!
//! `docs/internals/tcp-tuning.md` explains these means, and what Linux lacks for single sockets.

mod apply;
mod cgroup;
mod kernel;
mod measured;
mod profile;
mod report;
mod route;
mod selector;

pub use measured::{Measured, measure};
pub use profile::{
    BUFFER_BYTES_MAX, CONGESTION_CONTROL_BYTES_MAX, INITIAL_WINDOW_MAX, KERNEL_TIMER,
    KERNEL_TIMER_MIN, Keepalive, Profile, ProfileError, RTO_MAX, RTO_MAX_MIN,
    bandwidth_delay_bytes,
};
pub use report::{Applied, RefusalReason, Refused, Setting};
pub use route::interface_towards;
pub use selector::{Conditions, LegFacts, NeededFacts, ProfileSide, Rule, Selector};

use crate::Unavailable;
use crate::unavailable::on_loopback;
use kernel::Kernel;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// When a socket gets its profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moment {
    /// It is about to listen, or listens: connections accepted from now on inherit the settings.
    Listening,
    /// It is about to connect.
    Connecting,
    /// The handshake is over, and no data was sent.
    Connected,
}

/// Applies profiles to sockets. Cheap to clone; clones share one service.
#[derive(Clone)]
pub struct TcpTuning(Arc<Kernel>);

impl fmt::Debug for TcpTuning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |part: Result<(), &Unavailable>| if part.is_ok() { "yes" } else { "no" };
        let (option, handshake) = (has(self.option()), has(self.handshake()));
        write!(
            formatter,
            "TcpTuning(option: {option}, handshake: {handshake})"
        )
    }
}

impl TcpTuning {
    /// Loads the programs, if possible, and attaches them to the control group of this process until the last
    /// clone is dropped or the process ends. Needs `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`, and a
    /// mounted cgroup2; otherwise the service works without them. They do not reach sockets made in another
    /// control group (passed by a service manager, or made before the process moved). Blocks for some
    /// milliseconds.
    #[must_use]
    pub fn load() -> TcpTuning {
        TcpTuning(Arc::new(Kernel::load()))
    }

    /// A service limited to options that any process may set, without programs.
    #[must_use]
    pub fn without_programs() -> TcpTuning {
        TcpTuning(Arc::new(Kernel::without_programs()))
    }

    /// Whether the program is loaded for settings without an ordinary option: initial window, timers before
    /// Linux 6.15, congestion controls restricted to privileged processes.
    ///
    /// # Errors
    /// Why not.
    pub fn option(&self) -> Result<(), &Unavailable> {
        self.0.option.as_ref().map(|_| ())
    }

    /// Whether the program is loaded for parameters of the handshake: initial time-out and initial receive
    /// window. Before Linux 6.2 it serves connecting sockets only, which a listener's refusal says
    /// ([`TcpTuning::set`], [`TcpTuning::rehearse`]).
    ///
    /// # Errors
    /// Why not.
    pub fn handshake(&self) -> Result<(), &Unavailable> {
        self.0.handshake.as_ref().map(|_| ())
    }

    /// Applies to a TCP socket the settings of a profile that take effect at this moment. A refused setting
    /// does not stop the others. Takes some microseconds; never blocks.
    pub fn set(&self, socket: &impl AsFd, profile: &Profile, moment: Moment) -> Applied {
        apply::apply(&self.0, socket.as_fd(), profile, moment)
    }

    /// Applies a profile to a connection on loopback, at all moments, and returns what a real one would be
    /// refused. For the start of a program, while it is privileged: loads the kernel module of a congestion
    /// control. Blocks for about a millisecond.
    ///
    /// # Errors
    /// There is no loopback.
    pub fn rehearse(&self, profile: &Profile) -> io::Result<Vec<Refused>> {
        apply::rehearse(&self.0, profile).map_err(on_loopback)
    }
}

/// Tests what needs the programs, for `carrick doctor`: name, and what is available, or why not.
pub(crate) fn probe() -> [(&'static str, io::Result<String>); 2] {
    let service = TcpTuning::load();
    let tried = |loaded: Result<(), &Unavailable>, profile: &Profile, text: &str| {
        loaded.map_err(|because| io::Error::other(because.clone()))?;
        let refused = service.rehearse(profile)?;
        match refused.into_iter().next() {
            None => Ok(text.to_owned()),
            Some(refused) => Err(io::Error::other(refused.why)),
        }
    };
    let window = Profile {
        initial_window_bytes: Some(64 << 10),
        ..Profile::default()
    };
    let timeout = Profile {
        rto_initial: Some(Duration::from_secs(1)),
        ..Profile::default()
    };
    [
        (
            "initial window",
            tried(
                service.option(),
                &window,
                "64 KB leave before the first acknowledgement comes",
            ),
        ),
        (
            "handshake time-outs",
            tried(
                service.handshake(),
                &timeout,
                "initial time-outs and receive windows of single sockets",
            ),
        ),
    ]
}

/// Reads what `wanted` names of a connection. Otherwise no system call but `getpeername`.
///
/// The socket is not connected. Anything else that is unavailable is `None`.
pub fn facts(socket: &impl AsFd, side: ProfileSide, wanted: NeededFacts) -> io::Result<LegFacts> {
    route::facts(socket.as_fd(), side, wanted)
}

/// The limit of the receive window (`TCP_WINDOW_CLAMP`).
#[cfg(test)]
pub(crate) fn window_max(socket: &impl AsFd) -> io::Result<u32> {
    crate::sys::sockopt::get(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP)
}

#[cfg(test)]
mod tests;
