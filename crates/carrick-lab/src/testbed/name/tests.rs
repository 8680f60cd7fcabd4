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
        "carricklab",
        "carricklabx",
        "carricklab1",
        "carricklab1x",
        "carricklab1x2a",
        "carricklab1x2b",
        "carricklab1x2b3c",
        "other1x2b3.client",
    ] {
        assert_eq!(RunName::parse(foreign), None, "{foreign}");
    }
}

#[test]
fn runs_of_one_process_have_names_of_their_own() {
    let [one, other] = [(); 2].map(|()| RunName::of_this_process().unwrap());
    assert_ne!(one, other);
    assert_ne!(one.to_string(), other.to_string());
}
