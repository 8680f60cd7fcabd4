//! The line protocol between carrick and its rule supervisor: excluding pairs of networks from interception for a while, and the drain.
use crate::config::plan::Interception;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fmt;
use std::io::{self, Write};
use std::process::ChildStdin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The longest time for one exclusion: a day.
pub const SECONDS_MAX: u64 = 24 * 3600;

/// The longest line, with two IPv6 networks.
pub const LINE_BYTES_MAX: usize = 160;

/// The line that says that carrick drains.
pub const DRAIN: &str = "drain\n";

/// A client network and a server network of the same family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The clients.
    pub client: IpNet,
    /// The servers.
    pub server: IpNet,
}

/// A request to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExclusionRequest {
    /// The listener's port.
    pub port: u16,
    /// The connections to exclude.
    pub pair: Pair,
    /// For how many seconds, from now; 0: ends all exclusions of this family of addresses.
    pub seconds: u64,
}

impl fmt::Display for ExclusionRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pair { client, server } = self.pair;
        write!(
            out,
            "leave-out {} {client} {server} {}",
            self.port, self.seconds
        )
    }
}

impl ExclusionRequest {
    /// Parses a line; `None`: invalid.
    pub fn parse(line: &str) -> Option<Self> {
        let request = Self::read(line)?;
        // carrick writes only the canonical form (no leading zeros, no bits behind a prefix).
        (request.to_string() == line).then_some(request)
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        if words.next()? != "leave-out" {
            return None;
        }
        let request = Self {
            port: words.next()?.parse().ok()?,
            pair: Pair {
                client: words.next()?.parse().ok()?,
                server: words.next()?.parse().ok()?,
            },
            seconds: words.next()?.parse().ok()?,
        };
        (words.next().is_none() && request.is_right()).then_some(request)
    }

    fn is_right(&self) -> bool {
        let Pair { client, server } = self.pair;
        let is_same_family = matches!(
            (client, server),
            (IpNet::V4(_), IpNet::V4(_)) | (IpNet::V6(_), IpNet::V6(_))
        );
        is_same_family
            && client.trunc() == client
            && server.trunc() == server
            && self.seconds <= SECONDS_MAX
    }
}

/// The pipe to the supervisor. All clones share it; closing it tells the supervisor that carrick is gone.
#[derive(Debug, Clone, Default)]
pub struct SupervisorPipe(Arc<Mutex<Option<ChildStdin>>>);

impl SupervisorPipe {
    /// Takes the pipe over and makes it non-blocking.
    ///
    /// # Errors
    /// From the kernel.
    pub fn new(pipe: ChildStdin) -> io::Result<Self> {
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Mutex::new(Some(pipe)))))
    }

    /// Excludes connections of a pair from interception by the listener on `port`, from now on, for at most a day. Open connections are not
    /// affected. Takes effect some milliseconds later. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock`: the pipe is full. `NotConnected`: there is no supervisor. `InvalidInput`: the networks are of two families, have bits
    /// behind their prefixes, or the time is longer than a day.
    pub fn leave_out(&self, port: u16, pair: Pair, time: Duration) -> io::Result<()> {
        // Rounded up to whole seconds.
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        self.ask(ExclusionRequest {
            port,
            pair,
            seconds: seconds.max(1),
        })
    }

    /// Ends the exclusion of all pairs.
    ///
    /// # Errors
    /// See [`Self::leave_out`].
    pub fn take_in_all(&self, interception: &Interception) -> io::Result<()> {
        let v4 = interception.takes_v4().then(|| Ipv4Net::default().into());
        let v6 = interception.takes_v6().then(|| Ipv6Net::default().into());
        [v4, v6].into_iter().flatten().try_for_each(|all| {
            self.ask(ExclusionRequest {
                port: interception.listener.port(),
                pair: Pair {
                    client: all,
                    server: all,
                },
                seconds: 0,
            })
        })
    }

    /// Says that carrick drains: new connections of this machine's programs bypass it some milliseconds later. Never blocks.
    ///
    /// # Errors
    /// See [`Self::leave_out`].
    pub fn drain(&self) -> io::Result<()> {
        self.write(DRAIN)
    }

    /// Closes the pipe.
    pub fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn ask(&self, request: ExclusionRequest) -> io::Result<()> {
        if !request.is_right() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.write(&format!("{request}\n"))
    }

    fn write(&self, line: &str) -> io::Result<()> {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = pipe.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        // A line is shorter than `PIPE_BUF`, so the write is atomic (pipe(7)).
        match pipe.write(line.as_bytes()) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Err(io::ErrorKind::NotConnected.into())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
