//! Headers of both versions, valid and invalid, whole and in pieces.
use super::{Endpoints, HEADER_BYTES_MAX, Header, read, write, write_local};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn endpoints(source: &str, destination: &str) -> Endpoints {
    Endpoints {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    }
}

fn version_2(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &length, payload].concat()
}

/// 192.0.2.1:4660 to 198.51.100.2:443
const V4: &[u8] = &[192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x34, 1, 187];

fn v4() -> Endpoints {
    endpoints("192.0.2.1:4660", "198.51.100.2:443")
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    [
        &[kind],
        u16::try_from(value.len()).unwrap().to_be_bytes().as_slice(),
        value,
    ]
    .concat()
}

#[track_caller]
fn assert_same_for_every_prefix(bytes: &[u8]) {
    let whole = read(bytes);
    let mut decided = false;
    for length in 0..=bytes.len() {
        let answer = read(&bytes[..length]);
        if answer == Ok(Header::Partial) {
            assert!(!decided, "undecided again at {length} of {bytes:?}");
        } else {
            decided = true;
            assert_eq!(answer, whole, "at {length} of {bytes:?}");
        }
    }
}

#[test]
fn version_1_lines() {
    let longest = "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
    assert_eq!(longest.len(), 107);
    let rows = [
        ("PROXY TCP4 192.0.2.1 198.51.100.2 4660 443\r\n", Some(v4())),
        (
            "PROXY TCP4 255.255.255.255 0.0.0.0 65535 0\r\n",
            Some(endpoints("255.255.255.255:65535", "0.0.0.0:0")),
        ),
        (
            "PROXY TCP6 ::1 2001:db8::1 1 2\r\n",
            Some(endpoints("[::1]:1", "[2001:db8::1]:2")),
        ),
        (
            "PROXY TCP6 ::ffff:192.0.2.1 2001:DB8::1 1 2\r\n",
            Some(endpoints("192.0.2.1:1", "[2001:db8::1]:2")),
        ),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN \r\n", None),
        ("PROXY UNKNOWN whatever this is\r\n", None),
        (longest, None),
    ];
    for (line, expected) in rows {
        for after in ["", "GET / HTTP/1.1\r\n\r\n", "\r\n", "PROXY "] {
            let bytes = format!("{line}{after}");
            assert_eq!(
                read(bytes.as_bytes()),
                Ok(Header::Complete(line.len(), expected)),
                "{bytes:?}"
            );
            assert_same_for_every_prefix(bytes.as_bytes());
        }
    }
}

#[test]
fn version_1_mistakes() {
    let too_long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(92));
    let never_ends = "PROXY TCP4 ".to_owned() + &" ".repeat(200);
    let rows = [
        "GET / HTTP/1.1\r\n",
        "PROXY\r\n",
        "PROXY \r\n",
        "proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY tcp4 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY UNKNOWNX\r\n",
        "PROXY UNKNOWN",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\rX",
        "PROXY TCP4 1.2.3.4\t1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
        "PROXY TCP4 1.2.3.4\r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 ::1 1 2\r\n",
        "PROXY TCP4 01.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
        "PROXY TCP6 [::1] ::1 1 2\r\n",
        "PROXY TCP6 fe80::1%1 ::1 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 -2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 00\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 0x2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 99999999999999999999\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 \u{661} 2\r\n",
        "PROXY UNKNOWN \u{e9}\r\n",
        "PROXY UNKNOWN \0\r\n",
        &too_long,
        &never_ends,
    ];
    for line in rows {
        let is_only_unfinished = line == "PROXY UNKNOWN";
        assert_eq!(
            read(line.as_bytes()).is_err(),
            !is_only_unfinished,
            "{line:?}"
        );
        assert_same_for_every_prefix(line.as_bytes());
    }
}

