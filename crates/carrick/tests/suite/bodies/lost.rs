//! Upstream connections that are lost midway: the client gets a status or a reset, and nothing leaks.
use super::Stage;
use crate::support::{wait_for, wait_until};

#[test]
fn a_server_lost_before_or_in_the_head_is_502() {
    let stage = Stage::new();
    for part in [
        "",
        "H",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        for with_reset in [false, true] {
            let (mut client, mut upstream) =
                stage.begin("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
            upstream.read_head();
            upstream.expect("hi");
            upstream.send(part);
            if with_reset {
                upstream.reset();
            } else {
                drop(upstream);
            }
            let response = client.read_response("POST");
            assert_eq!(response.status, 502, "{part:?} reset: {with_reset}");
            assert_eq!(
                response.interim.len(),
                usize::from(part.contains(" 100 ") && !response.interim.is_empty())
            );
            stage.server.expect_no_connection();
        }
    }
    let lines = stage.carrick.access_log(12);
    assert!(lines.iter().all(|line| line.status() == 502), "{lines:?}");
}

/// After a 502 the client's connection may continue: its request was read completely.
#[test]
fn a_client_goes_on_after_502() {
    let stage = Stage::new();
    let (mut client, upstream) = stage.begin("POST / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n");
    let mut upstream = upstream;
    upstream.read_head();
    upstream.reset();
    assert_eq!(client.read_response("POST").status, 502);
    client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = stage.server.accept();
    assert!(upstream.read_head().starts_with("GET /2 "));
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
}

#[test]
fn nothing_is_left_open_after_all_kinds_of_ends() {
    let stage = Stage::with("[workers]\ncount = 1");
    // Warm up: the first request opens what stays open.
    let (mut client, mut upstream) =
        stage.begin("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n");
    upstream.send(vec![b'x'; 300_000]);
    client.read_response("GET");
    drop((client, upstream));
    stage.carrick.wait_until_clients(0);
    // The test's own connection to admin may last a moment longer.
    let before = wait_for("a steady count", || {
        let count = stage.carrick.descriptors();
        std::thread::sleep(std::time::Duration::from_millis(100));
        (stage.carrick.descriptors() == count).then_some(count)
    });
    for round in 0..40 {
        let (mut client, mut upstream) =
            stage.begin("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\npart");
        upstream.read_head();
        match round % 5 {
            0 => client.reset(),
            1 => drop(client),
            2 => upstream.reset(),
            3 => {
                upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\npart");
                client.read_head();
                client.reset();
            }
            _ => {
                upstream.send("HTTP/1.1 200 OK\r\n\r\npart");
                client.read_head();
                upstream.reset();
            }
        }
    }
    stage.carrick.wait_until_clients(0);
    // A few pipes stay in the pool: they are bounded and counted.
    let pooled = stage.carrick.metric("carrick_pipes_pooled", &[]) as usize;
    wait_until("the descriptors to be closed", || {
        stage.carrick.descriptors() <= before + 2 * pooled
    });
}
