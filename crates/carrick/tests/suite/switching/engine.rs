//! The engine of a transfer: the route's, else the listener's, else that of `[splice]`.
use crate::support::carrick::upstream_text;
use crate::support::place::LISTENER_PORT;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server};

#[test]
fn the_route_goes_before_the_listener_and_the_listener_before_the_default() {
    const BODY_BYTES: usize = 300_000;
    let place = Place::claim();
    let serving = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| {
            let mut response =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n").into_bytes();
            response.resize(response.len() + BODY_BYTES, b'x');
            response
        });
    });
    let text = |default: &str, listener: &str, route: &str| {
        let key = |value: &str| {
            if value.is_empty() {
                String::new()
            } else {
                format!("engine = \"{value}\"\n")
            }
        };
        format!(
            "[splice]\n{}[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n{}[[listener.route]]\nupstream = \"u\"\n{}{}",
            key(default),
            key(listener),
            key(route),
            upstream_text("u", &[serving.address()])
        )
    };
    for (default, listener, route, expected) in [
        ("copy", "", "", "copy"),
        ("pipe", "", "", "pipe"),
        ("copy", "pipe", "", "pipe"),
        ("pipe", "copy", "", "copy"),
        ("copy", "", "pipe", "pipe"),
        ("pipe", "pipe", "copy", "copy"),
        ("copy", "copy", "pipe", "pipe"),
    ] {
        let place = Place::claim();
        let carrick = Carrick::start(&place, &text(default, listener, route));
        let response = carrick.connect().ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(response.body.len(), BODY_BYTES);
        let line = &carrick.access_log(1)[0];
        assert_eq!(
            line.text("engine"),
            expected,
            "{default:?} {listener:?} {route:?}"
        );
        let label = format!("engine=\"{expected}\"");
        assert!(carrick.metric("carrick_splice_bytes_total", &[&label]) > 0.0);
    }
}
