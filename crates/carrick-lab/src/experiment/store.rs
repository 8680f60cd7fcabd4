//! The results of an experiment on disk: `results.json`, whole at any time, and the samples as CSV.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::expression::show;
use super::results::ExperimentResults;

/// The file of the results.
const RESULTS: &str = "results.json";
/// Where the results of an earlier run go.
const EARLIER: &str = "results-earlier.json";
/// The file of the samples.
const SAMPLES: &str = "samples.csv";

/// The folder of one experiment's results.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Makes the folder; results of an earlier run are kept beside the new ones.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(out: &Path, name: &str) -> Result<Self> {
        let folder = out.join(name);
        explain(fs::create_dir_all(&folder), "make the folder", &folder)?;
        let results = folder.join(RESULTS);
        if results.exists() {
            explain(fs::rename(&results, folder.join(EARLIER)), "move", &results)?;
        }
        Ok(Self { folder })
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the results, so that a reader finds the old ones or the new ones, never a part.
    ///
    /// # Errors
    /// When they cannot be written: with what to do if the disk is full.
    pub fn save(&self, results: &ExperimentResults) -> Result<()> {
        let text =
            serde_json::to_vec_pretty(results).context("cannot write the results as JSON")?;
        self.write(RESULTS, &text)
    }

    /// Writes the samples.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub fn save_samples(&self, results: &ExperimentResults) -> Result<()> {
        self.write(SAMPLES, csv(results).as_bytes())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        let beside = path.with_added_extension("new");
        let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, &path));
        if written.is_err() {
            // What is there of it only takes room.
            let _ = fs::remove_file(&beside);
        }
        explain(written, "write", &path)
    }
}

/// The results in a folder of experiments, or of one.
///
/// # Errors
/// When there are none, or they cannot be read.
pub fn load(directory: &Path) -> Result<Vec<ExperimentResults>> {
    let mut files = Vec::new();
    if directory.join(RESULTS).is_file() {
        files.push(directory.join(RESULTS));
    } else {
        let entries = fs::read_dir(directory)
            .with_context(|| format!("cannot read the folder {}", directory.display()))?;
        for entry in entries {
            let entry =
                entry.with_context(|| format!("cannot read the folder {}", directory.display()))?;
            let file = entry.path().join(RESULTS);
            if file.is_file() {
                files.push(file);
            }
        }
    }
    anyhow::ensure!(
        !files.is_empty(),
        "there are no results in {}: first `carrick lab run all --out {}`",
        directory.display(),
        directory.display()
    );
    let mut results: Vec<ExperimentResults> = Vec::new();
    for file in files {
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let one = serde_json::from_slice(&bytes).with_context(|| {
            format!("{}: these are no results of an experiment", file.display())
        })?;
        results.push(one);
    }
    results.sort_by_key(|one| one.started_unix_seconds);
    Ok(results)
}

/// A line for each metric of each sample.
fn csv(results: &ExperimentResults) -> String {
    let mut text = String::from("workload,series,parameters,sample,metric,value\n");
    for cell in &results.cells {
        let parameters: Vec<String> = cell
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}={}", show(value)))
            .collect();
        for (number, sample) in cell.samples.iter().enumerate() {
            for (metric, value) in sample {
                // Writing to memory cannot fail.
                let _ = writeln!(
                    text,
                    "{},{},{},{},{metric},{value}",
                    cell.workload,
                    cell.series,
                    parameters.join(" "),
                    number + 1
                );
            }
        }
    }
    text
}

fn explain(done: io::Result<()>, what: &str, path: &Path) -> Result<()> {
    done.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull => {
                ": the disk is full: make room, or name another folder with --out"
            }
            io::ErrorKind::PermissionDenied => ": name another folder with --out",
            _ => "",
        };
        anyhow::Error::from(error).context(format!("cannot {what} {}{hint}", path.display()))
    })
}

#[cfg(test)]
mod tests;
