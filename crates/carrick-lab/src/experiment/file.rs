//! Reads the TOML file of an experiment, and tells what is wrong in it with its line.

mod check;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::spec::Experiment;

/// Reads an experiment and checks that it fits together.
///
/// # Errors
/// With file, line, and what would be right.
pub fn parse(text: &str, file: &str) -> Result<Experiment> {
    let experiment: Experiment = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text[..start].matches('\n').count() + 1;
        let written = text.lines().nth(line - 1).unwrap_or_default().trim();
        anyhow::anyhow!("{file}:{line}: {} in `{written}`", error.message())
    })?;
    let problems = check::check(&experiment, text);
    if !problems.is_empty() {
        let lines: Vec<String> = problems
            .iter()
            .map(|problem| format!("{file}:{}: {}", problem.line, problem.text))
            .collect();
        bail!("{}", lines.join("\n"));
    }
    Ok(experiment)
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, or is wrong.
pub fn load(path: &Path) -> Result<Experiment> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the experiment {}", path.display()))?;
    parse(&text, &path.display().to_string())
}

#[cfg(test)]
mod tests;
