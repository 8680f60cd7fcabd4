//! Tests of the experiments that the program brings along.

use super::*;
use crate::experiment::results::Scale;
use crate::experiment::schedule;
use crate::experiment::spec::{Experiment, Thoroughness, Workload};
use crate::peers::{PEERS, Peer};

/// The tables and figures of measurements of each paper.
const OF_PAPERS: [(&str, &[&str]); 4] = [
    (
        "rosu-2002",
        &[
            "Table 4",
            "Figure 4",
            "Figure 5",
            "Figure 6",
            "Figure 7",
            "Figure 8",
            "Figure 9",
            "Figure 10",
            "Figure 11",
            "Figure 12",
            "Figure 13",
            "Figure 14",
            "Figure 15",
            "Figure 16",
            "Figure 17",
            "Figure 18",
            "Figure 19",
            "Figure 20",
            "Figure 21",
        ],
    ),
    ("cohen-1999", &["Table 1", "Table 2", "Table 3"]),
    ("kthread-2003", &["Figure 4", "Figure 5", "Figure 6"]),
    (
        "satellite-2003",
        &[
            "Figure 4",
            "Figure 5",
            "Figure 6",
            "Figure 7",
            "Figure 8",
            "Figure 9",
            "Figure 10",
            "Figure 11",
            "Figure 12",
            "Figure 13",
            "Figure 14",
            "Figure 15",
            "Figure 16",
            "Table I",
            "Table II",
            "Table III",
            "Table IV",
            "Table V",
            "Table VI",
        ],
    ),
];

#[test]
fn all_files_are_right() {
    let names: Vec<String> = all().unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(
        names,
        [
            "rosu-2002",
            "cohen-1999",
            "kthread-2003",
            "satellite-2003",
            "limits",
            "gateway",
            "peers"
        ]
    );
}

#[test]
fn every_table_and_figure_of_the_papers_is_there() {
    for (name, wanted) in OF_PAPERS {
        let experiment = named(name).unwrap().remove(0);
        for number in wanted {
            // A part of a figure is the figure's number, and what part it is.
            let found = experiment.figures.iter().any(|figure| {
                figure
                    .number
                    .strip_prefix(number)
                    .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
            });
            assert!(found, "{name}: {number}");
        }
    }
}

#[test]
fn every_workload_is_drawn_and_every_figure_has_something_to_say() {
    for experiment in all().unwrap() {
        for workload in &experiment.workloads {
            let ids = workload.ids();
            assert!(
                experiment
                    .figures
                    .iter()
                    .any(|figure| ids.contains(&figure.workload.as_str())),
                "{}: nothing is drawn of {}",
                experiment.name,
                workload.id
            );
        }
        for figure in &experiment.figures {
            assert!(
                experiment.paper.is_empty() || !figure.published.claims.is_empty(),
                "{}: {} lacks the paper's claims",
                experiment.name,
                figure.id
            );
        }
    }
}

#[test]
fn a_quick_run_of_everything_that_is_built_is_meant_to_take_seventeen_minutes_at_most() {
    let built = |experiment: &Experiment, workload: &Workload, name: &String| {
        let series = &experiment.series[name];
        let peer = series.peer.as_ref().unwrap_or(name);
        let job = series.job.unwrap_or(workload.job);
        let does = |known: &Peer| {
            let waits = known.leaves_http_1_0(job) && workload.is_http_1_0();
            known.name == peer && known.jobs.contains(&job) && !waits
        };
        series.waiting_for.is_none() && PEERS.iter().any(does)
    };
    let total: f64 = all()
        .unwrap()
        .iter()
        .flat_map(|experiment| {
            experiment.workloads.iter().map(|workload| {
                let series = workload
                    .series
                    .iter()
                    .filter(|name| built(experiment, workload, name))
                    .count();
                schedule::workload_time(workload, series, Thoroughness::Scale(Scale::Quick))
                    .as_secs_f64()
            })
        })
        .sum();
    assert!(total < 1020.0, "{total} s");
}

#[test]
fn an_unknown_name_is_answered_with_those_that_exist() {
    let said = named("rosu-2003").unwrap_err().to_string();
    assert!(
        said.contains("no experiment `rosu-2003`") && said.contains("kthread-2003"),
        "{said}"
    );
}
