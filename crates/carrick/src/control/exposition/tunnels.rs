//! Metrics of tunnels: how connections ended, and the state of open ones.
use super::writer::Writer;
use crate::telemetry::declarations as declared;
use crate::telemetry::engine_name;
use crate::telemetry::tunnels::{ENGINES, View};
use carrick_splice::LiveSplice;
use prometheus_client::encoding::NoLabelSet;
use std::fmt;

const DIRECTIONS: [&str; 2] = ["client_to_upstream", "upstream_to_client"];
const LEGS: [&str; 2] = ["client", "upstream"];

impl Writer<'_, '_> {
    pub(super) fn tunnels(&mut self) -> fmt::Result {
        self.histogram(&declared::TUNNEL_CLIENT_RTT, |worker| &worker.tunnel_rtt[0])?;
        self.histogram(&declared::TUNNEL_UPSTREAM_RTT, |worker| {
            &worker.tunnel_rtt[1]
        })?;
        let state = self.state;
        let retransmissions = [0, 1].map(|leg| {
            let sum = state.sum(|worker| worker.tunnel_retransmissions[leg].get());
            ([("leg", LEGS[leg])], sum)
        });
        self.counters(&declared::TUNNEL_RETRANSMISSIONS, retransmissions)?;

        let view = View::of(
            state.workers.iter().map(|worker| &worker.tunnels),
            &state.kernel.socket,
            &state.kernel.packet,
        );
        let by_engine = ENGINES.map(|engine| [("engine", engine_name(engine))]);
        self.gauges(
            &declared::TUNNELS_BY_ENGINE,
            by_engine.into_iter().zip(view.count_by_engine()),
        )?;
        self.gauge(
            &declared::SOCKET_SPLICES,
            u64::from(state.kernel.socket.splices().0),
        )?;
        let taken = state.kernel.packet.taken();
        self.gauges(
            &declared::PACKET_SPLICES,
            [
                ([("state", "open")], u64::from(taken.open)),
                ([("state", "over")], u64::from(taken.over)),
            ],
        )?;
        let requests = state.kernel.packet.request_counts().unwrap_or_default();
        self.counters(
            &declared::KERNEL_REQUESTS,
            [
                ([("by", "kernel")], requests.classified),
                ([("by", "process")], requests.up.iter().sum()),
            ],
        )?;
        self.family(&declared::KERNEL_REQUESTS_UNREPORTED)?
            .encode_counter::<NoLabelSet, _, f64>(&requests.events_lost, None)?;
        self.gauge(
            &declared::PACKET_LOSSY_PATHS,
            state.kernel.packet.lossy_paths().len() as u64,
        )?;
        let totals = state.kernel.packet.adopted_totals();
        self.family(&declared::ADOPTED)?
            .encode_counter::<NoLabelSet, _, f64>(&totals.adopted, None)?;
        let ended = totals.closed + totals.reset + totals.idle;
        self.gauge(
            &declared::ADOPTED_OPEN,
            totals.adopted.saturating_sub(ended),
        )?;
        self.counters(
            &declared::ADOPTED_ENDED,
            [
                ([("result", "closed")], totals.closed),
                ([("result", "reset")], totals.reset),
                ([("result", "idle")], totals.idle),
            ],
        )?;
        // Omit unknown values: zero would be wrong.
        if view.unseen.is_some() {
            return Ok(());
        }
        let splices: Vec<&LiveSplice> = view.splices().collect();
        let by_direction = |bytes: fn(&LiveSplice, usize) -> u64| {
            [0, 1].map(|side| {
                let sum = splices.iter().map(|splice| bytes(splice, side)).sum();
                ([("direction", DIRECTIONS[side])], sum)
            })
        };
        let forwarded = by_direction(|splice, side| splice.directions[side].forwarded_bytes);
        let backlog =
            by_direction(|splice, side| splice.directions[side].backlog_bytes.unwrap_or(0));
        let sent_again = [0, 1].map(|side| {
            let legs = splices.iter().filter_map(|splice| splice.legs[side]);
            let sum = legs.map(|leg| u64::from(leg.retransmissions)).sum();
            ([("leg", LEGS[side])], sum)
        });
        self.gauges(&declared::SOCKET_SPLICE_BYTES, forwarded)?;
        self.gauges(&declared::SOCKET_BACKLOG_BYTES, backlog)?;
        self.gauges(&declared::SOCKET_RETRANSMISSIONS, sent_again)?;
        let mut family = self.family(&declared::SOCKET_RTT)?;
        for (side, leg) in LEGS.into_iter().enumerate() {
            let times: Vec<f64> = splices
                .iter()
                .filter_map(|splice| Some(splice.legs[side]?.rtt?.as_secs_f64()))
                .collect();
            let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
            family.encode_family(&[("leg", leg)])?.encode_gauge(&mean)?;
        }
        Ok(())
    }
}
