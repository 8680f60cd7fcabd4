//! Tests of results on disk.

use super::*;
use crate::experiment::results::{Cell, Scale};
use crate::experiment::value::Value;
use crate::report::load;

fn begun(out: &Path, name: &str) -> Store {
    let store = Store::new(out.join(name));
    store.begin().unwrap();
    store
}

fn results(name: &str, started_unix_seconds: u64) -> ExperimentResults {
    ExperimentResults {
        name: name.to_owned(),
        title: String::new(),
        paper: String::new(),
        about: String::new(),
        scale: Scale::Quick,
        selection: None,
        command: String::new(),
        started_unix_seconds,
        took_seconds: 0.0,
        seed: 1,
        congestion_control: String::from("cubic"),
        machine: crate::testbed::machine::Machine::default(),
        versions: [].into(),
        meter: String::new(),
        ended_early: None,
        notes: Vec::new(),
        workloads: Vec::new(),
        cells: vec![Cell {
            workload: String::from("gets"),
            series: String::from("routed"),
            parameters: [
                (String::from("cache"), Value::Word(String::from("hit"))),
                (String::from("size"), Value::Number(1024.0)),
            ]
            .into(),
            samples: vec![[(String::from("latency_mean_ms"), 1.5)].into()],
            ..Cell::default()
        }],
        figures: Vec::new(),
        series_labels: [].into(),
    }
}

#[test]
fn results_are_read_as_they_were_written_and_earlier_ones_are_kept() {
    let out = tempfile::tempdir().unwrap();
    for (name, started) in [("b", 2), ("a", 1)] {
        begun(out.path(), name)
            .save(&results(name, started))
            .unwrap();
    }
    let found = load(out.path()).unwrap();
    assert_eq!(found, [results("a", 1), results("b", 2)]);
    let again = begun(out.path(), "a");
    assert!(again.folder().join(EARLIER).is_file());
    again.save(&results("a", 3)).unwrap();
    assert_eq!(load(again.folder()).unwrap(), [results("a", 3)]);
}

#[test]
fn what_cannot_be_written_is_explained_and_leaves_nothing() {
    let out = tempfile::tempdir().unwrap();
    let store = begun(out.path(), "a");
    // A folder in the way of the file.
    fs::create_dir(store.folder().join(RESULTS)).unwrap();
    let said = format!("{:#}", store.save(&results("a", 1)).unwrap_err());
    assert!(said.contains("cannot write"), "{said}");
    assert!(
        !store.folder().join("results.json.new").exists(),
        "nothing is left of it"
    );
}

#[test]
fn a_full_disk_is_named() {
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let said = format!(
        "{:#}",
        explain(Err(full), "write", Path::new("x/results.json")).unwrap_err()
    );
    assert!(said.contains("the disk is full: make room"), "{said}");
}
