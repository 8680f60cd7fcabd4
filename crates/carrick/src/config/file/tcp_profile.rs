//! `[tcp_profile.NAME]` and `tcp_profiles`
use crate::config::keys::NONE;
use crate::config::kinds::{
    MS, number_or, one_of_or, rate, required_number, required_seconds, required_text, seconds,
    size_or, switch, table_or, text_or, time_or,
};
use crate::config::section::{Written, section};
use crate::config::setting::Setting;
use crate::config::word::words;
use carrick_splice::tcp_tuning::{
    BUFFER_BYTES_MAX, INITIAL_WINDOW_MAX, KERNEL_TIMER, KERNEL_TIMER_MIN, ProfileSide, RTO_MAX,
    RTO_MAX_MIN,
};
use std::ops::RangeInclusive;
use std::time::Duration;

const UNTOUCHED: &str = "the system's";
const COMPUTED: &str = "bandwidth × round trip, if they are given; else the system's";
/// The longest round trip that buffers are computed for, and that is asked for, is ten seconds.
const ROUND_TRIPS: RangeInclusive<Duration> = MS..=seconds(10);
/// `TCP_USER_TIMEOUT` is milliseconds in an `int`.
const USER_TIMEOUT_MAX: Duration = seconds(24 * 24 * 3600);
/// tcp(7), `TCP_KEEPIDLE`: 32767 seconds, a little more than nine hours.
const KEEPALIVE: RangeInclusive<Duration> = seconds(1)..=seconds(9 * 3600);
/// As `SO_MAX_PACING_RATE` counts.
const RATES: RangeInclusive<u64> = 1_000..=100_000_000_000;
const BUFFERS: RangeInclusive<u64> = 1..=BUFFER_BYTES_MAX as u64;

section! {
    /// `[tcp_profile.NAME]`
    #[derive(Debug)]
    pub struct TcpProfile = "[tcp_profile.NAME]" {
        /// How much is sent before the first acknowledgement arrives; the other end's first receive window, mostly 64
        /// KB, is a limit as well. The send buffer has room for it, up to `net.core.wmem_max` unless `send_buffer`,
        /// or `bandwidth` and `round_trip`, require more. Requires CAP_BPF at the start
        initial_window: Setting<u32> = size_or(1..=INITIAL_WINDOW_MAX as u64, UNTOUCHED),
        /// The congestion control, one of `net.ipv4.tcp_available_congestion_control`
        congestion: Setting<String> = text_or("a name", UNTOUCHED),
        /// The highest sending rate, headers included; packets are spread evenly
        pacing_rate: Setting<u64> = rate(RATES),
        /// The link's capacity, from which `send_buffer` and `receive_buffer` are computed; requires `round_trip`
        bandwidth: Setting<u64> = rate(RATES),
        /// The link's round-trip time; requires `bandwidth`
        round_trip: Setting<Duration> = time_or(ROUND_TRIPS, NONE),
        /// The buffer for data that is not acknowledged yet; without CAP_NET_ADMIN at most `net.core.wmem_max`
        send_buffer: Setting<u32> = size_or(BUFFERS, COMPUTED),
        /// The buffer for data that is received and not sent on yet; without CAP_NET_ADMIN at most
        /// `net.core.rmem_max`
        receive_buffer: Setting<u32> = size_or(BUFFERS, COMPUTED),
        /// The largest receive window
        window_clamp: Setting<u32> = size_or(BUFFERS, NONE),
        /// The receive window of the handshake
        initial_receive_window: Setting<u32> = number_or("number of segments", 1..=1024, UNTOUCHED),
        /// The connection ends if data is not acknowledged for this long
        user_timeout: Setting<Duration> = time_or(MS..=USER_TIMEOUT_MAX, UNTOUCHED),
        /// Probes on idle connections check that the other end is still there
        keepalive: Setting<Written<Keepalive>> = table_or(NONE),
        /// The shortest wait before unacknowledged data is sent again, in addition to the round-trip time
        rto_min: Setting<Duration> = time_or(KERNEL_TIMER_MIN..=KERNEL_TIMER, UNTOUCHED),
        /// The same for SYN and SYN-ACK, for which no round trip is known
        rto_initial: Setting<Duration> = time_or(MS..=RTO_MAX, UNTOUCHED),
        /// The longest such wait; Linux 6.15 and later
        rto_max: Setting<Duration> = time_or(RTO_MAX_MIN..=RTO_MAX, UNTOUCHED),
        /// The longest delay of an acknowledgement
        delayed_ack_max: Setting<Duration> = time_or(KERNEL_TIMER_MIN..=KERNEL_TIMER, UNTOUCHED),
        /// The first data is acknowledged at once
        quick_ack: bool = switch(false),
        /// About how much unsent data the kernel holds at most (`TCP_NOTSENT_LOWAT`)
        unsent_low_water: Setting<u32> = size_or(BUFFERS, UNTOUCHED),
        /// The longest segment in both directions, counted like TCP's MSS option
        segment_max: Setting<u32> = number_or("number of bytes", 88..=32_767, "what the interface carries"),
    }
}

section! {
    /// `keepalive = { … }`
    #[derive(Debug)]
    pub struct Keepalive = "keepalive = { }" {
        /// Silence before the first probe, in whole seconds
        idle: Setting<Duration> = required_seconds(KEEPALIVE),
        /// Time between two probes, in whole seconds
        interval: Setting<Duration> = required_seconds(KEEPALIVE),
        /// Unanswered probes in a row that end the connection
        probes: Setting<u8> = required_number(1..=127),
    }
}

section! {
    /// One of `tcp_profiles`.
    #[derive(Debug)]
    pub struct TcpProfileRule = "tcp_profiles = [{ }]" {
        /// The `[tcp_profile.NAME]`
        profile: Setting<String> = required_text("a name"),
        /// `client`: connections of clients; `server`: those to servers
        side: Setting<ProfileSide> = one_of_or("either side"),
        /// Where packets to the other end leave
        interface: Setting<String> = text_or("a name", "any"),
        /// Where the other end is
        subnet: Setting<String> = text_or("a network or an address", "any"),
        /// The handshake took at least this long, as this machine saw it
        rtt_above: Setting<Duration> = time_or(ROUND_TRIPS, "any"),
        /// It took less
        rtt_below: Setting<Duration> = time_or(ROUND_TRIPS, "any"),
    }
}

words!(ProfileSide { "client" => Client, "server" => Server });
