//! The report: one self-contained page with the figures, the papers' beside ours, and the raw data.
//!
//! Invariants: nothing is drawn that was not measured; the page refers to nothing outside itself but the raw data beside it.

pub mod check;
pub mod draw;
#[cfg(test)]
pub(crate) mod fixture;
pub mod page;
pub mod plot;
pub mod state;
pub mod svg;
pub mod table;
pub mod values;
pub mod verdicts;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::experiment::results::{Cell, ExperimentResults};
use crate::files;

/// The raw results of one experiment, as the run writes them.
const RESULTS: &str = "results.json";

/// The page.
const PAGE: &str = "report.html";

/// Below the report's directory: samples as CSV, results as JSON.
const DATA: &str = "data";

/// Below the report's directory: each figure as a picture of its own.
const FIGURES: &str = "figures";

/// Reads all results in a directory: `results.json` in itself, and in each directory in it.
///
/// # Errors
/// When there are none, when one cannot be read, and when one is of another version: which, and what to do.
pub fn load(directory: &Path) -> Result<Vec<ExperimentResults>> {
    let mut results = Vec::new();
    if directory.join(RESULTS).is_file() {
        results.push(load_one(directory)?);
    }
    let entries = fs::read_dir(directory)
        .with_context(|| format!("cannot read the directory {}", directory.display()))?;
    let mut below = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", directory.display()))?;
        if entry.path().join(RESULTS).is_file() {
            below.push(entry.path());
        }
    }
    below.sort();
    for path in below {
        results.push(load_one(&path)?);
    }
    if results.is_empty() {
        bail!(
            "there are no results in {}: neither {RESULTS} nor */{RESULTS}; `carrick-lab run NAME --out {}` measures some",
            directory.display(),
            directory.display()
        );
    }
    Ok(results)
}

/// Reads the results of one experiment, `results.json` in its directory.
///
/// # Errors
/// When they cannot be read, or are of another version: with what to do.
pub fn load_one(directory: &Path) -> Result<ExperimentResults> {
    let path = &directory.join(RESULTS);
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let error = match serde_json::from_str(&text) {
        Ok(results) => return Ok(results),
        Err(error) => error,
    };
    let what_to_do = if error.is_eof() {
        "it is cut off, as by a full disk or a killed program: remove it, and run the experiment again"
    } else {
        "it does not hold results of this version: draw them with the version that measured them, or run the experiment again"
    };
    Err(error).with_context(|| format!("cannot use {}: {what_to_do}", path.display()))
}

/// Writes `report.html`, and beside it `data/NAME.csv` with all samples, `data/NAME.json` with all results, and
/// `figures/NAME-FIGURE.svg` with each figure that is no table. Returns the page's path.
///
/// # Errors
/// When there is nothing to report, and when a file cannot be written: earlier ones stay as they were.
pub fn write(directory: &Path, results: &[ExperimentResults]) -> Result<PathBuf> {
    if results.is_empty() {
        bail!("there are no results to report: `carrick-lab run NAME` measures some");
    }
    for below in [DATA, FIGURES] {
        let path = directory.join(below);
        fs::create_dir_all(&path)
            .with_context(|| format!("cannot make the directory {}", path.display()))?;
    }
    let names = file_names(results);
    for (results, name) in results.iter().zip(&names) {
        let json = serde_json::to_string_pretty(results)
            .with_context(|| format!("cannot write the results of {} as JSON", results.name))?;
        let cells: Vec<&Cell> = results.cells.iter().collect();
        let data = directory.join(DATA);
        files::replace(&data.join(format!("{name}.json")), &json)?;
        files::replace(
            &data.join(format!("{name}.csv")),
            &crate::experiment::csv::of(&cells),
        )?;
        for figure in &results.figures {
            let values = values::of(results, figure);
            if let Some(picture) = draw::file(results, figure, &values) {
                let id = file_name(&figure.id);
                let path = directory.join(FIGURES).join(format!("{name}-{id}.svg"));
                files::replace(&path, &picture)?;
            }
        }
    }
    let page = directory.join(PAGE);
    files::replace(&page, &page::render(results, &names))?;
    Ok(page)
}

/// Writes `table.txt`, and each figure of which anything was measured as `FIGURE.svg`: what `carrick-lab bench` leaves. Returns the table.
///
/// # Errors
/// When a file cannot be written.
pub fn write_side_by_side(directory: &Path, results: &ExperimentResults) -> Result<String> {
    let table = table::render(results);
    files::replace(&directory.join("table.txt"), &table)?;
    for figure in &results.figures {
        let values = values::of(results, figure);
        if let Some(picture) = draw::picture(results, figure, &values, plot::Look::ALONE) {
            let path = directory.join(format!("{}.svg", file_name(&figure.id)));
            files::replace(&path, &picture)?;
        }
    }
    Ok(table)
}

/// A name for files and anchors for each experiment; different ones, if one experiment is there twice.
fn file_names(results: &[ExperimentResults]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for results in results {
        let name = file_name(&results.name);
        let mut unique = name.clone();
        let mut count = 1;
        while !taken.insert(unique.clone()) {
            count += 1;
            unique = format!("{name}-{count}");
        }
        names.push(unique);
    }
    names
}

/// Only letters that are harmless in file names, anchors and links.
fn file_name(name: &str) -> String {
    let harmless = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() || letter == '-' || letter == '_' => letter,
        _ => '-',
    });
    let name: String = harmless.collect();
    if name.is_empty() {
        String::from("unnamed")
    } else {
        name
    }
}

#[cfg(test)]
mod tests;
