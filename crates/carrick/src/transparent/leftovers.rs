//! Finds rules that any carrick has made in this network namespace, by names and numbers that only carrick uses.
use super::claim::{self, Key};
use super::rules::{self, Family, PROTOCOL};
use super::tools::{IP, NFT};
use crate::config::plan::Interception;
use serde::Deserialize;
use std::fmt;
use std::io;
use std::path::Path;

/// The kernel's words for a routing table that is not there (`inet_dump_fib`, `inet6_dump_fib`).
const NO_TABLE: &str = "FIB table does not exist";

/// A rule that a carrick has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// An nft table.
    Table {
        /// The listener's port.
        port: u16,
    },
    /// A routing rule.
    Rule {
        /// Its address family.
        family: Family,
        /// Its priority.
        priority: u32,
        /// The mark that it matches.
        mark: u32,
    },
    /// The route of a routing table.
    Route {
        /// Its address family.
        family: Family,
        /// The table.
        table: u32,
    },
}

impl fmt::Display for Made {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table { port } => write!(out, "nft table inet {}", rules::table_name(*port)),
            Self::Rule {
                family,
                priority,
                mark,
            } => write!(
                out,
                "rule of `ip {} rule` with priority {priority} for the mark {mark}",
                family.option()
            ),
            Self::Route { family, table } => write!(
                out,
                "route of `ip {} route` in the routing table {table}",
                family.option()
            ),
        }
    }
}

impl Made {
    /// The claims of a living carrick that owns it.
    pub fn key(&self) -> Key {
        match self {
            Self::Table { port } => Key::Port(*port),
            Self::Rule { mark, .. } => Key::Mark(*mark),
            Self::Route { table, .. } => Key::Table(*table),
        }
    }

    /// Removes it, unless it is gone: its owner may have removed it since it was found.
    ///
    /// # Errors
    /// The tool is missing or fails.
    pub fn remove(&self) -> io::Result<()> {
        self.delete().or_else(|error| {
            if find().is_ok_and(|all| !all.contains(self)) {
                Ok(())
            } else {
                Err(error)
            }
        })
    }

    fn delete(&self) -> io::Result<()> {
        match self {
            Self::Table { port } => {
                NFT.run(&["-f", "-"], &rules::nft_remove(&rules::table_name(*port)))
            }
            Self::Rule {
                family,
                priority,
                mark,
            } => IP.run(
                &[family.option(), "-batch", "-"],
                &format!("rule del priority {priority} fwmark {mark} protocol {PROTOCOL}\n"),
            ),
            Self::Route { family, table } => IP.run(
                &[family.option(), "-batch", "-"],
                &format!("route del local default dev lo table {table} protocol {PROTOCOL}\n"),
            ),
        }
        .map(|_| ())
    }
}

/// The fields of `ip -j rule` or `ip -j route` that are needed.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    priority: u32,
    #[serde(default)]
    table: String,
    #[serde(default)]
    protocol: String,
    #[serde(default)]
    fwmark: String,
}

impl Line {
    fn is_ours(&self) -> bool {
        self.protocol == PROTOCOL.to_string()
    }

    /// carrick's rule, if it is one.
    fn rule(&self, family: Family) -> Option<Made> {
        let mark = self.mark().filter(|_| self.is_ours())?;
        Some(Made::Rule {
            family,
            priority: self.priority,
            mark,
        })
    }

    fn table(&self) -> Option<u32> {
        self.table.parse().ok()
    }

    fn mark(&self) -> Option<u32> {
        u32::from_str_radix(self.fwmark.strip_prefix("0x")?, 16).ok()
    }
}

/// All such rules, in the order of removal: first those that intercept.
///
/// # Errors
/// A tool is missing (`NotFound`) or fails.
pub fn find() -> io::Result<Vec<Made>> {
    let mut made: Vec<Made> = tables()?;
    for family in Family::ALL {
        made.extend(routing_rules(family)?);
        made.extend(routes(family)?);
    }
    Ok(made)
}

/// carrick's routing rules.
///
/// # Errors
/// See [`find`].
pub fn routing_rules(family: Family) -> io::Result<Vec<Made>> {
    let rules = list(family, &["rule", "show"])?;
    Ok(rules.iter().filter_map(|line| line.rule(family)).collect())
}

/// carrick's routes. The kernel lists no others: a router may have a million.
///
/// # Errors
/// See [`find`].
pub fn routes(family: Family) -> io::Result<Vec<Made>> {
    let protocol = PROTOCOL.to_string();
    let own = [
        "route",
        "show",
        "table",
        "all",
        "protocol",
        protocol.as_str(),
    ];
    // The protocol that was asked for is not shown.
    let tables = list(family, &own)?.into_iter();
    let tables = tables.filter_map(|line| line.table());
    Ok(tables.map(|table| Made::Route { family, table }).collect())
}

/// Whether a routing table has routes. The others are not read.
fn has_routes(family: Family, table: u32) -> io::Result<bool> {
    match list(family, &["route", "show", "table", &table.to_string()]) {
        Ok(routes) => Ok(!routes.is_empty()),
        Err(error) if error.to_string().contains(NO_TABLE) => Ok(false),
        // An `ip` without libmnl does not show the kernel's words.
        Err(_) => {
            let mut all = list(family, &["route", "show", "table", "all"])?.into_iter();
            Ok(all.any(|line| line.table() == Some(table)))
        }
    }
}

