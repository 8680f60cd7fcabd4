//! Both parties against each other, and against the paper's table.

use super::*;

/// Lets two parties talk, in pieces of at most `piece` bytes; the lengths that were sent, with their senders.
fn talk(handshake: Handshake, piece: usize) -> Vec<(Party, usize)> {
    let mut client = Exchange::new(handshake, Party::Client);
    let mut server = Exchange::new(handshake, Party::Server);
    let mut sent = Vec::new();
    loop {
        let (party, from, to) = match (client.step(), server.step()) {
            (Step::Done, Step::Done) => return sent,
            (Step::Send(_), _) => (Party::Client, &mut client, &mut server),
            _ => (Party::Server, &mut server, &mut client),
        };
        let Step::Send(message) = from.step() else {
            panic!("nobody sends: {from:?} {to:?}")
        };
        from.sent();
        for part in message.chunks(piece) {
            assert_eq!(to.received(part), Ok(part.len()));
        }
        sent.push((party, message.len()));
    }
}

#[test]
fn the_messages_are_those_of_table_3() {
    use Party::{Client, Server};
    let full = [
        (Client, 98),
        (Server, 2239),
        (Client, 73),
        (Server, 6),
        (Client, 67),
        (Server, 61),
    ];
    let abbreviated = [
        (Client, 98),
        (Server, 79),
        (Server, 6),
        (Server, 61),
        (Client, 6),
        (Client, 61),
    ];
    for piece in [1, 7, 60, 10_000] {
        assert_eq!(talk(Handshake::Full, piece), full);
        assert_eq!(talk(Handshake::Abbreviated, piece), abbreviated);
    }
}

#[test]
fn the_first_message_says_which_handshake_it_is() {
    for handshake in [Handshake::Full, Handshake::Abbreviated] {
        let first = first_message(handshake);
        assert_eq!(recognise(&first), Beginning::Handshake(handshake));
        assert_eq!(recognise(&first[..97]), Beginning::Unknown);
        let mut more = first.to_vec();
        more.extend(b"GET / HTTP/1.1");
        assert_eq!(recognise(&more), Beginning::Handshake(handshake));
        let mut wrong = first;
        wrong[97] ^= 1;
        assert_eq!(recognise(&wrong), Beginning::Neither);
    }
    assert_eq!(recognise(b""), Beginning::Unknown);
    assert_eq!(recognise(b"G"), Beginning::Http);
}

#[test]
fn a_wrong_byte_is_placed_and_later_bytes_are_left() {
    let mut client = Exchange::new(Handshake::Abbreviated, Party::Client);
    client.sent();
    let mut stream = [1, 2, 3]
        .map(|index| message(Handshake::Abbreviated, index).into_owned())
        .concat();
    stream.extend(b"later");
    assert_eq!(client.clone().received(&stream), Ok(146));
    stream[79 + 4] ^= 1;
    assert_eq!(
        client.received(&stream),
        Err(Mismatch {
            message: 2,
            byte: 4
        })
    );
}
