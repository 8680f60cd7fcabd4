//! A far end that is not carrick, or that disappears at a bad moment: clients notice, and nothing truncated looks complete.
use super::{ONE_WORKER, near_text};
use crate::support::{Carrick, Ending, Peer, Place, Server, wait_until};
use carrick_logic::link::{CONTROL_BYTES_MAX, Frame, Read, VERSION, read};

/// The near end, and a script as the far end.
struct Script {
    near: Carrick,
    door: Server,
    place: Place,
}

impl Script {
    fn new(link: &str) -> Self {
        Self::with("", link)
    }

    fn with(timeouts: &str, link: &str) -> Self {
        let place = Place::claim();
        let door = Server::listen(&place);
        let server = place.at(9);
        let tables = format!("[timeouts]\n{timeouts}{ONE_WORKER}");
        let near = Carrick::start(&place, &near_text(&tables, link, door.address(), server));
        Self { near, door, place }
    }
}

fn next(peer: &mut Peer) -> Frame {
    let mut bytes = Vec::new();
    loop {
        match read(&bytes).expect("a frame") {
            Read::Complete(_, frame) => return frame,
            Read::Partial(wanted) => bytes.extend(peer.read_exact(wanted - bytes.len())),
        }
    }
}

fn written(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CONTROL_BYTES_MAX);
    frame.write(&mut bytes);
    bytes
}

fn hello() -> Vec<u8> {
    written(&Frame::Hello { version: VERSION })
}

#[test]
fn open_and_the_clients_bytes_leave_without_waiting_for_an_answer() {
    let script = Script::new("preconnect = 0");
    let mut client = script.near.connect_tunnel();
    client.send("at once");
    let mut link = script.door.accept();
    assert_eq!(next(&mut link), Frame::Hello { version: VERSION });
    let Frame::Open {
        number: 1,
        client: address,
        ..
    } = next(&mut link)
    else {
        panic!("OPEN was wanted");
    };
    assert_eq!(address, client.stream().local_addr().expect("an address"));
    assert_eq!(next(&mut link), Frame::Data(7));
    link.expect("at once");
}

#[test]
fn a_far_end_that_speaks_something_else_is_given_up() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &hello()[..9],
        &written(&Frame::Hello { version: 2 }),
    ] {
        let script = Script::new("preconnect = 0");
        let mut client = script.near.connect_tunnel();
        let mut link = script.door.accept();
        link.send(answer);
        drop(link);
        // A connection that closes at once is retried once; the second one is the last.
        if let Some(mut second) = script.door.try_accept() {
            second.send(answer);
        }
        let ending = std::thread::spawn(move || client.read_ending());
        while !ending.is_finished() {
            drop(script.door.try_accept());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let ending = ending.join().expect("an end");
        assert_eq!(ending, Ending::Reset(Vec::new()));
        assert_eq!(script.near.access_log(1)[0].text("ended"), "link_lost");
    }
}

/// A break in the middle of a frame, or before END, is a reset for the client.
#[test]
fn a_connection_that_breaks_is_a_reset_for_the_client() {
    for last in [&b""[..], &written(&Frame::Data(100)), b"\x05\0\0"] {
        let script = Script::new("preconnect = 0");
        let mut client = script.near.connect_tunnel();
        client.send("q");
        let mut link = script.door.accept();
        next(&mut link);
        next(&mut link);
        link.send(hello());
        let server = ([192, 0, 2, 1], 80).into();
        link.send(written(&Frame::Opened { number: 1, server }));
        link.send([&written(&Frame::Data(4))[..], b"half", last].concat());
        client.expect("half");
        link.half_close();
        assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
        assert_eq!(script.near.access_log(1)[0].text("ended"), "link_lost");
    }
}

/// A far end that has just begun to drain closed the connection while OPEN was in flight.
#[test]
fn what_was_closed_while_it_was_taken_is_asked_for_again() {
    let script = Script::new("preconnect = 0");
    let mut client = script.near.connect_tunnel();
    let mut first = script.door.accept();
    next(&mut first);
    next(&mut first);
    drop(first);
    let mut second = script.door.accept();
    next(&mut second);
    let Frame::Open { number: 1, .. } = next(&mut second) else {
        panic!("OPEN was wanted");
    };
    let server = ([192, 0, 2, 1], 80).into();
    second.send([hello(), written(&Frame::Opened { number: 1, server })].concat());
    second.send([&written(&Frame::Data(2))[..], b"ok"].concat());
    client.expect("ok");
}

