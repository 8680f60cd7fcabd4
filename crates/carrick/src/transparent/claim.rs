//! Claims: which ports and routing tables belong to a carrick that lives. The kernel forgets a claim with its last holder, so
//! rules without a claim are what a dead one has left.
use crate::config::plan::Interception;
use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// What is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The port of a transparent listener, by which its nft table is named.
    Port(u16),
    /// A routing table.
    Table(u32),
}

/// What a transparent listener needs.
pub fn keys(interception: &Interception) -> [Key; 2] {
    [
        Key::Port(interception.listener.port()),
        Key::Table(interception.table),
    ]
}

/// A claim: an abstract socket (unix(7)), which like the rules belongs to the network namespace.
#[derive(Debug)]
pub struct Claim(UnixListener);

impl Key {
    fn name(self) -> String {
        match self {
            Self::Port(port) => format!("carrick-transparent-port-{port}"),
            Self::Table(table) => format!("carrick-transparent-table-{table}"),
        }
    }

    /// Whether nobody has claimed it.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn is_free(self) -> io::Result<bool> {
        match bind(self) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Claim {
    /// Claims it.
    ///
    /// # Errors
    /// Another carrick has it.
    pub fn take(key: Key) -> io::Result<Self> {
        bind(key).map(Self).map_err(|error| {
            let text = match (error.kind(), key) {
                (io::ErrorKind::AddrInUse, Key::Port(port)) => format!(
                    "another carrick has rules for a transparent listener on port {port}: choose another port, or stop it"
                ),
                (io::ErrorKind::AddrInUse, Key::Table(table)) => format!(
                    "another carrick has rules with the routing table {table}: choose another `table` in `intercept`, or stop it"
                ),
                _ => format!("cannot claim {}: {error}", key.name()),
            };
            io::Error::new(error.kind(), text)
        })
    }

    /// Whether programs that are started from now on hold it, too.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn bequeath(&self, is_inherited: bool) -> io::Result<()> {
        let flags = if is_inherited {
            FdFlags::empty()
        } else {
            FdFlags::CLOEXEC
        };
        Ok(fcntl_setfd(&self.0, flags)?)
    }
}

fn bind(key: Key) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(key.name())?)
}
