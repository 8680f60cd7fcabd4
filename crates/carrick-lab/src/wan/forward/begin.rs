//! How the router begins: what it refuses to begin with, its devices, addresses and routes; and how it begins anew.

use std::fs;
use std::num::NonZeroU64;

use anyhow::{Context as _, Result, bail};

use super::{Forwarder, Served, Told, WAYS_MAX};
use crate::command;
use crate::program::note;
use crate::wan::ack_filter::AckFilter;
use crate::wan::cache::Cache;
use crate::wan::check;
use crate::wan::emulation::Emulation;
use crate::wan::neighbours::Neighbours;
use crate::wan::routes::{Device, Routes, read_devices};
use crate::wan::schedule::Schedule;
use crate::wan::spec::WanSpec;
use crate::wan::sys::PacketSocket;

impl Forwarder {
    pub(super) fn begin(spec: &WanSpec, names: &[String]) -> Result<Self> {
        let problems = check::problems(spec);
        if !problems.is_empty() {
            bail!("the specification is wrong:\n{}", problems.join("\n"));
        }
        if !rustix::process::geteuid().is_root() {
            bail!("the emulator needs root (packet sockets): run it with sudo");
        }
        command::require("ip")?;
        let all = devices()?;
        let served = choose(&all, names)?;
        for device in &served {
            refuse_forwarding(&device.name)?;
        }
        // Timers of 50 us and more of slack would be added to each delay. Without, that is all that happens.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let routes = routes(&all, &served)?;
        Ok(Self {
            names: served.iter().map(|device| device.name.clone()).collect(),
            devices: served.into_iter().map(open).collect::<Result<_>>()?,
            routes,
            ways: Cache::new(WAYS_MAX),
            neighbours: Neighbours::new(),
            emulation: Emulation::new(spec),
            filter: AckFilter::default(),
            schedule: Schedule::default(),
            held_bytes: 0,
            told: Told::default(),
        })
    }

    /// Follows another specification, with addresses and routes as they are now. The devices stay.
    pub(super) fn replace(&mut self, spec: &WanSpec) -> Result<()> {
        // What the kernel dropped until now is not the new specification's.
        self.counts()?;
        self.emulation = Emulation::new(spec);
        self.told = Told::default();
        let all = devices()?;
        match choose(&all, &self.names) {
            Ok(served) => {
                self.routes = routes(&all, &served)?;
                for (old, new) in self.devices.iter_mut().zip(served) {
                    old.device = new;
                }
                self.ways.clear();
            }
            Err(error) => warn(&format!(
                "keeps the addresses and routes that it has: {error:#}"
            )),
        }
        Ok(())
    }
}

/// Writes a warning.
pub(super) fn warn(text: &str) {
    note(format_args!("carrick-lab wan: {text}"));
}

fn devices() -> Result<Vec<Device>> {
    let json = command::run("ip", &["-j", "address", "show"])?;
    read_devices(&json).context("`ip -j address show` wrote something unexpected")
}

fn routes(all: &[Device], served: &[Device]) -> Result<Routes> {
    let ipv4 = command::run("ip", &["-j", "-4", "route", "show"])?;
    // Fails where the kernel has no IPv6.
    let ipv6 = command::run("ip", &["-j", "-6", "route", "show"]).unwrap_or_default();
    Routes::read(all, served, &ipv4, &ipv6).context("`ip -j route show` wrote something unexpected")
}

/// The devices that were named, or all that are usable.
fn choose(all: &[Device], names: &[String]) -> Result<Vec<Device>> {
    if names.is_empty() {
        let usable: Vec<Device> = all
            .iter()
            .filter(|device| device.mac.is_some() && device.is_up)
            .cloned()
            .collect();
        if usable.is_empty() {
            bail!(
                "no device in this network namespace is up and has an Ethernet address; it has: {}. Is this the router's namespace (`ip netns exec NAME carrick-lab wan …`)?",
                list(all)
            );
        }
        return Ok(usable);
    }
    let mut chosen: Vec<Device> = Vec::new();
    for name in names {
        let Some(device) = all.iter().find(|device| device.name == *name) else {
            bail!(
                "there is no device {name} in this network namespace; it has: {}",
                list(all)
            );
        };
        if device.mac.is_none() {
            bail!(
                "the device {name} has no Ethernet address: only Ethernet devices (veth) can be emulated between"
            );
        }
        if !device.is_up {
            bail!("the device {name} is down: ip link set {name} up");
        }
        if !chosen.contains(device) {
            chosen.push(device.clone());
        }
    }
    Ok(chosen)
}

fn list(devices: &[Device]) -> String {
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    names.join(", ")
}

/// The kernel must not forward what we forward: each packet would arrive twice, once without delay.
fn refuse_forwarding(device: &str) -> Result<()> {
    for (family, path) in [
        ("ipv4", "net/ipv4/ip_forward".to_owned()),
        ("ipv4", format!("net/ipv4/conf/{device}/forwarding")),
        ("ipv6", "net/ipv6/conf/all/forwarding".to_owned()),
        ("ipv6", format!("net/ipv6/conf/{device}/forwarding")),
    ] {
        let path = format!("/proc/sys/{path}");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            // Without IPv6 there is nothing to forward.
            Err(error) if family == "ipv6" && error.kind() == std::io::ErrorKind::NotFound => {
                continue;
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        };
        if text.trim() != "0" {
            bail!(
                "the kernel forwards packets in this network namespace ({path} is {}), so that each would arrive twice: turn it off with `echo 0 > {path}`",
                text.trim()
            );
        }
    }
    Ok(())
}

fn open(device: Device) -> Result<Served> {
    let mac = device
        .mac
        .with_context(|| format!("the device {} has no Ethernet address", device.name))?;
    let socket = PacketSocket::open(device.index).with_context(|| {
        format!(
            "cannot open a packet socket on the device {} (needs CAP_NET_RAW and Linux 4.20)",
            device.name
        )
    })?;
    Ok(Served {
        device,
        mac,
        socket,
        leaving: Vec::new(),
        last_sender: None,
    })
}