#[test]
fn version_2_headers() {
    let v6: Vec<u8> = [
        vec![0; 15],
        vec![1],
        vec![0x20, 1, 0xd, 0xb8],
        vec![0; 11],
        vec![9],
        vec![0, 1, 0xff, 0xff],
    ]
    .concat();
    let with_tlvs = [
        V4.to_vec(),
        tlv(1, b"h2"),
        tlv(2, b""),
        tlv(0xff, &[0; 300]),
        tlv(4, &[0; 3]),
    ]
    .concat();
    let rows: Vec<(Vec<u8>, Option<Endpoints>)> = vec![
        (version_2(0x21, 0x11, V4), Some(v4())),
        (version_2(0x21, 0x11, &with_tlvs), Some(v4())),
        (
            version_2(0x21, 0x21, &v6),
            Some(endpoints("[::1]:1", "[2001:db8::9]:65535")),
        ),
        (version_2(0x20, 0x00, b""), None),
        (version_2(0x20, 0x00, b"anything at all"), None),
        (version_2(0x20, 0x11, V4), None),
        // The family of LOCAL must be ignored.
        (version_2(0x20, 0xee, b"x"), None),
        (version_2(0x21, 0x00, b""), None),
        (version_2(0x21, 0x00, b"xyz"), None),
        (version_2(0x21, 0x12, V4), None),
        (version_2(0x21, 0x22, &v6), None),
        (version_2(0x21, 0x31, &[b'/'; 216]), None),
        (
            version_2(0x21, 0x32, &[vec![0; 216], tlv(5, b"id")].concat()),
            None,
        ),
        (version_2(0x21, 0x00, &[0; HEADER_BYTES_MAX - 16]), None),
    ];
    for (header, expected) in rows {
        for after in [b"".as_slice(), b"GET /", SIGNATURE] {
            let bytes = [&header, after].concat();
            assert_eq!(
                read(&bytes),
                Ok(Header::Complete(header.len(), expected)),
                "{bytes:?}"
            );
            assert_same_for_every_prefix(&bytes);
        }
    }
}

#[test]
fn version_2_mistakes() {
    let rows: Vec<Vec<u8>> = vec![
        b"\r\n\r\n\0\r\nQUIT\r".to_vec(),
        b"\r\nGET / HTTP/1.1".to_vec(),
        b"\x16\x03\x01".to_vec(),
        version_2(0x11, 0x11, V4),
        version_2(0x31, 0x11, V4),
        version_2(0x22, 0x11, V4),
        version_2(0x21, 0x10, V4),
        version_2(0x21, 0x13, V4),
        version_2(0x21, 0x01, V4),
        version_2(0x21, 0x41, V4),
        version_2(0x21, 0x11, &V4[..11]),
        version_2(0x21, 0x11, b""),
        version_2(0x21, 0x21, &[0; 35]),
        version_2(0x21, 0x31, &[0; 215]),
        version_2(0x21, 0x11, &[V4, &[1]].concat()),
        version_2(0x21, 0x11, &[V4, &[1, 0]].concat()),
        version_2(0x21, 0x11, &[V4, &[1, 0, 3, b'a', b'b']].concat()),
        version_2(0x21, 0x00, &[0; HEADER_BYTES_MAX - 15]),
        version_2(0x20, 0x00, &[0; 65535]),
    ];
    for bytes in rows {
        assert!(read(&bytes).is_err(), "{bytes:?}");
        if bytes.len() < 5000 {
            assert_same_for_every_prefix(&bytes);
        }
    }
    // Refused as soon as the length is known, before the rest arrives.
    assert!(read(&version_2(0x21, 0x11, &[0; 5000])[..16]).is_err());
    assert!(read(&version_2(0x21, 0x11, &V4[..3])[..16]).is_err());
}

/// Bit by bit, as in RFC 3720 appendix B.4; not the library under test.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
        }
    }
    !crc
}

