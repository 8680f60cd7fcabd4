//! However carrick ends, new connections go end to end at once, and the rules are as before.
use super::*;
use rustix::process::{Signal, kill_process};

/// A new connection of each family bypasses carrick, and is not delayed.
fn goes_past(bed: &Bed) {
    for address in SERVERS {
        let listener = listen(bed, address);
        let (mut client, mut server) = pair(bed, &listener);
        assert!(!is_split(bed, &client, &server), "{address}");
        talk(&mut client, &mut server);
    }
}

fn goes_through(bed: &Bed) {
    for address in SERVERS {
        let listener = listen(bed, address);
        let (mut client, mut server) = pair(bed, &listener);
        assert!(is_split(bed, &client, &server), "{address}");
        talk(&mut client, &mut server);
    }
}

#[test]
fn new_connections_go_end_to_end_after_every_kind_of_exit_and_rules_are_as_before() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let without_keepers = || {
        wait_until("the supervisor's end", || bed.supervisors().is_empty());
    };
    // SIGTERM.
    let carrick = bed.carrick(SPLIT);
    goes_through(&bed);
    carrick.stop();
    goes_past(&bed);
    assert_eq!(bed.rules(), before);
    // Killed, without waiting.
    let carrick = bed.carrick(SPLIT);
    goes_through(&bed);
    carrick.kill();
    goes_past(&bed);
    without_keepers();
    assert_eq!(bed.rules(), before);
    // The supervisor is killed, and carrick continues; after its end the rules lead to no listener until they are removed.
    let carrick = bed.carrick(SPLIT);
    kill_process(bed.supervisors()[0], Signal::KILL).expect("it exists");
    goes_through(&bed);
    carrick.stop();
    goes_past(&bed);
    assert_ne!(bed.rules(), before);
    assert_eq!(bed.command(&["clean"]).0, Some(0));
    assert_eq!(bed.rules(), before);
    // Both are killed.
    let carrick = bed.carrick(SPLIT);
    goes_through(&bed);
    kill_process(bed.supervisors()[0], Signal::KILL).expect("it exists");
    carrick.kill();
    goes_past(&bed);
    without_keepers();
    // The next one finds the leftovers, and removes them at its end.
    let carrick = bed.carrick(SPLIT);
    goes_through(&bed);
    carrick.stop();
    assert_eq!(bed.rules(), before);
    // A start that fails at its last step.
    let text = format!("[process]\nuser = \"nobody\"\n{SPLIT}");
    let program = crate::support::carrick::PROGRAM;
    let said = bed.try_carrick(&[program], &text).err().expect("no start");
    assert!(said.contains("cannot open the access log"), "{said}");
    goes_past(&bed);
    without_keepers();
    assert_eq!(bed.rules(), before);
}