/// As a far end that hangs, whose kernel still accepts connections.
#[test]
fn a_far_end_that_does_not_answer_is_no_way_to_a_server() {
    let link = "preconnect = 0\nfallback = \"direct\"";
    let script = Script::with("connect = \"4s\"\n", link);
    let server = Server::listen_at(script.place.at(9));
    let mut direct = script.near.connect_tunnel();
    let _silent = script.door.accept();
    let mut upstream = server.accept();
    direct.send("q");
    upstream.expect("q");
    assert_eq!(script.near.metric("carrick_link_direct_total", &[]), 1.0);
    // What has left for the far end is not sent again.
    let mut client = script.near.connect_tunnel();
    client.send("q");
    let _silent = script.door.accept();
    assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
    assert_eq!(script.near.access_log(1)[0].text("ended"), "link_lost");
}

/// As one that does not allow the near end, or a balancer before one that is gone.
#[test]
fn a_far_end_that_drops_what_it_accepts_is_no_way_to_a_server() {
    let script = Script::new("preconnect = 0\nfallback = \"direct\"");
    let server = Server::listen_at(script.place.at(9));
    let mut client = script.near.connect_tunnel();
    // The first may have come when the far end began to drain.
    drop(script.door.accept());
    drop(script.door.accept());
    let mut upstream = server.accept();
    upstream.send("220 mail.example ESMTP\r\n");
    client.expect("220 mail.example ESMTP\r\n");
    assert_eq!(script.near.metric("carrick_link_direct_total", &[]), 1.0);
    let failed = "carrick_link_connections_failed_total";
    assert_eq!(script.near.metric(failed, &[]), 1.0);
}

#[test]
fn clients_go_directly_while_a_far_end_that_has_failed_is_tried_again() {
    let place = Place::claim();
    let (peer, socket) = place.refusing();
    let server = Server::listen(&place);
    let tables = format!("[timeouts]\nconnect = \"1h\"\n{ONE_WORKER}");
    let link = "preconnect = 1\nfallback = \"direct\"";
    let near = Carrick::start(&place, &near_text(&tables, link, peer, server.address()));
    near.wait_for_metric("carrick_link_connections_failed_total", &[], 1.0);
    socket.listen(16).expect("a listening socket");
    let (trial, _) = socket.accept().expect("another trial");
    let mut trial = Peer::new(trial.into());
    assert_eq!(next(&mut trial), Frame::Hello { version: VERSION });
    let (mut client, mut upstream) = (near.connect_tunnel(), server.accept());
    client.send("directly");
    upstream.expect("directly");
    trial.send(hello());
    near.wait_for_metric("carrick_link_connections_idle", &[], 1.0);
    let _client = near.connect_tunnel();
    assert!(matches!(next(&mut trial), Frame::Open { number: 1, .. }));
}

#[test]
fn a_far_end_that_drops_what_it_accepts_is_warned_of_once() {
    let script = Script::new("preconnect = 1");
    for _ in 0..3 {
        let mut link = script.door.accept();
        next(&mut link);
    }
    let failed = "carrick_link_connections_failed_total";
    script.near.wait_for_metric(failed, &[], 3.0);
    let said = script.near.stop().standard_error;
    let warned = (said.lines()).filter(|line| line.contains("WARN") && line.contains("\"sky\""));
    assert_eq!(warned.count(), 1, "{said}");
}

/// A far end that never ends a relayed connection that was given up: the link connection is given up as well.
#[test]
fn a_far_end_that_does_not_give_up_is_left() {
    let script = Script::new("preconnect = 0");
    let client = script.near.connect_tunnel();
    let mut link = script.door.accept();
    next(&mut link);
    next(&mut link);
    link.send(hello());
    client.reset();
    let Frame::Reset { number: 1, .. } = next(&mut link) else {
        panic!("RESET was wanted");
    };
    let server = ([192, 0, 2, 1], 80).into();
    link.send(written(&Frame::Opened { number: 1, server }));
    let piece = [&written(&Frame::Data(1000))[..], &[3; 1000]].concat();
    wait_until("the end of the connection", || {
        link.try_send(&piece).is_err()
    });
    assert_eq!(script.near.access_log(1)[0].text("ended"), "link_lost");
}
