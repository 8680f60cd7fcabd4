//! Whether this machine supports transparent listeners, for `carrick doctor`.
use super::tools::{IP, NFT, Tool};
use carrick_splice::probe::Feature;
use rustix::thread::{CapabilitySet, capabilities};

/// One rule of each kind that carrick makes. Only checked, never applied.
const TRIAL: &str = "table inet carrick-trial {
  set began {
    type ipv4_addr . inet_service . ipv4_addr . inet_service; size 16; flags dynamic,timeout; timeout 1s;
  }
  set left {
    type ipv4_addr . ipv4_addr; size 16; flags interval,timeout;
  }
  chain prerouting {
    type filter hook prerouting priority mangle; policy accept;
    socket mark 1 meta mark set 1 accept
    socket transparent 1 socket wildcard 1 meta mark set 1 accept
    fib daddr type local return
    ip saddr . ip daddr @left return
    update @began { ip saddr . tcp sport . ip daddr . tcp dport } tproxy ip to :1 meta mark set 1 accept
    meta nfproto ipv6 tcp dport 80 tproxy ip6 to :1 meta mark set 1 accept
  }
}
";

/// The tools, and the kernel's TPROXY.
#[must_use]
pub fn probe() -> Vec<Feature> {
    let tool = |name: &'static str, tool: Tool| Feature {
        name,
        usable: tool
            .version()
            .map(|version| format!("for transparent listeners: {version}"))
            .map_err(|error| error.to_string()),
    };
    vec![
        tool("nft", NFT),
        tool("ip", IP),
        Feature {
            name: "TPROXY",
            usable: tproxy(),
        },
    ]
}

fn tproxy() -> Result<String, String> {
    let has = capabilities(None).map_err(|error| error.to_string())?;
    if !has.effective.contains(CapabilitySet::NET_ADMIN) {
        return Err(
            "transparent listeners need CAP_NET_ADMIN (start as root, or grant it)".to_owned(),
        );
    }
    match NFT.run(&["-c", "-f", "-"], TRIAL) {
        Ok(_) => Ok("the kernel accepts the rules of transparent listeners".to_owned()),
        Err(error) => Err(format!(
            "the kernel rejects the rules (it needs the modules nft_tproxy, nft_socket and nft_fib_inet): {error}"
        )),
    }
}
