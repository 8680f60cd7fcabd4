//! The open tunnels: each worker keeps a list that the control thread reads on demand. Neither blocks the other. Bytes moved by the
//! kernel are added on reading.
use super::job::Job;
use crate::config::plan::UpstreamPlan;
use arc_swap::ArcSwapOption;
use carrick_splice::{Engine, Exchange, LiveSplice, PacketService, SocketService};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A worker's list grows by this many tunnels at a time.
const CHUNK_TUNNELS: usize = 1024;
const CHUNKS_MAX: usize = 64;

/// Maximum length of a worker's list; further tunnels are counted, but not listed.
pub const LISTED_MAX: usize = CHUNK_TUNNELS * CHUNKS_MAX;

/// Maximum number of bytes kept of a tunnel's target.
pub const TARGET_BYTES_MAX: usize = 256;

/// Fixed properties of a tunnel.
#[derive(Debug)]
pub struct About {
    /// The number of its splice in the kernel; never 0, never reused.
    pub label: u64,
    /// When bytes began to be relayed.
    pub begun: Instant,
    /// The job of its listener.
    pub job: Job,
    /// The listener's address.
    pub listener: SocketAddr,
    /// The client's address, as in the access log.
    pub client: SocketAddr,
    /// The target as in the access log: of the request, the server name, or the listener's address. Cut after [`TARGET_BYTES_MAX`].
    pub target: Box<[u8]>,
    /// The upstream, if it is a configured one.
    pub upstream: Option<Arc<UpstreamPlan>>,
    /// The address of the server.
    pub server: SocketAddr,
    /// Its pacing class.
    pub class: Option<Box<str>>,
    /// Bytes relayed earlier, with the heads: from the client, and to it.
    pub bytes_before: [u64; 2],
}

/// A tunnel. Its worker is the only writer.
#[derive(Debug)]
pub struct Tunnel {
    /// The fixed properties.
    pub about: About,
    /// The worker's view: from the client, and to it.
    ways: [Way; 2],
}

/// The worker's view of one direction.
#[derive(Debug, Default)]
struct Way {
    moved_bytes: AtomicU64,
    /// While the kernel has the tunnel: bytes beyond those in the kernel's current count.
    beside_live_bytes: AtomicU64,
    /// An index of [`ENGINES`].
    engine: AtomicU8,
}

/// The engines, by index.
pub const ENGINES: [Engine; 4] = [Engine::Copy, Engine::Pipe, Engine::Socket, Engine::Packet];

impl Tunnel {
    /// A new tunnel.
    #[must_use]
    pub fn new(about: About) -> Self {
        Self {
            about,
            ways: Default::default(),
        }
    }

    /// Notes the progress of its relay. Costs at most six plain stores.
    pub fn note(&self, exchange: &Exchange<'_>) {
        let [up, down] = &self.ways;
        let engines = exchange.engines();
        up.note(exchange.a_to_b_bytes(), engines.0);
        down.note(exchange.b_to_a_bytes(), engines.1);
        if let Some(beside_live) = exchange.bytes_beside_live() {
            up.beside_live_bytes.store(beside_live.0, Relaxed);
            down.beside_live_bytes.store(beside_live.1, Relaxed);
        }
    }

    /// Notes the progress of a tunnel that is not in the kernel: from the client, and to it.
    pub fn note_bytes(&self, moved: [u64; 2], engines: [Engine; 2]) {
        for ((way, bytes), engine) in self.ways.iter().zip(moved).zip(engines) {
            way.note(bytes, engine);
        }
    }

    /// The engine of the direction with more bytes, in the worker's view.
    fn engine(&self) -> Engine {
        let [up, down] = &self.ways;
        let way = if down.moved_bytes.load(Relaxed) >= up.moved_bytes.load(Relaxed) {
            down
        } else {
            up
        };
        let noted = ENGINES.get(usize::from(way.engine.load(Relaxed)));
        noted.copied().unwrap_or(Engine::Copy)
    }
}

impl Way {
    fn note(&self, moved_bytes: u64, engine: Engine) {
        self.moved_bytes.store(moved_bytes, Relaxed);
        self.engine.store(engine as u8, Relaxed);
    }
}

/// An entry of a list.
type Slot = ArcSwapOption<Tunnel>;

/// A worker's tunnels. Never shrinks: 8 bytes for the highest number of simultaneous tunnels.
#[derive(Debug)]
pub struct Tunnels {
    chunks: [OnceLock<Box<[Slot]>>; CHUNKS_MAX],
}

impl Default for Tunnels {
    fn default() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS_MAX],
        }
    }
}

impl Tunnels {
    /// Sets or clears a slot. Slots from [`LISTED_MAX`] on are ignored.
    pub fn set(&self, place: usize, tunnel: Option<Arc<Tunnel>>) {
        if let Some(chunk) = self.chunks.get(place / CHUNK_TUNNELS) {
            let chunk = chunk.get_or_init(|| (0..CHUNK_TUNNELS).map(|_| Slot::empty()).collect());
            if let Some(slot) = chunk.get(place % CHUNK_TUNNELS) {
                slot.store(tunnel);
            }
        }
    }

