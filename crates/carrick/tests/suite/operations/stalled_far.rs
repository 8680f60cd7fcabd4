//! Clients and servers that stop reading, while the other side is far away, or there are many: the kernel memory they
//! hold; others are not affected.
use super::stalled::{MUCH, big_server};
use super::stalled_beds::{
    Bed, Line, expect_others_unaffected, far_receive_buffer_bytes, on_the_proxy,
};
use crate::support::carrick::upstream_text;
use crate::support::place::{LISTENER_PORT, TUNNEL_PORT};
use crate::support::{Carrick, Peer, Place, server, wait_until};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The line holds 150 KB.
const LONG: Line = Line {
    delay_ms: 40,
    rate_kbit: 15_000,
};

/// The line holds 2.5 MB: more than the initial window of far servers.
const WIDE: Line = Line {
    delay_ms: 100,
    rate_kbit: 100_000,
};

/// Bytes that are read before reading stops: a multiple of what the line holds.
const READ_FIRST: usize = 1 << 20;

/// Limit for each direction whose receiver does not read.
const HELD_MAX: u64 = 2 << 20;

/// Keys of the route for each way to move bytes.
const WAYS: [&str; 6] = [
    "engine = \"copy\"",
    "engine = \"pipe\"",
    "engine = \"socket\"",
    "engine = \"packet\"",
    "engine = \"packet\"\nresponses = \"read\"",
    "engine = \"packet\"\nrequests = \"kernel\"",
];

/// A switch and a tunnel, for near clients and far ones.
fn text(server: SocketAddr, way: &str) -> String {
    let engine = way.lines().next().unwrap_or_default();
    let listener = |port: u16, mode: &str, route: &str| {
        // The kernel forwards requests unchanged.
        let keys = match mode {
            "switch" => "forwarded = \"off\"\nvia = \"\"\n",
            _ => "",
        };
        format!(
            "[[listener]]\nlisten = \"0.0.0.0:{port}\"\nmode = \"{mode}\"\n{keys}[[listener.route]]\nupstream = \"u\"\n{route}\n"
        )
    };
    // Other tests want pipes, too, and the kernel gives a user so many.
    String::from(
        "[process]\npins = \"\"\n[limits]\npipes = 64\n[timeouts]\nconnect = \"10m\"\ndrain = \"2s\"\n",
    ) + &listener(LISTENER_PORT, "switch", way)
        + &listener(TUNNEL_PORT, "tunnel", engine)
        + &upstream_text("u", &[server])
        + "health = { path = \"/health\", every = \"5s\" }\n"
}

/// Starts carrick with this server only.
fn carrick(place: &Place, server: &server::Serving, way: &str) -> Carrick {
    Carrick::start(place, &text(server.address(), way))
}

/// Clients that request much, and stop reading after the first part.
fn stalled(bed: &Bed, port: u16) -> Peer {
    let mut client = bed.connect(port);
    client.send("GET /big HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!(client.read_head().contains(" 200 "));
    client.read_exact(READ_FIRST);
    client
}

#[test]
fn a_client_that_reads_no_more_makes_little_be_held_however_far_its_server_is() {
    for way in WAYS {
        for line in [Some(LONG), None] {
            on_the_proxy(line, |bed, place| {
                let server = big_server(bed.server());
                let _carrick = carrick(place, &server, way);
                let clients = [LISTENER_PORT, TUNNEL_PORT].map(|port| stalled(bed, port));
                bed.expect_held(2 * HELD_MAX, way);
                drop(clients);
            });
        }
    }
}

#[test]
fn a_far_client_whose_server_reads_no_more_makes_little_be_held() {
    for way in WAYS {
        on_the_proxy(Some(LONG), |bed, place| {
            let stalls = Arc::new(AtomicUsize::new(0));
            let stalling = Arc::clone(&stalls);
            let server = bed.server().serve(move |mut peer, _| {
                if peer.read_head().contains("/health") {
                    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    return;
                }
                peer.read_exact(READ_FIRST);
                stalling.fetch_add(1, Ordering::Relaxed);
                // The connection stays open.
                loop {
                    std::thread::park();
                }
            });
            let _carrick = carrick(place, &server, way);
            for port in [LISTENER_PORT, TUNNEL_PORT] {
                let mut client = bed.connect_from_far(port);
                let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {MUCH}\r\n\r\n");
                client.send(head);
                // It ends with the connection.
                std::thread::spawn(move || {
                    let piece = vec![b'x'; 1 << 20];
                    while client.try_send(&piece).is_ok() {}
                });
            }
            wait_until("both to be read no more", || {
                stalls.load(Ordering::Relaxed) == 2
            });
            bed.expect_held(2 * HELD_MAX, way);
        });
    }
}

#[test]
fn what_a_far_server_may_send_grows_while_its_client_takes() {
    for way in &WAYS[..3] {
        on_the_proxy(Some(WIDE), |bed, place| {
            let server = big_server(bed.server());
            let _carrick = carrick(place, &server, way);
            for port in [LISTENER_PORT, TUNNEL_PORT] {
                let mut client = stalled(bed, port);
                let mut read_bytes = READ_FIRST;
                // A machine that is too busy for one window grows the next one.
                while far_receive_buffer_bytes() < 2 * HELD_MAX {
                    assert!(read_bytes < MUCH, "{way}: after {read_bytes} bytes");
                    client.read_exact(READ_FIRST);
                    read_bytes += READ_FIRST;
                }
            }
        });
    }
}

#[test]
fn three_hundred_clients_that_read_nothing_do_not_affect_others() {
    for way in WAYS {
        on_the_proxy(None, |bed, place| {
            let server = big_server(bed.server());
            let carrick = carrick(place, &server, way);
            let request = "GET /big HTTP/1.1\r\nHost: a.example\r\n\r\n";
            let clients: Vec<Peer> = (0..300)
                .map(|_| {
                    let mut client = bed.connect(LISTENER_PORT);
                    client.send(request);
                    client
                })
                .collect();
            expect_others_unaffected(bed, &carrick, LISTENER_PORT);
            bed.expect_held(300 * HELD_MAX, way);
            expect_others_unaffected(bed, &carrick, LISTENER_PORT);
            drop(clients);
        });
    }
}
