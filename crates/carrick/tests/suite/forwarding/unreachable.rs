//! Unreachable destinations: the response says why.
use crate::support::access_log::Line;
use crate::support::carrick::{FORWARD_TEXT, PROGRAM};
use crate::support::{Carrick, Place};
use std::net::UdpSocket;
use std::process::Command;

fn both(carrick: &Carrick, target: &str) -> Vec<(u16, String)> {
    [
        format!("GET http://{target}/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n"),
    ]
    .iter()
    .map(|request| {
        let response = carrick.connect_forward().ask(request);
        (response.status, response.text())
    })
    .collect()
}

#[test]
fn a_refused_connection_is_502_and_says_so() {
    let place = Place::claim();
    let (refusing, _guard) = place.refusing();
    let carrick = Carrick::forward(&place);
    for (status, text) in both(&carrick, &refusing.to_string()) {
        assert_eq!(status, 502);
        assert!(
            text.to_lowercase().contains("refused") && text.contains(&refusing.to_string()),
            "{text}"
        );
    }
    for line in carrick.access_log(2) {
        assert!(has_no_time_to_connect(&line), "{line:?}");
    }
}

/// `.invalid` never exists (RFC 6761 section 6.4): no server is asked.
#[test]
fn a_name_that_does_not_exist_is_502_and_says_so() {
    let place = Place::claim();
    let carrick = Carrick::forward(&place);
    for (status, text) in both(&carrick, "nowhere.invalid:80") {
        assert_eq!(status, 502, "{text}");
        assert!(text.contains("no such name"), "{text}");
    }
}

#[test]
fn what_cannot_be_a_name_is_refused_at_once() {
    let place = Place::claim();
    let carrick = Carrick::start(&place, FORWARD_TEXT);
    let long = format!("{}.example:80", "a".repeat(64));
    for target in ["1.2.3:80", "a..b:80", ".a:80", long.as_str()] {
        for (status, text) in both(&carrick, target) {
            assert!(matches!(status, 400 | 403), "{target}: {status} {text}");
        }
    }
}

fn has_no_time_to_connect(line: &Line) -> bool {
    line.0.get("connect").is_none_or(|value| value.is_null())
}

/// A carrick whose only name server has this address.
fn with_name_server(place: &Place, text: &str, server: &str) -> Carrick {
    place.write("resolv.conf", &format!("nameserver {server}\n"));
    let script =
        "mount --make-rprivate / && mount --bind resolv.conf /etc/resolv.conf && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", PROGRAM]);
    Carrick::try_start_by(place, text, command).expect("a start")
}

#[test]
fn a_name_server_that_says_nothing_is_not_taken_for_a_slow_connection() {
    if !carrick_test::is_root() {
        return;
    }
    let place = Place::claim();
    // It exists but never answers. `/etc/resolv.conf` cannot name a port.
    let address = format!("{}:53", place.at(0).ip());
    let _silent = UdpSocket::bind(&address).expect("the port of name servers");
    let text = format!("[timeouts]\nconnect = \"500ms\"\ndrain = \"2s\"\n{FORWARD_TEXT}");
    let carrick = with_name_server(&place, &text, &place.at(0).ip().to_string());
    for (status, text) in both(&carrick, "silent.example:80") {
        assert_eq!(status, 504, "{text}");
        let says = "the name servers did not answer in time";
        assert!(
            text.contains(says) && !text.contains("connecting"),
            "{text}"
        );
    }
    for line in carrick.access_log(2) {
        assert_eq!(line.status(), 504);
        assert!(has_no_time_to_connect(&line), "{line:?}");
    }
}
