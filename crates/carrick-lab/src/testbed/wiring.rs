//! How a layout's machines are joined: links, addresses, routes and kernel parameters.

use anyhow::Result;

use crate::testbed::Testbed;
use crate::testbed::addresses::{PREFIX_BITS, gateway};
use crate::testbed::namespace::Namespace;
use crate::testbed::offload;
use crate::testbed::plan::{Layout, TcpOptions};

/// Everything that a connection may be opened from. One connection per request uses up the default range of ports within
/// a second.
const LOCAL_PORTS: &str = "10000 65000";

/// One end of a link.
struct End<'a> {
    namespace: &'a Namespace,
    device: &'static str,
    address: std::net::IpAddr,
    options: &'a TcpOptions,
}

/// Makes the namespaces' links and routes and sets their parameters, as the test bed's plan says.
pub(super) fn build(testbed: &Testbed) -> Result<()> {
    let plan = testbed.plan();
    let neutral = TcpOptions::default();
    for (namespace, options) in [
        (Some(&testbed.client), &plan.client),
        (Some(&testbed.proxy), &plan.proxy),
        (Some(&testbed.server), &plan.server),
        (testbed.router(), &neutral),
    ] {
        if let Some(namespace) = namespace {
            namespace.create()?;
            set_parameters(testbed, namespace, options)?;
        }
    }
    let addresses = testbed.addresses();
    let end = |namespace, device, address, options| End {
        namespace,
        device,
        address,
        options,
    };
    let client = end(&testbed.client, "c0", addresses.client, &plan.client);
    let server = end(&testbed.server, "s0", addresses.server, &plan.server);
    match (plan.layout, testbed.router()) {
        (Layout::Routed, Some(router)) => {
            let proxy = end(&testbed.proxy, "p0", addresses.proxy, &plan.proxy);
            for (machine, device, subnet) in
                [(client, "r0", 1), (server, "r1", 2), (proxy, "r2", 3)]
            {
                let at_router = end(router, device, gateway(subnet), &neutral);
                link(testbed, &machine, &at_router)?;
                default_route(testbed, &machine, gateway(subnet))?;
            }
            set_forwarding(router, true)
        }
        (Layout::Gateway, Some(router)) => {
            let to_client = end(&testbed.proxy, "p0", addresses.proxy, &plan.proxy);
            let to_server = end(&testbed.proxy, "p1", addresses.proxy_to_server, &plan.proxy);
            let near = end(router, "r0", gateway(1), &neutral);
            let far = end(router, "r2", gateway(3), &neutral);
            link(testbed, &client, &near)?;
            link(testbed, &to_client, &far)?;
            link(testbed, &server, &to_server)?;
            for (machine, next) in [
                (&client, near.address),
                (&to_client, far.address),
                (&far, to_client.address),
                (&server, to_server.address),
            ] {
                default_route(testbed, machine, next)?;
            }
            set_forwarding(router, true)?;
            set_forwarding(&testbed.proxy, true)
        }
        _ => {
            let to_client = end(&testbed.proxy, "p0", addresses.proxy, &plan.proxy);
            let to_server = end(&testbed.proxy, "p1", addresses.proxy_to_server, &plan.proxy);
            for (machine, at_proxy) in [(client, to_client), (server, to_server)] {
                link(testbed, &machine, &at_proxy)?;
                default_route(testbed, &machine, at_proxy.address)?;
            }
            set_forwarding(&testbed.proxy, true)
        }
    }
}

/// Whether the kernel forwards packets in this namespace.
pub(super) fn set_forwarding(namespace: &Namespace, on: bool) -> Result<()> {
    namespace.set_parameter("net/ipv4/ip_forward", if on { "1" } else { "0" })
}

/// The congestion control is not among them but on the routes: as a parameter of a namespace, the kernel takes only what
/// the host allows to everybody (`tcp_set_default_congestion_control`).
fn set_parameters(testbed: &Testbed, namespace: &Namespace, options: &TcpOptions) -> Result<()> {
    let plan = testbed.plan();
    let mut parameters = options.parameters();
    let forget = if plan.remember_metrics { "0" } else { "1" };
    parameters.extend([
        ("net/ipv4/tcp_no_metrics_save", String::from(forget)),
        ("net/ipv4/ip_local_port_range", String::from(LOCAL_PORTS)),
        // A client that closes first would run out of ports within a minute. Needs timestamps (RFC 6191).
        ("net/ipv4/tcp_tw_reuse", String::from("1")),
    ]);
    for (path, value) in parameters {
        namespace.set_parameter(path, &value)?;
    }
    // Nothing here has an IPv6 address, and neighbour discovery would only be noise on emulated links.
    namespace.set_parameter_if_there("net/ipv6/conf/default/disable_ipv6", "1")
}

/// Joins two namespaces by a veth pair; the connected routes name the congestion control and the initial windows.
fn link(testbed: &Testbed, left: &End<'_>, right: &End<'_>) -> Result<()> {
    let plan = testbed.plan();
    (left.namespace).join(left.device, right.namespace, right.device)?;
    for end in [left, right] {
        let (device, address) = (end.device, end.address);
        let subnet = subnet_of(address);
        let metrics = end
            .options
            .route_metrics(&plan.congestion, testbed.has_own_congestion());
        end.namespace.ip(&[
            format!("address add {address}/{PREFIX_BITS} dev {device}"),
            format!("link set {device} mtu {} up", plan.mtu),
            format!(
                "route replace {subnet} dev {device} proto kernel scope link src {address} {metrics}"
            ),
        ])?;
        if !plan.offloads {
            offload::switch_off(end.namespace, device)?;
        }
    }
    Ok(())
}

fn default_route(testbed: &Testbed, end: &End<'_>, gateway: std::net::IpAddr) -> Result<()> {
    let metrics = end
        .options
        .route_metrics(&testbed.plan().congestion, testbed.has_own_congestion());
    end.namespace
        .ip(&[format!("route replace default via {gateway} {metrics}")])
}

fn subnet_of(address: std::net::IpAddr) -> String {
    match address {
        std::net::IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/{PREFIX_BITS}")
        }
        std::net::IpAddr::V6(address) => format!("{address}/{PREFIX_BITS}"),
    }
}
