//! What all workers have learned of pairs of networks: whether to split their connections. It lives as long as the process; a reload
//! leaves it alone.
//!
//! Workers look and tell at the beginning and at the end of a connection, never while bytes move. Each pair belongs to one of several tables
//! with a lock each, which is held for microseconds, and for as long as a page of admin copies one table.
use crate::transparent::{self, KeeperLine};
use carrick_logic::split::{
    ClassTotal, Decision, FirstKnown, Gain, Outcome, PAIRS_MAX, Pair, PairView, Prefixes, Settings,
    SizeClass, Table,
};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A pair is left out for so long, before connections of it are looked at again.
const LEFT_OUT_FOR: Duration = Duration::from_secs(300);

/// Tables: so that workers hardly ever wait for each other.
const TABLES: usize = 16;

/// The tables of all pairs.
#[derive(Debug)]
pub struct Learned {
    tables: [Mutex<Table>; TABLES],
    hashing: RandomState,
    /// By which pairs are left out.
    line: OnceLock<KeeperLine>,
}

impl Default for Learned {
    /// Nothing.
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

impl Learned {
    /// What is to become of a connection.
    #[must_use]
    pub fn decide(&self, client: SocketAddr, server: SocketAddr, known: &FirstKnown) -> Decision {
        self.table(client, server).decide(client, server, known)
    }

    /// Takes in how a connection went.
    pub fn learn(&self, outcome: &Outcome) {
        let mut table = self.table(outcome.client, outcome.server);
        table.learn(outcome, Instant::now());
    }

    /// Pairs can be left out by this from now on. Only the first one counts.
    pub fn set_line(&self, line: KeeperLine) {
        let _ = self.line.set(line);
    }

    /// Whether pairs can be left out of what transparent listeners intercept.
    #[must_use]
    pub fn can_leave_out(&self) -> bool {
        self.line.get().is_some()
    }

    /// Leaves the pair of a connection out of what the listener on this port intercepts, for `LEFT_OUT_FOR`.
    ///
    /// # Errors
    /// Those of [`KeeperLine::leave_out`]; the pair is asked for again by one of its next connections.
    pub fn leave_out(
        &self,
        port: u16,
        client: SocketAddr,
        server: SocketAddr,
    ) -> std::io::Result<()> {
        let line = self.line.get().ok_or(std::io::ErrorKind::NotConnected)?;
        let Pair {
            client: from,
            server: to,
        } = Pair::of(client.ip(), server.ip(), Prefixes::default());
        let pair = transparent::Pair {
            client: from,
            server: to,
        };
        line.leave_out(port, pair, LEFT_OUT_FOR)?;
        self.table(client, server)
            .left_out(client, server, Instant::now());
        Ok(())
    }

    /// All pairs.
    #[must_use]
    pub fn pairs(&self) -> Vec<PairView> {
        let now = Instant::now();
        let tables = self.tables.iter();
        tables.flat_map(|table| lock(table).view(now)).collect()
    }

    /// GoS of each class of sizes, within the pairs that have seen both ways; `None`: too little was seen.
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

    /// Pairs that are known, and pairs that had to leave for others.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let counts = self.tables.iter().map(|table| {
            let table = lock(table);
            (table.len() as u64, table.evicted())
        });
        counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn table(&self, client: SocketAddr, server: SocketAddr) -> MutexGuard<'_, Table> {
        let pair = Pair::of(client.ip(), server.ip(), Prefixes::default());
        let index = self.hashing.hash_one(pair) as usize % TABLES;
        lock(&self.tables[index])
    }
}

/// A panic while a table was changed may have left a pair half learned, which is no reason to stop.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
