//! Switching to the configured user: if that is impossible, carrick does not start, and says why.
use super::*;
use crate::support::carrick::Ended;
use std::process::Output;

fn check(place: &Place) -> Output {
    Command::new(PROGRAM)
        .args(["check", "-c", "carrick.toml"])
        .current_dir(place.directory())
        .output()
        .expect("the program")
}

fn must_end(place: &Place, text: &str, command: Command, code: i32) -> Ended {
    let ended = Carrick::try_start_by(place, text, command).expect_err("carrick must not start");
    assert_eq!(ended.status.code(), Some(code), "{ended:#?}");
    assert!(!ended.standard_error.contains("is ready"), "{ended:#?}");
    ended
}

#[test]
fn a_user_that_is_not_there_is_shown_with_its_line() {
    let place = Place::claim();
    let text = "[admin]\nlisten = \"\"\n[log]\naccess = \"\"\n[workers]\ncount = 1\n[timeouts]\nconnect = \"1s\"\n\
        [process]\nuser = \"carrick-nobody-has\"\n[[listener]]\nlisten = \"{ip}:18080\"\nmode = \"forward\"\n";
    let ended = must_end(&place, text, Command::new(PROGRAM), 2);
    let checked = check(&place);
    assert_eq!(checked.status.code(), Some(2));
    for said in [
        ended.standard_error,
        String::from_utf8_lossy(&checked.stderr).into_owned(),
    ] {
        for part in [
            "this machine has no user \"carrick-nobody-has\"",
            "carrick.toml:10:8",
            "getent passwd",
        ] {
            assert!(said.contains(part), "{part:?} is missing in {said}");
        }
    }
}

#[test]
fn check_reports_the_user() {
    let place = Place::claim();
    place.write(
        "carrick.toml",
        "[process]\nuser = \"nobody\"\n[[listener]]\nlisten = \"127.0.0.1:18080\"\nmode = \"forward\"\n",
    );
    let checked = check(&place);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(said.contains("  as nobody (user "), "{said}");
}

#[test]
fn an_ordinary_user_cannot_become_another_one() {
    if !is_root() {
        return;
    }
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = "[process]\nuser = \"root\"\n".to_owned() + &tunnel_text(&[server.address()]);
    let ended = must_end(&place, &text, by_nobody(&place, NOTHING), 1);
    let expected =
        "carrick runs as nobody and cannot become root, the [process] user: only root can";
    assert!(ended.standard_error.contains(expected), "{ended:#?}");
    // Being that user already is enough.
    let text = AS_NOBODY.to_owned() + &tunnel_text(&[server.address()]);
    let carrick =
        Carrick::try_start_by(&place, &text, by_nobody(&place, NOTHING)).expect("a start");
    assert_eq!(carrick.status()["process"]["user"], NOBODY);
}

#[test]
fn a_group_and_numbers_do_as_well() {
    if !is_root() {
        return;
    }
    let place = Place::claim();
    open_to_all_users(&place);
    let server = Server::listen(&place);
    // A number without an account, so that the group comes from the configuration.
    let text = "[process]\nuser = \"54321\"\ngroup = \"54322\"\n".to_owned()
        + &tunnel_text(&[server.address()]);
    let carrick = Carrick::start(&place, &text);
    for thread in threads(&carrick) {
        assert_eq!(thread.numbers("Uid"), [54321; 4]);
        assert_eq!(thread.numbers("Gid"), [54322; 4]);
        assert_eq!(thread.numbers("Groups"), [54322]);
    }
    expect_capabilities_of_root(&carrick, 0);
    assert_eq!(carrick.status()["process"]["user"], "54321");
}

#[test]
fn root_that_may_not_change_its_user_says_so() {
    if !is_root() {
        return;
    }
    let place = Place::claim();
    let server = Server::listen(&place);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-setuid", PROGRAM]);
    let text = AS_NOBODY.to_owned() + &tunnel_text(&[server.address()]);
    let ended = must_end(&place, &text, command, 1);
    let expected = "carrick runs as root and cannot become nobody";
    assert!(ended.standard_error.contains(expected), "{ended:#?}");
}

#[test]
fn root_without_the_privilege_to_lock_its_capabilities_loses_them_all_the_same() {
    if !is_root() || !has_low_ports() {
        return;
    }
    let place = Place::claim();
    open_to_all_users(&place);
    let server = Server::listen(&place);
    // As in a container with the required capabilities only. The one capability must survive the change of user.
    let mut command = Command::new("setpriv");
    command.args([
        "--bounding-set=-all,+setuid,+setgid,+net_bind_service",
        PROGRAM,
    ]);
    let text =
        AS_NOBODY.to_owned() + &tunnel_text(&[server.address()]) + &second_listener(LOW_PORT);
    let carrick = Carrick::try_start_by(&place, &text, command).expect("a start");
    expect_capabilities(&carrick, 1 << NET_BIND_SERVICE);
    assert_eq!(carrick.status()["process"]["user"], NOBODY);
}
