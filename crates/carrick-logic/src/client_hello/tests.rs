//! ClientHellos of real clients and synthetic ones, in pieces of every size.
use super::{CLIENT_HELLO_BYTES_MAX, Hello, read};
use proptest::prelude::*;

/// Chromium 1xx to `media.example.org`: GREASE, Encrypted Client Hello, a post-quantum key share.
const CHROMIUM: &[u8] = include_bytes!("tests/chromium.bin");

/// OpenSSL (by Python) to `WWW.Example.org`.
const OPENSSL: &[u8] = include_bytes!("tests/openssl.bin");

fn named(name: &str) -> Hello {
    Hello::Complete(Some(name.as_bytes().to_vec()))
}

fn block(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().to_vec(), block(content)].concat()
}

/// A `server_name` extension with these names.
fn server_names(names: &[(u8, &[u8])]) -> Vec<u8> {
    let list: Vec<u8> = names
        .iter()
        .flat_map(|(kind, name)| [vec![*kind], block(name)].concat())
        .collect();
    extension(0, &block(&list))
}

/// The part before the extensions.
fn hello_start() -> Vec<u8> {
    let session = [7; 32];
    [
        &[3, 3],
        [9; 32].as_slice(),
        &[32],
        &session,
        &[0, 4, 0x13, 1, 0x8a, 0x8a],
        &[1, 0],
    ]
    .concat()
}

fn hello_with(extensions: &[u8]) -> Vec<u8> {
    message(&[hello_start(), block(extensions)].concat())
}

fn message(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1], &length[1..], body].concat()
}

/// A message in records of at most this many bytes.
fn records(message: &[u8], fragment_bytes_max: usize) -> Vec<u8> {
    let record = |fragment: &[u8]| [vec![22, 3, 1], block(fragment)].concat();
    message
        .chunks(fragment_bytes_max)
        .flat_map(record)
        .collect()
}

fn one_record(message: &[u8]) -> Vec<u8> {
    records(message, 1 << 14)
}

fn hello_for(name: &[u8]) -> Vec<u8> {
    one_record(&hello_with(&server_names(&[(0, name)])))
}

/// For every prefix, the answer is either "more" or final; once final, it never changes.
#[track_caller]
fn assert_same_for_every_prefix(bytes: &[u8]) {
    let whole = read(bytes);
    let mut decided = false;
    for length in 0..=bytes.len() {
        let answer = read(&bytes[..length]);
        if answer == Hello::Partial {
            assert!(!decided, "undecided again at {length}");
        } else {
            decided = true;
            assert_eq!(answer, whole, "at {length} of {}", bytes.len());
        }
    }
}

#[test]
fn reads_what_browsers_and_openssl_send() {
    assert_eq!(read(CHROMIUM), named("media.example.org"));
    assert_eq!(read(OPENSSL), named("www.example.org"));
    for hello in [CHROMIUM, OPENSSL] {
        assert_same_for_every_prefix(hello);
        assert_eq!(read(&hello[..hello.len() - 1]), Hello::Partial);
        // The same in many records, as some clients send it to pass middleboxes.
        for fragment_bytes_max in [1, 2, 3, 4, 5, 100, 1000] {
            let split = records(&hello[5..], fragment_bytes_max);
            assert_eq!(read(&split), read(hello), "{fragment_bytes_max}");
        }
        assert_same_for_every_prefix(&records(&hello[5..], 7));
    }
}

#[test]
fn what_follows_the_hello_is_not_looked_at() {
    let hello = hello_for(b"a.example");
    for after in [
        b"\x17\x03\x03\x00\x01x".as_slice(),
        b"GET / HTTP/1.1",
        &[0xff; 9],
        b"\x16",
        &[0; 20_000],
    ] {
        assert_eq!(read(&[&hello, after].concat()), named("a.example"));
    }
    // Also within the last record.
    let message = [
        hello_with(&server_names(&[(0, b"a.example")])),
        vec![11, 0, 0, 0],
    ]
    .concat();
    assert_eq!(read(&one_record(&message)), named("a.example"));
}

#[test]
fn names_are_normalised() {
    for name in ["a.example", "A.EXAMPLE", "a.example.", "A.Example."] {
        assert_eq!(
            read(&hello_for(name.as_bytes())),
            named("a.example"),
            "{name}"
        );
    }
    assert_eq!(read(&hello_for(b"_x-1.example")), named("_x-1.example"));
}

