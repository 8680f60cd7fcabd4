//! Claims: which ports, marks and routing tables belong to a carrick that lives. The kernel forgets a claim with its last holder, so
//! rules without a claim are what a dead one has left.
use crate::config::plan::Interception;
use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

/// How long a claim that somebody has is waited for.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// What is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The port of a transparent listener, by which its nft table is named.
    Port(u16),
    /// A mark, by which routing rules are known.
    Mark(u32),
    /// A routing table.
    Table(u32),
    /// Connections of this machine's own programs: two carricks that take them would take each other's, without end.
    Local,
}

/// What a transparent listener needs.
pub fn keys(interception: &Interception) -> Vec<Key> {
    let mut keys = vec![
        Key::Port(interception.listener.port()),
        Key::Mark(interception.mark),
        Key::Table(interception.table),
    ];
    keys.extend((interception.local.as_ref()).map(|local| Key::Mark(local.mark)));
    keys
}

/// What all of them need together.
pub fn all_keys(interceptions: &[Interception]) -> Vec<Key> {
    let mut all: Vec<Key> = interceptions.iter().flat_map(keys).collect();
    if interceptions.iter().any(|one| one.local.is_some()) {
        all.push(Key::Local);
    }
    all
}

/// A claim: an abstract socket (unix(7)), which like the rules belongs to the network namespace.
#[derive(Debug)]
pub struct Claim(UnixListener);

impl Key {
    fn name(self) -> String {
        match self {
            Self::Port(port) => format!("carrick-transparent-port-{port}"),
            Self::Mark(mark) => format!("carrick-transparent-mark-{mark}"),
            Self::Table(table) => format!("carrick-transparent-table-{table}"),
            Self::Local => "carrick-transparent-local".to_owned(),
        }
    }

    fn taken(self) -> String {
        match self {
            Self::Port(port) => format!(
                "another carrick has rules for a transparent listener on port {port}: choose another port, or stop it"
            ),
            Self::Mark(mark) => format!(
                "another carrick has rules with the mark {mark}: choose another `mark` in `intercept`, or stop it"
            ),
            Self::Table(table) => format!(
                "another carrick has rules with the routing table {table}: choose another `table` in `intercept`, or stop it"
            ),
            Self::Local => "another carrick intercepts the connections of this machine's programs (`local` in `intercept`), and would intercept this one's as well: stop it, or leave `local` out".to_owned(),
        }
    }
}

impl Claim {
    /// Claims it; `None` if somebody has it.
    ///
    /// # Errors
    /// The kernel refuses for another reason.
    pub fn try_take(key: Key) -> io::Result<Option<Self>> {
        match UnixListener::bind_addr(&SocketAddr::from_abstract_name(key.name())?) {
            Ok(socket) => Ok(Some(Self(socket))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("cannot claim {}: {error}", key.name()),
            )),
        }
    }

    /// Claims it. Waits up to [`WAIT_MAX`]: the keeper of a carrick that was killed a moment ago may be about to end.
    ///
    /// # Errors
    /// Another carrick has it.
    pub fn take(key: Key) -> io::Result<Self> {
        let give_up_at = Instant::now() + WAIT_MAX;
        loop {
            if let Some(claim) = Self::try_take(key)? {
                return Ok(claim);
            }
            if Instant::now() >= give_up_at {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, key.taken()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
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
