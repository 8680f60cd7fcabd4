//! What a relay holds: memory of its processes and of its sockets, descriptors, entries of BPF maps; now, and at most.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::command::{find, run};
use crate::peers::engine_use;
use crate::testbed::namespace::Namespace;
use crate::testbed::sockets::sockets_of;

/// Between two samples, and how much longer than a sample the pause is at least.
const POLL: Duration = Duration::from_millis(200);
const PAUSE_PER_SAMPLE: u32 = 4;
/// `BPF_MAP_TYPE_` `HASH`, `LRU_HASH`, `SOCKMAP`, `SOCKHASH` (linux/bpf.h): maps whose entries come and go.
const MAP_TYPES: [&str; 4] = ["1", "9", "15", "18"];

/// A pair of connections has one for each.
const ENTRIES_PER_PAIR: u64 = 2;

/// What a relay has at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holdings {
    /// Resident memory of its processes.
    pub rss_bytes: u64,
    /// Memory of the TCP sockets in its namespace, as the kernel accounts for it (`skmem` of ss(8)): received and not read,
    /// sent and not acknowledged, and reserved.
    pub socket_bytes: u64,
    /// Descriptors that are sockets.
    pub sockets: u64,
    /// Descriptors that are ends of pipes.
    pub pipes: u64,
    /// Other descriptors.
    pub other_descriptors: u64,
    /// Entries of its BPF maps; none without bpftool.
    pub map_entries: Option<u64>,
    /// What carrick says of itself; none for other relays.
    pub carrick: Option<Carrick>,
}

/// What carrick's metrics say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carrick {
    /// Tunnels that stand.
    pub tunnels: u64,
    /// Pipes that are open and not in the pool.
    pub pipes_in_use: u64,
    /// Pairs of connections that are over, which the engine `packet` knows for another minute, as TCP does (TIME_WAIT).
    pub packet_splices_over: u64,
    /// Bytes that the engines `socket` and `packet` have moved.
    pub kernel_bytes: u64,
    /// Bytes that other engines have moved.
    pub other_engines_bytes: u64,
}

impl Holdings {
    /// Reads everything of the relay in this namespace.
    ///
    /// # Errors
    /// When the namespace is gone, or carrick does not answer.
    pub fn read(namespace: &Namespace, is_carrick: bool) -> Result<Self> {
        let mut holdings = Self::read_memory(namespace)?;
        let mut maps = BTreeSet::new();
        for pid in namespace.processes()? {
            holdings.count_descriptors(pid, &mut maps);
        }
        holdings.map_entries = entries(&maps)?;
        if is_carrick {
            let metrics = namespace.inside(engine_use::ask)?;
            holdings.carrick = Some(Carrick::parse(&metrics).context(
                "carrick's metrics lack carrick_tunnels_open, carrick_pipes_open, carrick_pipes_pooled or \
                 carrick_splice_bytes_total",
            )?);
        }
        Ok(holdings)
    }

    /// Reads only what may be read often.
    fn read_memory(namespace: &Namespace) -> Result<Self> {
        let rss_bytes = namespace.processes()?.into_iter().filter_map(rss_bytes);
        Ok(Self {
            rss_bytes: rss_bytes.sum(),
            socket_bytes: sockets_of(namespace)?,
            ..Self::default()
        })
    }

    /// A process may end while it is looked at: then it has none.
    fn count_descriptors(&mut self, pid: u32, maps: &mut BTreeSet<u32>) {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return;
        };
        for entry in entries.flatten() {
            let Ok(target) = fs::read_link(entry.path()) else {
                continue;
            };
            match target.to_string_lossy() {
                name if name.starts_with("socket:") => self.sockets += 1,
                name if name.starts_with("pipe:") => self.pipes += 1,
                name => {
                    self.other_descriptors += 1;
                    if name.ends_with(":bpf-map") {
                        let about = format!("/proc/{pid}/fdinfo/{}", entry.file_name().display());
                        maps.extend(
                            fs::read_to_string(about)
                                .ok()
                                .as_deref()
                                .and_then(map_with_entries),
                        );
                    }
                }
            }
        }
    }

    /// Whether everything that belongs to connections is gone again.
    #[must_use]
    pub fn is_back_to(&self, start: &Self) -> bool {
        self.left_since(start).is_empty()
    }

    /// What is still held of connections that have ended, in words.
    #[must_use]
    pub fn left_since(&self, start: &Self) -> Vec<String> {
        let carrick = |of: &Self| of.carrick.unwrap_or_default();
        let entries = |of: &Self| {
            let over = ENTRIES_PER_PAIR * carrick(of).packet_splices_over;
            of.map_entries.unwrap_or(0).saturating_sub(over)
        };
        [
            (self.sockets, start.sockets, "sockets"),
            (
                self.other_descriptors,
                start.other_descriptors,
                "other descriptors",
            ),
            (entries(self), entries(start), "entries of BPF maps"),
            (carrick(self).tunnels, carrick(start).tunnels, "tunnels"),
            (
                carrick(self).pipes_in_use,
                carrick(start).pipes_in_use,
                "pipes outside the pool",
            ),
        ]
        .into_iter()
        .filter(|(now, before, _)| now > before)
        .map(|(now, before, what)| format!("{} {what} left", now - before))
        .collect()
    }
}

