//! Clients of the far end that are not carrick, or not allowed.
use super::{LINK_PORT, ONE_WORKER, Stage, far_text};
use crate::support::{Carrick, Ending, Peer, Place};
use carrick_logic::link::{Destination, ErrorCode, Frame, Read, VERSION, read};
use std::net::SocketAddr;

fn hello() -> Vec<u8> {
    written(&[Frame::Hello { version: VERSION }])
}

fn written(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        frame.write(&mut bytes);
    }
    bytes
}

fn open(number: u32, server: SocketAddr) -> Frame {
    Frame::Open {
        number,
        client: ([192, 0, 2, 7], 1234).into(),
        destination: Destination::Address(server),
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

/// A far end without a near end, and a server.
fn far(listener: &str) -> (Place, Carrick) {
    far_that_waits("10m", listener)
}

/// The same, which waits so long for a HELLO.
fn far_that_waits(head: &str, listener: &str) -> (Place, Carrick) {
    let place = Place::claim();
    let text = far_text(
        &format!("[timeouts]\nhead = \"{head}\"\n{ONE_WORKER}"),
        listener,
    );
    let far = Carrick::start(&place, &text);
    (place, far)
}

#[test]
fn garbage_is_answered_with_a_reset() {
    let stage = Stage::plain();
    let door = stage.far_place.at(LINK_PORT);
    let server = stage.server.address();
    let wrong: [Vec<u8>; 9] = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        vec![0; 3000],
        vec![0xff; 3000],
        written(&[Frame::End]),
        written(&[open(1, server)]),
        written(&[Frame::Hello { version: 0 }]),
        [hello(), vec![5, 0xff, 0xff, 0xff, 0xff]].concat(),
        [hello(), written(&[open(2, server)])].concat(),
        [hello(), hello()].concat(),
    ];
    let count = wrong.len() as f64;
    for bytes in wrong {
        let mut stranger = Peer::connect(door);
        let _ = stranger.try_send(&bytes);
        let ending = stranger.read_ending();
        assert!(matches!(ending, Ending::Reset(_)), "{bytes:?}: {ending:?}");
    }
    stage
        .far
        .wait_for_metric("carrick_link_malformed_total", &[], count);
    stage.expect_one_connection();
}

/// In the middle of a relayed connection: its server is reset, and does not see a regular end.
#[test]
fn garbage_in_the_middle_resets_the_server() {
    let (place, far) = far("deny_to = []");
    let server = crate::support::Server::listen(&place);
    let mut near = Peer::connect(place.at(LINK_PORT));
    near.send(
        [
            hello(),
            written(&[open(1, server.address()), Frame::Data(3)]),
        ]
        .concat(),
    );
    near.send("abc");
    let mut upstream = server.accept();
    upstream.expect("abc");
    near.send([9; 40]);
    assert_eq!(upstream.read_ending(), Ending::Reset(Vec::new()));
    assert!(matches!(near.read_ending(), Ending::Reset(_)));
    far.wait_for_metric("carrick_link_malformed_total", &[], 1.0);
    assert_eq!(far.access_log(1)[0].text("ended"), "link_lost");
}

#[test]
fn a_peer_without_a_timely_hello_is_closed() {
    let (place, far) = far_that_waits("3s", "deny_to = []");
    // A peer that has sent HELLO may be silent for longer than those that have not.
    let mut quiet = Peer::connect(place.at(LINK_PORT));
    quiet.send(hello());
    assert_eq!(next(&mut quiet), Frame::Hello { version: VERSION });
    let slow = [&hello()[..0], &hello()[..7]].map(|beginning| {
        let mut slow = Peer::connect(place.at(LINK_PORT));
        slow.send(beginning);
        slow
    });
    for mut slow in slow {
        assert!(matches!(slow.read_ending(), Ending::Reset(_)));
    }
    assert_eq!(far.limit_reached("head_timeout"), 2.0);
    assert!(!quiet.has_more());
}

#[test]
fn a_peer_that_is_not_allowed_gets_no_answer() {
    let (place, far) = far("deny_to = []\nallow = [\"127.0.0.3\"]");
    let door = place.at(LINK_PORT);
    let mut stranger = Peer::connect(door);
    let _ = stranger.try_send(hello());
    assert!(stranger.read_ending().bytes().is_empty());
    assert_eq!(
        far.metric("carrick_refusals_total", &["client_not_allowed"]),
        1.0
    );
    let mut friend = Peer::connect_from([127, 0, 0, 3].into(), door);
    friend.send(hello());
    assert_eq!(next(&mut friend), Frame::Hello { version: VERSION });
}

/// A newer near end gets the version that this carrick supports.
#[test]
fn the_far_end_answers_with_a_version_that_it_speaks() {
    let (place, _far) = far("deny_to = []");
    let mut near = Peer::connect(place.at(LINK_PORT));
    near.send(written(&[Frame::Hello { version: 9 }]));
    assert_eq!(next(&mut near), Frame::Hello { version: VERSION });
}

/// The order of frames on one connection, as the protocol's page documents it.
#[test]
fn a_conversation_as_it_is_documented() {
    let (place, far) = far("deny_to = []");
    let server = crate::support::Server::listen(&place);
    let (refusing, _socket) = place.refusing();
    let mut near = Peer::connect(place.at(LINK_PORT));
    near.send(
        [
            hello(),
            written(&[open(1, server.address()), Frame::Data(4)]),
            b"ping".to_vec(),
            written(&[Frame::End]),
        ]
        .concat(),
    );
    assert_eq!(next(&mut near), Frame::Hello { version: VERSION });
    let address = server.address();
    assert_eq!(
        next(&mut near),
        Frame::Opened {
            number: 1,
            server: address
        }
    );
    let mut upstream = server.accept();
    assert_eq!(upstream.read_to_end(), b"ping");
    upstream.send("pong!");
    assert_eq!(next(&mut near), Frame::Data(5));
    near.expect("pong!");
    upstream.half_close();
    assert_eq!(next(&mut near), Frame::End);
    // RESET has crossed END, and has no effect.
    let reset = Frame::Reset {
        number: 1,
        why: ErrorCode::Reset,
    };
    near.send(written(&[reset, open(2, refusing)]));
    assert_eq!(
        next(&mut near),
        Frame::Refused {
            number: 2,
            why: ErrorCode::Refused
        }
    );
    let reset = Frame::Reset {
        number: 2,
        why: ErrorCode::Refused,
    };
    near.send(written(&[Frame::Data(2)]));
    near.send([b"xy".to_vec(), written(&[reset, open(3, server.address())])].concat());
    assert_eq!(
        next(&mut near),
        Frame::Opened {
            number: 3,
            server: address
        }
    );
    let upstream = server.accept();
    upstream.reset();
    assert_eq!(
        next(&mut near),
        Frame::Reset {
            number: 3,
            why: ErrorCode::Reset
        }
    );
    let lines = far.access_log(2);
    assert_eq!(lines[0].text("client"), "192.0.2.7");
    assert_eq!(lines[1].status(), 502);
}
