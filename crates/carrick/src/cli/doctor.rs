//! `carrick doctor`: what this machine supports, and why not.
mod machine;
mod splitter;

use super::admin::{ask_at, parsed};
use super::check::report;
use super::clean::plan;
use crate::cli::args::{FAILED, FINE, PinsArgs, WRONG};
use crate::config::plan::Plan;
use crate::config::summary;
use crate::privileges::sandbox;
use carrick_splice::probe::{Feature, InterfaceFact, Obstacle};
use carrick_splice::{PacketService, Pinned, Unavailable};
use machine::Fact;
use rustix::process::{Resource, getrlimit};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The engine that all others fall back to.
const LAST_RESORT: &str = "engine copy";

/// How long a running carrick may take to answer.
const ADMIN_WAIT: Duration = Duration::from_secs(1);

/// Prints the table. Fails if not even copying is possible.
pub fn run(arguments: &PinsArgs) -> ExitCode {
    let plan = match plan(arguments) {
        Ok(plan) => plan,
        Err(rejected) => {
            report(&rejected.problems);
            return ExitCode::from(WRONG);
        }
    };
    let mut features = carrick_splice::probe::probe();
    features.extend(crate::transparent::probe());
    features.extend(
        sandbox::probe()
            .into_iter()
            .map(|(name, usable)| Feature { name, usable }),
    );
    let facts = machine::facts(Path::new("/proc/sys"));
    let mut text = render(&features, &facts);
    let descriptors = getrlimit(Resource::Nofile).maximum;
    text += &render_splitter(&splitter::advice(
        &plan,
        Path::new("/proc/sys"),
        descriptors,
    ));
    let interfaces = carrick_splice::probe::interface_facts();
    text += &render_packet(&interfaces, &carrick_splice::probe::obstacles());
    let paths = summary::paths(&plan);
    if !paths.is_empty() {
        text += &format!("\nrequests\n{}\n", paths.join("\n"));
    }
    text += &render_sandbox(&plan);
    if let Some(pins) = plan.pins {
        text += &render_pinned(&pins, PacketService::pinned(&pins));
    }
    let _ = anstream::stdout().lock().write_all(text.as_bytes());
    let is_hopeless = features
        .iter()
        .any(|feature| feature.name == LAST_RESORT && feature.usable.is_err());
    ExitCode::from(if is_hopeless { FAILED } else { FINE })
}

fn render(features: &[Feature], facts: &[Fact]) -> String {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for feature in features {
        let (usable, why) = match &feature.usable {
            Ok(detail) => ("yes", detail),
            Err(reason) => ("no", reason),
        };
        rows.push([feature.name.to_owned(), usable.to_owned(), why.clone()]);
    }
    let facts = rows_of(facts);
    let mut text = format!(
        "carrick {} on {}\n\n",
        env!("CARGO_PKG_VERSION"),
        machine::kernel()
    );
    write_table(&mut text, ["engine or kernel feature", "usable", ""], &rows);
    text.push('\n');
    write_table(&mut text, ["limit or setting", "value", ""], &facts);
    text
}

fn rows_of(facts: &[Fact]) -> Vec<[String; 3]> {
    let row = |fact: &Fact| {
        [
            fact.name.to_owned(),
            fact.value.clone(),
            fact.meaning.clone(),
        ]
    };
    facts.iter().map(row).collect()
}

/// The splitter's requirements on this machine's settings.
fn render_splitter(facts: &[Fact]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n");
    write_table(&mut text, ["for splitting", "value", ""], &rows_of(facts));
    text
}

/// The interfaces and obstacles for engine `packet`.
fn render_packet(interfaces: &io::Result<Vec<InterfaceFact>>, obstacles: &[Obstacle]) -> String {
    let mut text = String::from("\n");
    let rows: Vec<[String; 3]> = match interfaces {
        Ok(facts) => facts
            .iter()
            .map(|fact| {
                let (usable, mut words) = match &fact.usable {
                    Ok(way) => (format!("yes, {way}"), Vec::new()),
                    Err(reason) => ("no".to_owned(), vec![reason.clone()]),
                };
                words.extend(fact.notes.iter().cloned());
                [fact.name.clone(), usable, words.join("; ")]
            })
            .collect(),
        Err(error) => vec![["?".to_owned(), "unknown".to_owned(), error.to_string()]],
    };
    write_table(&mut text, ["interface", "IP-level splices", ""], &rows);
    if !obstacles.is_empty() {
        text.push_str("\nin the way of IP-level splices, or not seen by them\n");
    }
    for obstacle in obstacles {
        let _ = writeln!(text, "- {obstacle}");
    }
    text
}

/// The sandbox of the running carrick, as it reports it.
fn render_sandbox(plan: &Plan) -> String {
    let said = plan.admin.and_then(|admin| {
        let status = ask_at(admin, "GET /status", ADMIN_WAIT).ok()?;
        let status: serde_json::Value = parsed(&status).ok()?;
        let part = |name: &str| {
            let part = &status["process"]["sandbox"][name];
            let is = if part["in_force"].as_bool()? {
                "in force"
            } else {
                "not in force"
            };
            Some(format!("{is} ({})", part["detail"].as_str()?))
        };
        Some(format!(
            "process {}: files {}; system calls {}",
            status["pid"],
            part("files")?,
            part("calls")?
        ))
    });
    let said = said.unwrap_or_else(|| "no running carrick answers at the admin address".to_owned());
    format!("\nsandbox of the running carrick\n- {said}\n")
}

/// Pinned objects of carrick processes.
fn render_pinned(folder: &Path, pinned: Result<Vec<Pinned>, Unavailable>) -> String {
    let mut text = format!("\npinned in {}\n", folder.display());
    let generations = match pinned {
        Ok(generations) => generations,
        Err(because) => return text + &format!("- cannot be read: {because}\n"),
    };
    if generations.is_empty() {
        text += "- nothing\n";
    }
    for one in generations {
        let whose = if one.is_in_use {
            "of a running carrick, or adopted by one"
        } else {
            "left by a carrick that has exited; the next one takes it over, `carrick clean` removes it"
        };
        let tunnels = match &one.tunnels {
            Ok(count) => format!("{count} tunnels that outlive the process"),
            Err(because) => because.clone(),
        };
        let name = one.folder.file_name().unwrap_or_default();
        let _ = writeln!(
            text,
            "- {}: {tunnels}; {} programs at network interfaces; {whose}",
            name.display(),
            one.hooks
        );
    }
    text
}

fn write_table(text: &mut String, head: [&str; 3], rows: &[[String; 3]]) {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .chain([head[column].len()])
            .max()
            .unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    let mut line = |cells: [&str; 3]| {
        let line = format!("{:first$}  {:second$}  {}", cells[0], cells[1], cells[2]);
        let _ = writeln!(text, "{}", line.trim_end());
    };
    line(head);
    line([&"-".repeat(first), &"-".repeat(second), ""]);
    for row in rows {
        line([&row[0], &row[1], &row[2]]);
    }
}

#[cfg(test)]
mod tests;
