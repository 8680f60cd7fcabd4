//! The access log: rotated under load without losing a line; a full disk loses lines but no requests.
use super::echo_server;
use super::load::{Asking, Load};
use crate::support::carrick::{ACCESS_LOG, PROGRAM};
use crate::support::{Carrick, Place, carrick, wait_for, wait_until};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::Signal;
use std::collections::HashSet;
use std::fs::File;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// The targets of the complete lines of a JSON log.
fn targets(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "half a line in {log:?}"
    );
    text.lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect(line);
            line["target"].as_str().expect("a target").to_owned()
        })
        .collect()
}

#[test]
fn a_rotation_under_load_loses_no_line() {
    let place = Place::claim();
    let server = echo_server(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    let load = Load::start(&Asking {
        address: carrick.listener(),
        clients: 3,
        requests_per_connection: 100,
    });
    let current = place.directory().join(ACCESS_LOG);
    let rotated: Vec<_> = (0..5)
        .map(|number| place.directory().join(format!("access.log.{number}")))
        .collect();
    for moved in &rotated {
        load.wait_for_more(100);
        std::fs::rename(&current, moved).expect("a log to move");
        carrick.signal(Signal::USR1);
        wait_until("a new log", || current.exists());
    }
    load.wait_for_more(100);
    let result = load.stop();
    result.expect_no_failure(600);
    carrick.stop();
    let mut seen = Vec::new();
    for log in rotated.iter().chain([&current]) {
        let lines = targets(log);
        assert!(!lines.is_empty(), "nothing in {log:?}");
        seen.extend(lines);
    }
    assert_eq!(seen.len(), result.answered);
    let different: HashSet<&String> = seen.iter().collect();
    assert_eq!(different.len(), seen.len(), "a line was written twice");
}

#[test]
fn a_log_that_cannot_be_reopened_goes_on_where_it_was() {
    let place = Place::claim();
    let server = echo_server(&place);
    let directory = place.directory().join("logs");
    std::fs::create_dir(&directory).expect("a directory");
    let text = carrick::switch_text(&[server.address()]);
    let carrick = Carrick::start(
        &place,
        &format!("[log]\naccess = \"logs/access.log\"\nformat = \"json\"\n{text}"),
    );
    let moved = place.directory().join("moved");
    std::fs::rename(&directory, &moved).expect("a directory to move");
    carrick.signal(Signal::USR1);
    carrick
        .standard_error()
        .wait_for("logs/access.log")
        .expect("a message");
    let response = carrick
        .connect()
        .ask("GET /after HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(response.status, 200);
    wait_until("a line in the old file", || {
        targets(&moved.join("access.log")).contains(&"/after".to_owned())
    });
}

#[test]
fn a_full_disk_costs_lines_that_are_counted_and_no_request() {
    let place = Place::claim();
    let server = echo_server(&place);
    let text = carrick::switch_text(&[server.address()]);
    let carrick = Carrick::start(
        &place,
        &format!("[log]\naccess = \"/dev/full\"\nformat = \"json\"\n{text}"),
    );
    let load = Load::start(&Asking {
        address: carrick.listener(),
        clients: 2,
        requests_per_connection: 50,
    });
    load.wait_for_more(200);
    let result = load.stop();
    result.expect_no_failure(200);
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let lost = carrick.wait_for_metric(
        "carrick_log_lines_dropped_total",
        &["reason=\"write\""],
        result.answered as f64,
    );
    assert!(carrick.metric("carrick_log_lines_total", &[]) < 0.5);
    let shown = carrick.status()["access_log"]["lines_dropped"].as_f64();
    assert_eq!(shown, Some(lost));
    let ended = carrick.stop();
    let complaints = ended
        .standard_error
        .matches("No space left on device")
        .count();
    assert_eq!(complaints, 1, "{}", ended.standard_error);
}

/// A pipe of one page that nobody reads, for messages and the access log.
#[test]
fn a_reader_that_stalls_holds_up_neither_clients_nor_the_end() {
    let place = Place::claim();
    let server = echo_server(&place);
    let path = place.directory().join("pipe");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a pipe");
    let pipe = File::options().read(true).write(true).open(&path);
    let pipe = pipe.expect("a pipe");
    fcntl_setpipe_size(&pipe, 4096).expect("a size");
    let text = carrick::switch_text(&[server.address()]);
    let text = format!("[log]\naccess = \"stderr\"\n{text}");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>pipe", PROGRAM]);
    let carrick = Carrick::spawn_by(&place, &text, command);
    wait_for("carrick to listen", || {
        TcpStream::connect(carrick.listener()).ok()
    });
    let load = Load::start(&Asking {
        address: carrick.listener(),
        clients: 2,
        requests_per_connection: 50,
    });
    load.wait_for_more(200);
    carrick.reload_as(&place, &text, "ok");
    loop {
        carrick.reload_as(&place, "nonsense", "failed");
        if carrick.metric("carrick_messages_dropped_total", &[]) >= 1.0 {
            break;
        }
    }
    load.wait_for_more(200);
    load.stop().expect_no_failure(400);
    carrick.stop();
}

#[test]
fn a_log_on_standard_output_comes_while_it_runs_and_whole() {
    let place = Place::claim();
    let server = echo_server(&place);
    let text = carrick::switch_text(&[server.address()]);
    let carrick = Carrick::start(
        &place,
        &format!("[log]\naccess = \"stdout\"\nformat = \"combined\"\n{text}"),
    );
    let mut client = carrick.connect();
    client.ask("GET /first HTTP/1.1\r\nHost: a.example\r\nUser-Agent: play\r\n\r\n");
    carrick
        .standard_output()
        .wait_for("\"GET /first HTTP/1.1\" 200 6 \"-\" \"play\" mode=switch")
        .expect("a line");
    // There is nothing to reopen, and no line is lost.
    carrick.signal(Signal::USR1);
    client.ask("GET /last HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let ended = carrick.stop();
    assert_eq!(ended.standard_output.lines().count(), 2, "{ended:#?}");
    assert!(ended.standard_output.contains("GET /last"), "{ended:#?}");
}
