//! Tests of the experiments that the program brings along.

use super::*;
use crate::bench::plan::{Asks, Does};
use crate::experiment::results::Scale;
use crate::experiment::schedule;
use crate::experiment::spec::{Experiment, Thoroughness, Workload};
use crate::peers::{Job, PEERS, Peer};

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
            let unasked = experiment.workloads.iter().filter(|one| !one.on_request);
            unasked.map(|workload| {
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

/// Workloads of the side-by-side benchmark for a job that a peer is measured at.
fn works_of(peer: &str, job: Job) -> Vec<String> {
    let workloads = bench().unwrap().workloads.into_iter();
    let is_its = |workload: &Workload| {
        let is_memory = workload.id.starts_with("memory");
        workload.job == job && !is_memory && workload.series.iter().any(|series| series == peer)
    };
    workloads
        .filter(is_its)
        .map(|workload| workload.id)
        .collect()
}

#[test]
fn side_by_side_the_packet_engine_is_measured_where_it_works() {
    let kept = [
        "switch-1k",
        "switch-10k",
        "switch-64k",
        "switch-256k",
        "switch-1m",
        "switch-100-1k",
        "switch-9000-1k",
        "switch-100000-1k",
    ];
    assert_eq!(works_of("carrick-packet", Job::Switch), kept);
    assert_eq!(works_of("carrick-packet-body", Job::Switch), kept[3..5]);
    assert_eq!(
        works_of("carrick-packet", Job::Forward),
        ["connect-pages", "forward-1m"]
    );
    assert_eq!(works_of("carrick-packet", Job::Tunnel).len(), 13);
    assert_eq!(
        works_of("carrick-packet-body", Job::Tunnel),
        Vec::<String>::new()
    );
}

#[test]
fn side_by_side_sockets_are_for_tunnels_and_a_carrick_without_a_cache_for_misses() {
    for workload in bench().unwrap().workloads {
        let has = |peer: &str| workload.series.iter().any(|series| series == peer);
        let does = workload.work().unwrap().does;
        if !matches!(does, Does::Memory(_)) {
            assert_eq!(
                has("carrick-socket"),
                workload.job == Job::Tunnel,
                "{}",
                workload.id
            );
        }
        let is_new = does == Does::Cache(Asks::New);
        assert_eq!(has("carrick-uncached"), is_new, "{}", workload.id);
        if workload.job == Job::Cache && matches!(does, Does::Cache(_)) {
            assert!(has("varnish") && !has("haproxy"), "{}", workload.id);
        }
    }
}

#[test]
fn side_by_side_there_are_all_works_and_each_is_drawn() {
    let bench = bench().unwrap();
    let count = |has: fn(&Workload) -> bool| bench.workloads.iter().filter(|one| has(one)).count();
    assert_eq!(bench.workloads.len(), 56);
    assert_eq!(count(|one| one.on_request), 9);
    assert_eq!(count(|one| one.id.starts_with("memory")), 7);
    let targets: usize = bench.workloads.iter().map(|one| one.targets.len()).sum();
    assert_eq!(targets, 127);
    for workload in &bench.workloads {
        let is_drawn = bench
            .figures
            .iter()
            .any(|figure| figure.shows(&workload.id));
        assert!(is_drawn, "{}", workload.id);
        // The others are named by whoever wants to know.
        for target in &workload.targets {
            let own = crate::peers::by_name(&target.of).unwrap();
            let is_of_packet = own.engine() == Some("packet");
            assert!(!workload.on_request || is_of_packet, "{}", workload.id);
        }
        if let Does::Cache(Asks::Many) = workload.work().unwrap().does {
            let each = workload.work().unwrap().body_bytes;
            let bytes = Asks::Many.objects(each) * each as u64;
            assert_eq!(
                bytes,
                512 << 20,
                "{}: it must not fit into memory",
                workload.id
            );
        }
    }
}