#[test]
fn what_is_no_host_name_is_no_name() {
    let long = [b'a'; 300];
    let names: [&[u8]; 15] = [
        b"192.0.2.1",
        b"::1",
        b"[::1]",
        b"2130706433",
        b"0x7f.1",
        b"a b",
        b"a\0b",
        b"a/b",
        b"a:443",
        b"*.example",
        b"b\xc3\xbc.example",
        b"\xff",
        b"a..b",
        b".",
        &long,
    ];
    for name in names {
        assert_eq!(
            read(&hello_for(name)),
            Hello::Complete(None),
            "{:?}",
            String::from_utf8_lossy(name)
        );
    }
}

#[test]
fn hellos_without_a_name() {
    let grease = [extension(0x0a0a, &[]), extension(0xfafa, &[0])].concat();
    let rows = [
        ("no extensions at all", message(&hello_start())),
        ("an empty list of extensions", hello_with(&[])),
        ("only others", hello_with(&grease)),
    ];
    for (what, hello) in rows {
        assert_eq!(read(&one_record(&hello)), Hello::Complete(None), "{what}");
    }
}

#[test]
fn the_name_is_found_among_other_things() {
    let name = server_names(&[(0, b"a.example")]);
    let before_and_after = [
        extension(0x1a1a, &[0; 40]),
        name,
        extension(16, b"\0\x03\x02h2"),
        extension(0x2a2a, &[]),
    ]
    .concat();
    assert_eq!(
        read(&one_record(&hello_with(&before_and_after))),
        named("a.example")
    );
    let of_other_types = server_names(&[(1, b""), (0, b"a.example"), (7, b"b.example")]);
    assert_eq!(
        read(&one_record(&hello_with(&of_other_types))),
        named("a.example")
    );
}

#[test]
fn old_and_odd_versions_are_still_hellos() {
    for minor in [0, 1, 2, 3, 4, 0x7f] {
        let mut hello = hello_for(b"a.example");
        hello[2] = minor;
        hello[10] = minor;
        assert_eq!(read(&hello), named("a.example"), "{minor}");
    }
}

#[test]
fn what_is_not_tls_is_recognized_by_its_first_bytes() {
    let rows: [&[u8]; 13] = [
        b"GET / HTTP/1.1\r\n",
        b"S",
        b"\0",
        b"\x15",
        b"\x17\x03\x03",
        b"\x16\x02",
        b"\x16\xfe\xfd",
        b"\x16\x03\x01\0\0",
        b"\x16\x03\x01\x40\x01",
        b"\x16\x03\x01\0\x05\x02",
        b"\x16\x03\x01\0\x01\x00",
        // SSL 2, with its length in one and in two bytes.
        b"\x80\x2e\x01\x03\x01",
        b"\x00\x2e\x00\x01",
    ];
    for bytes in rows {
        assert_eq!(read(bytes), Hello::NotTls, "{bytes:x?}");
        assert_same_for_every_prefix(bytes);
    }
    for bytes in [
        b"".as_slice(),
        b"\x16",
        b"\x16\x03",
        b"\x16\x03\x01\x40",
        b"\x16\x03\x01\x40\x00",
        b"\x16\x03\x01\0\x01\x01",
    ] {
        assert_eq!(read(bytes), Hello::Partial, "{bytes:x?}");
    }
}

