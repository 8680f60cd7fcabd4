//! The kernel calls of a client's connection: open, connect, send, receive, wait.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, ipproto, recv,
    send, socket_with, sockopt,
};

/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 512;

/// Local ports in turn, or the kernel's choice.
#[derive(Clone, Debug)]
pub struct Ports {
    range: Option<[u16; 2]>,
    next: u16,
}

impl Ports {
    /// From the first to the last of a range.
    #[must_use]
    pub fn new(range: Option<[u16; 2]>) -> Self {
        Self {
            range,
            next: range.map_or(0, |[first, _]| first),
        }
    }

    fn take(&mut self) -> Option<u16> {
        let [first, last] = self.range?;
        let port = self.next.clamp(first, last);
        self.next = if port == last { first } else { port + 1 };
        Some(port)
    }

    fn count(&self) -> u32 {
        self.range
            .map_or(1, |[first, last]| u32::from(last - first) + 1)
    }
}

/// Begins a connection to `address`; it is open when the socket can be written to.
///
/// # Errors
/// The kernel's, with the call that failed.
pub fn open(address: SocketAddr, ports: &mut Ports) -> Result<OwnedFd, (&'static str, Errno)> {
    let mut last = ("bind", Errno::ADDRINUSE);
    // Of a range of ports, some may still be in TIME_WAIT with this address.
    for _ in 0..ports.count() {
        match open_from(address, ports.take()) {
            Ok(socket) => return Ok(socket),
            Err((call, error)) => {
                last = (call, error);
                if !matches!(error, Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) {
                    break;
                }
            }
        }
    }
    Err(last)
}

fn open_from(address: SocketAddr, port: Option<u16>) -> Result<OwnedFd, (&'static str, Errno)> {
    let (family, any) = match address {
        SocketAddr::V4(_) => (AddressFamily::INET, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        SocketAddr::V6(_) => (AddressFamily::INET6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
        .map_err(|error| ("socket", error))?;
    sockopt::set_tcp_nodelay(&socket, true).map_err(|error| ("setsockopt TCP_NODELAY", error))?;
    if let Some(port) = port {
        // Ports in TIME_WAIT with other addresses may be bound again.
        sockopt::set_socket_reuseaddr(&socket, true)
            .map_err(|error| ("setsockopt SO_REUSEADDR", error))?;
        bind(&socket, &SocketAddr::new(any, port)).map_err(|error| ("bind", error))?;
    }
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(("connect", error)),
    }
}

/// Why a connection could not be opened, if so; to be asked when the socket can be written to.
///
/// # Errors
/// The kernel's.
pub fn connected(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::socket_error(socket).and_then(|result| result)
}

/// Sends what the kernel takes; 0 if it takes nothing now.
///
/// # Errors
/// The kernel's.
pub fn transmit(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    match send(socket, bytes, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        result => result,
    }
}

/// Receives what is there; `None` if nothing is now, 0 at the end.
///
/// # Errors
/// The kernel's.
pub fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
    match recv(socket, buffer, RecvFlags::empty()) {
        Ok((bytes, _)) => Ok(Some(bytes)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An epoll instance: which sockets are ready.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

/// What a socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to receive, or the end.
    Receive,
    /// Room to send (or the end of connecting).
    Send,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Receive => EventFlags::IN,
            Self::Send => EventFlags::OUT,
        }
    }
}

impl Poll {
    /// Watches nothing yet. Also makes this thread's timers precise: they are up to 50 µs late otherwise.
    ///
    /// # Errors
    /// When the kernel gives no epoll.
    pub fn new() -> Result<Self> {
        // Where it is refused, times are less precise, no more.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)
                .context("epoll_create: cannot watch sockets")?,
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Watches a socket from now on, until it is closed; `token` comes with its events.
    ///
    /// # Errors
    /// The kernel's.
    pub fn watch(&self, socket: &OwnedFd, token: u64, interest: Interest) -> Result<(), Errno> {
        epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(token),
            interest.flags(),
        )
    }

    /// Changes what a socket is waited for, or its token.
    ///
    /// # Errors
    /// The kernel's.
    pub fn change(&self, socket: &OwnedFd, token: u64, interest: Interest) -> Result<(), Errno> {
        epoll::modify(
            &self.epoll,
            socket,
            EventData::new_u64(token),
            interest.flags(),
        )
    }

    /// Waits for events, for so long at most, and puts the tokens of the ready sockets into `ready`.
    ///
    /// # Errors
    /// When epoll fails.
    pub fn wait(&mut self, at_most: Duration, ready: &mut Vec<u64>) -> Result<()> {
        self.events.clear();
        ready.clear();
        // A duration that is too long for the kernel does not come from a loop that wakes up often.
        let timeout = Timespec::try_from(at_most).unwrap_or_default();
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            Some(&timeout),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll_wait: cannot wait for sockets"),
        }
        ready.extend(self.events.iter().map(|event| {
            let data = event.data;
            data.u64()
        }));
        Ok(())
    }
}
