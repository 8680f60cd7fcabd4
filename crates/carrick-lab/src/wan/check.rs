//! What is wrong with a specification, each time with the rule, the key, the value and what would be right.

use crate::wan::spec::{Path, Rule, WanSpec};

/// Longest delay and jitter, in milliseconds: an hour.
pub const DELAY_MS_MAX: f64 = 3_600_000.0;
/// Highest rate limit, in kbit/s: 1 Tbit/s.
pub const RATE_KBIT_MAX: f64 = 1e9;
/// Lowest rate limit, in kbit/s: 1 bit/s.
pub const RATE_KBIT_MIN: f64 = 0.001;
/// Longest queue, in packets.
pub const QUEUE_PACKETS_MAX: usize = 1_000_000;
/// Largest `ack_filter`.
pub const ACK_FILTER_MAX: u32 = 1_000;
/// Longest `ack_hold_ms`, in milliseconds: senders take an ACK that comes later for lost.
pub const ACK_HOLD_MS_MAX: f64 = 1_000.0;
/// Most rules.
pub const RULES_MAX: usize = 65_536;

/// Reads a specification and checks it.
///
/// # Errors
/// When it is not TOML, has unknown keys, or values that cannot be; with everything that is wrong.
pub fn parse(text: &str) -> Result<WanSpec, String> {
    let spec: WanSpec =
        toml::from_str(text).map_err(|error| explain(text).unwrap_or_else(|| error.to_string()))?;
    let problems = problems(&spec);
    if problems.is_empty() {
        Ok(spec)
    } else {
        Err(problems.join("\n"))
    }
}

/// Which key of which rule cannot be read, where the parser says only that some rule cannot: each key is tried alone.
fn explain(text: &str) -> Option<String> {
    let table: toml::Table = text.parse().ok()?;
    let mut problems = Vec::new();
    for (index, rule) in table.get("rule")?.as_array()?.iter().enumerate() {
        for (key, value) in rule.as_table()? {
            let alone = toml::Table::from_iter([(key.clone(), value.clone())]);
            if let Err(error) = alone.try_into::<Rule>() {
                // It repeats the key on a line of its own.
                let error = error.to_string();
                let first = error.lines().next().unwrap_or_default().to_owned();
                problems.push(format!("rule {}: {key} = {value}: {first}", index + 1));
            }
        }
    }
    (!problems.is_empty()).then(|| problems.join("\n"))
}

/// Everything that is wrong, a line for each; none: it can be run. Rules are counted from 1.
#[must_use]
pub fn problems(spec: &WanSpec) -> Vec<String> {
    let mut problems = Vec::new();
    if spec.rules.len() > RULES_MAX {
        problems.push(format!(
            "{} rules are more than {RULES_MAX}: for one rule per port, give one rule a range and `for_each_port = true`",
            spec.rules.len()
        ));
    }
    for (index, rule) in spec.rules.iter().enumerate() {
        let of_rule = problems_of(rule);
        problems.extend(
            of_rule
                .into_iter()
                .map(|problem| format!("rule {}: {problem}", index + 1)),
        );
    }
    problems
}

fn problems_of(rule: &Rule) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, ports) in [("from_ports", rule.from_ports), ("to_ports", rule.to_ports)] {
        if let Some([first, last]) = ports
            && first > last
        {
            problems.push(format!(
                "{key} = [{first}, {last}] is backwards: the first port has to be at most the last, as [{last}, {first}]"
            ));
        }
    }
    if rule.for_each_port && rule.from_ports.is_none() && rule.to_ports.is_none() {
        problems.push(
            "for_each_port = true has no ports: give from_ports or to_ports, as [10001, 16000]"
                .into(),
        );
    }
    if let (Some(from), Some(to)) = (rule.from, rule.to)
        && from.address.is_ipv4() != to.address.is_ipv4()
    {
        problems.push(format!(
            "from = \"{}\" and to = \"{}\" never match one packet: both have to be IPv4, or both IPv6",
            String::from(from),
            String::from(to)
        ));
    }
    problems.extend(problems_of_path(&rule.path));
    problems
}

fn problems_of_path(path: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, value) in [("delay_ms", path.delay_ms), ("jitter_ms", path.jitter_ms)] {
        if !(0.0..=DELAY_MS_MAX).contains(&value) {
            problems.push(format!(
                "{key} = {value} cannot be: a number of milliseconds from 0 to {DELAY_MS_MAX}"
            ));
        }
    }
    if path.jitter_ms > path.delay_ms && path.jitter_ms <= DELAY_MS_MAX {
        problems.push(format!(
            "jitter_ms = {} is more than delay_ms = {delay_ms}, and no packet arrives before it was sent: at most {delay_ms}",
            path.jitter_ms,
            delay_ms = path.delay_ms
        ));
    }
    for (key, value) in [
        ("loss", Some(path.loss)),
        ("loss_after_loss", path.loss_after_loss),
        ("reorder", Some(path.reorder)),
        ("duplicate", Some(path.duplicate)),
    ] {
        if let Some(value) = value
            && !(0.0..=1.0).contains(&value)
        {
            problems.push(format!(
                "{key} = {value} is no probability: a number from 0 to 1, as 0.01 for 1 %"
            ));
        }
    }
    if let Some(rate) = path.rate_kbit
        && !(RATE_KBIT_MIN..=RATE_KBIT_MAX).contains(&rate)
    {
        problems.push(format!(
            "rate_kbit = {rate} cannot be: kbit/s from {RATE_KBIT_MIN} to {RATE_KBIT_MAX}, or leave it out for no limit"
        ));
    }
    if let Some(one_in) = path.ack_filter
        && !(2..=ACK_FILTER_MAX).contains(&one_in)
    {
        problems.push(format!(
            "ack_filter = {one_in} cannot be: one ACK in 2 to {ACK_FILTER_MAX} passes, or leave it out for all"
        ));
    }
    if let Some(hold_ms) = path.ack_hold_ms {
        if !(0.0..=ACK_HOLD_MS_MAX).contains(&hold_ms) {
            problems.push(format!(
                "ack_hold_ms = {hold_ms} cannot be: a number of milliseconds from 0 to {ACK_HOLD_MS_MAX}"
            ));
        }
        if path.ack_filter.is_none() {
            problems.push(format!(
                "ack_hold_ms = {hold_ms} has no filter: give ack_filter, as 4"
            ));
        }
    }
    if let Some(packets) = path.queue_packets
        && packets > QUEUE_PACKETS_MAX
    {
        problems.push(format!(
            "queue_packets = {packets} is too many: at most {QUEUE_PACKETS_MAX}"
        ));
    }
    problems
}

#[cfg(test)]
mod tests;
