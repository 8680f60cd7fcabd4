//! Path history: what all workers have learned about pairs of networks, for deciding whether to split a connection. It lives as long as
//! the process; a reload keeps it.
//!
//! Workers read it when a connection begins and update it when it ends, never while bytes move. Pairs are spread over several tables, each
//! with its own lock, held for microseconds, or while an admin page copies the table.
use crate::config::plan::{Mode, Plan};
use crate::transparent::{self, SupervisorPipe};
use carrick_logic::split::{
    ClassTotal, Decision, FirstKnown, Gain, Outcome, PAIRS_MAX, Pair, PairView, Prefixes, Settings,
    SizeClass, Table,
};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a pair is excluded from interception.
const LEFT_OUT_FOR: Duration = Duration::from_secs(300);

/// Number of tables; enough that workers rarely contend for a lock.
const TABLES: usize = 16;

/// The tables of all pairs.
#[derive(Debug)]
pub struct PathHistory {
    tables: [Mutex<Table>; TABLES],
    hashing: RandomState,
    /// Channel to the rule supervisor, which excludes pairs.
    line: OnceLock<SupervisorPipe>,
}

impl Default for PathHistory {
    /// Empty.
    fn default() -> Self {
        let settings = Settings {
            pairs_max: PAIRS_MAX / TABLES,
            ..Settings::default()
        };
        Self {
            tables: std::array::from_fn(|_| Mutex::new(Table::new(settings))),
            hashing: RandomState::new(),
            line: OnceLock::new(),
        }
    }
}

impl PathHistory {
    /// Decides whether to split or join a connection.
    #[must_use]
    pub fn decide(&self, client: SocketAddr, server: SocketAddr, known: &FirstKnown) -> Decision {
        self.table(client, server).decide(client, server, known)
    }

    /// Records the outcome of a connection.
    pub fn learn(&self, outcome: &Outcome) {
        let mut table = self.table(outcome.client, outcome.server);
        table.learn(outcome, Instant::now());
    }

    /// Sets the channel for excluding pairs. Only the first call has an effect.
    pub fn set_line(&self, line: SupervisorPipe) {
        let _ = self.line.set(line);
    }

    /// Whether pairs can be excluded from interception.
    #[must_use]
    pub fn can_leave_out(&self) -> bool {
        self.line.get().is_some()
    }

    /// Excludes the connection's pair from interception by the listener on `port`, for `LEFT_OUT_FOR`.
    ///
    /// # Errors
    /// See [`SupervisorPipe::leave_out`]. A later connection of the pair tries again.
    pub fn leave_out(
        &self,
        port: u16,
        client: SocketAddr,
        server: SocketAddr,
    ) -> std::io::Result<()> {
        let line = self.line.get().ok_or(std::io::ErrorKind::NotConnected)?;
        let networks = Self::networks(client, server);
        let pair = transparent::Pair {
            client: networks.client,
            server: networks.server,
        };
        line.leave_out(port, pair, LEFT_OUT_FOR)?;
        self.table(client, server)
            .left_out(client, server, Instant::now());
        Ok(())
    }

    /// Ends the exclusion of all pairs by the plan's listeners: what a reload has changed may not allow them.
    pub fn take_in_all(&self, plan: &Plan) {
        let Some(line) = self.line.get() else { return };
        for listener in &plan.listeners {
            if let (Mode::Split(_), Some(interception)) = (&listener.mode, &listener.interception)
                && let Err(error) = line.take_in_all(interception)
            {
                tracing::warn!(
                    "networks left out by {} stay so for up to {} s: {error}",
                    listener.address,
                    LEFT_OUT_FOR.as_secs()
                );
            }
        }
    }

    /// The networks of a connection, by which it is decided.
    #[must_use]
    pub fn networks(client: SocketAddr, server: SocketAddr) -> Pair {
        Pair::of(client.ip(), server.ip(), Prefixes::default())
    }

    /// All pairs.
    #[must_use]
    pub fn pairs(&self) -> Vec<PairView> {
        let now = Instant::now();
        let tables = self.tables.iter();
        tables.flat_map(|table| lock(table).view(now)).collect()
    }

    /// GoS per size class, over pairs with both split and joined connections; `None`: too few samples.
    #[must_use]
    pub fn gains(&self) -> [(SizeClass, Option<Gain>); SizeClass::ALL.len()] {
        SizeClass::ALL.map(|class| {
            let mut total = ClassTotal::default();
            for table in &self.tables {
                total.add(&lock(table), class);
            }
            (class, total.gain())
        })
    }

    /// The number of known pairs, and of evicted ones.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let counts = self.tables.iter().map(|table| {
            let table = lock(table);
            (table.len() as u64, table.evicted())
        });
        counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn table(&self, client: SocketAddr, server: SocketAddr) -> MutexGuard<'_, Table> {
        let pair = Self::networks(client, server);
        let index = self.hashing.hash_one(pair) as usize % TABLES;
        lock(&self.tables[index])
    }
}

/// A panic during an update leaves at worst one inaccurate pair, so the poisoned lock is used on.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
