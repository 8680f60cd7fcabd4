//! Against OpenSSL, with tickets and without.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::client::{Wish, run};
use crate::peers::certificate;
use crate::program::runtime;
use carrick_test::Killed;

const BODY_BYTES: usize = 1024;

struct Server {
    _child: Killed,
    address: SocketAddr,
}

/// `None`, with a message: openssl is not installed.
fn serve(directory: &Path, options: &[&str]) -> Option<Server> {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: openssl is not installed");
        return None;
    }
    certificate::prepare(directory).unwrap();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    std::fs::write(directory.join("body"), head + &"x".repeat(BODY_BYTES)).unwrap();
    let mut child = Command::new("openssl")
        .args(["s_server", "-accept", "127.0.0.1:0", "-HTTP"])
        .args(["-cert", certificate::FILE, "-key", certificate::FILE])
        .args(options)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = said.find_map(|line| line.unwrap().strip_prefix("ACCEPT ")?.parse().ok());
    // It goes on writing.
    std::thread::spawn(move || said.for_each(drop));
    let address = address.unwrap();
    Some(Server {
        _child: Killed(child),
        address,
    })
}

fn wish(server: &Server, body_bytes: usize) -> Wish {
    Wish {
        connect: server.address,
        host: String::from("proxy.test"),
        target: String::from("/body"),
        body_bytes,
    }
}

#[test]
fn each_connection_resumes_the_session_of_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let Some(server) = serve(directory.path(), &[]) else {
        return;
    };
    let time = Duration::from_millis(50);
    let runtime = runtime().unwrap();
    let measured = runtime.block_on(run(wish(&server, BODY_BYTES), 2, time));
    let measured = measured.unwrap();
    assert!(measured.requests >= 2);
    assert!(measured.bytes > measured.requests * BODY_BYTES as u64);
    let short = runtime.block_on(run(wish(&server, BODY_BYTES + 1), 1, time));
    assert!(
        short
            .unwrap_err()
            .root_cause()
            .to_string()
            .contains("not 200 with 1025")
    );
}

#[test]
fn a_session_that_is_not_resumed_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let Some(server) = serve(directory.path(), &["-num_tickets", "0"]) else {
        return;
    };
    let time = Duration::from_millis(50);
    let runtime = runtime().unwrap();
    let error = runtime.block_on(run(wish(&server, BODY_BYTES), 1, time));
    assert_eq!(error.unwrap_err().to_string(), "a session was not resumed");
}