    /// The listed tunnels.
    pub fn iter(&self) -> impl Iterator<Item = Arc<Tunnel>> {
        let chunks = self.chunks.iter().map_while(OnceLock::get);
        chunks
            .flatten()
            .filter_map(|slot| slot.load().as_ref().map(Arc::clone))
    }
}

/// A snapshot of a tunnel.
#[derive(Debug)]
pub struct Seen {
    /// The number of its worker.
    pub worker: usize,
    /// The worker's view.
    pub tunnel: Arc<Tunnel>,
    /// Bytes from the client and to it.
    pub bytes: [u64; 2],
    /// Of these, in both directions together: bytes that the kernel has moved and the worker has not counted yet.
    pub uncounted_bytes: u64,
    /// The engine that moves the bytes of the direction with more of them; `socket` while the kernel has the tunnel.
    pub engine: Engine,
    /// The kernel's view, while it has the tunnel.
    pub splice: Option<LiveSplice>,
}

/// A tunnel before the kernel is asked about it.
struct TunnelSnapshot {
    worker: usize,
    tunnel: Arc<Tunnel>,
    beside_live_bytes: [u64; 2],
}

impl TunnelSnapshot {
    fn new(worker: usize, tunnel: Arc<Tunnel>) -> Self {
        let beside_live = tunnel.ways.each_ref().map(|way| &way.beside_live_bytes);
        Self {
            worker,
            beside_live_bytes: beside_live.map(|bytes| bytes.load(Relaxed)),
            tunnel,
        }
    }

    /// Adds the kernel's byte counts. The tunnel may enter or leave the kernel meanwhile. Neither the counts read before asking the kernel,
    /// plus the kernel's, nor the worker's counts afterwards are ever too high, so the larger one is used.
    fn with(self, splice: Option<LiveSplice>, forwarded: Option<[u64; 2]>) -> Seen {
        let tunnel = &self.tunnel;
        let mut uncounted_bytes = 0;
        let bytes = [0, 1].map(|side| {
            let handed_on = |splice: &LiveSplice| splice.directions[side].forwarded_bytes;
            let live = forwarded
                .map(|bytes| bytes[side])
                .or(splice.as_ref().map(handed_on))
                .map_or(0, |bytes| self.beside_live_bytes[side] + bytes);
            let known = tunnel.ways[side].moved_bytes.load(Relaxed);
            uncounted_bytes += live.saturating_sub(known);
            tunnel.about.bytes_before[side] + live.max(known)
        });
        Seen {
            worker: self.worker,
            bytes,
            uncounted_bytes,
            engine: match (&splice, forwarded) {
                (Some(_), _) => Engine::Socket,
                // The worker does not wake for bytes that the kernel forwards.
                (None, Some(bytes)) if bytes != [0; 2] => Engine::Packet,
                (None, _) => tunnel.engine(),
            },
            splice,
            tunnel: self.tunnel,
        }
    }
}

/// A snapshot of all tunnels.
#[derive(Debug)]
pub struct View {
    /// In no particular order.
    pub tunnels: Vec<Seen>,
    /// Why the kernel's view is unavailable.
    pub unseen: Option<String>,
}

impl View {
    /// Takes the snapshot. Takes some milliseconds while splices are in the kernel, and some microseconds per tunnel.
    #[must_use]
    pub fn of<'t>(
        workers: impl Iterator<Item = &'t Tunnels>,
        socket: &SocketService,
        packet: &PacketService,
    ) -> Self {
        let workers = workers.enumerate();
        let listed: Vec<TunnelSnapshot> = workers
            .flat_map(|(worker, tunnels)| {
                let tunnels = tunnels.iter();
                tunnels.map(move |tunnel| TunnelSnapshot::new(worker, tunnel))
            })
            .collect();
        let (splices, unseen) = match socket.live() {
            Ok(splices) => (splices, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let by_label = splices.into_iter().map(|splice| (splice.label, splice));
        let mut by_label: HashMap<u64, LiveSplice> = by_label.collect();
        let forwarded: HashMap<u64, [u64; 2]> = packet.live().into_iter().collect();
        let tunnels = listed.into_iter().map(|listed| {
            let label = listed.tunnel.about.label;
            let splice = by_label.remove(&label);
            listed.with(splice, forwarded.get(&label).copied())
        });
        Self {
            tunnels: tunnels.collect(),
            unseen,
        }
    }

    /// Tunnels of each engine, in the order of [`ENGINES`].
    #[must_use]
    pub fn count_by_engine(&self) -> [u64; ENGINES.len()] {
        ENGINES.map(|engine| {
            let has = self.tunnels.iter().filter(|seen| seen.engine == engine);
            has.count() as u64
        })
    }

    /// Bytes that an engine moved in the kernel and that no worker has counted yet.
    #[must_use]
    pub fn uncounted_bytes(&self, engine: Engine) -> u64 {
        let has = self.tunnels.iter().filter(|seen| seen.engine == engine);
        has.map(|seen| seen.uncounted_bytes).sum()
    }

    /// The kernel's view of each tunnel that it has.
    pub fn splices(&self) -> impl Iterator<Item = &LiveSplice> {
        self.tunnels.iter().filter_map(|seen| seen.splice.as_ref())
    }
}

#[cfg(test)]
pub(crate) mod tests;
