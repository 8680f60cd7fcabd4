//! Start of a run, and reasons to refuse it.
use super::echo_server;
use crate::support::carrick::{Ended, PROGRAM};
use crate::support::output::Output;
use crate::support::place::{ADMIN_PORT, LISTENER_PORT};
use crate::support::{Carrick, Peer, Place, Server, carrick, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::process::{Command, Stdio};

const ASK: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";

fn must_end(place: &Place, text: &str, code: i32) -> Ended {
    let ended = Carrick::try_start(place, text).expect_err("carrick must not start");
    assert_eq!(ended.status.code(), Some(code), "{ended:#?}");
    assert!(!ended.standard_error.contains("panicked"), "{ended:#?}");
    ended
}

#[test]
fn what_check_calls_a_note_is_no_warning_in_the_log() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = carrick::switch_text(&[server.address()])
        .replace("[[listener.route]]", "[[listener.route]]\npath = \"/a\"")
        + "\n[upstream.idle]\nservers = [\"127.0.0.1:9\"]\n";
    let carrick = Carrick::start(&place, &text);
    let ended = carrick.stop();
    let level = |part: &str| {
        let line = ended
            .standard_error
            .lines()
            .find(|line| line.contains(part));
        let line = line.unwrap_or_else(|| panic!("no {part}: {ended:#?}"));
        line.split_whitespace().nth(1).map(ToOwned::to_owned)
    };
    assert_eq!(level("nothing uses the upstream").as_deref(), Some("WARN"));
    assert_eq!(
        level("requests that meet none of the routes").as_deref(),
        Some("INFO")
    );
}

#[test]
fn a_port_in_use_is_named_and_the_exit_code_is_1() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let _occupied = TcpListener::bind(place.at(LISTENER_PORT)).expect("a free port");
    let ended = must_end(&place, &carrick::switch_text(&[server.address()]), 1);
    let expected = format!("carrick: cannot listen on {}", place.at(LISTENER_PORT));
    assert!(ended.standard_error.contains(&expected), "{ended:#?}");
    assert!(
        ended
            .standard_error
            .contains("another program listens there"),
        "{ended:#?}"
    );
    assert!(!ended.standard_error.contains("is ready"), "{ended:#?}");
}

#[test]
fn a_second_carrick_on_the_same_addresses_does_not_start() {
    let place = Place::claim();
    let server = echo_server(&place);
    let text = carrick::switch_text(&[server.address()]);
    let first = Carrick::start(&place, &text);
    let ended = must_end(&place, &text, 1);
    let admin = format!("cannot listen on {} for admin", place.at(ADMIN_PORT));
    assert!(ended.standard_error.contains(&admin), "{ended:#?}");
    assert!(
        ended.standard_error.contains("does another carrick run?"),
        "{ended:#?}"
    );
    assert_eq!(first.connect().ask(ASK).status, 200);
}

#[test]
fn a_second_carrick_does_not_take_half_of_the_clients_even_without_admin() {
    let place = Place::claim();
    let server = echo_server(&place);
    let text = carrick::switch_text(&[server.address()]);
    let first = Carrick::start(&place, &text);
    let without_admin = format!("[admin]\nlisten = \"\"\n\n{}", text);
    let ended = must_end(&place, &without_admin, 1);
    let listener = format!("cannot listen on {}", place.at(LISTENER_PORT));
    assert!(ended.standard_error.contains(&listener), "{ended:#?}");
    assert_eq!(first.connect().ask(ASK).status, 200);
}

#[test]
fn a_wrong_configuration_is_shown_and_the_exit_code_is_2() {
    let place = Place::claim();
    let text = "[[listener]]\nlisten = \"{ip}:18080\"\nmode = \"swich\"\n";
    let ended = must_end(&place, text, 2);
    for part in ["carrick.toml:", "swich", "switch"] {
        assert!(ended.standard_error.contains(part), "{part}: {ended:#?}");
    }
}

#[test]
fn a_missing_file_is_named_and_the_exit_code_is_2() {
    let output = Command::new(PROGRAM)
        .args(["run", "-c", "no-such-file.toml"])
        .output()
        .expect("the program");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no-such-file.toml"), "{said}");
}

