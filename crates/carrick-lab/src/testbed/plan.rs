//! What a test bed is asked to be, as experiments and `carrick-lab testbed --plan` have it in TOML.

use std::fs;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::testbed::congestion;
use crate::testbed::slowdown::SHARE_MIN;

/// The congestion controls that the kernel has at the moment.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// Least and most bytes of an IP packet: RFC 791 section 3.2 and what a veth device takes.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 576..=65_535;
/// Most segments of an initial window.
const INITIAL_WINDOW_MAX: u32 = 65_535;

/// A whole test bed. What is left out is as the kernel has it, except for the congestion control: cubic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TestbedPlan {
    /// Which machines there are, and how they are joined.
    pub layout: Layout,
    /// Congestion control of all connections.
    pub congestion: String,
    /// Most bytes of an IP packet, on every link.
    pub mtu: u32,
    /// Segmentation offloads: with them, up to 64 KB cross a link as one packet. Off where packets are to be delayed,
    /// counted or lost one by one. Checksums are left to the devices in any case.
    pub offloads: bool,
    /// Whether the kernel keeps what a connection has learned about its path for the next one (`tcp_no_metrics_save`).
    /// Without, samples do not depend on each other.
    pub remember_metrics: bool,
    /// What the proxy has of its core, from [`SHARE_MIN`] to 1 (the whole); the rest is taken away in turns of a millisecond
    /// ([`Slowdown`](crate::testbed::slowdown::Slowdown)).
    pub proxy_core_share: f64,
    /// TCP of the client's side.
    pub client: TcpOptions,
    /// TCP of the proxy's side, for its connections to clients and servers.
    pub proxy: TcpOptions,
    /// TCP of the server's side.
    pub server: TcpOptions,
}

/// Which machines there are, and how they are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Client - proxy - server: raw speed. Without a proxy, packets are routed through the proxy's namespace.
    #[default]
    Direct,
    /// Client, proxy and server each on a subnet of their own, joined by a router (Rosu 2002, Figure 3).
    Routed,
    /// Client - router - proxy - server: all packets between client and server pass the proxy, with a long link before it.
    Gateway,
}

/// TCP of one side; what is left out is as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpOptions {
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Window scaling (RFC 7323): without, no window exceeds 64 KB.
    pub window_scaling: bool,
    /// Receive buffer in bytes: least, initial, most (`tcp_rmem`).
    pub receive_buffer: Option<[u64; 3]>,
    /// Send buffer in bytes: least, initial, most (`tcp_wmem`).
    pub send_buffer: Option<[u64; 3]>,
    /// Congestion control of what this side sends, if it is another than the test bed's.
    pub congestion: Option<String>,
    /// Initial congestion window, in segments.
    pub initial_congestion_window: Option<u32>,
    /// Initial receive window that is offered, in segments.
    pub initial_receive_window: Option<u32>,
}

impl Default for TestbedPlan {
    fn default() -> Self {
        Self {
            layout: Layout::Direct,
            congestion: String::from("cubic"),
            mtu: 1500,
            offloads: true,
            remember_metrics: false,
            proxy_core_share: 1.0,
            client: TcpOptions::default(),
            proxy: TcpOptions::default(),
            server: TcpOptions::default(),
        }
    }
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            sack: true,
            timestamps: true,
            window_scaling: true,
            receive_buffer: None,
            send_buffer: None,
            congestion: None,
            initial_congestion_window: None,
            initial_receive_window: None,
        }
    }
}

impl TestbedPlan {
    /// Reads TOML.
    ///
    /// # Errors
    /// With the place of what is not understood.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// Checks the plan as far as that is possible without building it.
    ///
    /// # Errors
    /// With the key, its value, and what would be right.
    pub fn check(&self) -> Result<()> {
        let available =
            fs::read_to_string(AVAILABLE).with_context(|| format!("cannot read {AVAILABLE}"))?;
        self.check_against(&available)
    }

