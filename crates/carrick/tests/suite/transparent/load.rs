//! Load through a transparent listener, with each engine: every byte of every response is checked.
use super::bed::inside;
use super::*;
use crate::support::carrick::PROGRAM;
use crate::support::wait_until;
use carrick_test::RunInTime;
use std::process::Stdio;

const ORIGIN_PORT: u16 = 8001;

/// An origin whose bodies can be verified, until the bed is removed.
fn origin(bed: &Bed) -> std::process::Child {
    let words = [
        PROGRAM,
        "lab",
        "origin",
        "--listen",
        "10.2.0.2:8001",
        "--listen",
        "[fd00:2::2]:8001",
    ];
    let child = inside(&bed.server, &words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    wait_until("the origin", || {
        bed.server.is_listening(ORIGIN_PORT).unwrap_or(false)
    });
    child.expect("an origin")
}

#[test]
fn every_byte_arrives_with_each_engine_in_both_modes_and_families() {
    let Some(bed) = Bed::build() else { return };
    let mut origin = origin(&bed);
    for (mode, engine, keep) in [
        ("switch", "copy", false),
        ("switch", "pipe", true),
        ("switch", "socket", true),
        ("forward", "auto", true),
        ("tunnel", "auto", true),
        ("tunnel", "pipe", false),
    ] {
        let text = format!(
            "[splice]\nengine = \"{engine}\"\n[[listener]]\nlisten = \"[::]:8080\"\nmode = \"{mode}\"\ntransparent = true\nkeep_client_address = {keep}\nintercept = {{ ports = [{ORIGIN_PORT}], interfaces = [\"eth1\"] }}\n"
        );
        let carrick = bed.carrick(&text);
        for url in [
            "http://10.2.0.2:8001/b/100",
            "http://[fd00:2::2]:8001/b/300000",
        ] {
            for how in ["--clients=16", "--connections-close"] {
                let words = [
                    PROGRAM,
                    "lab",
                    "load",
                    url,
                    how,
                    "--seconds=0.2",
                    "--warm-up=0",
                    "--json",
                ];
                wait_until("a response within the time", || {
                    let output = inside(&bed.client, &words).output_in_time().expect("load");
                    let said = String::from_utf8_lossy(&output.stdout).into_owned();
                    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                    // On a busy machine, none may have come yet.
                    let is_idle =
                        said.contains("\"completed\": 0,") && said.contains("\"failed\": {}");
                    assert!(
                        output.status.success() || is_idle,
                        "{mode} {engine} {url} {how}: {errors}{said}"
                    );
                    output.status.success()
                });
            }
        }
        let intercepted = carrick.metric(&bed, "carrick_intercepted_connections_total");
        assert!(intercepted >= 32.0, "{intercepted}");
        carrick.stop();
    }
    bed.server.kill_processes();
    let _ = origin.wait();
}
