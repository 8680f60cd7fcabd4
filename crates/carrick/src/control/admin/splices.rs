//! Open tunnels: their part of `/status`, and the page `/splices` with all of them.
use crate::control::ControlState;
use crate::telemetry::engine_name;
use crate::telemetry::tunnels::{ENGINES, Seen, View};
use carrick_splice::{Adopted, Engine, LiveDirection, LiveLeg};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

/// Most tunnels in `/status`: those that moved the most bytes.
pub(super) const LISTED_MAX: usize = 50;

/// Writes all tunnels.
pub(super) fn json(state: &ControlState) -> serde_json::Result<String> {
    let mut json = serde_json::to_string(&Splices::of(state, usize::MAX))?;
    json.push('\n');
    Ok(json)
}

#[derive(Serialize)]
pub(super) struct Splices {
    in_kernel: u32,
    limit: u32,
    packet_open: u32,
    tunnels: BTreeMap<&'static str, u64>,
    uncounted_bytes: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unseen: Option<String>,
    list: Vec<TunnelEntry>,
    lossy_paths: Vec<LossyPath>,
    outliving: Outliving,
}

impl Splices {
    /// Lists at most `listed_max` tunnels.
    pub(super) fn of(state: &ControlState, listed_max: usize) -> Self {
        let (in_kernel, limit) = state.kernel.socket.splices();
        let view = View::of(
            state.workers.iter().map(|worker| &worker.tunnels),
            &state.kernel.socket,
            &state.kernel.packet,
        );
        let by_engine = ENGINES.map(engine_name).into_iter();
        let tunnels = by_engine.zip(view.count_by_engine()).collect();
        let mut seen: Vec<&Seen> = view.tunnels.iter().collect();
        seen.sort_by_key(|seen| {
            let [received, sent] = seen.bytes;
            (Reverse(received + sent), Reverse(seen.tunnel.about.begun))
        });
        let uncounted = [Engine::Socket, Engine::Packet]
            .map(|engine| (engine_name(engine), view.uncounted_bytes(engine)));
        let now = Instant::now();
        let list = seen.into_iter().take(listed_max);
        Self {
            in_kernel,
            limit,
            packet_open: state.kernel.packet.taken().open,
            tunnels,
            uncounted_bytes: uncounted.into(),
            list: list.map(|seen| TunnelEntry::of(seen, now)).collect(),
            unseen: view.unseen,
            lossy_paths: LossyPath::of(state, listed_max),
            outliving: Outliving::of(state, listed_max),
        }
    }
}

/// Two networks between which packets are not spliced at present.
#[derive(Serialize)]
struct LossyPath {
    client: String,
    server: String,
    client_lost_percent: f64,
    server_lost_percent: f64,
    client_rtt_us: u64,
    server_rtt_us: u64,
    seconds_left: u64,
}

impl LossyPath {
    /// The ones that stay longest come first.
    fn of(state: &ControlState, listed_max: usize) -> Vec<Self> {
        let mut paths = state.kernel.packet.lossy_paths();
        paths.sort_by_key(|path| Reverse(path.left));
        let listed = paths.into_iter().take(listed_max).map(|path| {
            let [client_lost_percent, server_lost_percent] = path.lost_percent;
            // They come from the kernel in microseconds, in 32 bits.
            let [client_rtt_us, server_rtt_us] = path.rtt.map(|rtt| rtt.as_micros() as u64);
            Self {
                client: path.client.to_string(),
                server: path.server.to_string(),
                client_lost_percent,
                server_lost_percent,
                client_rtt_us,
                server_rtt_us,
                seconds_left: path.left.as_secs(),
            }
        });
        listed.collect()
    }
}

/// Tunnels that outlive their process: whether this process's tunnels do, and the adopted ones.
#[derive(Serialize)]
struct Outliving {
    pins: Option<String>,
    trouble: Option<String>,
    adopted: usize,
    adopted_total: u64,
    closed: u64,
    reset: u64,
    idle: u64,
    bytes_total: u64,
    list: Vec<AdoptedTunnel>,
    not_adopted: Vec<String>,
}

