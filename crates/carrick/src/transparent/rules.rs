//! Generates the rules of an interception as text for `nft -f` and `ip -batch`. Runs nothing.
//!
//! Intercepted packets get a mark, and a routing rule delivers packets with that mark locally, whatever their destination (the kernel's
//! Documentation/networking/tproxy.rst). Packets keep their addresses.
mod local;

pub use local::nft_pass_local;

use super::left_out::{ExclusionRequest, Pair};
use crate::config::plan::{Interception, LocalInterception, PortRange};
use ipnet::IpNet;
use std::fmt::Write;
use std::net::SocketAddr;

/// Prefix of carrick's table names; the listener's port follows.
pub const TABLE_PREFIX: &str = "carrick-";

/// Comment that distinguishes carrick's tables from others with such a name.
pub const COMMENT: &str = "made by carrick for a transparent listener";

/// Origin of carrick's routing rules and routes (rtnetlink(7), `rtm_protocol`): a number that no routing daemon uses.
pub const PROTOCOL: u8 = carrick_splice::probe::OWN_PROTOCOL;

/// An address family.
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

    /// Whether an interception needs rules for this family.
    pub fn is_in(self, interception: &Interception) -> bool {
        match self {
            Self::V4 => interception.takes_v4(),
            Self::V6 => interception.takes_v6(),
        }
    }

    /// The networks of this family.
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

    /// The name of a set or chain for this family.
    fn set(self, name: &str) -> String {
        match self {
            Self::V4 => format!("{name}-v4"),
            Self::V6 => format!("{name}-v6"),
        }
    }

    /// nft's names for the protocol and for its addresses.
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

/// Capacity of the set of recent SYNs, per family: enough for some thousands per second.
const BEGAN_MAX: u32 = 131_072;

/// Lifetime of its entries: until the client has completed the handshake, first retransmissions included.
const BEGAN_SECONDS: u32 = 30;

/// Maximum number of excluded pairs of networks, per family.
pub const LEFT_OUT_MAX: u32 = 4_096;

/// A SYN that begins a connection.
const SYN: &str = "tcp flags & (fin | syn | rst | ack) == syn";

/// Packets that can belong to a local socket: TCP, and ICMP errors about it (a smaller MTU, for example).
const TCP_AND_ERRORS: &str = "meta l4proto { tcp, icmp, ipv6-icmp }";

/// Connections whose packets are signed (TCP-MD5, TCP-AO), which nobody can do in the place of their ends, pass by.
const SIGNED: &str = "    tcp option 19 exists return\n    tcp option 29 exists return\n";

/// ICMP errors only.
const ERRORS: &str = "meta l4proto { icmp, ipv6-icmp }";

/// Creates the nft table, in one transaction.
///
/// Only SYNs are matched by address; later packets are matched by their socket, so connections that carrick never had are not touched. One
/// packet has no socket: the acknowledgement of a SYN cookie. Therefore a set remembers recent SYNs. While it is full, clients must not
/// bypass the listener's rules: their SYNs are redirected all the same, and what completes the handshake is matched by the request's
/// socket, which has no mark to read (`nft_socket_eval`) but is transparent. So are sockets in TIME_WAIT of connections to servers, so
/// this rule must match clients' packets only.
///
/// carrick's sockets have the interception's mark (`SO_MARK`), which accepted ones inherit. The first rule finds them by it: every further
/// expression, and above all a second lookup of the socket, is a cost for each packet. Of packets for the listener's port on other machines it
/// would find the listener; this port is never intercepted.
///
/// `own_marks` are the marks of all listeners of this carrick; locally sent packets with one of them are carrick's own.
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
    let port = interception.listener.port();
    let known = format!("tcp dport != {port} socket mark {mark} meta mark set {mark} accept");
    let own_host = "iif \"lo\" goto local";
    // The sockets of local clients have the mark, too, but their packets need the other one.
    let [first, second] = match interception.local {
        Some(_) => [own_host, &known],
        None => [&known, own_host],
    };
    let _ = write!(
        text,
        "  chain prerouting {{
    type filter hook prerouting priority mangle; policy accept;
    {first}
    {second}
    {SYN} goto begin
    {ERRORS} socket mark {mark} socket wildcard 0 meta mark set {mark} accept
    goto answered
  }}
  chain begin {{
    fib daddr type local return
{SIGNED}"
    );
    for family in families() {
        left_alone(&mut text, interception, family);
        if let Some(chosen) = chosen(interception, family) {
            let _ = writeln!(text, "    {chosen} goto {}", family.set("take"));
        }
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
        if let Some(chosen) = chosen(interception, family) {
            let _ = writeln!(text, "    {chosen} socket transparent 1 {lead}");
        }
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

/// Redirects nothing except replies to carrick's own connections with other machines' addresses.
fn answers_only(name: &str, mark: u32) -> String {
    format!(
        "table inet {name} {{
  comment \"{COMMENT}\"
  chain prerouting {{
    type filter hook prerouting priority mangle; policy accept;
    iif \"lo\" accept
    {TCP_AND_ERRORS} socket mark {mark} meta mark set {mark} accept
  }}
}}
"
    )
}

