//! Reads the TOML file of an experiment, and tells what is wrong in it with its line.

mod check;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::expression::overlay;
use super::spec::Experiment;

/// Reads an experiment and checks that it fits together.
///
/// # Errors
/// With file, line, and what would be right.
pub fn parse(text: &str, file: &str) -> Result<Experiment> {
    let whole = with_templates(text).with_context(|| file.to_owned())?;
    let experiment: Experiment =
        toml::from_str(whole.as_deref().unwrap_or(text)).map_err(|error| {
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

/// The text with each workload laid over the table of `[like]` that it names, and that one over the one that it names itself. `None` if the file
/// has no such tables, so that mistakes are told with their lines.
fn with_templates(text: &str) -> Result<Option<String>> {
    let Ok(mut whole) = text.parse::<toml::Table>() else {
        return Ok(None);
    };
    let Some(toml::Value::Table(templates)) = whole.remove("like") else {
        return Ok(None);
    };
    let workloads = whole
        .get_mut("workload")
        .and_then(toml::Value::as_array_mut);
    for workload in workloads.into_iter().flatten() {
        let Some(workload) = workload.as_table_mut() else {
            continue;
        };
        while let Some(name) = workload.remove("like") {
            let template = name
                .as_str()
                .and_then(|name| templates.get(name)?.as_table());
            let Some(template) = template else {
                bail!("there is no table [like.{name}]");
            };
            *workload = overlay(template, workload);
        }
    }
    toml::to_string(&whole)
        .map(Some)
        .context("cannot lay workloads over what they are like")
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
