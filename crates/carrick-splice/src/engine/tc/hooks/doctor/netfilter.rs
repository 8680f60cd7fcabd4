//! What netfilter does here, as far as splices are concerned. Packets that are redirected at tc ingress never reach it.

use super::Obstacle;
use crate::Reason;
use crate::netlink::{self, Family, Message, attribute, attributes, text};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
const SUBSYSTEM: u16 = 10 << 8;
const NFT_MSG_NEWRULE: u16 = SUBSYSTEM | 6;
const NFT_MSG_GETRULE: u16 = SUBSYSTEM | 7;
const NFT_MSG_NEWSET: u16 = SUBSYSTEM | 9;
const NFT_MSG_GETSET: u16 = SUBSYSTEM | 10;
const NFGENMSG_BYTES: usize = 4;
const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_OBJ_TYPE: u16 = 15;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_META_KEY: u16 = 2;
const NFTA_META_SREG: u16 = 3;
const NFTA_CT_KEY: u16 = 2;
const NFTA_CT_SREG: u16 = 4;
const NFTA_OBJREF_IMM_TYPE: u16 = 1;
const NFTA_OBJREF_SET_NAME: u16 = 4;
const NFTA_DYNSET_EXPR: u16 = 7;
const NFTA_DYNSET_EXPRESSIONS: u16 = 10;
/// Of matches and targets of iptables.
const NFTA_COMPAT_NAME: u16 = 1;
/// In network byte order, as all numbers of nftables.
const NFT_META_MARK: [u8; 4] = 3_u32.to_be_bytes();
/// Objects that do something with each packet: `NFT_OBJECT_QUOTA`, `_CONNLIMIT` and `_SYNPROXY`.
const EACH_PACKET_OBJECTS: [[u8; 4]; 3] = [
    2_u32.to_be_bytes(),
    5_u32.to_be_bytes(),
    10_u32.to_be_bytes(),
];

/// What a connection has for its whole life (`enum nft_ct_keys`): state, direction, status, protocols, addresses, ports, id.
/// Others, such as marks, counts and times, change.
const CT_LASTING: [u8; 14] = [0, 1, 2, 7, 8, 9, 10, 11, 12, 19, 20, 21, 22, 23];

/// Tables of carrick's own begin so.
const OWN: &str = "carrick";

/// Chains by which a kind of rule is named, at most; more are counted.
const NAMED_MAX: usize = 4;

/// What there is, by chain.
#[derive(Debug, Default)]
struct Found {
    rules: BTreeSet<String>,
    tracking: BTreeSet<String>,
    /// Rules that do something with each packet of a connection.
    each_packet: BTreeSet<String>,
    translation: BTreeSet<String>,
    marks: BTreeSet<String>,
    /// Maps to objects that do nothing that a splice would miss, with family and table.
    harmless_maps: BTreeSet<String>,
}

