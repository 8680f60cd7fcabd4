//! The experiments that the program brings along.

use anyhow::{Result, bail};

use super::file;
use super::spec::Experiment;

/// File names and texts, in the order in which they are run.
const FILES: [(&str, &str); 7] = [
    (
        "rosu-2002.toml",
        include_str!("../../experiments/rosu-2002.toml"),
    ),
    (
        "cohen-1999.toml",
        include_str!("../../experiments/cohen-1999.toml"),
    ),
    (
        "kthread-2003.toml",
        include_str!("../../experiments/kthread-2003.toml"),
    ),
    (
        "satellite-2003.toml",
        include_str!("../../experiments/satellite-2003.toml"),
    ),
    ("limits.toml", include_str!("../../experiments/limits.toml")),
    (
        "gateway.toml",
        include_str!("../../experiments/gateway.toml"),
    ),
    ("peers.toml", include_str!("../../experiments/peers.toml")),
];

/// The workloads of `carrick-lab bench`: not one of those that `all` means, as it takes hours and is no experiment of a paper.
const BENCH: (&str, &str) = ("bench.toml", include_str!("../../experiments/bench.toml"));

/// The side-by-side benchmark.
///
/// # Errors
/// When its file is wrong, which the tests rule out.
pub fn bench() -> Result<Experiment> {
    file::parse(BENCH.1, BENCH.0)
}

/// All but the side-by-side benchmark.
///
/// # Errors
/// When one is wrong, which the tests rule out.
pub fn all() -> Result<Vec<Experiment>> {
    FILES
        .iter()
        .map(|(file, text)| file::parse(text, file))
        .collect()
}

/// One of them, or all for the name `all`.
///
/// # Errors
/// When there is none of that name: with those that there are.
pub fn named(name: &str) -> Result<Vec<Experiment>> {
    let known = all()?;
    if name == "all" {
        return Ok(known);
    }
    if name == "bench" {
        return Ok(vec![bench()?]);
    }
    let names: Vec<String> = known
        .iter()
        .map(|experiment| experiment.name.clone())
        .collect();
    let found: Vec<Experiment> = known
        .into_iter()
        .filter(|experiment| experiment.name == name)
        .collect();
    if found.is_empty() {
        bail!(
            "there is no experiment `{name}`: all, {}, bench (or a file: --experiment FILE)",
            names.join(", ")
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
