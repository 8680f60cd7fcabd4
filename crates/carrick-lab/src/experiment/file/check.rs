//! Whether an experiment fits together: names that are used exist, loads can be made, figures show what is measured.

use std::collections::BTreeSet;

use crate::bench::plan::Work;
use crate::bench::run::METRICS;
use crate::experiment::expression;
use crate::experiment::figure::{Figure, Test, WORKLOAD};
use crate::experiment::metrics;
use crate::experiment::results::{CORES, Scale};
use crate::experiment::schedule;
use crate::experiment::spec::{Cores, Experiment, Thoroughness, Workload};
use crate::load::plan::LoadPlan;
use crate::testbed::plan::TestbedPlan;

/// A mistake, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub text: String,
}

/// Everything that is wrong.
#[must_use]
pub fn check(experiment: &Experiment, text: &str) -> Vec<Problem> {
    let mut problems = Problems {
        text,
        found: Vec::new(),
    };
    if !is_name(&experiment.name) {
        problems.add(
            "name",
            &experiment.name,
            String::from("a name is of letters, digits and `-`: it becomes a folder"),
        );
    }
    for (name, series) in &experiment.series {
        let line = problems.line_of(&format!("[series.{name}]"));
        if let Some(peer) = &series.peer
            && crate::peers::by_name(peer).is_none()
        {
            problems.add_at(line, format!("series `{name}`: {}", no_peer(peer)));
        }
        if series.peer.is_none() && crate::peers::by_name(name).is_none() {
            problems.add_at(
                line,
                format!(
                    "series `{name}`: {}, and the series names no `peer`",
                    no_peer(name)
                ),
            );
        }
        if series.configuration.is_empty()
            && series.templates.is_none()
            && series.waiting_for.is_some()
        {
            problems.add_at(
                line,
                format!("series `{name}`: `waiting_for` needs a `configuration` or `templates` that carrick is asked about"),
            );
        }
    }
    let mut ids = BTreeSet::new();
    for workload in &experiment.workloads {
        for id in workload.ids() {
            if !ids.insert(id.to_owned()) {
                problems.add("id", id, format!("there are two workloads `{id}`"));
            }
        }
        check_workload(experiment, workload, &mut problems);
    }
    let mut figures = BTreeSet::new();
    for figure in &experiment.figures {
        if !figures.insert(figure.id.clone()) {
            problems.add(
                "id",
                &figure.id,
                format!("there are two figures `{}`", figure.id),
            );
        }
        check_figure(experiment, figure, &mut problems);
    }
    problems.found
}