    fn check_against(&self, available: &str) -> Result<()> {
        let offered: Vec<&str> = available.split_whitespace().collect();
        check_congestion("congestion", &self.congestion, &offered)?;
        if !MTU_RANGE.contains(&self.mtu) {
            bail!(
                "mtu: {} is not within {} to {}",
                self.mtu,
                MTU_RANGE.start(),
                MTU_RANGE.end()
            );
        }
        if !(SHARE_MIN..=1.0).contains(&self.proxy_core_share) {
            bail!(
                "proxy_core_share: {} is not within {SHARE_MIN:.1} to 1",
                self.proxy_core_share
            );
        }
        for (side, options) in [
            ("client", &self.client),
            ("proxy", &self.proxy),
            ("server", &self.server),
        ] {
            options.check(side)?;
            if let Some(name) = &options.congestion {
                check_congestion(&format!("{side}.congestion"), name, &offered)?;
            }
        }
        Ok(())
    }

    /// Whether a side has a congestion control that the laboratory brings.
    #[must_use]
    pub fn needs_own_congestion(&self) -> bool {
        let sides = [&self.client, &self.proxy, &self.server];
        let named = sides.iter().filter_map(|side| side.congestion.as_deref());
        std::iter::once(self.congestion.as_str())
            .chain(named)
            .any(congestion::is_own)
    }
}

fn check_congestion(key: &str, name: &str, offered: &[&str]) -> Result<()> {
    if offered.contains(&name) || congestion::is_own(name) {
        return Ok(());
    }
    bail!(
        "{key}: this kernel does not offer `{name}`, only {} (another may be a module: modprobe tcp_NAME), and the laboratory brings {}",
        offered.join(", "),
        congestion::NAMES.join(" and ")
    )
}

impl TcpOptions {
    fn check(&self, side: &str) -> Result<()> {
        for (key, sizes) in [
            ("receive_buffer", self.receive_buffer),
            ("send_buffer", self.send_buffer),
        ] {
            if let Some([least, initial, most]) = sizes
                && !(0 < least && least <= initial && initial <= most && most <= i32::MAX as u64)
            {
                bail!(
                    "{side}.{key}: [{least}, {initial}, {most}] is not [least, initial, most] in rising order, from 1 to {}",
                    i32::MAX
                );
            }
        }
        for (key, segments) in [
            ("initial_congestion_window", self.initial_congestion_window),
            ("initial_receive_window", self.initial_receive_window),
        ] {
            if let Some(segments) = segments
                && !(1..=INITIAL_WINDOW_MAX).contains(&segments)
            {
                bail!("{side}.{key}: {segments} is not within 1 to {INITIAL_WINDOW_MAX} segments");
            }
        }
        Ok(())
    }

    /// Kernel parameters below `/proc/sys`, with their values.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        let switch = |on: bool| String::from(if on { "1" } else { "0" });
        let mut parameters = vec![
            ("net/ipv4/tcp_sack", switch(self.sack)),
            ("net/ipv4/tcp_timestamps", switch(self.timestamps)),
            ("net/ipv4/tcp_window_scaling", switch(self.window_scaling)),
        ];
        for (path, sizes) in [
            ("net/ipv4/tcp_rmem", self.receive_buffer),
            ("net/ipv4/tcp_wmem", self.send_buffer),
        ] {
            if let Some([least, initial, most]) = sizes {
                parameters.push((path, format!("{least} {initial} {most}")));
            }
        }
        parameters
    }

    /// What belongs behind each of the side's routes, for `ip route`. `congestion` is the test bed's; `has_own`: the kernel
    /// has those of the laboratory.
    pub(crate) fn route_metrics(&self, congestion: &str, has_own: bool) -> String {
        let wanted = self.congestion.as_deref().unwrap_or(congestion);
        let name = if congestion::is_own(wanted) && !has_own {
            congestion::FALLBACK.to_owned()
        } else {
            congestion::kernel_name(wanted)
        };
        let mut metrics = format!("congctl {name}");
        for (name, segments) in [
            ("initcwnd", self.initial_congestion_window),
            ("initrwnd", self.initial_receive_window),
        ] {
            if let Some(segments) = segments {
                metrics.push_str(&format!(" {name} {segments}"));
            }
        }
        metrics
    }
}

#[cfg(test)]
mod tests;
