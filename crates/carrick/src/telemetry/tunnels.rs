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

/// Room in a worker's list is made for so many tunnels at a time.
const CHUNK_TUNNELS: usize = 1024;
const CHUNKS_MAX: usize = 64;

/// Maximum length of a worker's list; further tunnels are counted, but not listed.
pub const LISTED_MAX: usize = CHUNK_TUNNELS * CHUNKS_MAX;

/// Maximum number of bytes kept of a tunnel's target.
pub const TARGET_BYTES_MAX: usize = 256;

/// What is known about a tunnel from its beginning.
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
    /// What was asked for, as in the access log: the target of the request, the server name, else the listener's address.
    /// Cut after [`TARGET_BYTES_MAX`].
    pub target: Box<[u8]>,
    /// The upstream, if it is a configured one.
    pub upstream: Option<Arc<UpstreamPlan>>,
    /// The address of the server.
    pub server: SocketAddr,
    /// The class by which it is paced.
    pub class: Option<Box<str>>,
    /// Bytes that had been relayed before, with the heads: from the client, and to it.
    pub bytes_before: [u64; 2],
}

/// A tunnel. Its worker is the only writer.
#[derive(Debug)]
pub struct Tunnel {
    /// What does not change.
    pub about: About,
    /// As the worker knows it: from the client, and to it.
    ways: [Way; 2],
}

/// What the worker knows of one direction.
#[derive(Debug, Default)]
struct Way {
    moved_bytes: AtomicU64,
    /// While the kernel has the tunnel: bytes besides those that the kernel counts now.
    beside_live_bytes: AtomicU64,
    /// As a number: [`ENGINES`].
    engine: AtomicU8,
}

/// The engines, by the number with which they are noted.
pub const ENGINES: [Engine; 4] = [Engine::Copy, Engine::Pipe, Engine::Socket, Engine::Packet];

impl Tunnel {
    /// A tunnel that begins.
    #[must_use]
    pub fn new(about: About) -> Self {
        Self {
            about,
            ways: Default::default(),
        }
    }

    /// Notes how far its relay has come. Costs six plain stores at most.
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

    /// Notes how far it has come, where nothing of it is in the kernel: from the client, and to it.
    pub fn note_bytes(&self, moved: [u64; 2], engines: [Engine; 2]) {
        for ((way, bytes), engine) in self.ways.iter().zip(moved).zip(engines) {
            way.note(bytes, engine);
        }
    }

    /// The engine of the direction with more bytes, as the worker knows it.
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

/// A place in a list.
type Slot = ArcSwapOption<Tunnel>;

/// A worker's tunnels. It never gives memory back: 8 bytes for each tunnel that ever stood at the same time.
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
    /// Puts a tunnel at a place, or takes away what is there. Places from [`LISTED_MAX`] on do not exist: nothing is done.
    pub fn set(&self, place: usize, tunnel: Option<Arc<Tunnel>>) {
        if let Some(chunk) = self.chunks.get(place / CHUNK_TUNNELS) {
            let chunk = chunk.get_or_init(|| (0..CHUNK_TUNNELS).map(|_| Slot::empty()).collect());
            if let Some(slot) = chunk.get(place % CHUNK_TUNNELS) {
                slot.store(tunnel);
            }
        }
    }

    /// The tunnels that are there.
    pub fn iter(&self) -> impl Iterator<Item = Arc<Tunnel>> {
        let chunks = self.chunks.iter().map_while(OnceLock::get);
        chunks
            .flatten()
            .filter_map(|slot| slot.load().as_ref().map(Arc::clone))
    }
}

/// A tunnel as it stands.
#[derive(Debug)]
pub struct Seen {
    /// The number of its worker.
    pub worker: usize,
    /// What the worker knows.
    pub tunnel: Arc<Tunnel>,
    /// Bytes from the client and to it.
    pub bytes: [u64; 2],
    /// Of these, both directions together: those that the kernel has moved and the worker has not counted yet.
    pub uncounted_bytes: u64,
    /// The engine that moves the bytes of the direction with more of them; `socket` while the kernel has the tunnel.
    pub engine: Engine,
    /// What the kernel tells, while it has the tunnel.
    pub splice: Option<LiveSplice>,
}

/// A tunnel that the kernel has not been asked about yet.
struct Listed {
    worker: usize,
    tunnel: Arc<Tunnel>,
    beside_live_bytes: [u64; 2],
}

impl Listed {
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

/// All tunnels as they stand.
#[derive(Debug)]
pub struct View {
    /// In no order.
    pub tunnels: Vec<Seen>,
    /// Why nothing is known of those that are in the kernel.
    pub unseen: Option<String>,
}

impl View {
    /// Looks. Takes some milliseconds while splices are in the kernel, and some microseconds for each tunnel.
    #[must_use]
    pub fn of<'t>(
        workers: impl Iterator<Item = &'t Tunnels>,
        socket: &SocketService,
        packet: &PacketService,
    ) -> Self {
        let workers = workers.enumerate();
        let listed: Vec<Listed> = workers
            .flat_map(|(worker, tunnels)| {
                let tunnels = tunnels.iter();
                tunnels.map(move |tunnel| Listed::new(worker, tunnel))
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

    /// How many tunnels each engine has, in the order of [`ENGINES`].
    #[must_use]
    pub fn count_by_engine(&self) -> [u64; ENGINES.len()] {
        ENGINES.map(|engine| {
            let has = self.tunnels.iter().filter(|seen| seen.engine == engine);
            has.count() as u64
        })
    }

    /// Bytes that an engine has moved in the kernel, and that no worker has counted yet.
    #[must_use]
    pub fn uncounted_bytes(&self, engine: Engine) -> u64 {
        let has = self.tunnels.iter().filter(|seen| seen.engine == engine);
        has.map(|seen| seen.uncounted_bytes).sum()
    }

    /// What the kernel tells.
    pub fn splices(&self) -> impl Iterator<Item = &LiveSplice> {
        self.tunnels.iter().filter_map(|seen| seen.splice.as_ref())
    }
}

#[cfg(test)]
pub(crate) mod tests;
