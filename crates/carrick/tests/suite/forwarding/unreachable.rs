//! Destinations that cannot be reached: the answer says why, in words.
use crate::support::carrick::FORWARD_TEXT;
use crate::support::{Carrick, Place};

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
}

/// `.invalid` is never a name (RFC 6761 section 6.4): no server needs to be asked.
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
