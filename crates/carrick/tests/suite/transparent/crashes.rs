//! What remains when carrick is killed, and how it is removed.
use super::*;
use crate::support::carrick::PROGRAM;
use crate::support::wait_for;
use rustix::process::{Signal, kill_process};

/// Kills carrick and its supervisor, so that the rules remain.
fn kill_both(bed: &Bed, carrick: super::bed::Running) {
    for supervisor in bed.supervisors() {
        kill_process(supervisor, Signal::KILL).expect("it exists");
    }
    carrick.kill();
    bed.wait_for_supervisors();
}

#[test]
fn rules_are_gone_after_the_end_and_also_after_a_kill() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let carrick = bed.carrick(SWITCH);
    let during = bed.rules();
    assert!(
        during.contains("table inet carrick-8080") && during.contains("lookup 108080"),
        "{during}"
    );
    assert_eq!(bed.supervisors().len(), 1);
    // Signals from a terminal or systemd to the whole group do not end the supervisor first.
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::ABORT] {
        kill_process(bed.supervisors()[0], signal).expect("it exists");
    }
    assert!(bed.curl("http://10.2.0.2/").contains(VIA));
    carrick.stop();
    assert_eq!(bed.rules(), before);
    assert!(bed.supervisors().is_empty());
    assert!(bed.curl("http://10.2.0.2/").contains("via= "));

    bed.carrick(SWITCH).kill();
    // The next one may start while the previous supervisor is still working, if that takes no longer than three seconds.
    let next = wait_for("the next one", || {
        let started = bed.try_carrick(&[PROGRAM], SWITCH);
        if let Err(said) = &started {
            assert!(said.contains("another carrick has rules"), "{said}");
        }
        started.ok()
    });
    next.kill();
    bed.wait_for_supervisors();
    assert_eq!(bed.rules(), before);
    assert!(bed.curl("http://10.2.0.2/").contains("via= "));
}

#[test]
fn rules_of_a_killed_carrick_and_supervisor_are_removed_at_the_next_start() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    kill_both(&bed, bed.carrick(SWITCH));
    assert_ne!(bed.rules(), before, "something is left");
    // With other rules, so that none of the old ones is recreated.
    let other = SWITCH
        .replace("8080", "8090")
        .replace("ports = [80]", "ports = [8000]");
    let carrick = bed.carrick(&other);
    assert!(!bed.rules().contains("8080"), "{}", bed.rules());
    assert!(bed.curl("http://10.2.0.2/").contains("via= "));
    assert!(bed.curl("http://10.2.0.2:8000/").contains(VIA));
    kill_both(&bed, carrick);
    // And with the same.
    let carrick = bed.carrick(&other);
    assert_eq!(bed.rules().matches("table inet").count(), 1);
    assert_eq!(
        bed.rules().matches("lookup 108090").count(),
        2,
        "{}",
        bed.rules()
    );
    assert!(bed.curl("http://10.2.0.2:8000/").contains(VIA));
    carrick.stop();
    assert_eq!(bed.rules(), before);
}

#[test]
fn clean_removes_what_is_left_and_nothing_else() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let (code, said) = bed.command(&["clean"]);
    assert_eq!((code, said.as_str()), (Some(0), "nothing was left over\n"));
    let other = SWITCH
        .replace("8080", "8090")
        .replace("ports = [80]", "ports = [8000]");
    let alive = bed.carrick(&other);
    let with_one = bed.rules();
    let supervisors_before = bed.supervisors();
    let dead = bed.carrick(SWITCH);
    for supervisor in bed
        .supervisors()
        .iter()
        .filter(|supervisor| !supervisors_before.contains(supervisor))
    {
        kill_process(*supervisor, Signal::KILL).expect("it exists");
    }
    dead.kill();
    let (code, said) = bed.command(&["clean"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(bed.rules(), with_one);
    for part in [
        "removed: nft table inet carrick-8080\n",
        "removed: rule of `ip -4 rule` with priority ",
        "removed: route of `ip -6 route` in the routing table 108080\n",
        "kept, in use by a running carrick: nft table inet carrick-8090\n",
    ] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    assert!(bed.curl("http://10.2.0.2:8000/").contains(VIA));
    drop(alive);
    assert_eq!(bed.rules(), before);
}

#[test]
fn a_start_that_fails_leaves_nothing() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    // The last step before the first client: a log that cannot be opened.
    let text = format!("[process]\nuser = \"nobody\"\n{SWITCH}");
    let said = bed.try_carrick(&[PROGRAM], &text).err().expect("no start");
    assert!(said.contains("cannot open the access log"), "{said}");
    assert_eq!(bed.rules(), before);
    assert!(bed.supervisors().is_empty());
}

#[test]
fn a_carrick_whose_supervisor_was_killed_continues_and_reports_the_leftovers() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let carrick = bed.carrick(SWITCH);
    kill_process(bed.supervisors()[0], Signal::KILL).expect("it exists");
    assert!(bed.curl("http://10.2.0.2/").contains(VIA));
    // Its rules are still its own.
    let (code, said) = bed.command(&["clean"]);
    assert!(
        code == Some(0) && said.contains("kept, in use") && !said.contains("removed"),
        "{said}"
    );
    let said = carrick.stop();
    assert!(
        said.contains("did not exit cleanly") && said.contains("`carrick clean`"),
        "{said}"
    );
    let (code, said) = bed.command(&["clean"]);
    assert!(code == Some(0) && said.contains("removed"), "{said}");
    assert_eq!(bed.rules(), before);
}
