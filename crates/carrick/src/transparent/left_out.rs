//! Pairs of networks whose connections are left out of interception for a while: how carrick asks its keeper for that, a line for each.
use ipnet::IpNet;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fmt;
use std::io::{self, Write};
use std::process::ChildStdin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The longest time for which a pair is left out at once: a day.
pub const SECONDS_MAX: u64 = 24 * 3600;

/// The longest line, two IPv6 networks included.
pub const LINE_BYTES_MAX: usize = 160;

/// The networks of clients and of servers; both of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Of the clients.
    pub client: IpNet,
    /// Of the servers.
    pub server: IpNet,
}

/// What the keeper is asked for, once the rules stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Of which listener, by its port.
    pub port: u16,
    /// Which connections.
    pub pair: Pair,
    /// For how many seconds they are left out from now on; 0: they are intercepted again.
    pub seconds: u64,
}

impl fmt::Display for Wish {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pair { client, server } = self.pair;
        write!(
            out,
            "leave-out {} {client} {server} {}",
            self.port, self.seconds
        )
    }
}

impl Wish {
    /// Reads a line, exactly as it is written; `None`: it is none.
    pub fn parse(line: &str) -> Option<Self> {
        let wish = Self::read(line)?;
        // What has another form (leading zeros, bits behind a prefix) is not carrick's.
        (wish.to_string() == line).then_some(wish)
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        if words.next()? != "leave-out" {
            return None;
        }
        let wish = Self {
            port: words.next()?.parse().ok()?,
            pair: Pair {
                client: words.next()?.parse().ok()?,
                server: words.next()?.parse().ok()?,
            },
            seconds: words.next()?.parse().ok()?,
        };
        (words.next().is_none() && wish.is_right()).then_some(wish)
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

/// The line to the keeper. All clones are one; its end tells the keeper that carrick is gone.
#[derive(Debug, Clone, Default)]
pub struct KeeperLine(Arc<Mutex<Option<ChildStdin>>>);

impl KeeperLine {
    /// Takes the pipe over, which never waits from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(pipe: ChildStdin) -> io::Result<Self> {
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Mutex::new(Some(pipe)))))
    }

    /// Leaves the connections of a pair out of what the transparent listener on `port` intercepts, for so long from now on, at most a day; those
    /// that stand go on as they are. Takes effect some milliseconds later. Never waits for the keeper.
    ///
    /// # Errors
    /// `WouldBlock`: the keeper has too much to do now. `NotConnected`: there is none. `InvalidInput`: the networks are of two families, or have
    /// bits behind their prefixes, or the time is longer than a day.
    pub fn leave_out(&self, port: u16, pair: Pair, time: Duration) -> io::Result<()> {
        // A part of a second is one as well.
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        self.ask(Wish {
            port,
            pair,
            seconds: seconds.max(1),
        })
    }

    /// Has the connections of a pair intercepted again.
    ///
    /// # Errors
    /// As for [`Self::leave_out`].
    pub fn take_in(&self, port: u16, pair: Pair) -> io::Result<()> {
        let seconds = 0;
        self.ask(Wish {
            port,
            pair,
            seconds,
        })
    }

    /// Ends it.
    pub fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn ask(&self, wish: Wish) -> io::Result<()> {
        if !wish.is_right() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = pipe.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        // A line is shorter than `PIPE_BUF`: it goes whole or not at all (pipe(7)).
        match pipe.write(format!("{wish}\n").as_bytes()) {
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
