//! The test bed: three network namespaces, client - proxy - server, on veth pairs, with a directory in memory for their files.

pub mod busy;
pub mod command;
pub mod cores;
pub mod name;
pub mod namespace;
pub mod service;
pub mod usage;

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::testbed::command::run;
use crate::testbed::cores::{Placement, rps_mask};
use crate::testbed::name::RunName;
use crate::testbed::namespace::{Namespace, remove_files, sweep_stale};

/// The proxy's address on the client's side.
pub const PROXY: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
/// The origin's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 2);
/// The whole of the client's subnet, for access lists.
pub const CLIENT_SUBNET: &str = "10.77.1.0/24";
/// The port of the HTTP origin.
pub const ORIGIN_HTTP: SocketAddrV4 = SocketAddrV4::new(SERVER, 8000);
/// The port of the echo origin.
pub const ORIGIN_ECHO: SocketAddrV4 = SocketAddrV4::new(SERVER, 7000);

/// Three namespaces and a directory, removed on drop together with every process inside.
#[derive(Debug)]
pub struct Testbed {
    /// Where the load comes from.
    pub client: Namespace,
    /// Where the proxy runs, or where the packets are routed through.
    pub proxy: Namespace,
    /// Where the origins run.
    pub server: Namespace,
    name: RunName,
    directory: PathBuf,
    placement: Placement,
}

impl Testbed {
    /// Removes what killed runs left behind, then builds a new test bed with cubic on every route.
    ///
    /// # Errors
    /// When not root, or when a tool or the kernel refuses; whatever was made until then is removed again.
    pub fn create() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("the test bed needs root (network namespaces): run it with sudo");
        }
        for tool in ["ip", "ss", "taskset", "sh"] {
            command::require(tool)?;
        }
        sweep_stale()?;

        let name = RunName::of_this_process()?;
        let testbed = Self {
            client: Namespace::named(&name, "client"),
            proxy: Namespace::named(&name, "proxy"),
            server: Namespace::named(&name, "server"),
            directory: name.directory(),
            name,
            placement: Placement::Shared,
        };
        testbed.build()?;
        Ok(testbed)
    }

    /// A directory in memory for configurations, logs and the origin's files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A name of letters and digits, for programs that share something with their likes on the whole machine.
    #[must_use]
    pub fn service_name(&self) -> String {
        self.name.to_string()
    }

    /// Where work is placed at the moment.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Places packet work, this process and everything that already runs in the server's namespace.
    /// Proxy and load take their place when they are started.
    ///
    /// # Errors
    /// When a mask cannot be written.
    pub fn place(&mut self, placement: Placement) -> Result<()> {
        let masks = match placement {
            Placement::Shared => [String::from("0"), String::from("0")],
            Placement::Separate(pair) => [rps_mask(pair.proxy), rps_mask(pair.other)],
        };
        let [proxy_mask, other_mask] = masks;
        for (namespace, mask) in [
            (&self.proxy, &proxy_mask),
            (&self.client, &other_mask),
            (&self.server, &other_mask),
        ] {
            let script = format!(
                "for queue in /sys/class/net/*/queues/rx-*/rps_cpus; do echo {mask} > $queue || exit 1; done"
            );
            namespace.run("sh", &["-c", &script])?;
        }
        cores::pin_process(std::process::id(), &placement.other_cores())?;
        for pid in self.server.processes()? {
            cores::pin_process(pid, &placement.other_cores())?;
        }
        self.placement = placement;
        Ok(())
    }

    fn build(&self) -> Result<()> {
        fs::create_dir(&self.directory).with_context(|| {
            format!(
                "cannot create the run's directory {}",
                self.directory.display()
            )
        })?;
        for namespace in [&self.client, &self.proxy, &self.server] {
            namespace.create()?;
        }
        link(
            &self.client,
            "c0",
            "10.77.1.2",
            &self.proxy,
            "p0",
            "10.77.1.1",
            "10.77.1.0/24",
        )?;
        link(
            &self.server,
            "s0",
            "10.77.2.2",
            &self.proxy,
            "p1",
            "10.77.2.1",
            "10.77.2.0/24",
        )?;
        for (namespace, gateway) in [(&self.client, "10.77.1.1"), (&self.server, "10.77.2.1")] {
            namespace.run(
                "ip",
                &[
                    "route", "replace", "default", "via", gateway, "congctl", "cubic",
                ],
            )?;
        }
        self.proxy.set_sysctl("net/ipv4/ip_forward", "1")?;
        // One connection per request uses up the default range of ports within a second.
        for namespace in [&self.client, &self.proxy] {
            namespace.set_sysctl("net/ipv4/ip_local_port_range", "10000 65000")?;
        }
        Ok(())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for namespace in [&self.client, &self.proxy, &self.server] {
            namespace.remove();
        }
        // Nothing more can be done about a failure here; the next run's sweep tries again.
        let _ = remove_files(|run| *run == self.name);
        let _ = cores::pin_process(std::process::id(), &cores::online());
    }
}

/// Joins two namespaces by a veth pair; the connected routes are replaced so that they name cubic.
fn link(
    left: &Namespace,
    left_device: &str,
    left_address: &str,
    right: &Namespace,
    right_device: &str,
    right_address: &str,
    subnet: &str,
) -> Result<()> {
    let (left_name, right_name) = (left.name(), right.name());
    run(
        "ip",
        &[
            "link",
            "add",
            left_device,
            "netns",
            left_name,
            "type",
            "veth",
            "peer",
            "name",
            right_device,
            "netns",
            right_name,
        ],
    )?;
    for (namespace, device, address) in [
        (left, left_device, left_address),
        (right, right_device, right_address),
    ] {
        namespace.run(
            "ip",
            &["address", "add", &format!("{address}/24"), "dev", device],
        )?;
        namespace.run("ip", &["link", "set", device, "up"])?;
        namespace.run(
            "ip",
            &[
                "route", "replace", subnet, "dev", device, "proto", "kernel", "scope", "link",
                "src", address, "congctl", "cubic",
            ],
        )?;
    }
    Ok(())
}