/// The output of a start without a configuration as in docs/start.md, except for lines that depend on the machine.
fn banner_in_start_page() -> Vec<String> {
    let page = include_str!("../../../../../docs/start.md");
    let shown = page
        .split("<!-- banner -->")
        .nth(1)
        .and_then(|rest| rest.split("<!-- banner end -->").next())
        .expect("docs/start.md shows the banner");
    let lines: Vec<String> = shown
        .lines()
        .map(|line| {
            line.strip_prefix("    ")
                .unwrap_or(line)
                .trim_end()
                .to_owned()
        })
        .filter(|line| {
            !line.is_empty()
                && [
                    " workers,",
                    "  runs as ",
                    "  sandbox: ",
                    "  engine socket ",
                    // Not where other programs use up the user's pipes.
                    "  engine pipe ",
                    "  pipe size ",
                    "  local copy ",
                ]
                .iter()
                .all(|part| !line.contains(part))
        })
        .collect();
    assert!(lines.len() > 10, "{lines:?}");
    lines
}

#[test]
fn without_a_configuration_it_is_a_forward_proxy_for_this_machine() {
    let ports = [("127.0.0.1", 3128), ("127.0.0.1", 3129)];
    if ports.iter().any(|port| TcpListener::bind(port).is_err()) {
        carrick_test::lacks!("port 3128 or 3129 is in use");
        return;
    }
    let place = Place::claim();
    let server = echo_server(&place);
    let mut child = carrick_test::Killed(
        Command::new(PROGRAM)
            .arg("run")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program"),
    );
    let standard_error = Output::collect(child.0.stderr.take().expect("a pipe"));
    let standard_output = Output::collect(child.0.stdout.take().expect("a pipe"));
    let banner = match standard_error.wait_for("/status\n") {
        Ok(banner) => banner,
        Err(said) if said.contains("cannot listen on") => {
            carrick_test::lacks!("another program took port 3128 or 3129");
            return;
        }
        Err(said) => panic!("no start: {said}"),
    };
    for line in banner_in_start_page() {
        assert!(
            banner.contains(&line),
            "docs/start.md shows {line:?}, carrick says:\n{banner}"
        );
    }
    let copy = banner
        .lines()
        .find(|line| line.trim_start().starts_with("engine copy "));
    assert!(
        copy.is_some_and(|line| line.contains(" usable")),
        "{banner}"
    );
    let target = format!("http://{}/hello", server.address());
    let mut client = Peer::connect(([127, 0, 0, 1], 3128).into());
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n",
        server.address()
    );
    assert_eq!(client.ask(&request).text(), "/hello");
    let line = standard_output.wait_for("/hello").expect("an access log");
    assert!(
        line.contains(&format!("\"GET {target} HTTP/1.1\" 200 6")),
        "{line}"
    );
    let mut admin = Peer::connect(([127, 0, 0, 1], 3129).into());
    let health = admin.ask("GET /health HTTP/1.1\r\nHost: 127.0.0.1:3129\r\n\r\n");
    assert_eq!(health.status, 200);
    kill_process(Pid::from_child(&child.0), Signal::INT).expect("the process is there");
    let status = wait_for("the end", || child.0.try_wait().expect("a state"));
    assert!(
        status.success(),
        "{status}: {}",
        standard_error.wait_for_end()
    );
}

#[test]
fn doctor_names_a_kernel_that_loses_bytes_and_carrick_runs_without_the_engine() {
    // The kernel then pretends to be of the 2.6 series (personality(2), UNAME26).
    let output = Command::new("setarch")
        .args(["--uname-2.6", PROGRAM, "doctor"])
        .output()
        .expect("setarch");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().find(|line| line.starts_with("engine socket"));
    let row = row.expect("a row for the engine");
    assert!(
        row["engine socket".len()..].trim().starts_with("no ")
            && row.contains("Linux 2.6.")
            && row.contains("loses or doubles bytes in a SOCKMAP; repaired in 6.1.142"),
        "{text}"
    );
    let place = Place::claim();
    let server = echo_server(&place);
    let text =
        "[splice]\nengine = \"socket\"\n".to_owned() + &carrick::switch_text(&[server.address()]);
    let mut command = Command::new("setarch");
    command.args(["--uname-2.6", PROGRAM]);
    let carrick = Carrick::try_start_by(&place, &text, command).expect("a start");
    assert_eq!(carrick.connect().ask(ASK).status, 200);
    let said = carrick.stop().standard_error;
    assert!(
        said.contains("the engine \"socket\" is not usable, because Linux 2.6."),
        "{said}"
    );
}

