//! The report: raw results as JSON, tables for the terminal, plots as SVG.

pub mod plot;
pub mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::bench::results::Results;
use crate::report::files::replace;

/// The raw results' file name.
const JSON: &str = "results.json";

/// Writes the raw results; an older file is replaced as a whole.
///
/// # Errors
/// When the file cannot be written.
pub fn save_json(results: &Results, directory: &Path) -> Result<()> {
    let text =
        serde_json::to_string_pretty(results).context("the results cannot be written as JSON")?;
    replace(&directory.join(JSON), &text)
}

/// Reads the raw results of an earlier run.
///
/// # Errors
/// When there are none, or of another version.
pub fn load_json(directory: &Path) -> Result<Results> {
    let path = directory.join(JSON);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} does not hold results of this version", path.display()))
}

/// Writes table and plots beside the raw results, and returns the table.
///
/// # Errors
/// When a file cannot be written.
pub fn write_all(results: &Results, directory: &Path) -> Result<String> {
    let table = table::render(results);
    let mut files = vec![(String::from("table.txt"), table.clone())];
    files.extend(plot::render(results));
    for (name, text) in files {
        let path = directory.join(&name);
        replace(&path, &text)?;
    }
    Ok(table)
}
