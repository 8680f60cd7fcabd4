//! A new carrick beside a draining one, without a service manager: it waits for what only one may have, and takes nothing
//! before.
use super::drain::half_a_download;
use crate::support::{Carrick, Place, Server, carrick, wait_for};
use rustix::process::Signal;
use std::net::TcpStream;

/// A switch with a cache on disk, and a long drain.
fn with_disk(place: &Place, server: &Server) -> String {
    let disk = place.directory().join("disk");
    let switch = carrick::switch_text(&[server.address()]).replace(
        "upstream = \"u\"\n[upstream",
        "upstream = \"u\"\ncache = true\n[upstream",
    );
    format!(
        "[timeouts]\ndrain = \"10m\"\n[cache]\nmemory = \"1 MB\"\ndisk = {{ path = {disk:?}, size = \"64 MB\" }}\n{switch}"
    )
}

/// Starts another one, which waits.
fn waiting(place: &Place, text: &str) -> Carrick {
    let carrick = Carrick::spawn(place, text);
    let said = carrick
        .standard_error()
        .wait_for("waiting for its end")
        .expect("a message");
    assert!(said.contains("another carrick uses"), "{said}");
    carrick
}

#[test]
fn the_next_process_waits_for_the_disk_cache_of_a_draining_one() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = with_disk(&place, &server);
    let mut old = Carrick::start(&place, &text);
    let mut client = old.connect();
    let mut upstream = half_a_download(&mut client, &server);
    old.signal(Signal::TERM);
    old.standard_error()
        .wait_for("draining")
        .expect("a message");
    let mut told_to_end = waiting(&place, &text);
    told_to_end.signal(Signal::TERM);
    assert!(told_to_end.wait().status.success());

    let new = waiting(&place, &text);
    // It has taken neither admin nor clients.
    let health = old.ask_admin("/health");
    assert_eq!((health.status, health.text().as_str()), (503, "draining\n"));
    wait_for("nobody to listen", || {
        TcpStream::connect(old.listener()).err()
    });
    upstream.send(vec![b'2'; 100_000]);
    client.expect(vec![b'2'; 100_000]);
    drop((client, upstream));
    assert!(old.wait().status.success());
    new.standard_error()
        .wait_for(" is ready\n")
        .expect("a start");
    assert_eq!(new.ask_admin("/health").status, 200);
    drop(new.connect());
}

#[test]
fn a_carrick_that_cannot_have_its_disk_cache_takes_nothing_from_a_running_one() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = with_disk(&place, &server);
    let old = Carrick::start(&place, &text);
    let ended = Carrick::try_start(&place, &text).expect_err("no start");
    let said = ended.standard_error;
    assert!(
        said.contains("another carrick uses") && !said.contains("waiting"),
        "{said}"
    );
    assert_eq!(old.ask_admin("/health").status, 200);
    let mut client = old.connect();
    drop(half_a_download(&mut client, &server));
}
