//! What the kernel keeps for connections: sockets in its slabs, and what is queued in them.

use std::fs;

use anyhow::{Context as _, Result};

use crate::testbed::Testbed;
use crate::testbed::sockets::sockets_of;

/// At one moment, or the growth between two; in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelMemory {
    /// Slabs of the whole machine (`Slab` in proc(5), `/proc/meminfo`): client, server and everybody else included.
    pub slab_bytes: i64,
    /// What the TCP sockets in the proxy's namespace hold, as the kernel accounts for it (`skmem` of ss(8)).
    pub socket_bytes: i64,
}

/// The growth by as many connections without a proxy, and with one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelGrowth {
    /// Of a client's and a server's socket each.
    pub without: KernelMemory,
    /// Of these and the proxy's.
    pub with: KernelMemory,
}

impl KernelMemory {
    /// Reads it.
    ///
    /// # Errors
    /// When the kernel does not tell, or the namespace is gone.
    pub fn read(testbed: &Testbed) -> Result<Self> {
        let path = "/proc/meminfo";
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        let slab_bytes = parse_slab(&text).with_context(|| format!("{path} lacks Slab"))?;
        let socket_bytes = i64::try_from(sockets_of(&testbed.proxy)?).unwrap_or(i64::MAX);
        Ok(Self {
            slab_bytes,
            socket_bytes,
        })
    }

    /// The growth since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            slab_bytes: self.slab_bytes - before.slab_bytes,
            socket_bytes: self.socket_bytes - before.socket_bytes,
        }
    }
}

impl KernelGrowth {
    /// For each of so many connections: in the slabs for the proxy's sockets, and queued in these, of which a part is in the slabs as well.
    #[must_use]
    pub fn bytes_each(&self, connections: usize) -> (f64, f64) {
        let each = |bytes: i64| bytes as f64 / connections as f64;
        (
            each(self.with.slab_bytes - self.without.slab_bytes),
            each(self.with.socket_bytes),
        )
    }
}

fn parse_slab(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Slab:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