/// The sets of one family.
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

/// Match expressions for the address pair and the connection, and the statement that redirects to the listener.
fn parts(interception: &Interception, family: Family) -> (String, String, String) {
    let (_, ip) = family.words();
    let addresses = format!("{ip} saddr . {ip} daddr");
    let pair = match family {
        Family::V4 => addresses,
        // Not ISATAP addresses (RFC 5214 section 6.1): `deny_to` can have the IPv4 address in one of them, below any prefix.
        Family::V6 => format!("ip6 daddr & ::fdff:ffff:0:0 != ::5efe:0:0 {addresses}"),
    };
    let ends = format!("{ip} saddr . tcp sport . {ip} daddr . tcp dport");
    (
        pair,
        ends,
        lead(interception, family, Some(interception.mark)),
    )
}

/// The statement that redirects to the listener and sets `mark`, if given.
fn lead(interception: &Interception, family: Family, mark: Option<u32>) -> String {
    let (whole, ip) = family.words();
    let to = target(interception.listener);
    let mark = mark.map_or(String::new(), |mark| format!("meta mark set {mark} "));
    format!("meta nfproto {whole} meta l4proto tcp tproxy {ip} to {to} {mark}accept")
}

/// Match expressions for clients' packets of connections to intercept; `None`: none are of this family.
fn chosen(interception: &Interception, family: Family) -> Option<String> {
    let (whole, addresses) = family.words();
    let mut rule = format!("meta nfproto {whole}");
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
            // Only addresses of the other family are listed.
            return None;
        }
        let _ = write!(rule, " {addresses} {side} {{ {} }}", networks.join(", "));
    }
    Some(format!("{rule} {}", ports(interception)))
}

/// Addresses to exclude.
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

/// What happens to matching connections. If carrick has a connection with the same addresses and ports, even in TIME_WAIT, only carrick can
/// answer. So it may be if one was led to it just now, whose server it has asked: also if the pair was left out since.
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
    {ends} @{began} {lead}
    {pair} @{left} return
    update @{began} {{ {ends} }} {lead}
    {lead}
  }}
"
    );
}

/// The listener, for `tproxy`; only its port if it listens on all addresses.
fn target(listener: SocketAddr) -> String {
    if listener.ip().is_unspecified() {
        format!(":{}", listener.port())
    } else {
        listener.to_string()
    }
}

/// Removes an nft table, whether it exists or not.
pub fn nft_remove(name: &str) -> String {
    format!("add table inet {name}\ndelete table inet {name}\n")
}

/// Applies an exclusion, or ends all. An existing element is deleted first, since adding it again would keep its old timeout.
pub fn nft_leave_out(request: &ExclusionRequest) -> String {
    let Pair { client, server } = request.pair;
    let family = match client {
        IpNet::V4(_) => Family::V4,
        IpNet::V6(_) => Family::V6,
    };
    let set = format!("inet {} {}", table_name(request.port), family.set("left"));
    if request.seconds == 0 {
        return format!("flush set {set}\n");
    }
    let pair = format!("{client} . {server}");
    format!(
        "add element {set} {{ {pair} }}\ndelete element {set} {{ {pair} }}\nadd element {set} {{ {pair} timeout {}s }}\n",
        request.seconds
    )
}

/// Maximum number of rules of `ip rule` for one family of an interception.
pub const RULES_MAX: u32 = 4;

/// How many of them an interception has.
pub fn rule_count(interception: &Interception) -> usize {
    3 + usize::from(interception.local.is_some())
}

/// Creates the route of one family, whether it is there or not.
pub fn ip_route(interception: &Interception) -> String {
    let table = interception.table;
    format!("route replace local default dev lo table {table} protocol {PROTOCOL}\n")
}

/// Creates the rules of one family, the last of them just before the rule with priority `before`.
///
/// Incoming packets with the mark are looked up in the table. Locally sent packets (`iif lo`) skip it: replies can carry the mark of the
/// packet they answer (`net.ipv4.tcp_fwmark_accept`), and so can the reverse path check (`net.ipv4.conf.all.src_valid_mark`, in the
/// kernel's `__fib_validate_source`). So connections of local clients have another mark.
pub fn ip_rules(interception: &Interception, before: u32) -> String {
    let Interception { mark, table, .. } = interception;
    let (first, second, last) = (before - 3, before - 2, before - 1);
    let mut text = format!(
        "rule add priority {last} fwmark {mark} nop protocol {PROTOCOL}\n\
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