/// `settings` is `net/netfilter` of `/proc/sys`.
pub(super) fn obstacles(settings: &Path) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    let mut found = Found::default();
    for message in maps().unwrap_or_default() {
        note_map(&mut found, &message);
    }
    match rules() {
        Ok(messages) => messages.iter().for_each(|message| {
            note(&mut found, message);
        }),
        Err(error) if is_permission(&error) => obstacles.push(unseen()),
        // A kernel without nftables.
        Err(_) => {}
    }
    note_legacy(&mut found);
    let number = |name: &str| -> Option<u64> {
        let text = std::fs::read_to_string(settings.join(name)).ok()?;
        text.trim().parse().ok()
    };
    if !found.rules.is_empty() {
        obstacles.push(Obstacle {
            name: "packet filter",
            found: format!("rules in {}", list(&found.rules)),
            effect: "They see a connection until it is spliced and from then on only what goes to the process: counters, quotas, limits \
                     and logs miss what is spliced, and a new rule that drops does not reach a splice that stands."
                .to_owned(),
            remedy: "To cut splices off, end their connections (ss -K), or restart carrick without its folder.".to_owned(),
            keeps_auto_off: None,
        });
    }
    if !found.translation.is_empty() {
        obstacles.push(Obstacle {
            name: "address translation",
            found: format!("in {}", list(&found.translation)),
            effect: "On the wire, connections that it changes have other addresses than their sockets; the programs find them by those of \
                     the wire, so these connections are not spliced by packets."
                .to_owned(),
            remedy: "Let carrick have the connection itself (transparent mode uses TPROXY, which translates nothing), or exempt it."
                .to_owned(),
            keeps_auto_off: None,
        });
    }
    if !found.each_packet.is_empty() {
        obstacles.push(Obstacle {
            name: "rules for each packet",
            found: format!("in {}", list(&found.each_packet)),
            effect: "Quotas, queues, marks and counts of connections, flow tables, connection limits and SYN proxies miss \
                     the packets of a splice."
                .to_owned(),
            remedy: "Exempt the proxy's connections from these rules, or name the engine where they do not matter.".to_owned(),
            keeps_auto_off: Some(Reason::PacketNetfilter),
        });
    }
    let entries = number("nf_conntrack_count").unwrap_or(0);
    if !found.tracking.is_empty() || !found.translation.is_empty() || entries > 0 {
        obstacles.push(tracking(&found, entries, &number));
    }
    if !found.marks.is_empty() {
        obstacles.push(Obstacle {
            name: "firewall marks",
            found: format!("set in {}", list(&found.marks)),
            effect: "Packets of a splice do not get them: what queues, shapes or routes by them treats these packets as unmarked."
                .to_owned(),
            remedy: "Shape by addresses, or use another engine for these networks.".to_owned(),
            keeps_auto_off: Some(Reason::PacketMarks),
        });
    }
    obstacles
}

fn tracking(found: &Found, entries: u64, number: &impl Fn(&str) -> Option<u64>) -> Obstacle {
    let mut places = found.tracking.clone();
    places.extend(found.translation.iter().cloned());
    let rules = if places.is_empty() {
        String::new()
    } else {
        format!("; asked for in {}", list(&places))
    };
    let seconds = number("nf_conntrack_tcp_timeout_established");
    Obstacle {
        name: "connection tracking",
        found: format!("{entries} connections{rules}"),
        effect: format!(
            "It sees the numbers of the local sockets, an acknowledgement every nine seconds while packets of a splice pass, and the end. An \
             entry expires as without a splice, when nothing has passed for long (nf_conntrack_tcp_timeout_established = {} s).",
            seconds.map_or("?".to_owned(), |seconds| seconds.to_string()),
        ),
        remedy: String::new(),
        keeps_auto_off: None,
    }
}

fn unseen() -> Obstacle {
    Obstacle {
        name: "packet filter",
        found: "the rules of nftables cannot be looked at without CAP_NET_ADMIN".to_owned(),
        effect:
            "Whether there are connection tracking, address translation and marks is not known."
                .to_owned(),
        remedy: "Run carrick doctor as root.".to_owned(),
        keeps_auto_off: None,
    }
}

