//! Servers that do not accept connections.
use super::GET;
use crate::support::carrick::switch_text;
use crate::support::{Carrick, End, Place, Server, wait_for};
use std::time::{Duration, Instant};

/// 192.0.2.0/24 is unassigned, but packets to it might leave the machine; a listener with a full queue does not answer
/// either.
fn full_listener(place: &Place) -> (std::net::SocketAddr, socket2::Socket, Vec<socket2::Socket>) {
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&place.at(0).into()).expect("an address");
    socket.listen(0).expect("a listening socket");
    let address = socket
        .local_addr()
        .expect("an address")
        .as_socket()
        .expect("an address");
    let mut fillers = Vec::new();
    for _ in 0..8 {
        let filler = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        filler.set_nonblocking(true).expect("an option");
        let _ = filler.connect(&address.into());
        fillers.push(filler);
    }
    // The first one fills the queue; the others wait.
    let listener = End {
        local: address,
        far: ([0; 4], 0).into(),
    };
    wait_for("a full queue", || {
        listener.look().filter(|listener| listener.unread > 0)
    });
    (address, socket, fillers)
}

#[test]
fn a_server_that_does_not_accept_is_504_after_the_connect_time_out() {
    let place = Place::claim();
    let (address, _socket, _fillers) = full_listener(&place);
    let carrick = Carrick::start(
        &place,
        &format!(
            "[timeouts]\nconnect = \"500ms\"\ndrain = \"1s\"\n{}",
            switch_text(&[address])
        ),
    );
    let begun = Instant::now();
    let response = carrick.connect().ask(GET);
    assert_eq!(response.status, 504, "{}", response.head);
    assert!(response.text().contains("connect"), "{}", response.text());
    assert!(begun.elapsed() >= Duration::from_millis(450));
    assert!(carrick.limit_reached("connect_timeout") >= 1.0);
    let line = &carrick.access_log(1)[0];
    let expected = ("connect_timeout", address.to_string());
    assert_eq!(
        (line.text("ended"), line.text("server").to_owned()),
        expected
    );
}

#[test]
fn a_server_that_does_not_accept_is_passed_over_for_one_that_does() {
    let place = Place::claim();
    let (address, _socket, _fillers) = full_listener(&place);
    let serving = Server::listen(&place).serve(|peer, _| {
        crate::support::server::answer_requests(peer, |_| b"HTTP/1.1 204 No Content\r\n\r\n".into())
    });
    let carrick = Carrick::start(
        &place,
        &format!(
            "[timeouts]\nconnect = \"300ms\"\ndrain = \"1s\"\n{}keepalive = 0\n",
            switch_text(&[address, serving.address()])
        ),
    );
    for _ in 0..4 {
        assert_eq!(carrick.connect().ask(GET).status, 204);
    }
}
