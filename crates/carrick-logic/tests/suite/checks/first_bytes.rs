//! Bytes before any message: a ClientHello, a PROXY header.
use super::cuts;
use carrick_logic::{client_hello, proxy_protocol};
use std::net::IpAddr;

/// The first bytes of a TLS connection: more bytes never change a final result.
pub fn client_hello(bytes: &[u8]) {
    let mut said = None;
    for length in cuts(bytes.len()) {
        let hello = client_hello::read(&bytes[..length]);
        if let Some(said) = &said {
            assert_eq!(&hello, said, "at {length}");
        }
        if let client_hello::Hello::Complete(Some(name)) = &hello {
            assert!(
                !name.is_empty() && name.len() <= 255 && !name.iter().any(u8::is_ascii_uppercase)
            );
        }
        if hello != client_hello::Hello::Partial {
            said = Some(hello);
        } else {
            assert!(length <= client_hello::CLIENT_HELLO_BYTES_MAX);
        }
    }
}

/// A PROXY header: more bytes never change a final result, and a header that was read can be written.
pub fn proxy_protocol(bytes: &[u8]) {
    let mut said = None;
    for length in cuts(bytes.len()) {
        let header = proxy_protocol::read(&bytes[..length]);
        if let Some(said) = &said {
            assert_eq!(&header, said, "at {length}");
        }
        if header == Ok(proxy_protocol::Header::Partial) {
            assert!(length < proxy_protocol::HEADER_BYTES_MAX);
        } else {
            said = Some(header);
        }
    }
    let Some(Ok(proxy_protocol::Header::Complete(length, endpoints))) = said else {
        return;
    };
    assert!(0 < length && length <= bytes.len().min(proxy_protocol::HEADER_BYTES_MAX));
    let Some(endpoints) = endpoints else { return };
    for version_1 in [false, true] {
        let mut out = Vec::new();
        proxy_protocol::write(&mut out, &endpoints, version_1);
        let Ok(proxy_protocol::Header::Complete(length, Some(read))) = proxy_protocol::read(&out)
        else {
            unreachable!("what is written can be read: {}", out.escape_ascii());
        };
        assert_eq!(length, out.len());
        assert_eq!(
            canonical(&read),
            canonical(&endpoints),
            "version 1: {version_1}"
        );
    }
}

/// An IPv4-mapped address is the IPv4 address, and may be written as such.
fn canonical(endpoints: &proxy_protocol::Endpoints) -> [(IpAddr, u16); 2] {
    [endpoints.source, endpoints.destination]
        .map(|address| (address.ip().to_canonical(), address.port()))
}
