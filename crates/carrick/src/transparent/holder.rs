//! Who has claimed what this carrick cannot: another carrick, or any other program, as abstract sockets have no permissions.
use crate::privileges;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::process::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fmt;

/// The process that listens on an abstract socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// 0: of another PID namespace.
    pid: i32,
    uid: u32,
}

impl Holder {
    /// The process that listens on the socket of this name. `None` if no process does, or if too many already wait for it to accept.
    pub fn of(name: &str) -> Option<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).ok()?;
        socket.set_nonblocking(true).ok()?;
        let address = SockAddr::unix(format!("\0{name}")).ok()?;
        socket.connect(&address).ok()?;
        // Those of the process that called listen(2).
        let credentials = getsockopt(&socket, PeerCredentials).ok()?;
        Some(Self {
            pid: credentials.pid(),
            uid: credentials.uid(),
        })
    }

    /// Whether it may be anybody's program: neither root's, nor of the user that this process runs as.
    pub fn is_stranger(self) -> bool {
        self.uid != 0 && self.uid != geteuid().as_raw()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            0 => write!(out, "a process of another PID namespace")?,
            pid => write!(out, "process {pid}")?,
        }
        write!(out, " of user {}", privileges::user_name(self.uid))
    }
}