fn check_workload(experiment: &Experiment, workload: &Workload, problems: &mut Problems<'_>) {
    let line = problems.line_of_id("workload", &workload.id);
    let mut wrong = |text: String| {
        problems.add_at(line, format!("workload `{}`: {text}", workload.id));
    };
    if !is_name(&workload.id) {
        wrong(String::from("an id is of letters, digits and `-`"));
    }
    if workload.series.is_empty() {
        wrong(String::from("names no series"));
    }
    if let Err(error) = Work::of(&workload.load) {
        wrong(format!("load: {error}"));
    }
    if workload.cores == Cores::Varied && !workload.parameters.contains_key(CORES) {
        wrong(format!("cores = \"varied\" needs the parameter `{CORES}`"));
    }
    for target in &workload.targets {
        if !workload.series.contains(&target.of) {
            wrong(format!(
                "a target judges `{}`, which is not one of its series",
                target.of
            ));
        }
    }
    for (name, parameter) in &workload.parameters {
        if parameter.values.is_empty() {
            wrong(format!("the parameter `{name}` has no values"));
        }
    }
    for derived in &workload.derived {
        for series in [&derived.of, &derived.against] {
            if !workload.series.contains(series) {
                wrong(format!(
                    "`{}` is derived of `{series}`, which is not one of its series",
                    derived.name
                ));
            }
        }
    }
    for name in &workload.series {
        let Some(series) = experiment.series.get(name) else {
            wrong(format!(
                "there is no series `{name}`: {}",
                list(experiment.series.keys())
            ));
            continue;
        };
        let job = series.job.unwrap_or(workload.job);
        let peer = crate::peers::by_name(series.peer.as_deref().unwrap_or(name));
        if peer.is_some_and(|peer| !peer.jobs.contains(&job)) {
            wrong(format!(
                "series `{name}`: its peer does not do {}",
                job.name()
            ));
        }
        let table = expression::overlay(
            &expression::overlay(&experiment.testbed, &workload.testbed),
            &series.testbed,
        );
        if let Err(error) = table.try_into::<TestbedPlan>() {
            wrong(format!("series `{name}`: testbed: {error}"));
            return;
        }
        for thoroughness in [
            Thoroughness::Scale(Scale::Full),
            Thoroughness::Scale(Scale::Quick),
        ] {
            for point in schedule::points(workload, thoroughness) {
                if workload.work().is_none()
                    && let Err(error) =
                        schedule::try_load_plan(workload, series, &point, thoroughness)
                {
                    wrong(format!("series `{name}`: {error:#}"));
                    return;
                }
                let wan = workload
                    .wan
                    .as_deref()
                    .map(|wan| expression::interpolate(wan, &point));
                match wan {
                    Some(Err(error)) => {
                        wrong(format!("wan: {error:#}"));
                        return;
                    }
                    Some(Ok(wan)) if !experiment.wan.contains_key(&wan) => {
                        wrong(format!(
                            "there is no network `{wan}`: {}",
                            list(experiment.wan.keys())
                        ));
                        return;
                    }
                    _ => {}
                }
            }
        }
    }
}

fn check_figure(experiment: &Experiment, figure: &Figure, problems: &mut Problems<'_>) {
    let line = problems.line_of_id("figure", &figure.id);
    let mut wrong = |text: String| {
        problems.add_at(line, format!("figure `{}`: {text}", figure.id));
    };
    let Some(workload) = experiment
        .workloads
        .iter()
        .find(|workload| workload.ids().into_iter().any(|id| figure.shows(id)))
    else {
        let ids = experiment.workloads.iter().flat_map(Workload::ids);
        wrong(format!(
            "there is no workload `{}`: {}",
            figure.workload,
            list(ids)
        ));
        return;
    };
    let parameters = parameters_of(workload, &figure.workload);
    for (name, what) in [(&figure.x.name, "x")]
        .into_iter()
        .chain(figure.only.keys().map(|name| (name, "where")))
        .chain(figure.lines_by.iter().map(|name| (name, "lines_by")))
    {
        if name != SERIES && name != WORKLOAD && !parameters.contains(name) {
            wrong(format!(
                "{what}: the workload has no parameter `{name}`: {}",
                list(&parameters)
            ));
        }
    }
    for (name, value) in &figure.only {
        let values = workload.parameters.get(name);
        if values.is_some_and(|parameter| !parameter.values.contains(value)) {
            wrong(format!(
                "where: `{name}` is never {}",
                expression::show(value)
            ));
        }
    }
    let metrics = metrics_of(experiment, workload, &figure.workload);
    for axis in std::iter::once(&figure.y).chain(&figure.columns) {
        if !metrics.contains(&axis.name) {
            wrong(format!(
                "the workload has no metric `{}`: {}",
                axis.name,
                list(&metrics)
            ));
        }
    }
    for point in &figure.published.points {
        if let Some(metric) = &point.metric
            && metric != &figure.y.name
            && !figure.columns.iter().any(|axis| &axis.name == metric)
        {
            wrong(format!(
                "a published point has the metric `{metric}`, which is not shown"
            ));
        }
    }
    let mut used: Vec<&String> = figure.series.iter().collect();
    used.extend(figure.against.as_ref().map(|against| &against.series));
    for check in &figure.checks {
        used.extend(match &check.test {
            Test::Rises { of } | Test::Falls { of } | Test::Within { of, .. } => vec![of],
            Test::Below { of, than, .. } => vec![of, than],
            Test::BestAtLeast { of, .. } => of.iter().collect(),
        });
    }
    for series in used {
        if !workload.series.contains(series) {
            wrong(format!(
                "the workload has no series `{series}`: {}",
                list(&workload.series)
            ));
        }
    }
}

