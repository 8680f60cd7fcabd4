//! The results of an experiment on disk: `results.json`, whole at any time, and the samples as CSV.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::results::{Cell, ExperimentResults};
use crate::experiment::csv;
use crate::files::{self, explain};

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
    /// Names the folder; makes nothing yet.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Makes the folder; results of an earlier run are kept beside the new ones.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn begin(&self) -> Result<()> {
        explain(
            fs::create_dir_all(&self.folder),
            "make the folder",
            &self.folder,
        )?;
        let results = self.folder.join(RESULTS);
        if results.exists() {
            let earlier = self.folder.join(EARLIER);
            explain(fs::rename(&results, earlier), "move", &results)?;
        }
        Ok(())
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
            serde_json::to_string_pretty(results).context("cannot write the results as JSON")?;
        self.write(RESULTS, &text)
    }

    /// Writes the samples.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub fn save_samples(&self, results: &ExperimentResults) -> Result<()> {
        let cells: Vec<&Cell> = results.cells.iter().collect();
        self.write(SAMPLES, &csv::of(&cells))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        files::replace(&self.folder.join(name), text)
    }
}

#[cfg(test)]
mod tests;
