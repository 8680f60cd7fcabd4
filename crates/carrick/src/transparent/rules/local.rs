//! Rules for connections of this machine's own programs: outgoing packets get a mark that routes them back in through `lo`.
use super::{BEGAN_MAX, Family, SIGNED, SYN, left_alone, parts, ports, table_name};
use crate::config::plan::{Interception, LocalInterception};
use std::fmt::Write;

/// Writes the rules. Every packet needs the mark, but connections that existed before carrick must not get it: so the set remembers
/// redirected connections until they have been silent for its timeout.
pub fn of_programs(
    text: &mut String,
    interception: &Interception,
    local: &LocalInterception,
    own_marks: &[u32],
) {
    let families = || {
        Family::ALL
            .into_iter()
            .filter(|one| one.is_in(interception))
    };
    for family in families() {
        let address = match family {
            Family::V4 => "ipv4_addr",
            Family::V6 => "ipv6_addr",
        };
        let _ = write!(
            text,
            "  set {} {{
    type {address} . inet_service . {address} . inet_service; size {BEGAN_MAX}; flags dynamic,timeout; timeout {}s;
  }}
",
            family.set("local"),
            local.idle_seconds
        );
    }
    let own: Vec<String> = own_marks.iter().map(ToString::to_string).collect();
    let _ = write!(
        text,
        "  chain output {{
    type route hook output priority mangle; policy accept;
    meta mark {{ {} }} return
    {SYN} goto begin-local
",
        own.join(", ")
    );
    let mark = local.mark;
    for family in families() {
        let (_, ends, _) = parts(interception, family);
        let set = family.set("local");
        let _ = writeln!(
            text,
            "    {ends} @{set} update @{set} {{ {ends} }} meta mark set {mark} accept"
        );
    }
    // Answers to a program that connects from another machine's address come by the network.
    let _ = write!(
        text,
        "  }}\n  chain begin-local {{\n    fib daddr type local return\n    fib saddr type != local return\n{SIGNED}"
    );
    for family in families() {
        let (whole, addresses) = family.words();
        let (pair, ends, _) = parts(interception, family);
        left_alone(text, interception, family);
        let mut rule = format!("    meta nfproto {whole}");
        if !interception.to.is_empty() {
            let to = family.of(&interception.to);
            if to.is_empty() {
                continue;
            }
            let _ = write!(rule, " {addresses} daddr {{ {} }}", to.join(", "));
        }
        let (left, set) = (family.set("left"), family.set("local"));
        // What an earlier connection with these addresses and ports has left would lead this one's further packets to the listener.
        let _ = writeln!(text, "    {pair} @{left} delete @{set} {{ {ends} }}");
        let _ = writeln!(text, "    {pair} @{left} return");
        let _ = writeln!(
            text,
            "{rule} {} update @{set} {{ {ends} }} meta mark set {mark} accept",
            ports(interception)
        );
    }
    text.push_str("  }\n");
}

/// Has new connections of local programs bypass the listener. The set forgets an earlier connection with the same addresses and ports,
/// which would lead the new one's further packets to it.
pub fn nft_pass_local(interception: &Interception) -> String {
    let chain = format!(
        "inet {} begin-local",
        table_name(interception.listener.port())
    );
    let mut text = format!("flush chain {chain}\n");
    for family in Family::ALL {
        if family.is_in(interception) {
            let (_, ends, _) = parts(interception, family);
            let set = family.set("local");
            let _ = writeln!(text, "add rule {chain} delete @{set} {{ {ends} }}");
        }
    }
    text
}