/// For tables with a row for each series.
pub const SERIES: &str = "series";

/// The parameters that cells of a workload have.
fn parameters_of(workload: &Workload, id: &str) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = workload.parameters.keys().cloned().collect();
    if workload
        .distribution
        .as_ref()
        .is_some_and(|more| more.id == id)
    {
        names.insert(String::from("percentile"));
    }
    if workload.by_class.as_ref().is_some_and(|more| more.id == id) {
        names.insert(String::from("class_bytes"));
    }
    names
}

/// The metrics that cells of a workload can have.
fn metrics_of(experiment: &Experiment, workload: &Workload, id: &str) -> BTreeSet<String> {
    if workload
        .distribution
        .as_ref()
        .is_some_and(|more| more.id == id)
    {
        return metrics::OF_DISTRIBUTION.map(String::from).into();
    }
    if workload.by_class.as_ref().is_some_and(|more| more.id == id) {
        return metrics::OF_CLASS.map(String::from).into();
    }
    if workload.work().is_some() {
        return METRICS.map(String::from).into();
    }
    let mut names: BTreeSet<String> = metrics::ALWAYS.map(String::from).into();
    if workload.cores != Cores::Shared {
        names.extend(metrics::OF_METER.map(String::from));
    }
    if workload.capture {
        names.extend(metrics::OF_CAPTURE.map(String::from));
    }
    names.extend(workload.derived.iter().map(|derived| derived.name.clone()));
    let first = schedule::points(workload, Thoroughness::Scale(Scale::Full));
    let plans = workload.series.iter().filter_map(|name| {
        let series = experiment.series.get(name)?;
        schedule::try_load_plan(
            workload,
            series,
            first.first()?,
            Thoroughness::Scale(Scale::Full),
        )
        .ok()
    });
    for LoadPlan { classes, .. } in plans {
        names.extend(
            classes
                .iter()
                .flat_map(|class| metrics::of_class(&class.name)),
        );
    }
    names
}

struct Problems<'a> {
    text: &'a str,
    found: Vec<Problem>,
}

impl Problems<'_> {
    fn add(&mut self, key: &str, value: &str, text: String) {
        let line = self.line_of(&format!("{key} = \"{value}\""));
        self.add_at(line, text);
    }

    fn add_at(&mut self, line: usize, text: String) {
        let problem = Problem { line, text };
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    fn line_of(&self, begins: &str) -> usize {
        let mut lines = self.text.lines();
        lines
            .position(|line| line.trim().starts_with(begins))
            .unwrap_or(0)
            + 1
    }

    /// The line of `id = "…"` in a table of this kind.
    fn line_of_id(&self, table: &str, id: &str) -> usize {
        let (heading, wanted) = (format!("[[{table}]]"), format!("id = \"{id}\""));
        let mut inside = false;
        for (index, line) in self.text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with("[[") {
                inside = line.starts_with(&heading);
            }
            if inside && line.starts_with(&wanted) {
                return index + 1;
            }
        }
        1
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
}

fn no_peer(name: &str) -> String {
    format!(
        "there is no peer `{name}`: {}",
        list(crate::peers::PEERS.iter().map(|peer| peer.name))
    )
}

fn list(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let names: Vec<String> = names
        .into_iter()
        .map(|name| name.as_ref().to_owned())
        .collect();
    format!("there are {}", names.join(", "))
}
