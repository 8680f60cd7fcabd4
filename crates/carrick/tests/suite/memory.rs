//! The cost of 9,000 idle clients and of 9,000 idle tunnels; they still work afterwards, and their memory is freed.
use crate::support::descriptors::{MANY, turn};
use crate::support::server::answer_requests;
use crate::support::{Carrick, Peer, Place, Server, carrick, wait_for};
use std::net::TcpStream;

/// Most bytes for an idle keep-alive client, and for an idle tunnel.
const CLIENT_BYTES_MAX: u64 = 8 * 1024;
const TUNNEL_BYTES_MAX: u64 = 16 * 1024;

/// The number of connections that are used again after the measurement.
const SAMPLE: usize = 100;

/// A line of the kernel's report on a process's memory, in bytes.
fn memory(carrick: &Carrick, line: &str) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", carrick.pid().as_raw_nonzero());
    let text = std::fs::read_to_string(path).expect("a process");
    let line = (text.lines().find(|is| is.starts_with(line))).expect("a line");
    let kilobytes = line.split_whitespace().nth(1).expect("a number");
    kilobytes.parse::<u64>().expect("a number") * 1024
}

/// The process's own memory, without pages of the program's file, which depend on other processes that run it.
pub fn own_bytes(carrick: &Carrick) -> u64 {
    memory(carrick, "Anonymous:")
}

fn resident_bytes(carrick: &Carrick) -> u64 {
    memory(carrick, "Rss:")
}

fn expect_cost(carrick: &Carrick, before: (u64, u64), what: &str, bytes_max: u64) {
    let each = |now: u64, before: u64| now.saturating_sub(before) / MANY as u64;
    let own = each(own_bytes(carrick), before.0);
    let resident = each(resident_bytes(carrick), before.1);
    eprintln!("{MANY} idle {what}: {own} bytes each (resident: {resident})");
    assert!(own <= bytes_max, "an idle {what} costs {own} bytes");
    assert!(
        resident <= bytes_max,
        "an idle {what} costs {resident} bytes of resident memory"
    );
}

/// Waits until all have ended, and most of their memory is freed.
pub fn expect_return(carrick: &Carrick, before: u64, peak: u64) {
    carrick.wait_until_clients(0);
    // The runtime's tables keep their size, and pages with any live object stay.
    let most = before + (peak - before) / 2;
    let after = wait_for("the memory to come back", || {
        let now = own_bytes(carrick);
        (now <= most).then_some(now)
    });
    eprintln!(
        "{} KB before, {} KB with them, {} KB after",
        before / 1024,
        peak / 1024,
        after / 1024
    );
}

const LONG: &str = "[timeouts]\nidle = \"1h\"\nhead = \"1h\"\ndrain = \"0s\"\n";
const ASK: &[u8] = b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";

#[test]
fn nine_thousand_idle_clients() {
    let Some(_turn) = turn() else { return };
    let place = Place::claim();
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| {
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
        });
    });
    let carrick = Carrick::start(
        &place,
        &(LONG.to_owned() + &carrick::switch_text(&[server.address()])),
    );
    let open = || {
        let mut client = carrick.connect();
        client.send(ASK);
        assert_eq!(client.read_response("GET").text(), "ok");
        client
    };
    drop((0..50).map(|_| open()).collect::<Vec<Peer>>());
    carrick.wait_until_clients(0);
    let before = (own_bytes(&carrick), resident_bytes(&carrick));
    let mut clients: Vec<Peer> = (0..MANY).map(|_| open()).collect();
    expect_cost(&carrick, before, "client", CLIENT_BYTES_MAX);
    let peak = own_bytes(&carrick);
    assert!((carrick.clients_open() - MANY as f64).abs() < 0.5);
    for client in clients.iter_mut().step_by(MANY / SAMPLE) {
        client.send(ASK);
        assert_eq!(client.read_response("GET").text(), "ok");
    }
    drop(clients);
    expect_return(&carrick, before.0, peak);
}

/// One exchange in each direction.
fn talk(client: &mut TcpStream, far_end: &mut TcpStream, number: usize) {
    use std::io::{Read, Write};
    let word = format!("{number:016}");
    let mut came = [0; 16];
    client.write_all(word.as_bytes()).expect("to be sent");
    far_end.read_exact(&mut came).expect("to come");
    assert_eq!(came, word.as_bytes());
    far_end.write_all(word.as_bytes()).expect("to be sent");
    client.read_exact(&mut came).expect("to come back");
    assert_eq!(came, word.as_bytes());
}

/// Opens a tunnel and uses it once; returns both its ends.
fn open_tunnel(
    carrick: &Carrick,
    server: &Server,
    by_connect: bool,
    number: usize,
) -> (TcpStream, TcpStream) {
    let client = if by_connect {
        let mut client = carrick.connect_forward();
        client.send(format!(
            "CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n",
            server.address()
        ));
        assert_eq!(client.read_response("CONNECT").status, 200);
        client
    } else {
        carrick.connect_tunnel()
    };
    // A second descriptor for it would exceed the limit.
    let mut client = client.into_stream();
    let mut far_end = server.accept().into_stream();
    talk(&mut client, &mut far_end, number);
    (client, far_end)
}

#[test]
fn nine_thousand_idle_tunnels() {
    let Some(_turn) = turn() else { return };
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = LONG.to_owned() + &carrick::tunnel_text(&[server.address()]) + carrick::FORWARD_TEXT;
    let carrick = Carrick::start(&place, &text);
    // Half by CONNECT, whose request is kept for the log, half without HTTP.
    let open = |number: usize| open_tunnel(&carrick, &server, number.is_multiple_of(2), number);
    drop((0..50).map(open).collect::<Vec<_>>());
    carrick.wait_until_clients(0);
    let before = (own_bytes(&carrick), resident_bytes(&carrick));
    let mut tunnels: Vec<_> = (0..MANY).map(open).collect();
    expect_cost(&carrick, before, "tunnel", TUNNEL_BYTES_MAX);
    let peak = own_bytes(&carrick);
    assert!((carrick.metric("carrick_tunnels_open", &[]) - MANY as f64).abs() < 0.5);
    for (number, (client, far_end)) in tunnels.iter_mut().enumerate().step_by(MANY / SAMPLE) {
        talk(client, far_end, number);
    }
    drop(tunnels);
    expect_return(&carrick, before.0, peak);
}
