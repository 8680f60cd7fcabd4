//! The rules of an interception, as `nft -f` and `ip -batch` read them. Text only: nothing is run here.
//!
//! What is intercepted gets a mark, and a routing rule sends what has that mark to this machine, whatever its destination
//! (the kernel's Documentation/networking/tproxy.rst). Packets keep their addresses on the whole way.
mod local;

use super::left_out::{Pair, Wish};
use crate::config::plan::{Interception, LocalInterception, PortRange};
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

    /// Those of some networks that are of it.
    fn of(self, networks: &[IpNet]) -> Vec<String> {
        let networks = networks.iter().filter(|network| self.holds(network));
        networks.map(ToString::to_string).collect()
    }

    fn holds(self, network: &IpNet) -> bool {
        matches!(
            (self, network),
            (Self::V4, IpNet::V4(_)) | (Self::V6, IpNet::V6(_))
        )
    }

    /// The name of a set or chain for it.
    fn set(self, name: &str) -> String {
        match self {
            Self::V4 => format!("{name}-v4"),
            Self::V6 => format!("{name}-v6"),
        }
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

/// Connections that began a short while ago, of each family: enough for some thousands in a second.
const BEGAN_MAX: u32 = 131_072;

/// For how long: until the client has answered the handshake, its first repetitions included.
const BEGAN_SECONDS: u32 = 30;

/// Pairs of networks that are left out at one time, of each family.
pub const LEFT_OUT_MAX: u32 = 4_096;

/// A SYN that begins a connection.
const SYN: &str = "tcp flags & (fin | syn | rst | ack) == syn";

/// Who can have a socket here: TCP, and what routers tell about its packets (a smaller MTU, say).
const TCP_AND_ERRORS: &str = "meta l4proto { tcp, icmp, ipv6-icmp }";

/// The latter alone.
const ERRORS: &str = "meta l4proto { icmp, ipv6-icmp }";

/// Makes the nft table, in one transaction.
///
/// Only a SYN is led to the listener by its addresses; what follows, because there is a socket for it. So connections that carrick
/// never had are not touched. One packet has no socket: the answer to a SYN cookie. Therefore it is remembered who sent a SYN; while
/// nobody can be remembered any more, connections are not intercepted.
///
/// `own_marks` are those of all listeners of this carrick: what has one of them, and is sent by this machine, is carrick's.
pub fn nft_install(interception: &Interception, own_marks: &[u32]) -> String {
    let name = table_name(interception.listener.port());
    let mark = interception.mark;
    if interception.ports.is_empty() {
        return answers_only(&name, mark);
    }
    let families = || {
        Family::ALL
            .into_iter()
            .filter(|one| one.is_in(interception))
    };
    let mut text = format!("table inet {name} {{\n  comment \"{COMMENT}\"\n");
    for family in families() {
        sets(&mut text, family);
    }
    // A listener has a socket, too, but what is for its port need not be for itself. Each `socket` is a look into the kernel's tables, and each packet
    // of a connection comes by: what is asked of all is asked once.
    let _ = write!(
        text,
        "  chain prerouting {{
    type filter hook prerouting priority mangle; policy accept;
    iif \"lo\" goto local
    {SYN} goto begin
    meta l4proto tcp socket transparent 1 goto own
    {ERRORS} socket transparent 1 goto own
    goto answered
  }}
  chain own {{
    socket wildcard 0 meta mark set {mark} accept
    goto answered
  }}
  chain begin {{
    fib daddr type local return
"
    );
    for family in families() {
        chosen(&mut text, interception, family);
    }
    text += "  }\n";
    for family in families() {
        taken(&mut text, interception, family);
    }
    text += "  chain answered {\n";
    for family in families() {
        let (_, ends, lead) = parts(interception, family);
        let set = family.set("began");
        let _ = writeln!(text, "    {ends} @{set} {lead}");
    }
    text += "  }\n  chain local {\n";
    if let Some(local) = &interception.local {
        for family in families() {
            let lead = lead(interception, family, None);
            let _ = writeln!(text, "    meta mark {} {lead}", local.mark);
        }
        text += "  }\n";
        local::of_programs(&mut text, interception, local, own_marks);
    } else {
        text += "  }\n";
    }
    text += "}\n";
    text
}

/// Leads nothing to a listener, but the answers to connections of carrick's that have other machines' addresses to those.
fn answers_only(name: &str, mark: u32) -> String {
    format!(
        "table inet {name} {{
  comment \"{COMMENT}\"
  chain prerouting {{
    type filter hook prerouting priority mangle; policy accept;
    iif \"lo\" accept
    {TCP_AND_ERRORS} socket transparent 1 socket wildcard 0 meta mark set {mark} accept
  }}
}}
"
    )
}

/// What is remembered for a family.
fn sets(text: &mut String, family: Family) {
    let address = match family {
        Family::V4 => "ipv4_addr",
        Family::V6 => "ipv6_addr",
    };
    let (began, left) = (family.set("began"), family.set("left"));
    let _ = write!(
        text,
        "  set {began} {{
    type {address} . inet_service . {address} . inet_service; size {BEGAN_MAX}; flags dynamic,timeout; timeout {BEGAN_SECONDS}s;
  }}
  set {left} {{
    type {address} . {address}; size {LEFT_OUT_MAX}; flags interval,timeout;
  }}
