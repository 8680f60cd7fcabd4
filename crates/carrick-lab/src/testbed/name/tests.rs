//! Tests of the run's name.

use super::*;

#[test]
fn own_name_is_alive_and_reads_back() {
    let name = RunName::of_this_process().unwrap();
    assert!(name.is_alive());
    assert_eq!(RunName::parse(&name.part("client")), Some(name.clone()));
    assert_eq!(RunName::parse(&name.to_string()), Some(name));
}

#[test]
fn a_reused_pid_is_not_mistaken_for_the_run() {
    let mut name = RunName::of_this_process().unwrap();
    name.started_ticks += 1;
    assert!(!name.is_alive());
}

#[test]
fn foreign_names_are_left_alone() {
    for foreign in [
        "",
        "carrick-lab",
        "carrick-lab.x.1",
        "carrick-lab.1",
        "other.1.2.client",
        "carrick-labx.1.2",
    ] {
        assert_eq!(RunName::parse(foreign), None, "{foreign}");
    }
}