#[test]
fn malformed_hellos_are_not_read() {
    let name = server_names(&[(0, b"a.example")]);
    let start = hello_start();
    let with_start = |start: &[u8]| message(&[start, &block(&name)].concat());
    let changed = |place: usize, value: u8| {
        let mut changed = start.clone();
        changed[place] = value;
        with_start(&changed)
    };
    let rows = [
        (
            "two names",
            hello_with(&server_names(&[(0, b"a.example"), (0, b"b.example")])),
        ),
        (
            "the same name twice",
            hello_with(&server_names(&[(0, b"a.example"), (0, b"a.example")])),
        ),
        (
            "two server_name extensions",
            hello_with(&[name.clone(), name.clone()].concat()),
        ),
        ("an empty name", hello_with(&server_names(&[(0, b"")]))),
        ("an empty list", hello_with(&server_names(&[]))),
        ("an empty server_name", hello_with(&extension(0, &[]))),
        (
            "no host name in the list",
            hello_with(&server_names(&[(1, b"x")])),
        ),
        (
            "a list shorter than its extension",
            hello_with(&extension(0, b"\0\x04\0\0\x01ab")),
        ),
        (
            "a list longer than its extension",
            hello_with(&extension(0, b"\0\x09\0\0\x01a")),
        ),
        (
            "a name longer than its list",
            hello_with(&extension(0, b"\0\x04\0\0\x02a")),
        ),
        (
            "an extension longer than the list",
            hello_with(&[0, 0, 0, 9, 0]),
        ),
        (
            "half an extension",
            hello_with(&[name.as_slice(), &[0]].concat()),
        ),
        (
            "extensions shorter than the message",
            message(&[start.as_slice(), &block(&name), &[0]].concat()),
        ),
        (
            "extensions longer than the message",
            message(&[start.as_slice(), &[0, 9, 0]].concat()),
        ),
        (
            "half a length of extensions",
            message(&[start.as_slice(), &[0]].concat()),
        ),
        ("version 2", changed(0, 2)),
        (
            "a session of 33 bytes",
            with_start(&[&start[..34], &[33; 34], &start[67..]].concat()),
        ),
        (
            "an odd length of cipher suites",
            with_start(&[&start[..67], &[0, 3, 0x13, 1, 0x8a, 1, 0]].concat()),
        ),
        (
            "no cipher suites",
            message(&[&start[..67], &[0, 0, 1, 0]].concat()),
        ),
        ("no compression", message(&[&start[..73], &[0]].concat())),
        ("nothing", message(&[])),
        ("only a version", message(&[3, 3])),
    ];
    for (what, hello) in rows {
        assert_eq!(read(&one_record(&hello)), Hello::NotTls, "{what}");
        assert_same_for_every_prefix(&records(&hello, 3));
    }
}

#[test]
fn other_records_between_are_refused() {
    let hello = hello_with(&server_names(&[(0, b"a.example")]));
    let (first, second) = hello.split_at(20);
    for between in [
        b"\x14\x03\x03\x00\x01\x01".as_slice(),
        b"\x15\x03\x01\x00\x02\x01\x00",
        b"\x16\x03\x01\x00\x00",
    ] {
        let bytes = [&one_record(first), between, &one_record(second)].concat();
        assert_eq!(read(&bytes), Hello::NotTls);
        assert_same_for_every_prefix(&bytes);
    }
}

#[test]
fn no_more_than_the_limit_is_waited_for() {
    let name = server_names(&[(0, b"a.example")]);
    let rest = CLIENT_HELLO_BYTES_MAX - hello_for(b"a.example").len() - 4;
    let fits = one_record(&hello_with(
        &[name.clone(), extension(21, &vec![0; rest])].concat(),
    ));
    assert_eq!(fits.len(), CLIENT_HELLO_BYTES_MAX);
    assert_eq!(read(&fits), named("a.example"));
    assert_eq!(read(&fits[..fits.len() - 1]), Hello::Partial);
    // With one more byte it has no name, as soon as the length is known.
    let too_long = one_record(&hello_with(
        &[name, extension(21, &vec![0; rest + 1])].concat(),
    ));
    assert_eq!(read(&too_long), Hello::Complete(None));
    assert_eq!(read(&too_long[..9]), Hello::Complete(None));
    // In records of one byte each it needs six times as much.
    let tiny = records(&fits[5..], 1);
    assert_eq!(read(&tiny[..CLIENT_HELLO_BYTES_MAX - 1]), Hello::Partial);
    assert_eq!(read(&tiny), Hello::Complete(None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), body in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = read(&bytes);
        let _ = read(&one_record(&message(&body)));
        let _ = read(&one_record(&hello_with(&body)));
        let _ = read(&one_record(&hello_with(&extension(0, &body))));
    }

    /// Real ClientHellos with changed bytes, cut into records anywhere, in arbitrary pieces.
    #[test]
    fn any_pieces_give_the_same_answer(changes in prop::collection::vec((0..517_usize, any::<u8>()), 0..4), fragment_bytes_max in 1..600_usize, cut in 0..2000_usize) {
        let mut message = OPENSSL[5..].to_vec();
        for (place, value) in changes {
            let place = place % message.len();
            message[place] = value;
        }
        let bytes = records(&message, fragment_bytes_max);
        assert_same_for_every_prefix(&bytes[..cut.min(bytes.len())]);
        assert_same_for_every_prefix(&bytes);
    }

    #[test]
    fn any_host_name_is_found_in_any_records(name in "[a-z][a-z0-9-]{0,9}(\\.[a-z][a-z0-9_]{0,9}){0,3}", fragment_bytes_max in 1..200_usize, padding in 0..300_usize) {
        let extensions = [extension(21, &vec![0; padding]), server_names(&[(0, name.as_bytes())])].concat();
        prop_assert_eq!(read(&records(&hello_with(&extensions), fragment_bytes_max)), named(&name));
    }
}
