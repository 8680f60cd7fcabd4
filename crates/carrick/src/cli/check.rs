//! `carrick check`: lists all problems of a configuration, and what it would do.
use crate::cache::disk::misfit;
use crate::cli::args::{CheckArgs, FINE, WRONG};
use crate::config::problem::{self, Problem, Severity};
use crate::config::{self, summary};
use std::io::Write;
use std::process::ExitCode;

/// Checks a configuration file: problems go to standard error, a summary of its effect to standard output.
pub fn run(arguments: &CheckArgs) -> ExitCode {
    let name = match &arguments.config {
        Some(path) => path.display().to_string(),
        None => "the built-in configuration".to_owned(),
    };
    let (plan, problems) = match config::load(arguments.config.as_deref()) {
        Ok(loaded) => (Some(loaded.plan), loaded.problems),
        Err(rejected) => (None, rejected.problems),
    };
    report(&problems);
    let is_warned = problem::worst(&problems).is_some_and(|worst| worst > Severity::Note);
    let plan = plan.filter(|_| !(is_warned && arguments.strict));
    // A closed standard output is not an error.
    let _ = match &plan {
        Some(plan) if is_warned => {
            say_what_it_does(&format!("{name}: no errors, {}", count(&problems)), plan)
        }
        Some(plan) => say_what_it_does(&format!("{name}: fine"), plan),
        None => writeln!(anstream::stderr().lock(), "{name}: {}", count(&problems)),
    };
    ExitCode::from(if plan.is_some() { FINE } else { WRONG })
}

/// Shows problems on standard error, in colours if it is a terminal.
pub fn report(problems: &[Problem]) {
    let _ = anstream::stderr()
        .lock()
        .write_all(problem::render(problems, true).as_bytes());
}

fn say_what_it_does(verdict: &str, plan: &config::plan::Plan) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{verdict}")?;
    let disk = plan.cache.as_ref().and_then(|cache| cache.disk.as_ref());
    if let Some(why) = disk.and_then(misfit) {
        writeln!(anstream::stderr().lock(), "note: {why}")?;
    }
    for line in summary::lines(plan)
        .into_iter()
        .chain(summary::account(plan))
        .chain(summary::paths(plan))
    {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// `2 errors, 1 warning`
fn count(problems: &[Problem]) -> String {
    let counts = [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Note, "note"),
    ]
    .map(|(severity, name)| {
        let count = problems
            .iter()
            .filter(|problem| problem.severity == severity)
            .count();
        (
            count,
            format!("{count} {name}{}", if count == 1 { "" } else { "s" }),
        )
    });
    let some: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(_, text)| text)
        .collect();
    some.join(", ")
}
