//! What 9,000 idle clients and 9,000 idle tunnels cost, that they still work afterwards, and that the memory comes back.
use crate::support::server::answer_requests;
use crate::support::{Carrick, Peer, Place, Server, carrick, wait_for};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Connections of each kind.
const COUNT: usize = 9_000;

/// Descriptors that this process needs for a measurement, besides those of tests that run at the same time.
const DESCRIPTORS: u64 = 2 * COUNT as u64 + 1_000;

/// Most bytes for an idle keep-alive client, and for an idle tunnel.
const CLIENT_BYTES_MAX: u64 = 8 * 1024;
const TUNNEL_BYTES_MAX: u64 = 16 * 1024;

/// The share of the connections that ask again after the measurement.
const SAMPLE: usize = 100;

/// Both measurements at once would need too many descriptors.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The right to measure, if there are descriptors enough.
fn turn() -> Option<MutexGuard<'static, ()>> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.maximum.is_some_and(|maximum| maximum < DESCRIPTORS)
        || setrlimit(Resource::Nofile, raised).is_err()
    {
        eprintln!(
            "skipped: {DESCRIPTORS} file descriptors are needed, {:?} are allowed",
            limit.maximum
        );
        return None;
    }
    Some(guard)
}

/// Memory of a process that no other has, in bytes.
fn unique_bytes(carrick: &Carrick) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", carrick.pid().as_raw_nonzero());
    let text = std::fs::read_to_string(path).expect("a process");
    let kilobytes: u64 = text
        .lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    kilobytes * 1024
}

fn resident_bytes(carrick: &Carrick) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", carrick.pid().as_raw_nonzero());
    let text = std::fs::read_to_string(path).expect("a process");
    let line = text
        .lines()
        .find(|line| line.starts_with("Rss:"))
        .expect("a line");
    line.split_whitespace()
        .nth(1)
        .expect("a number")
        .parse::<u64>()
        .expect("a number")
        * 1024
}

fn expect_cost(carrick: &Carrick, before: (u64, u64), what: &str, bytes_max: u64) {
    let each = |now: u64, before: u64| now.saturating_sub(before) / COUNT as u64;
    let unique = each(unique_bytes(carrick), before.0);
    let resident = each(resident_bytes(carrick), before.1);
    eprintln!("{COUNT} idle {what}: {unique} bytes each (resident: {resident})");
    assert!(unique <= bytes_max, "an idle {what} costs {unique} bytes");
    assert!(
        resident <= bytes_max,
        "an idle {what} costs {resident} bytes of resident memory"
    );
}

/// Waits until all are gone, and most of what they took is, too.
fn expect_return(carrick: &Carrick, before: u64, peak: u64) {
    wait_for("the clients to be gone", || {
        (carrick.clients_open() < 0.5).then_some(())
    });
    // Tables of the runtime keep their size, and pages that hold anything stay.
    let most = before + (peak - before) / 2;
    let after = wait_for("the memory to come back", || {
        let now = unique_bytes(carrick);
        (now <= most).then_some(now)
    });
    eprintln!(
        "{} KB before, {} KB with them, {} KB after",
        before / 1024,
        peak / 1024,
        after / 1024
    );
}

const LONG: &str = "[timeouts]\nidle = \"10m\"\nhead = \"10m\"\ndrain = \"0s\"\n";
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
    wait_for("the first to be gone", || {
        (carrick.clients_open() < 0.5).then_some(())
    });
    let before = (unique_bytes(&carrick), resident_bytes(&carrick));
    let mut clients: Vec<Peer> = (0..COUNT).map(|_| open()).collect();
    expect_cost(&carrick, before, "client", CLIENT_BYTES_MAX);
    let peak = unique_bytes(&carrick);
    assert!((carrick.clients_open() - COUNT as f64).abs() < 0.5);
    for client in clients.iter_mut().step_by(COUNT / SAMPLE) {
        client.send(ASK);
        assert_eq!(client.read_response("GET").text(), "ok");
    }
    drop(clients);
    expect_return(&carrick, before.0, peak);
}

/// One exchange each way.
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

/// Opens a tunnel and uses it once; both its ends.
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
    // A second descriptor would be one too many.
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
    let open = |number: usize| open_tunnel(&carrick, &server, number % 2 == 0, number);
    drop((0..50).map(open).collect::<Vec<_>>());
    wait_for("the first to be gone", || {
        (carrick.clients_open() < 0.5).then_some(())
    });
    let before = (unique_bytes(&carrick), resident_bytes(&carrick));
    let mut tunnels: Vec<_> = (0..COUNT).map(open).collect();
    expect_cost(&carrick, before, "tunnel", TUNNEL_BYTES_MAX);
    let peak = unique_bytes(&carrick);
    assert!((carrick.metric("carrick_tunnels_open", &[]) - COUNT as f64).abs() < 0.5);
    for (number, (client, far_end)) in tunnels.iter_mut().enumerate().step_by(COUNT / SAMPLE) {
        talk(client, far_end, number);
    }
    drop(tunnels);
    expect_return(&carrick, before.0, peak);
}