impl Carrick {
    fn parse(metrics: &str) -> Option<Self> {
        let sum = |name, label| Some(engine_use::sum(metrics, name, label)? as u64);
        let engine_bytes = |engine| sum("carrick_splice_bytes_total", engine);
        Some(Self {
            tunnels: sum("carrick_tunnels_open", "")?,
            pipes_in_use: sum("carrick_pipes_open", "")?
                .saturating_sub(sum("carrick_pipes_pooled", "")?),
            packet_splices_over: sum("carrick_packet_splices", "state=\"over\"").unwrap_or(0),
            kernel_bytes: engine_bytes("engine=\"socket\"").unwrap_or(0)
                + engine_bytes("engine=\"packet\"").unwrap_or(0),
            other_engines_bytes: engine_bytes("engine=\"copy\"")?
                + engine_bytes("engine=\"pipe\"")?,
        })
    }
}

/// `VmRSS` of a process (proc(5)); none if it has ended.
fn rss_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The number of a map whose entries come and go, from the `fdinfo` of its descriptor.
fn map_with_entries(about: &str) -> Option<u32> {
    let field = |name: &str| {
        about
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    MAP_TYPES
        .contains(&field("map_type")?)
        .then(|| field("map_id")?.parse().ok())?
}

/// How many entries these maps have; none without bpftool.
fn entries(maps: &BTreeSet<u32>) -> Result<Option<u64>> {
    let Some(tool) = find("bpftool") else {
        return Ok(None);
    };
    let tool = tool.to_string_lossy();
    let mut sum = 0;
    for map in maps {
        let dump = run(&tool, &["-j", "map", "dump", "id", &map.to_string()])?;
        sum += entries_of(&dump)
            .with_context(|| format!("bpftool's dump of map {map} is not understood"))?;
    }
    Ok(Some(sum))
}

/// Entries in bpftool's JSON; places of a SOCKMAP that are free have an error instead of a value. By its letters, as a
/// SOCKMAP has thousands of places.
fn entries_of(dump: &str) -> Option<u64> {
    let is_list = dump.trim_start().starts_with('[') && dump.trim_end().ends_with(']');
    let places = dump.matches(r#""key":["0x"#).count();
    let free = dump.matches(r#""value":{"error":"#).count();
    is_list.then(|| places.saturating_sub(free) as u64)
}

/// Looks again and again, in a thread of its own, for what the relay's memory is at most.
pub struct PeakWatch {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Holdings>>,
}

impl PeakWatch {
    /// Begins.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub fn start(namespace: Namespace) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_over);
        let thread = std::thread::Builder::new()
            .name(String::from("peaks"))
            .spawn(move || {
                let mut most = Holdings::default();
                while !ended.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    // A namespace that is gone has no peaks any more.
                    if let Ok(now) = Holdings::read_memory(&namespace) {
                        most.rss_bytes = most.rss_bytes.max(now.rss_bytes);
                        most.socket_bytes = most.socket_bytes.max(now.socket_bytes);
                    }
                    std::thread::park_timeout(POLL.max(began.elapsed() * PAUSE_PER_SAMPLE));
                }
                most
            })
            .context("cannot start a thread")?;
        Ok(Self {
            is_over,
            thread: Some(thread),
        })
    }

    /// Ends; the most of `rss_bytes` and `socket_bytes`.
    #[must_use]
    pub fn stop(mut self) -> Holdings {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        let joined = self.thread.take().map(JoinHandle::join);
        joined.and_then(std::result::Result::ok).unwrap_or_default()
    }
}

impl Drop for PeakWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
