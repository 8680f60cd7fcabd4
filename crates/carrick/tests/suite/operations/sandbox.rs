//! The sandbox: what it denies to an attacker inside carrick, and what still works.
use crate::support::carrick::{ACCESS_LOG, FORWARD_TEXT, PROGRAM};
use crate::support::{Carrick, Place, Server, carrick, wait_for, wait_until};
use base64::Engine as _;
use rustix::process::Signal;
use std::process::Command;

const ASK: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// Whether a part of the sandbox is in force, according to carrick.
fn in_force(carrick: &Carrick, part: &str) -> bool {
    let part = carrick.status()["process"]["sandbox"][part].clone();
    part["in_force"].as_bool().expect("a flag")
}

/// Whether this kernel supports it, according to `carrick doctor`.
fn has_sandbox() -> bool {
    let output = Command::new(PROGRAM).arg("doctor").output();
    let text = String::from_utf8_lossy(&output.expect("the program").stdout).into_owned();
    let rows = text.lines().filter(|line| line.starts_with("sandbox, "));
    let missing: Vec<_> = rows.filter(|row| !row.contains(" yes")).collect();
    if !missing.is_empty() {
        carrick_test::lacks!("{missing:?}");
    }
    missing.is_empty()
}

/// A password file with one user.
fn users(place: &Place, name: &str, user: &str) {
    place.write(
        name,
        &format!("{user}:{{SHA}}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"),
    );
}

/// The status of a response to this user.
fn status_of(carrick: &Carrick, user: &str) -> u16 {
    let secret = base64::engine::general_purpose::STANDARD.encode(format!("{user}:secret"));
    let request = format!(
        "GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\nProxy-Authorization: Basic {secret}\r\n\r\n"
    );
    carrick.connect_forward().ask(&request).status
}

#[test]
fn every_thread_is_in_the_sandbox() {
    if !has_sandbox() {
        return;
    }
    let place = Place::claim();
    let server = super::echo_server(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    assert_eq!(carrick.connect().ask(ASK).status, 200);
    assert!(in_force(&carrick, "files") && in_force(&carrick, "calls"));
    let part = |part| carrick.metric("carrick_sandbox", &[&format!("part=\"{part}\"")]);
    assert!((part("files") + part("calls") - 2.0).abs() < f64::EPSILON);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", carrick.pid())).expect("threads");
    let mut threads = 0;
    for task in tasks {
        let status = task.expect("a thread").path().join("status");
        let status = std::fs::read_to_string(status).expect("its state");
        // 2: a filter (proc(5)).
        assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
        threads += 1;
    }
    assert!(threads >= 4, "{threads}");
    // A process outside the sandbox. It waits for an answer for a second.
    let doctor = wait_for("an answer within doctor's second", || {
        let doctor = Command::new(PROGRAM)
            .args(["doctor", "-c"])
            .arg(carrick.directory().join("carrick.toml"))
            .output()
            .expect("the program");
        let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
        (!doctor.contains("no running carrick answers")).then_some(doctor)
    });
    let expected = format!("- process {}: files in force (Landlock", carrick.pid());
    assert!(doctor.contains(&expected), "{doctor}");
}

#[test]
fn reloads_replaced_files_rotation_and_names_go_on_in_the_sandbox() {
    let place = Place::claim();
    users(&place, "users", "anna");
    let text = format!("{FORWARD_TEXT}users = \"users\"\ndeny_to = []\n");
    let carrick = Carrick::start(&place, &text);
    assert_eq!(status_of(&carrick, "anna"), 502);
    assert_eq!(status_of(&carrick, "berta"), 407);
    // Another file gets the name, as with editors and configuration management.
    users(&place, "users.new", "berta");
    let at = |name: &str| carrick.directory().join(name);
    std::fs::rename(at("users.new"), at("users")).expect("a rename");
    std::fs::write(
        at("carrick.new"),
        std::fs::read(at("carrick.toml")).expect("the file"),
    )
    .expect("a file");
    std::fs::rename(at("carrick.new"), at("carrick.toml")).expect("a rename");
    carrick.reload_as(&place, &text, "ok");
    assert_eq!(status_of(&carrick, "berta"), 502);
    assert_eq!(status_of(&carrick, "anna"), 407);

    std::fs::rename(at(ACCESS_LOG), at("access.log.1")).expect("a rename");
    carrick.signal(Signal::USR1);
    wait_until("a new log", || at(ACCESS_LOG).exists());
    assert_eq!(status_of(&carrick, "berta"), 502);
    wait_for("a line in it", || {
        let lines = std::fs::read_to_string(at(ACCESS_LOG)).ok()?;
        lines.contains("berta").then_some(())
    });
    // /etc/hosts is consulted.
    let named = "GET http://localhost:1/ HTTP/1.1\r\nHost: localhost:1\r\nProxy-Authorization: Basic YmVydGE6c2VjcmV0\r\n\r\n";
    assert_eq!(carrick.connect_forward().ask(named).status, 502);
}

#[test]
fn files_elsewhere_are_out_of_reach_and_a_reload_that_names_one_says_so() {
    if !has_sandbox() {
        return;
    }
    let place = Place::claim();
    let elsewhere = tempfile::tempdir().expect("a folder");
    let file = elsewhere.path().join("users");
    users(&place, "users", "anna");
    std::fs::copy(place.directory().join("users"), &file).expect("a copy");
    let with = |file: &str| format!("{FORWARD_TEXT}users = {file:?}\ndeny_to = []\n");
    let file = file.display().to_string();
    let carrick = Carrick::start(&place, &with("users"));
    carrick.reload_as(&place, &with(&file), "failed");
    let error = carrick.status()["reloads"]["last"]["error"].to_string();
    assert!(
        error.contains(&file) && error.contains("[process] sandbox"),
        "{error}"
    );
    assert_eq!(status_of(&carrick, "anna"), 502);
    let log = elsewhere.path().join("access.log").display().to_string();
    let logged = format!("[log]\naccess = {log:?}\n{}", with("users"));
    carrick.reload_as(&place, &logged, "failed");
    let error = carrick.status()["reloads"]["last"]["error"].to_string();
    assert!(error.contains(&log) && error.contains("restart"), "{error}");
    drop(carrick);

    let off = format!("[process]\nsandbox = \"off\"\n{}", with("users"));
    let carrick = Carrick::start(&place, &off);
    assert!(!in_force(&carrick, "files") && !in_force(&carrick, "calls"));
    let elsewhere = format!("[process]\nsandbox = \"off\"\n{}", with(&file));
    carrick.reload_as(&place, &elsewhere, "ok");
    assert_eq!(status_of(&carrick, "anna"), 502);
}

#[test]
fn a_required_sandbox_is_in_force_or_carrick_does_not_start() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = format!(
        "[process]\nsandbox = \"required\"\n{}",
        carrick::switch_text(&[server.address()])
    );
    match Carrick::try_start(&place, &text) {
        Ok(carrick) => assert!(in_force(&carrick, "files") && in_force(&carrick, "calls")),
        Err(ended) => {
            assert!(!has_sandbox());
            assert!(
                ended
                    .standard_error
                    .contains("sandbox = \"required\", but it is unavailable"),
                "{ended:#?}"
            );
        }
    }
}
