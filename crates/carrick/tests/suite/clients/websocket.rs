//! WebSocket (RFC 6455) through the switch, through the forward proxy by `Upgrade`, and through `CONNECT`.
use crate::support::message::field;
use crate::support::server::Serving;
use crate::support::{Carrick, Peer, Place, Server, random};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// RFC 6455 section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

pub fn accept_for(key: &str) -> String {
    STANDARD.encode(Sha1::digest(format!("{key}{GUID}")))
}

/// A server that echoes every frame until it is told to close.
pub fn echo_server(place: &Place) -> Serving {
    Server::listen(place).serve(|mut peer, _| {
        if !peer.waits_for_head() {
            return;
        }
        let head = peer.read_head();
        let key = field(&head, "sec-websocket-key").expect("a key");
        peer.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
            accept_for(&key)
        ));
        while peer.waits_for_head() {
            let (kind, payload) = read_frame(&mut peer);
            if peer.try_send(frame(kind, &payload, None)).is_err() || kind == CLOSE {
                return;
            }
        }
    })
}

/// One whole frame (RFC 6455 section 5.2).
fn frame(kind: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let mut bytes = vec![0x80 | kind];
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match payload.len() {
        length @ 0..=125 => bytes.push(masked | u8::try_from(length).expect("short")),
        length @ 126..=65_535 => {
            bytes.push(masked | 126);
            bytes.extend_from_slice(&u16::try_from(length).expect("short").to_be_bytes());
        }
        length => {
            bytes.push(masked | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    let mask = mask.inspect(|mask| bytes.extend_from_slice(mask));
    let mask = mask.unwrap_or_default();
    bytes.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    bytes
}

fn read_frame(peer: &mut Peer) -> (u8, Vec<u8>) {
    let first = peer.read_exact(2);
    let length = match first[1] & 0x7f {
        126 => u64::from(u16::from_be_bytes(
            peer.read_exact(2).try_into().expect("two"),
        )),
        127 => u64::from_be_bytes(peer.read_exact(8).try_into().expect("eight")),
        short => u64::from(short),
    };
    let mask = if first[1] & 0x80 == 0 {
        vec![0; 4]
    } else {
        peer.read_exact(4)
    };
    let payload = peer.read_exact(usize::try_from(length).expect("a length"));
    let plain = payload.iter().zip(mask.iter().cycle());
    (
        first[0] & 0x0f,
        plain.map(|(byte, mask)| byte ^ mask).collect(),
    )
}

/// Upgrades, has frames of all sizes echoed, and closes.
pub fn converse(client: &mut Peer, target: &str, host: &str) {
    client.send(format!(
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ));
    let response = client.read_response("GET");
    assert_eq!(response.status, 101, "{}", response.head);
    assert_eq!(
        response.field("sec-websocket-accept"),
        Some(accept_for(KEY))
    );
    assert_eq!(response.field("upgrade").as_deref(), Some("websocket"));
    let mut random = random::Random::new(3);
    for length in [0, 1, 125, 126, 65_535, 65_536, 1_000_000, 3] {
        let kind = if length % 2 == 0 { TEXT } else { BINARY };
        let payload = random.bytes(length);
        let bytes = frame(kind, &payload, Some([1, 2, 3, 4]));
        // Both directions at once: the server answers while it still reads.
        let mut second = client.second();
        let sending = std::thread::spawn(move || second.send(bytes));
        let (kind_back, back) = read_frame(client);
        sending.join().expect("the frame goes out");
        assert_eq!(kind_back, kind);
        assert!(
            back == payload,
            "another payload of {length} bytes came back"
        );
    }
    client.send(frame(CLOSE, &1000_u16.to_be_bytes(), Some([9, 8, 7, 6])));
    assert_eq!(read_frame(client), (CLOSE, 1000_u16.to_be_bytes().to_vec()));
    client.expect_end();
}

fn expect_tunnel(carrick: &Carrick, mode: &str, method: &str, status: u64) {
    let line = carrick.access_log(1).remove(0);
    assert_eq!(
        (line.text("mode"), line.text("method"), line.status()),
        (mode, method, status)
    );
    assert_eq!(line.text("ended"), "complete");
    assert!(
        line.number("sent") > 1_131_000 && line.number("received") > 1_131_000,
        "{line:?}"
    );
    let mode = format!("mode=\"{mode}\"");
    assert!((carrick.metric("carrick_tunnels_total", &[&mode]) - 1.0).abs() < 0.5);
    carrick.wait_until_metric("carrick_tunnels_open", &[&mode], 0.0);
}

#[test]
fn a_websocket_goes_through_the_switch() {
    let place = Place::claim();
    let echo = echo_server(&place);
    let carrick = Carrick::switch(&place, &[echo.address()]);
    converse(&mut carrick.connect(), "/chat", "chat.example");
    expect_tunnel(&carrick, "switch", "GET", 101);
}

#[test]
fn a_websocket_goes_through_the_forward_proxy() {
    let place = Place::claim();
    let echo = echo_server(&place);
    let carrick = Carrick::forward(&place);
    let host = echo.address().to_string();
    converse(
        &mut carrick.connect_forward(),
        &format!("http://{host}/chat"),
        &host,
    );
    expect_tunnel(&carrick, "forward", "GET", 101);
}

#[test]
fn a_websocket_goes_through_connect() {
    let place = Place::claim();
    let echo = echo_server(&place);
    let carrick = Carrick::forward(&place);
    let host = echo.address().to_string();
    let mut client = carrick.connect_forward();
    client.send(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(client.read_response("CONNECT").status, 200);
    converse(&mut client, "/chat", &host);
    drop(client);
    expect_tunnel(&carrick, "forward", "CONNECT", 200);
}
