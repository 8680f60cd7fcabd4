//! `[leg.NAME]` and `legs` as they are written.
use super::{Section, Setting, inline, keys_given, required_text};
use crate::config::keys;
use crate::config::problem::Problems;
use carrick_splice::tcp_tuning::{
    BUFFER_BYTES_MAX, INITIAL_WINDOW_MAX, KERNEL_TIMER, KERNEL_TIMER_MIN, RTO_MAX, RTO_MAX_MIN,
};
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;

/// `[leg.NAME]`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Leg {
    pub name: Spanned<String>,
    /// Where each key that is given has its name.
    pub keys_given: Vec<(&'static str, Range<usize>)>,
    pub initial_window: Setting<u64>,
    pub congestion: Setting<String>,
    pub pacing_rate: Setting<u64>,
    pub bandwidth: Setting<u64>,
    pub round_trip: Setting<Duration>,
    pub send_buffer: Setting<u64>,
    pub receive_buffer: Setting<u64>,
    pub window_clamp: Setting<u64>,
    pub initial_receive_window: Setting<u32>,
    pub user_timeout: Setting<Duration>,
    pub keepalive: Setting<Keepalive>,
    pub rto_min: Setting<Duration>,
    pub rto_initial: Setting<Duration>,
    pub rto_max: Setting<Duration>,
    pub delayed_ack_max: Setting<Duration>,
    pub quick_ack: bool,
    pub unsent_low_water: Setting<u64>,
    pub segment_max: Setting<u32>,
}

/// `keepalive = { … }`
#[derive(Debug)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Setting<Duration>,
    /// Between two probes.
    pub interval: Setting<Duration>,
    /// As many without an answer end the connection.
    pub probes: Setting<u32>,
}

/// One of `legs`.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct LegRule {
    /// Where it is.
    pub span: Range<usize>,
    pub profile: Setting<String>,
    pub side: Setting<&'static str>,
    pub interface: Setting<String>,
    pub subnet: Setting<String>,
    pub rtt_above: Setting<Duration>,
    pub rtt_below: Setting<Duration>,
}

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The longest round trip that buffers are computed for, and that is asked for.
const RTT_MAX: Duration = Duration::from_secs(10);
/// `TCP_USER_TIMEOUT` is milliseconds in an `int`.
const USER_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 24 * 3600);
/// tcp(7), `TCP_KEEPIDLE`: 32767 seconds, a little more than nine hours.
const KEEPALIVE_MAX: Duration = Duration::from_secs(9 * 3600);
const RATE_MIN: u64 = 1_000;
const RATE_MAX: u64 = 100_000_000_000;

impl Leg {
    pub(super) fn read(
        name: Spanned<String>,
        table: &Section<'_>,
        problems: &mut Problems,
    ) -> Self {
        let mut rate = |key| table.rate_within(key, RATE_MIN, RATE_MAX, problems);
        let (pacing_rate, bandwidth) = (rate("pacing_rate"), rate("bandwidth"));
        let mut size = |key, max: u32| table.size_within(key, 1, max.into(), problems);
        let initial_window = size("initial_window", INITIAL_WINDOW_MAX);
        let [send_buffer, receive_buffer, window_clamp, unsent_low_water] = [
            "send_buffer",
            "receive_buffer",
            "window_clamp",
            "unsent_low_water",
        ]
        .map(|key| size(key, BUFFER_BYTES_MAX));
        let mut time = |key, min, max| table.time_within(key, min, max, problems);
        let round_trip = time("round_trip", MS, RTT_MAX);
        let user_timeout = time("user_timeout", MS, USER_TIMEOUT_MAX);
        let [rto_min, delayed_ack_max] =
            ["rto_min", "delayed_ack_max"].map(|key| time(key, KERNEL_TIMER_MIN, KERNEL_TIMER));
        let rto_initial = time("rto_initial", MS, RTO_MAX);
        let rto_max = time("rto_max", RTO_MAX_MIN, RTO_MAX);
        Self {
            name,
            keys_given: keys_given(table, &keys::LEG),
            initial_window,
            congestion: table.text("congestion", problems),
            pacing_rate,
            bandwidth,
            round_trip,
            send_buffer,
            receive_buffer,
            window_clamp,
            initial_receive_window: table.count_within("initial_receive_window", 1, 1024, problems),
            user_timeout,
            keepalive: inline(
                table,
                "keepalive",
                &keys::KEEPALIVE,
                problems,
                Keepalive::read,
            ),
            rto_min,
            rto_initial,
            rto_max,
            delayed_ack_max,
            quick_ack: table.switch("quick_ack", problems),
            unsent_low_water,
            segment_max: table.count_within("segment_max", 88, 32_767, problems),
        }
    }
}

impl Keepalive {
    fn read(table: &Section<'_>, problems: &mut Problems) -> Self {
        for key in ["idle", "interval", "probes"] {
            if table.raw(key).is_none() {
                problems.error(table.span(), format!("`{key}` is missing here"), "");
            }
        }
        Self {
            idle: table.time_within("idle", SECOND, KEEPALIVE_MAX, problems),
            interval: table.time_within("interval", SECOND, KEEPALIVE_MAX, problems),
            probes: table.count_within("probes", 1, 127, problems),
        }
    }
}

impl LegRule {
    /// All of them.
    pub(super) fn read_all(table: &Section<'_>, problems: &mut Problems) -> Setting<Vec<Self>> {
        let sections = table.table_list("legs", &keys::LEGS, problems);
        let Setting::Given(sections) = sections else {
            return match sections {
                Setting::Wrong => Setting::Wrong,
                _ => Setting::Absent,
            };
        };
        let span = sections.span();
        let read = |table: Section<'_>| Self {
            span: table.span(),
            profile: required_text(&table, "profile", problems),
            side: table.word("side", problems),
            interface: table.text("interface", problems),
            subnet: table.text("subnet", problems),
            rtt_above: table.time_within("rtt_above", MS, RTT_MAX, problems),
            rtt_below: table.time_within("rtt_below", MS, RTT_MAX, problems),
        };
        let rules = sections.into_inner().into_iter().map(read).collect();
        Setting::Given(Spanned::new(span, rules))
    }
}