#[test]
fn checksums_are_verified() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    let payload = [V4.to_vec(), tlv(1, b"h2"), tlv(3, &[0; 4]), tlv(4, b"x")].concat();
    let mut header = version_2(0x21, 0x11, &payload);
    let place = 16 + 12 + 5 + 3;
    let checksum = crc32c(&header);
    header[place..place + 4].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(
        read(&header),
        Ok(Header::Complete(header.len(), Some(v4())))
    );
    assert_same_for_every_prefix(&header);
    for changed in [16, 20, place, place + 3, header.len() - 1] {
        let mut header = header.clone();
        header[changed] ^= 1;
        assert!(read(&header).is_err(), "{changed}");
    }
    for wrong in [
        tlv(3, b""),
        tlv(3, &[0; 3]),
        tlv(3, &[0; 5]),
        tlv(3, &[0; 4]),
    ] {
        assert!(read(&version_2(0x21, 0x11, &[V4, &wrong].concat())).is_err());
    }
}

#[test]
fn a_second_checksum_is_refused() {
    let mut header = version_2(
        0x21,
        0x11,
        &[V4.to_vec(), tlv(3, &[0; 4]), tlv(3, &[0; 4])].concat(),
    );
    let checksum = crc32c(&header);
    header[31..35].copy_from_slice(&checksum.to_be_bytes());
    assert!(read(&header).is_err());
}

#[test]
fn writes_what_the_specification_shows() {
    let written = |endpoints: &Endpoints, version_1| {
        let mut out = b"before".to_vec();
        write(&mut out, endpoints, version_1);
        out.strip_prefix(b"before").unwrap().to_vec()
    };
    assert_eq!(
        written(&v4(), true),
        b"PROXY TCP4 192.0.2.1 198.51.100.2 4660 443\r\n"
    );
    assert_eq!(written(&v4(), false), version_2(0x21, 0x11, V4));
    // A listener for both families reports IPv4 clients by IPv4-mapped addresses.
    let mapped = endpoints("[::ffff:192.0.2.1]:4660", "[::ffff:198.51.100.2]:443");
    assert_eq!(written(&mapped, true), written(&v4(), true));
    assert_eq!(written(&mapped, false), written(&v4(), false));
    let v6 = endpoints("[2001:db8::1]:1", "[::1]:2");
    assert_eq!(written(&v6, true), b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n");
    let mixed = endpoints("192.0.2.1:1", "[2001:db8::1]:2");
    assert_eq!(
        written(&mixed, true),
        b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 1 2\r\n"
    );
    assert_eq!(
        read(&written(&mixed, false)),
        Ok(Header::Complete(
            52,
            Some(endpoints("192.0.2.1:1", "[2001:db8::1]:2"))
        ))
    );
}

#[test]
fn writes_headers_of_its_own_connections() {
    for (version_1, expected) in [
        (true, b"PROXY UNKNOWN\r\n".to_vec()),
        (false, version_2(0x20, 0, b"")),
    ] {
        let mut out = Vec::new();
        write_local(&mut out, version_1);
        assert_eq!(out, expected);
        assert_eq!(read(&out), Ok(Header::Complete(out.len(), None)));
    }
}

fn some_endpoint() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(address, port)| SocketAddr::new(address, port))
}

proptest! {
    #[test]
    fn what_is_written_is_read(source in some_endpoint(), destination in some_endpoint(), version_1 in any::<bool>()) {
        let mut out = Vec::new();
        write(&mut out, &Endpoints { source, destination }, version_1);
        assert_same_for_every_prefix(&out);
        let Ok(Header::Complete(length, Some(read))) = read(&out) else {
            panic!("{out:?}");
        };
        prop_assert_eq!(length, out.len());
        for (read, written) in [(read.source, source), (read.destination, destination)] {
            prop_assert_eq!(read.ip(), written.ip().to_canonical());
            prop_assert_eq!(read.port(), written.port());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), command in 0x20..0x22_u8, family in any::<u8>(), text in "[ -~\r\n]{0,60}") {
        let _ = read(&bytes);
        assert_same_for_every_prefix(&version_2(command, family, &bytes));
        assert_same_for_every_prefix(&version_2(0x21, 0x11, &[V4, &bytes].concat()));
        assert_same_for_every_prefix(format!("PROXY {text}").as_bytes());
        assert_same_for_every_prefix(format!("PROXY TCP4 {text}\r\n").as_bytes());
    }
}