#[test]
fn doctor_shows_engines_and_limits() {
    let output = Command::new(PROGRAM)
        .arg("doctor")
        .output()
        .expect("the program");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout);
    let row = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name} is missing in:\n{text}"))
    };
    let words = |name: &str| row(name)[name.len()..].trim().to_owned();
    for part in ["open files", "somaxconn", "IP-level splices", "loopback"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(words("engine copy").starts_with("yes"), "{text}");
    assert!(words("engine pipe").starts_with("yes"), "{text}");
    // Only root has it, on kernels without known losses; others see the reason.
    let socket = words("engine socket");
    assert!(
        socket.starts_with("yes") || socket.len() > "no  because".len(),
        "{text}"
    );
    let packet = words("engine packet");
    assert!(
        packet.starts_with("yes") || packet.len() > "no  because".len(),
        "{text}"
    );
    assert!(row("user").len() > "user".len(), "{text}");
    // Without capabilities, the table says what they are for; with some, that they are dropped.
    let capabilities = words("capabilities");
    let has_none = capabilities.starts_with("none ");
    assert_eq!(has_none, !capabilities.contains("dropped"), "{text}");
    assert!(capabilities.contains("engines `socket`"), "{text}");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    assert!(text.contains(kernel.trim()), "{text}");
}

#[test]
fn too_few_descriptors_to_start_with_end_it_with_1_before_it_says_that_it_is_ready() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = carrick::switch_text(&[server.address()]);
    // At each limit it starts completely or not at all. (With less than 12, the runtime itself cannot start.)
    let mut failures = 0;
    for limit in (12..80).step_by(2) {
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--nofile={limit}:{limit}"))
            .arg(PROGRAM);
        match Carrick::try_start_by(&place, &text, command) {
            Ok(carrick) => {
                let tasks = format!("/proc/{}/task", carrick.pid().as_raw_nonzero());
                let workers = std::fs::read_dir(tasks)
                    .expect("a process")
                    .filter_map(|thread| {
                        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
                    })
                    .filter(|name| name.starts_with("worker-"))
                    .count();
                assert_eq!(workers, 2, "with {limit}");
                let ended = carrick.stop();
                assert!(!ended.standard_error.contains("cannot run"), "{ended:#?}");
                break;
            }
            Err(ended) => {
                failures += 1;
                let code = ended.status.code();
                assert!(matches!(code, Some(1 | 2)), "with {limit}: {ended:#?}");
                assert!(!ended.standard_error.contains("panicked"), "{ended:#?}");
                assert!(!ended.standard_error.is_empty(), "no message with {limit}");
            }
        }
    }
    assert!(failures > 3, "only {failures} limits were too low");
}

/// A carrick that is still loading its programs, as soon as it accepts connections.
fn just_listening(place: &Place, server: &Server) -> Carrick {
    let text = carrick::switch_text(&[server.address()])
        .replace("[[listener]]", "[[listener]]\nengine = \"packet\"");
    let carrick = Carrick::spawn(place, &text);
    wait_for("the listener", || {
        std::net::TcpStream::connect(place.at(LISTENER_PORT)).ok()
    });
    carrick
}

#[test]
fn a_signal_while_engines_are_being_loaded_ends_carrick_cleanly() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let ended = just_listening(&place, &server).stop();
    assert!(ended.standard_error.contains("is ready"), "{ended:#?}");
}

#[test]
fn a_reload_while_engines_are_being_loaded_is_done_once_they_are() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = just_listening(&place, &server);
    carrick.signal(Signal::HUP);
    let said = carrick.standard_error().wait_for("configuration reloaded");
    assert!(said.is_ok_and(|said| said.contains("is ready")));
    let status = carrick.status();
    let engines = status["engines"].to_string();
    assert!(!engines.contains("still loading"), "{engines}");
}
