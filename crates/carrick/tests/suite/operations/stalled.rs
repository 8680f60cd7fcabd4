//! Clients that request much and read nothing: the kernel memory they hold, and how they are ended.
use crate::support::carrick::upstream_text;
use crate::support::place::{LISTENER_PORT, TUNNEL_PORT};
use crate::support::{Carrick, Ending, Peer, Place, Server, server, wait_until};

/// Bytes of a response that is not read to the end.
pub const MUCH: usize = 512 << 20;

/// Bytes that clients read before they stop: until then, everything moves as fast as it can.
const READ_FIRST: usize = 8 << 20;

/// Most kernel memory for each stalled client: 1.5 MB from the server, and what was not sent to the client.
const HELD_MAX: f64 = 2.0 * 1024.0 * 1024.0;

/// A server that answers `/big` with a large body.
pub fn big_server(server: Server) -> server::Serving {
    server.serve(|mut peer, _| {
        let piece = vec![b'x'; 1 << 20];
        while peer.waits_for_head() {
            if !peer.read_head().contains("/big") {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                continue;
            }
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n"));
            for _ in 0..MUCH / piece.len() {
                if peer.try_send(&piece).is_err() {
                    return;
                }
            }
        }
    })
}

/// A switch and a tunnel with this engine.
fn text(place: &Place, server: &server::Serving, engine: &str, limits: &str) -> String {
    let route = format!("[[listener.route]]\nupstream = \"u\"\nengine = \"{engine}\"\n");
    let listener = |port: u16, mode: &str| {
        let address = place.at(port);
        format!("[[listener]]\nlisten = \"{address}\"\nmode = \"{mode}\"\n{route}")
    };
    format!("[limits]\n{limits}\n")
        + &listener(LISTENER_PORT, "switch")
        + &listener(TUNNEL_PORT, "tunnel")
        + &upstream_text("u", &[server.address()])
}

/// A client that requests much, and stops reading after the first part.
fn stalled(mut client: Peer) -> Peer {
    client.send("GET /big HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!(client.read_head().contains(" 200 "));
    client.read_exact(READ_FIRST);
    client
}

#[test]
fn a_client_that_reads_no_more_holds_little_of_the_kernels_memory() {
    for engine in ["copy", "pipe", "socket", "auto"] {
        let place = Place::claim();
        let server = big_server(Server::listen(&place));
        let carrick = Carrick::start(&place, &text(&place, &server, engine, ""));
        let clients = [
            stalled(carrick.connect()),
            stalled(carrick.connect()),
            stalled(carrick.connect_tunnel()),
            stalled(carrick.connect_tunnel()),
        ];
        let count = clients.len() as f64;
        carrick.wait_for_metric("carrick_stalled_splices", &[], count);
        let held = carrick.metric("carrick_stalled_bytes", &[]) / count;
        assert!(held < HELD_MAX, "{engine}: {held} bytes each");
        drop(clients);
        carrick.wait_until_metric("carrick_stalled_bytes", &[], 0.0);
    }
}

#[test]
fn those_that_have_stood_still_for_longest_end_when_all_hold_too_much() {
    let place = Place::claim();
    let server = big_server(Server::listen(&place));
    // One worker, which knows the longest-stalled client.
    let text = |stalled: &str| {
        let limits = format!("stalled = \"{stalled}\"");
        text(&place, &server, "auto", &limits) + "[workers]\ncount = 1\n"
    };
    let carrick = Carrick::start(&place, &text("1 TB"));
    let clients: Vec<Peer> = (0..8)
        .map(|number| {
            stalled(match number % 2 {
                0 => carrick.connect(),
                _ => carrick.connect_tunnel(),
            })
        })
        .collect();
    // None is ended before the last one has read its first part.
    carrick.wait_for_metric("carrick_stalled_splices", &[], clients.len() as f64);
    carrick.reload(&place, &text("1 MB"));
    carrick.wait_for_limit("stalled", 4.0);
    let said = carrick.standard_error().wait_for("have stalled longest");
    said.expect("a warning");
    // Other clients are not affected.
    let small = carrick
        .connect()
        .ask("GET /small HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!((small.status, small.text().as_str()), (200, "ok"));
    // An aborted response does not look complete.
    let first = clients.into_iter().next();
    let ending = first.map(|mut client| client.read_ending());
    assert!(matches!(ending, Some(Ending::Reset(_))), "{ending:?}");
    wait_until("log lines of the ended ones", || {
        let lines = carrick.access_log(0);
        let ended = lines.iter().filter(|line| line.text("ended") == "stalled");
        ended.count() >= 4
    });
}