"
    );
}

/// Both addresses, both ends, and the words that lead to the listener.
fn parts(interception: &Interception, family: Family) -> (String, String, String) {
    let (_, ip) = family.words();
    let pair = format!("{ip} saddr . {ip} daddr");
    let ends = format!("{ip} saddr . tcp sport . {ip} daddr . tcp dport");
    (
        pair,
        ends,
        lead(interception, family, Some(interception.mark)),
    )
}

/// The words that lead to the listener, with a mark if there is none yet.
fn lead(interception: &Interception, family: Family, mark: Option<u32>) -> String {
    let (whole, ip) = family.words();
    let to = target(interception.listener);
    let mark = mark.map_or(String::new(), |mark| format!("meta mark set {mark} "));
    format!("meta nfproto {whole} meta l4proto tcp tproxy {ip} to {to} {mark}accept")
}

/// Which connections are meant.
fn chosen(text: &mut String, interception: &Interception, family: Family) {
    let (whole, addresses) = family.words();
    left_alone(text, interception, family);
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
        let networks = family.of(networks);
        if networks.is_empty() {
            // Only addresses of the other family are meant.
            return;
        }
        let _ = write!(rule, " {addresses} {side} {{ {} }}", networks.join(", "));
    }
    let ports = ports(interception);
    let _ = writeln!(text, "{rule} {ports} goto {}", family.set("take"));
}

/// Addresses that are none of carrick's business.
fn left_alone(text: &mut String, interception: &Interception, family: Family) {
    let (_, addresses) = family.words();
    let except = family.of(&interception.except).join(", ");
    for side in ["saddr", "daddr"].iter().filter(|_| !except.is_empty()) {
        let _ = writeln!(text, "    {addresses} {side} {{ {except} }} return");
    }
}

fn ports(interception: &Interception) -> String {
    let list = |ports: &[PortRange]| -> String {
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        ports.join(", ")
    };
    let ports = format!("tcp dport {{ {} }}", list(&interception.ports));
    match interception.except_ports.as_slice() {
        [] => ports,
        except => format!("{ports} tcp dport != {{ {} }}", list(except)),
    }
}

/// What is done with those that are meant. Where a connection of carrick's has the same ends, even one that has ended a moment ago, only
/// carrick can answer.
fn taken(text: &mut String, interception: &Interception, family: Family) {
    let (pair, ends, lead) = parts(interception, family);
    let (take, new) = (family.set("take"), family.set("new"));
    let (began, left) = (family.set("began"), family.set("left"));
    let _ = write!(
        text,
        "  chain {take} {{
    socket wildcard 1 goto {new}
    socket transparent 1 {lead}
    goto {new}
  }}
  chain {new} {{
    {pair} @{left} return
    update @{began} {{ {ends} }} {lead}
  }}
"
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

/// Asks for what a wish says. A pair that is there already is removed first: its time would stay as it was.
pub fn nft_leave_out(wish: &Wish) -> String {
    let Pair { client, server } = wish.pair;
    let family = match client {
        IpNet::V4(_) => Family::V4,
        IpNet::V6(_) => Family::V6,
    };
    let set = format!("inet {} {}", table_name(wish.port), family.set("left"));
    let pair = format!("{client} . {server}");
    let mut text = format!("add element {set} {{ {pair} }}\ndelete element {set} {{ {pair} }}\n");
    if wish.seconds > 0 {
        let _ = writeln!(
            text,
            "add element {set} {{ {pair} timeout {}s }}",
            wish.seconds
        );
    }
    text
}

/// Rules of `ip rule` for one family of an interception, at most.
pub const RULES_MAX: u32 = 4;

/// Makes the route and the rules of one family, the last of them just before the rule with priority `before`.
///
/// What comes in with the mark is looked up in the table. What this machine sends (`iif lo`) skips that: answers can have the mark
/// of what they answer (`net.ipv4.tcp_fwmark_accept`), and so has the question whether a packet came in where its answer would go
/// out (`net.ipv4.conf.all.src_valid_mark`, in the kernel's `__fib_validate_source`). So what local clients send has another mark.
pub fn ip_install(interception: &Interception, before: u32) -> String {
    let Interception { mark, table, .. } = interception;
    let (first, second, last) = (before - 3, before - 2, before - 1);
    let mut text = format!(
        "route add local default dev lo table {table} protocol {PROTOCOL}\n\
         rule add priority {last} fwmark {mark} nop protocol {PROTOCOL}\n\
         rule add priority {second} fwmark {mark} lookup {table} protocol {PROTOCOL}\n\
         rule add priority {first} fwmark {mark} iif lo goto {last} protocol {PROTOCOL}\n"
    );
    if let Some(LocalInterception { mark, .. }) = interception.local {
        let _ = writeln!(
            text,
            "rule add priority {} fwmark {mark} lookup {table} protocol {PROTOCOL}",
            before - RULES_MAX
        );
    }
    text
}

#[cfg(test)]
mod tests;
