//! A part of an experiment, or a shorter run of it: what `carrick-lab run` is given in place of the grid's own values.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::expression::show;
use super::spec::{Amount, Effort, Experiment, Parameter, Workload};
use super::value::Value;

/// Least and most seconds of a sample.
pub const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=86_400.0;
/// Most samples of a point.
pub const SAMPLES_MAX: u32 = 1_000;

/// What replaces the grid's own values. The default leaves all as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Measured seconds of a sample, within [`SECONDS`]. A longer warm-up is cut to as much.
    pub seconds: Option<f64>,
    /// Samples of each point, from 1 to [`SAMPLES_MAX`].
    pub samples: Option<u32>,
    /// Values of parameters, by name: workloads have only these points, or are left out where they have none.
    pub values: BTreeMap<String, Vec<String>>,
}

impl Selection {
    /// Adds `NAME=VALUE`.
    ///
    /// # Errors
    /// When it is not written so.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let Some((name, value)) = text.split_once('=') else {
            bail!("--where {text}: it is to be NAME=VALUE, as in `--where embedded=19`");
        };
        let values = self.values.entry(name.trim().to_owned()).or_default();
        values.push(value.trim().to_owned());
        Ok(())
    }

    /// Replaces, in all experiments; leaves out workloads and experiments that have no point.
    ///
    /// # Errors
    /// When no workload has a parameter of such a name, or such a value of it: with those that there are. When seconds or
    /// samples are not within their limits.
    pub fn apply(&self, experiments: &mut Vec<Experiment>) -> Result<()> {
        self.check(experiments)?;
        for experiment in experiments.iter_mut() {
            for workload in &mut experiment.workloads {
                self.shorten(&mut workload.quick);
                self.shorten(&mut workload.full);
                self.restrict(workload);
            }
            experiment
                .workloads
                .retain(|workload| self.has_points(workload));
            let left = &experiment.workloads;
            experiment.figures.retain(|figure| {
                left.iter()
                    .any(|workload| workload.ids().into_iter().any(|id| figure.shows(id)))
            });
        }
        experiments.retain(|experiment| !experiment.workloads.is_empty());
        if experiments.is_empty() {
            bail!(
                "--where {}: no workload has such a point",
                self.wheres().join(" --where ")
            );
        }
        Ok(())
    }

    /// What is replaced, for a reader of the results: `samples of 60 s, 2 of each point, only embedded=19`. None: nothing.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let seconds = self
            .seconds
            .map(|seconds| format!("samples of {seconds} s instead of the experiment's own"));
        let samples = self
            .samples
            .map(|samples| format!("{samples} of each point"));
        let wheres =
            (!self.values.is_empty()).then(|| format!("only {}", self.wheres().join(", ")));
        let parts: Vec<String> = [seconds, samples, wheres].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn wheres(&self) -> Vec<String> {
        let each = |(name, values): (&String, &Vec<String>)| {
            let of = |value: &String| format!("{name}={value}");
            values.iter().map(of).collect::<Vec<_>>()
        };
        self.values.iter().flat_map(each).collect()
    }

    fn check(&self, experiments: &[Experiment]) -> Result<()> {
        if let Some(seconds) = self.seconds
            && !SECONDS.contains(&seconds)
        {
            bail!(
                "--seconds {seconds}: a sample takes {} to {} seconds",
                SECONDS.start(),
                SECONDS.end()
            );
        }
        if let Some(samples) = self.samples
            && !(1..=SAMPLES_MAX).contains(&samples)
        {
            bail!("--samples {samples}: a point has 1 to {SAMPLES_MAX} samples");
        }
        let known = parameters(experiments);
        for (name, values) in &self.values {
            let Some(of_name) = known.get(name) else {
                let names: Vec<&str> = known.keys().map(String::as_str).collect();
                bail!(
                    "--where: what is to be run has no parameter `{name}`, only {}",
                    list(&names)
                );
            };
            for value in values {
                if !of_name.contains(value) {
                    let values: Vec<&str> = of_name.iter().map(String::as_str).collect();
                    bail!("--where: `{name}` is never {value}, only {}", list(&values));
                }
            }
        }
        Ok(())
    }

    fn shorten(&self, effort: &mut Effort) {
        if let Some(seconds) = self.seconds {
            effort.measured_seconds = Amount::Number(seconds);
            effort.warm_up_seconds = effort.warm_up_seconds.min(seconds);
        }
        if let Some(samples) = self.samples {
            effort.samples = samples;
        }
    }

    fn restrict(&self, workload: &mut Workload) {
        for (name, wanted) in &self.values {
            if let Some(parameter) = workload.parameters.get_mut(name) {
                let mut values = all_values(parameter);
                values.retain(|value| wanted.contains(&show(value)));
                // Who names a value has it in a quick run, too.
                parameter.quick.clone_from(&values);
                parameter.values = values;
            }
        }
    }

    fn has_points(&self, workload: &Workload) -> bool {
        self.values.keys().all(|name| {
            let parameter = workload.parameters.get(name);
            parameter.is_some_and(|parameter| !parameter.values.is_empty())
        })
    }
}

/// All parameters with all their values as they are written, in the order of the files.
fn parameters(experiments: &[Experiment]) -> BTreeMap<String, Vec<String>> {
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let workloads = experiments.iter().flat_map(|one| &one.workloads);
    for (name, parameter) in workloads.flat_map(|workload| &workload.parameters) {
        let values = known.entry(name.clone()).or_default();
        for value in all_values(parameter) {
            let value = show(&value);
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    known
}

fn all_values(parameter: &Parameter) -> Vec<Value> {
    let mut values = parameter.values.clone();
    for value in &parameter.quick {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

fn list(names: &[&str]) -> String {
    if names.is_empty() {
        String::from("none at all")
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests;
