//! Claims on ports, marks and routing tables by a running carrick. The kernel drops a claim with its last holder, so rules without a claim
//! are leftovers of a dead carrick.
use super::holder::Holder;
use crate::config::plan::Interception;
use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

/// How long to wait for a claim that another process holds.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// What can be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The port of a transparent listener, after which its nft table is named.
    Port(u16),
    /// A mark, which identifies routing rules.
    Mark(u32),
    /// A routing table.
    Table(u32),
    /// Interception of local programs: two carricks doing that would intercept each other in a loop.
    Local,
}

/// The claims of one transparent listener.
pub fn keys(interception: &Interception) -> Vec<Key> {
    let mut keys = vec![
        Key::Port(interception.listener.port()),
        Key::Mark(interception.mark),
        Key::Table(interception.table),
    ];
    keys.extend((interception.local.as_ref()).map(|local| Key::Mark(local.mark)));
    keys
}

/// The claims of all listeners together.
pub fn all_keys(interceptions: &[Interception]) -> Vec<Key> {
    let mut all: Vec<Key> = interceptions.iter().flat_map(keys).collect();
    if interceptions.iter().any(|one| one.local.is_some()) {
        all.push(Key::Local);
    }
    all
}

/// A claim: an abstract socket (unix(7)), which, like the rules, belongs to the network namespace.
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
            Self::Local => "another carrick intercepts connections of local programs (`local` in `intercept`) and would intercept this one's, too: stop it, or remove `local`".to_owned(),
        }
    }

    /// Who has claimed it.
    pub fn holder(self) -> Option<Holder> {
        Holder::of(&self.name())
    }

    /// Why it cannot be claimed.
    fn refusal(self) -> String {
        let taken = self.taken();
        match self.holder() {
            Some(holder) if holder.is_stranger() => format!(
                "{taken}. It is claimed by {holder}; any user can do that, so end this process if it is no carrick"
            ),
            Some(holder) => format!("{taken} ({holder})"),
            None => format!(
                "{taken}. If no carrick runs, another program has the socket @{}: `ss -xap`, as root, shows which",
                self.name()
            ),
        }
    }
}

impl Claim {
    /// Claims it; `None` if another process holds it.
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

    /// Claims it. Waits up to [`WAIT_MAX`], since the supervisor of a carrick that was just killed may be about to exit.
    ///
    /// # Errors
    /// Another carrick holds it.
    pub fn take(key: Key) -> io::Result<Self> {
        let give_up_at = Instant::now() + WAIT_MAX;
        loop {
            if let Some(claim) = Self::try_take(key)? {
                return Ok(claim);
            }
            if Instant::now() >= give_up_at {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, key.refusal()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether child programs inherit it.
    ///
    /// # Errors
    /// From the kernel.
    pub fn bequeath(&self, is_inherited: bool) -> io::Result<()> {
        let flags = if is_inherited {
            FdFlags::empty()
        } else {
            FdFlags::CLOEXEC
        };
        Ok(fcntl_setfd(&self.0, flags)?)
    }
}