impl Outliving {
    fn of(state: &ControlState, listed_max: usize) -> Self {
        let packet = &state.kernel.packet;
        let pins = packet.pins();
        let totals = packet.adopted_totals();
        let mut adopted = packet.adopted();
        adopted.sort_by_key(|one| Reverse(one.bytes[0] + one.bytes[1]));
        Self {
            pins: pins.and_then(|pins| Some(pins.ok()?.display().to_string())),
            trouble: pins.and_then(|pins| Some(pins.err()?.to_owned())),
            adopted: adopted.len(),
            adopted_total: totals.adopted,
            closed: totals.closed,
            reset: totals.reset,
            idle: totals.idle,
            bytes_total: totals.bytes.iter().sum(),
            list: adopted
                .iter()
                .take(listed_max)
                .map(AdoptedTunnel::of)
                .collect(),
            not_adopted: packet.not_adopted(),
        }
    }
}

/// A tunnel of an earlier process.
#[derive(Serialize)]
struct AdoptedTunnel {
    client: String,
    listener: String,
    server: String,
    own: String,
    quiet_seconds: f64,
    client_to_upstream: Direction,
    upstream_to_client: Direction,
}

impl AdoptedTunnel {
    fn of(adopted: &Adopted) -> Self {
        let [up, down] = adopted.bytes;
        Self {
            client: adopted.a.to_string(),
            listener: adopted.a_own.to_string(),
            server: adopted.b.to_string(),
            own: adopted.b_own.to_string(),
            quiet_seconds: adopted.quiet.as_millis() as f64 / 1e3,
            client_to_upstream: Direction::of(up, None),
            upstream_to_client: Direction::of(down, None),
        }
    }
}

#[derive(Serialize)]
struct TunnelEntry {
    id: String,
    worker: usize,
    mode: &'static str,
    listener: String,
    client: String,
    target: String,
    upstream: Option<String>,
    server: String,
    engine: &'static str,
    class: Option<String>,
    seconds: f64,
    client_to_upstream: Direction,
    upstream_to_client: Direction,
    client_leg: Option<Leg>,
    upstream_leg: Option<Leg>,
}

impl TunnelEntry {
    fn of(seen: &Seen, now: Instant) -> Self {
        let [received, sent] = seen.bytes;
        let about = &seen.tunnel.about;
        let splice = seen.splice.as_ref();
        let [up, down] = splice.map_or([None, None], |splice| splice.directions.map(Some));
        let [near, far] = splice.map_or([None, None], |splice| splice.legs);
        let milliseconds = now.saturating_duration_since(about.begun).as_millis();
        Self {
            id: format!("{:x}", about.label),
            worker: seen.worker,
            mode: about.job.name(),
            listener: about.listener.to_string(),
            client: about.client.to_string(),
            target: about.target.escape_ascii().to_string(),
            upstream: about.upstream.as_ref().map(|plan| plan.name.clone()),
            server: about.server.to_string(),
            engine: engine_name(seen.engine),
            class: about.class.as_deref().map(str::to_owned),
            seconds: milliseconds as f64 / 1e3,
            client_to_upstream: Direction::of(received, up),
            upstream_to_client: Direction::of(sent, down),
            client_leg: near.map(Leg::of),
            upstream_leg: far.map(Leg::of),
        }
    }
}

#[derive(Serialize)]
struct Direction {
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    forwarded_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backlog_bytes: Option<u64>,
}

impl Direction {
    fn of(bytes: u64, live: Option<LiveDirection>) -> Self {
        Self {
            bytes,
            forwarded_bytes: live.map(|live| live.forwarded_bytes),
            waiting_bytes: live.map(|live| live.waiting_bytes),
            backlog_bytes: live.and_then(|live| live.backlog_bytes),
        }
    }
}

#[derive(Serialize)]
struct Leg {
    state: &'static str,
    rtt_us: Option<u64>,
    rtt_variation_us: u64,
    retransmissions: u32,
    congestion_window: u32,
    in_flight_bytes: u32,
    unsent_bytes: u32,
    unread_bytes: u32,
    send_memory_bytes: u32,
}

impl Leg {
    fn of(live: LiveLeg) -> Self {
        // Both come from the kernel in microseconds, in 32 bits.
        let microseconds = |time: std::time::Duration| time.as_micros() as u64;
        Self {
            state: live.state,
            rtt_us: live.rtt.map(microseconds),
            rtt_variation_us: microseconds(live.rtt_variation),
            retransmissions: live.retransmissions,
            congestion_window: live.congestion_window,
            in_flight_bytes: live.in_flight_bytes,
            unsent_bytes: live.unsent_bytes,
            unread_bytes: live.unread_bytes,
            send_memory_bytes: live.send_memory_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
