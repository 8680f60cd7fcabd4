//! Whether rules make sense, before anything is done with them.

use super::rule::{Action, Family, Match, Protocol, Redirect, Rewrite, Rule, Timestamps};
use super::{RULES_MAX, RulesError};
use carrick_splice::hooks::Direction;
use std::ops::RangeInclusive;

/// The largest number of a VLAN (IEEE 802.1Q).
const VLAN_MAX: u16 = 4094;

/// What is wrong, and what would be right.
pub(super) type Wrong = (String, String);

/// Looks at each rule by itself.
pub(super) fn check(rules: &[Rule]) -> Result<(), RulesError> {
    if rules.len() > RULES_MAX {
        return Err(RulesError::TooMany { count: rules.len() });
    }
    for (place, rule) in rules.iter().enumerate() {
        check_rule(rule).map_err(|wrong| in_rule(place, rule, wrong))?;
    }
    Ok(())
}

/// The error of the rule at a place, counted from 0.
pub(super) fn in_rule(place: usize, rule: &Rule, (problem, remedy): Wrong) -> RulesError {
    RulesError::Rule {
        number: place + 1,
        name: rule.name.clone(),
        problem,
        remedy,
    }
}

fn wrong<T>(problem: impl Into<String>, remedy: impl Into<String>) -> Result<T, Wrong> {
    Err((problem.into(), remedy.into()))
}

fn check_rule(rule: &Rule) -> Result<(), Wrong> {
    check_match(&rule.packets)?;
    match &rule.action {
        Action::Pass | Action::Drop => Ok(()),
        Action::Redirect(redirect) => check_redirect(redirect, &rule.packets),
        Action::Rewrite(rewrite) => check_rewrite(rewrite, &rule.packets),
    }
}

fn check_match(packets: &Match) -> Result<(), Wrong> {
    for prefix in packets.source.iter().chain(&packets.destination) {
        if prefix.trunc() != *prefix {
            return wrong(
                format!("{prefix} is an address in a prefix"),
                format!("the prefix is {}", prefix.trunc()),
            );
        }
    }
    if let (Some(source), Some(destination)) = (packets.source, packets.destination)
        && Family::of(source.addr()) != Family::of(destination.addr())
    {
        return wrong(
            format!("no packet goes from {source} to {destination}"),
            "give prefixes of one family",
        );
    }
    check_ports("source", &packets.source_ports)?;
    check_ports("destination", &packets.destination_ports)?;
    if let Some(vlan) = packets.vlan
        && !(1..=VLAN_MAX).contains(&vlan)
    {
        return wrong(
            format!("there is no VLAN {vlan}"),
            format!("give a number from 1 to {VLAN_MAX}, or none for packets without a tag"),
        );
    }
    Ok(())
}

fn check_ports(which: &str, ports: &RangeInclusive<u16>) -> Result<(), Wrong> {
    let (first, last) = (ports.start(), ports.end());
    if ports.is_empty() {
        return wrong(
            format!("no {which} port is in {first}-{last}"),
            format!("give the smaller number first, as {last}-{first}"),
        );
    }
    Ok(())
}

fn check_redirect(redirect: &Redirect, packets: &Match) -> Result<(), Wrong> {
    if packets.direction != Some(Direction::Ingress) {
        return wrong(
            "only what comes in can be redirected to a local port",
            "set its direction to ingress",
        );
    }
    if packets.protocol != Some(Protocol::Tcp) {
        return wrong(
            "only TCP can be redirected to a local port",
            "set its protocol to TCP; for UDP, rewrite the destination port of what comes in and the source port of what goes out",
        );
    }
    check_port("local", Some(redirect.port))?;
    if redirect.mark == Some(0) {
        return wrong(
            "the mark 0 is no mark",
            "give another one, or none to leave the packet's own",
        );
    }
    Ok(())
}

fn check_port(which: &str, port: Option<u16>) -> Result<(), Wrong> {
    if port == Some(0) {
        return wrong(format!("0 is no {which} port"), "give one from 1 to 65535");
    }
    Ok(())
}

fn check_rewrite(rewrite: &Rewrite, packets: &Match) -> Result<(), Wrong> {
    if *rewrite == Rewrite::default() {
        return wrong(
            "it rewrites nothing and sends nothing on",
            "say what is to change, or pass the packets",
        );
    }
    check_port("source", rewrite.source_port)?;
    check_port("destination", rewrite.destination_port)?;
    for address in rewrite.addresses() {
        let family = Family::of(address);
        if packets.family() != Some(family) {
            return wrong(
                format!("{address} cannot stand in every packet that it takes"),
                format!(
                    "give a source or destination prefix of {} (for all of it, {})",
                    family.name(),
                    match family {
                        Family::V4 => "0.0.0.0/0",
                        Family::V6 => "::/0",
                    }
                ),
            );
        }
        if address.is_unspecified() {
            return wrong(
                format!("{address} is nobody's address"),
                "give one, or none to leave the packet's own",
            );
        }
    }
    let tcp = &rewrite.tcp;
    if *tcp != Default::default() && packets.protocol != Some(Protocol::Tcp) {
        return wrong(
            "only TCP has numbers, windows and options to rewrite",
            "set its protocol to TCP",
        );
    }
    if tcp.mss_max == Some(0) {
        return wrong(
            "no segment has 0 bytes",
            "give a maximum segment size of at least 1 (536 is what every IPv4 host takes, 1220 every IPv6 host)",
        );
    }
    if tcp.timestamps == (Timestamps::Add { value: 0, echo: 0 }) {
        return wrong(
            "adding 0 to timestamps changes nothing",
            "keep them, or add something",
        );
    }
    Ok(())
}
