//! Who takes part in a workload: which peer, on which listener and test bed, and whether it can yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::expression;
use super::spec::{Experiment, Series, Workload};
use crate::peers::probe::{self, Answer};
use crate::peers::{Family, Job, Peer, Programs, by_name};
use crate::testbed::TestbedPlan;

/// The programs that experiments know besides carrick.
const OTHERS: [Family; 6] = [
    Family::Haproxy,
    Family::Nginx,
    Family::Squid,
    Family::Varnish,
    Family::TrafficServer,
    Family::Pepsal,
];

/// The programs of this machine, and what carrick said that it can do.
#[derive(Debug)]
pub struct Tools {
    /// The programs.
    pub programs: Programs,
    missing: BTreeMap<Family, String>,
    directory: PathBuf,
    answers: Vec<(Question, Answer)>,
}

/// What carrick is asked: whose configuration, for which listener, variant of the template, and what is appended.
type Question = (&'static str, Job, Option<String>, String);

/// What is left out, by `--proxy`, `--engine` and `--peers`.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Programs; none: all.
    pub families: Vec<Family>,
    /// Engines of carrick; none: all.
    pub engines: Vec<String>,
    /// Peers, or the programs behind them; none: all.
    pub names: Vec<String>,
}

/// A series in a workload.
#[derive(Clone, Debug)]
pub struct Member {
    /// The series.
    pub name: String,
    /// As the experiment has it.
    pub series: Series,
    /// The program.
    pub peer: Peer,
    /// The listener that the load goes to.
    pub job: Job,
    /// The programs, with the variant of templates that this one wants.
    pub programs: Programs,
    /// The test bed that it wants.
    pub testbed: TestbedPlan,
    /// Whether it can take part.
    pub state: State,
}

/// Whether a series can be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Yes.
    Ready,
    /// Not before this is built.
    WaitingFor(String),
    /// Not on this machine: why.
    Impossible(String),
}

impl Tools {
    /// Finds the programs. `directory` is for what carrick is asked about; no `carrick`: no series is one of its.
    ///
    /// # Errors
    /// When there is no such carrick.
    pub fn find(
        carrick: Option<&Path>,
        configurations: Option<&Path>,
        directory: &Path,
    ) -> Result<Self> {
        let (programs, missing) = Programs::find(&OTHERS, carrick, configurations)?;
        Ok(Self {
            programs,
            missing,
            directory: directory.to_owned(),
            answers: Vec::new(),
        })
    }

    /// The members of a workload, in the order of its series.
    ///
    /// # Errors
    /// When carrick cannot be asked.
    pub fn members(
        &mut self,
        experiment: &Experiment,
        workload: &Workload,
        filter: &Filter,
    ) -> Result<Vec<Member>> {
        let mut members = Vec::new();
        for name in &workload.series {
            let series = experiment
                .series
                .get(name)
                .with_context(|| format!("there is no series `{name}`"))?;
            let peer = by_name(series.peer.as_deref().unwrap_or(name))
                .with_context(|| format!("series `{name}`: there is no such peer"))?;
            if !filter.lets_through(&peer) {
                continue;
            }
            let variant = series
                .templates
                .as_deref()
                .or(workload.templates.as_deref());
            let programs = self.programs.with_variant(variant);
            let job = series.job.unwrap_or(workload.job);
            let testbed = expression::overlay(
                &expression::overlay(&experiment.testbed, &workload.testbed),
                &series.testbed,
            );
            let is_left = peer.leaves_http_1_0(job) && workload.is_http_1_0();
            let waits_for = is_left.then_some("bodies of HTTP/1.0");
            let state = self.state(&peer, job, waits_for, (series, variant), &programs)?;
            members.push(Member {
                name: name.clone(),
                series: series.clone(),
                peer,
                job,
                programs,
                testbed: testbed.try_into().context("the test bed")?,
                state,
            });
        }
        Ok(members)
    }

    fn state(
        &mut self,
        peer: &Peer,
        job: Job,
        waits_for: Option<&str>,
        (series, variant): (&Series, Option<&str>),
        programs: &Programs,
    ) -> Result<State> {
        if let Some(why) = self.missing.get(&peer.family) {
            if peer.family.is_rare() {
                return Ok(State::WaitingFor(format!("its program ({why})")));
            }
            return Ok(State::Impossible(why.clone()));
        }
        if let Some(why) = programs.why_not(peer, job) {
            // Not every machine has what it needs besides.
            return Ok(State::WaitingFor(why));
        }
        let Some(engine) = peer.engine() else {
            return Ok(State::Ready);
        };
        if let Some(what) = waits_for {
            return Ok(State::WaitingFor(format!("the {engine} engine for {what}")));
        }
        // All others are in one file.
        let asked_as = match job {
            Job::Gateway | Job::Cache | Job::CacheDisk => job,
            _ => Job::Switch,
        };
        let question = (
            peer.name,
            asked_as,
            variant.map(str::to_owned),
            series.configuration.clone(),
        );
        let known = self.answers.iter().find(|(asked, _)| *asked == question);
        let answer = match known {
            Some((_, answer)) => answer.clone(),
            None => {
                let answer = probe::ask_for(
                    peer,
                    asked_as,
                    programs,
                    &series.configuration,
                    &self.directory,
                )?;
                self.answers.push((question, answer.clone()));
                answer
            }
        };
        Ok(match answer {
            Answer::Takes => State::Ready,
            Answer::Refuses(why) => match what_is_waited_for(series, engine) {
                Some(what) => State::WaitingFor(what),
                None => State::Impossible(format!("carrick refuses its configuration: {why}")),
            },
        })
    }
}

/// What has to be built before carrick takes a series' configuration; `None`: nothing, it should.
#[must_use]
pub fn what_is_waited_for(series: &Series, engine: &str) -> Option<String> {
    series.waiting_for.clone().or_else(|| {
        (!matches!(engine, "auto" | "copy" | "pipe")).then(|| format!("the {engine} engine"))
    })
}

impl Filter {
    fn lets_through(&self, peer: &Peer) -> bool {
        let is_wanted = self.families.is_empty() || self.families.contains(&peer.family);
        let has_engine = |engine: &str| {
            self.engines.is_empty() || self.engines.iter().any(|wanted| wanted == engine)
        };
        let is_named = |name: &String| name == peer.name || name == peer.family.name();
        is_wanted
            && peer.engine().is_none_or(has_engine)
            && (self.names.is_empty() || self.names.iter().any(is_named))
    }
}

/// The shortest of runs: each series once for each job, and the first two of each workload, which it compares.
pub fn keep_new(workloads: &mut [Vec<Member>]) {
    let mut seen = BTreeSet::new();
    for members in workloads {
        let mut ready = 0;
        members.retain(|member| {
            let is_new = seen.insert((member.name.clone(), member.job));
            ready += u32::from(member.state == State::Ready);
            is_new || (member.state == State::Ready && ready <= 2)
        });
    }
}

#[cfg(test)]
mod tests;