fn is_permission(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// All rules of nftables, also those that iptables made there.
fn rules() -> io::Result<Vec<Message>> {
    netlink::dump(Family::Netfilter, NFT_MSG_GETRULE, &[0; NFGENMSG_BYTES])
}

/// All maps and sets of nftables.
fn maps() -> io::Result<Vec<Message>> {
    netlink::dump(Family::Netfilter, NFT_MSG_GETSET, &[0; NFGENMSG_BYTES])
}

fn note_map(found: &mut Found, message: &Message) -> Option<()> {
    let family = family(*message.body.first()?);
    let map = message.body.get(NFGENMSG_BYTES..)?;
    let kind = attribute(map, NFTA_SET_OBJ_TYPE)?;
    let (table, name) = (
        attribute(map, NFTA_SET_TABLE)?,
        attribute(map, NFTA_SET_NAME)?,
    );
    if message.kind == NFT_MSG_NEWSET && EACH_PACKET_OBJECTS.iter().all(|one| one != kind) {
        let map = format!("{family} {} {}", text(table), text(name));
        found.harmless_maps.insert(map);
    }
    Some(())
}

fn note(found: &mut Found, message: &Message) -> Option<()> {
    if message.kind != NFT_MSG_NEWRULE {
        return None;
    }
    let family = family(*message.body.first()?);
    let rule = message.body.get(NFGENMSG_BYTES..)?;
    let table = attribute(rule, NFTA_RULE_TABLE).map(text)?;
    if table.starts_with(OWN) {
        return None;
    }
    let chain = attribute(rule, NFTA_RULE_CHAIN).map(text)?;
    let place = format!("{family} {table} {chain}");
    found.rules.insert(place.clone());
    for (_, expression) in attributes(attribute(rule, NFTA_RULE_EXPRESSIONS)?) {
        note_expression(found, &place, expression);
    }
    Some(())
}

fn note_expression(found: &mut Found, place: &str, expression: &[u8]) {
    let name = attribute(expression, NFTA_EXPR_NAME).map(text);
    let data = attribute(expression, NFTA_EXPR_DATA).unwrap_or_default();
    let compat = attribute(data, NFTA_COMPAT_NAME).map(text);
    let is_mark = attribute(data, NFTA_META_KEY) == Some(&NFT_META_MARK);
    match (name.as_deref(), compat.as_deref()) {
        (Some("meta"), _) if is_mark && attribute(data, NFTA_META_SREG).is_some() => {
            found.marks.insert(place.to_owned());
        }
        (Some("target"), Some("MARK" | "CONNMARK")) => {
            found.marks.insert(place.to_owned());
        }
        (Some("nat" | "masq" | "redir"), _)
        | (Some("target"), Some("SNAT" | "DNAT" | "MASQUERADE" | "REDIRECT" | "NETMAP")) => {
            found.translation.insert(place.to_owned());
        }
        (Some("ct"), _) if is_lasting(data) => {
            found.tracking.insert(place.to_owned());
        }
        (Some("match"), Some("conntrack" | "state")) => {
            found.tracking.insert(place.to_owned());
        }
        (Some("objref"), _) => {
            let kind = attribute(data, NFTA_OBJREF_IMM_TYPE);
            let map = attribute(data, NFTA_OBJREF_SET_NAME).map(text);
            let table = place.rsplit_once(' ').map_or("", |(table, _)| table);
            if kind.is_some_and(|kind| EACH_PACKET_OBJECTS.iter().any(|one| one == kind))
                || map.is_some_and(|map| !found.harmless_maps.contains(&format!("{table} {map}")))
            {
                found.each_packet.insert(place.to_owned());
            }
        }
        // What the rule has a set do for each of its elements.
        (Some("dynset"), _) => {
            let several = attribute(data, NFTA_DYNSET_EXPRESSIONS).map(attributes);
            let several = several.into_iter().flatten().map(|(_, one)| one);
            for one in attribute(data, NFTA_DYNSET_EXPR).into_iter().chain(several) {
                note_expression(found, place, one);
            }
        }
        (Some("ct" | "connlimit" | "flow_offload" | "synproxy" | "quota" | "queue"), _)
        | (Some("target"), Some("NFQUEUE" | "SYNPROXY"))
        | (Some("match"), Some("connmark" | "connbytes" | "connlimit" | "helper" | "quota")) => {
            found.each_packet.insert(place.to_owned());
        }
        _ => {}
    }
}

/// Whether an expression reads something of a connection that lasts.
fn is_lasting(ct: &[u8]) -> bool {
    let key = attribute(ct, NFTA_CT_KEY).and_then(|key| key.get(3));
    attribute(ct, NFTA_CT_SREG).is_none() && key.is_some_and(|key| CT_LASTING.contains(key))
}

/// Tables of the older iptables, whose rules cannot be read by netlink.
fn note_legacy(found: &mut Found) {
    for (file, family) in [("ip_tables_names", "ip"), ("ip6_tables_names", "ip6")] {
        let path = format!("/proc/thread-self/net/{file}");
        for table in std::fs::read_to_string(path).unwrap_or_default().lines() {
            let place = format!("{family} {table} (iptables-legacy)");
            if table == "nat" {
                found.translation.insert(place.clone());
            }
            found.rules.insert(place);
        }
    }
}

/// `NFPROTO_...` of linux/netfilter.h, in the words of `nft`.
fn family(number: u8) -> &'static str {
    match number {
        1 => "inet",
        2 => "ip",
        3 => "arp",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        _ => "?",
    }
}

fn list(places: &BTreeSet<String>) -> String {
    let mut named: Vec<&str> = places.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = match places.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("{more} more"),
    };
    if !more.is_empty() {
        named.push(&more);
    }
    named.join(", ")
}