/// carrick's nft tables.
fn tables() -> io::Result<Vec<Made>> {
    let mut made = Vec::new();
    for name in table_names()? {
        let port = name.strip_prefix(rules::TABLE_PREFIX);
        if let Some(port) = port.and_then(|port| port.parse().ok())
            // Another carrick may have removed it just now.
            && table(&name)?.is_some_and(|table| table.is_carricks)
        {
            made.push(Made::Table { port });
        }
    }
    Ok(made)
}

/// An nft table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its first line, with a number that no later one has.
    handle: String,
    /// Whether a carrick has made it.
    pub is_carricks: bool,
}

/// The nft table of this name; `None`: there is none.
///
/// # Errors
/// See [`find`].
pub fn table(name: &str) -> io::Result<Option<Table>> {
    // Without the elements of its sets.
    match NFT.run(&["-a", "-t", "list", "table", "inet", name], "") {
        Ok(text) => Ok(Some(Table {
            handle: text.lines().next().unwrap_or_default().to_owned(),
            is_carricks: text.contains(&format!("comment \"{}\"", rules::COMMENT)),
        })),
        Err(error) if table_names()?.iter().any(|one| one == name) => Err(error),
        Err(_) => Ok(None),
    }
}

fn table_names() -> io::Result<Vec<String>> {
    let text = NFT.run(&["list", "tables", "inet"], "")?;
    let names = text.lines().filter_map(|line| line.rsplit(' ').next());
    Ok(names.map(str::to_owned).collect())
}

fn list(family: Family, what: &[&str]) -> io::Result<Vec<Line>> {
    if family == Family::V6 && !Path::new("/proc/net/if_inet6").exists() {
        // Without IPv6 in the kernel, `ip` would fail.
        return Ok(Vec::new());
    }
    // Numbers instead of names, with all details.
    let mut arguments = vec![family.option(), "-N", "-d", "-j"];
    arguments.extend(what);
    let text = IP.run(&arguments, "")?;
    // Older versions print nothing if there are no entries.
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&text).map_err(|error| {
        io::Error::other(format!(
            "cannot parse the output of `ip {}`: {error}",
            arguments.join(" ")
        ))
    })
}

/// Before which priority of `ip rule` an interception's rules are to be made, so that only the one for local addresses precedes them, and
/// which it has now. `None`: they are all there, and need not move.
///
/// # Errors
/// There is no room for them; or the tool fails.
pub fn place(interception: &Interception, family: Family) -> io::Result<Option<(u32, Vec<Made>)>> {
    /// The rule for table `main`, as the kernel makes it.
    const MAIN: u32 = 32_766;
    /// Rules that are further ahead move back. A program that lets the kernel choose gets the number before the first rule, and carrick's go
    /// before that: they would sink each time.
    const NEAR: u32 = 1_000;
    let rules = list(family, &["rule", "show"])?;
    let rules = || rules.iter().filter(|line| line.priority > 0);
    let foreign = rules().filter(|line| !line.is_ours());
    let foreign = foreign.map(|line| line.priority).min().unwrap_or(MAIN);
    let keys = claim::keys(interception);
    let own = rules().filter_map(|line| line.rule(family));
    let own: Vec<Made> = own.filter(|made| keys.contains(&made.key())).collect();
    let near = foreign.saturating_sub(NEAR)..foreign;
    let is_near =
        |made: &&Made| matches!(made, Made::Rule { priority, .. } if near.contains(priority));
    if own.iter().filter(is_near).count() == rules::rule_count(interception) {
        return Ok(None);
    }
    // The highest numbers that are free.
    let mut before = foreign;
    let in_the_way = |before| {
        let taken = rules().map(|line| line.priority);
        let taken = taken.filter(|one| *one < before && before - *one <= rules::RULES_MAX);
        taken.min()
    };
    while let Some(taken) = in_the_way(before) {
        before = taken;
    }
    if before > rules::RULES_MAX {
        return Ok(Some((before, own)));
    }
    Err(io::Error::other(format!(
        "carrick's rules do not fit before the rule with priority {foreign} of `ip {} rule`: give that rule a higher number",
        family.option()
    )))
}

/// That the name of an interception's nft table is taken.
pub fn foreign_table(name: &str) -> io::Error {
    io::Error::other(format!(
        "another program has made the nft table inet {name}: rename it, or use another port for the transparent listener"
    ))
}

/// Checks that an interception shares nothing with rules of other programs.
///
/// # Errors
/// It does; says with what, and what to choose instead.
pub fn check_foreign(interception: &Interception) -> io::Result<()> {
    let name = rules::table_name(interception.listener.port());
    if table(&name)?.is_some() {
        return Err(foreign_table(&name));
    }
    for family in Family::ALL {
        let mut rules = list(family, &["rule", "show"])?.into_iter();
        let local = interception.local.as_ref().map(|local| local.mark);
        let is_ours = |mark: &u32| *mark == interception.mark || Some(*mark) == local;
        if let Some(mark) = rules.find_map(|line| line.mark().filter(is_ours)) {
            return Err(io::Error::other(format!(
                "another program has a rule for the mark {mark} (`ip {} rule`): choose another `mark` in `intercept`",
                family.option()
            )));
        }
        if has_routes(family, interception.table)? {
            return Err(io::Error::other(format!(
                "another program has routes in the routing table {0} (`ip {1} route show table {0}`): choose another `table` in `intercept`",
                interception.table,
                family.option()
            )));
        }
    }
    Ok(())
}
