//! Bodies of all kinds, and ends that are announced or not.
use super::*;
use crate::support::carrick::ACCESS_LOG;
use crate::support::peer::Ending;
use crate::support::{Carrick, random};

const LENGTH: usize = 3_000_000;

#[test]
fn bodies_go_both_ways() {
    let Some(place) = stage() else { return };
    let up = random::Random::new(1).bytes(LENGTH);
    let down = random::Random::new(2).bytes(LENGTH);
    let (wanted, sent) = (random::hash(&up), down.clone());
    let server = serve(
        &place,
        &config(&place, "server", Offers::All),
        move |mut end, _| {
            while let Some(head) = end.next_head() {
                if head.starts_with("POST") {
                    assert_eq!(random::hash(&end.read_exact(LENGTH)), wanted);
                }
                if head.contains("/chunked") {
                    end.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                    for part in sent.chunks(70_000) {
                        end.send(format!("{:x}\r\n", part.len()));
                        end.send(part);
                        end.send("\r\n");
                    }
                    end.send("0\r\nX-Trailer: yes\r\n\r\n");
                } else {
                    end.send(format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n"
                    ));
                    end.send(&sent);
                }
            }
        },
    );
    let carrick = Carrick::start(
        &place,
        &switch_text(&[server.address()], "tls = { ca = \"ca.pem\" }"),
    );
    let mut client = carrick.connect();
    for path in ["/", "/chunked"] {
        let response = client.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(random::hash(&response.body), random::hash(&down), "{path}");
        assert_eq!(
            response.trailers.is_empty(),
            path == "/",
            "{:?}",
            response.trailers
        );
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {LENGTH}\r\n\r\n"
        ));
        client.send(&up);
        let response = client.read_response("POST");
        assert_eq!(random::hash(&response.body), random::hash(&down), "{path}");
    }
    assert_eq!(server.accepted(), 1);
    let lines = carrick.access_log(4);
    assert!(lines.iter().all(|line| line.text("ended") == "complete"));
}

#[test]
fn a_response_until_the_end_is_whole_only_if_the_end_is_announced() {
    let Some(place) = stage() else { return };
    for is_announced in [true, false] {
        place.write(ACCESS_LOG, "");
        let server = serve(
            &place,
            &config(&place, "server", Offers::All),
            move |mut end, _| {
                end.next_head();
                end.send("HTTP/1.1 200 OK\r\n\r\nall of it");
                match is_announced {
                    true => end.end(),
                    false => end.cut_off(),
                }
                while end.next_head().is_some() {}
            },
        );
        let carrick = Carrick::start(
            &place,
            &switch_text(&[server.address()], "tls = { ca = \"ca.pem\" }"),
        );
        let mut client = carrick.connect();
        client.send(GET);
        assert!(client.read_head().contains("Connection: close\r\n"));
        match client.read_ending() {
            Ending::Closed(bytes) => assert!(is_announced && bytes == b"all of it"),
            Ending::Reset(_) => assert!(!is_announced),
        }
        let line = carrick.access_log(1).pop().expect("a line");
        assert_eq!(line.text("ended") == "complete", is_announced, "{line:?}");
    }
}

#[test]
fn a_body_that_breaks_off_does_not_pass_for_whole() {
    let Some(place) = stage() else { return };
    for head in ["Content-Length: 20", "Transfer-Encoding: chunked"] {
        place.write(ACCESS_LOG, "");
        // Even if the end is announced.
        let server = serve(
            &place,
            &config(&place, "server", Offers::All),
            move |mut end, _| {
                end.next_head();
                end.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\npart\n\r\n"));
                end.end();
                while end.next_head().is_some() {}
            },
        );
        let carrick = Carrick::start(
            &place,
            &switch_text(&[server.address()], "tls = { ca = \"ca.pem\" }"),
        );
        let mut client = carrick.connect();
        client.send(GET);
        client.read_head();
        let ending = client.read_ending();
        assert!(!ending.bytes().ends_with(b"0\r\n\r\n"), "{ending:?}");
        assert_ne!(carrick.access_log(1)[0].text("ended"), "complete");
    }
}

#[test]
fn kept_connections_are_ended_with_a_word() {
    let Some(place) = stage() else { return };
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let server = serve(
        &place,
        &config(&place, "server", Offers::All),
        move |mut end, _| {
            if end.next_head().is_some() {
                end.send(OK);
                let _ = tell.lock().expect("a lock").send(end.has_ended());
            }
        },
    );
    let carrick = Carrick::start(
        &place,
        &switch_text(&[server.address()], "tls = { ca = \"ca.pem\" }"),
    );
    assert_eq!(carrick.connect().ask(GET).status, 200);
    drop(carrick);
    assert_eq!(told.recv_timeout(PATIENCE), Ok(true));
}
