//! The rules of an interception, as `nft -f` and `ip -batch` read them. Text only: nothing is run here.
//!
//! What is intercepted gets a mark, and a routing rule sends what has that mark to this machine, whatever its destination
//! (the kernel's Documentation/networking/tproxy.rst). Packets keep their addresses on the whole way.
use crate::config::plan::Interception;
use ipnet::IpNet;
use std::fmt::Write;
use std::net::SocketAddr;

/// Tables of carrick's own begin so; the listener's port follows.
pub const TABLE_PREFIX: &str = "carrick-";

/// What tells a table that carrick has made from others whose names look so.
pub const COMMENT: &str = "made by carrick for a transparent listener";

/// Who has made a routing rule or a route, as the kernel notes it (rtnetlink(7), `rtm_protocol`): a number that no routing
/// daemon has.
pub const PROTOCOL: u8 = carrick_splice::probe::OWN_PROTOCOL;

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The option of `ip`.
    pub fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }

    /// Whether an interception has rules for it.
    pub fn is_in(self, interception: &Interception) -> bool {
        match self {
            Self::V4 => interception.takes_v4(),
            Self::V6 => interception.takes_v6(),
        }
    }

    fn holds(self, network: &IpNet) -> bool {
        matches!(
            (self, network),
            (Self::V4, IpNet::V4(_)) | (Self::V6, IpNet::V6(_))
        )
    }

    /// As nft calls it, for the whole packet and for its addresses.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::V4 => ("ipv4", "ip"),
            Self::V6 => ("ipv6", "ip6"),
        }
    }
}

/// The name of the nft table for a listener's port.
pub fn table_name(port: u16) -> String {
    format!("{TABLE_PREFIX}{port}")
}

/// Makes the nft table, in one transaction.
pub fn nft_install(interception: &Interception) -> String {
    let name = table_name(interception.listener.port());
    let mut text = format!(
        "table inet {name} {{\n  comment \"{COMMENT}\"\n  chain prerouting {{\n    type filter hook prerouting priority mangle; policy accept;\n"
    );
    let mark = interception.mark;
    if interception.keeps_client {
        // Answers of servers to a client's address, which belong to a connection of this machine.
        let _ = writeln!(
            text,
            "    meta l4proto tcp socket transparent 1 socket wildcard 0 meta mark set {mark} accept"
        );
    }
    // What this machine itself sends, and what is for it, is left alone.
    text += "    iifname \"lo\" return\n    fib daddr type local return\n";
    for family in Family::ALL {
        if family.is_in(interception) {
            intercept(&mut text, interception, family);
        }
    }
    text += "  }\n}\n";
    text
}

fn intercept(text: &mut String, interception: &Interception, family: Family) {
    let (whole, addresses) = family.words();
    let of_family = |networks: &[IpNet]| -> Vec<String> {
        let networks = networks.iter().filter(|network| family.holds(network));
        networks.map(ToString::to_string).collect()
    };
    let except = of_family(&interception.except);
    for side in ["saddr", "daddr"].iter().filter(|_| !except.is_empty()) {
        let _ = writeln!(
            text,
            "    {addresses} {side} {{ {} }} return",
            except.join(", ")
        );
    }
    let mut rule = format!("    meta nfproto {whole}");
    if !interception.interfaces.is_empty() {
        let names = interception.interfaces.iter();
        let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
        let _ = write!(rule, " iifname {{ {} }}", names.join(", "));
    }
    for (networks, side) in [(&interception.from, "saddr"), (&interception.to, "daddr")] {
        if networks.is_empty() {
            continue;
        }
        let networks = of_family(networks);
        if networks.is_empty() {
            // Only addresses of the other family are meant.
            return;
        }
        let _ = write!(rule, " {addresses} {side} {{ {} }}", networks.join(", "));
    }
    let ports: Vec<String> = interception.ports.iter().map(ToString::to_string).collect();
    let _ = writeln!(
        text,
        "{rule} tcp dport {{ {} }} tproxy {addresses} to {} meta mark set {} accept",
        ports.join(", "),
        target(interception.listener),
        interception.mark
    );
}

/// The listener, for `tproxy`; only its port if it is everywhere.
fn target(listener: SocketAddr) -> String {
    if listener.ip().is_unspecified() {
        format!(":{}", listener.port())
    } else {
        listener.to_string()
    }
}

/// Removes an nft table, whether it is there or not.
pub fn nft_remove(name: &str) -> String {
    format!("add table inet {name}\ndelete table inet {name}\n")
}

/// Rules of `ip rule` for one family of an interception.
pub const RULES: u32 = 3;

/// Makes the route and the rules of one family, the last of them just before the rule with priority `before`.
///
/// What comes in with the mark is looked up in the table. What this machine sends (`iif lo`) skips that: answers can have the mark
/// of what they answer (`net.ipv4.tcp_fwmark_accept`), and so has the question whether a packet came in where its answer would go
/// out (`net.ipv4.conf.all.src_valid_mark`, in the kernel's `__fib_validate_source`).
pub fn ip_install(interception: &Interception, before: u32) -> String {
    let Interception { mark, table, .. } = interception;
    let (first, second, last) = (before - 3, before - 2, before - 1);
    format!(
        "route add local default dev lo table {table} protocol {PROTOCOL}\n\
         rule add priority {last} fwmark {mark} nop protocol {PROTOCOL}\n\
         rule add priority {second} fwmark {mark} lookup {table} protocol {PROTOCOL}\n\
         rule add priority {first} fwmark {mark} iif lo goto {last} protocol {PROTOCOL}\n"
    )
}

#[cfg(test)]
mod tests;
