//! Version 1: a line of text.
use super::{Addresses, Endpoints, Header, agrees};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Most bytes of a line, its CR LF included (section 2.1 of the specification).
const LINE_BYTES_MAX: usize = 107;

const PREFIX: &[u8] = b"PROXY ";

pub(super) fn read(bytes: &[u8]) -> Result<Header, &'static str> {
    if !agrees(bytes, PREFIX) {
        return Err("no PROXY header: a line that begins with \"PROXY \" is expected");
    }
    let looked_at = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = looked_at
        .iter()
        .position(|byte| !matches!(byte, b' '..=b'~'))
    else {
        return unfinished(looked_at);
    };
    match looked_at[end..] {
        [b'\r'] => unfinished(looked_at),
        [b'\r', b'\n', ..] => {
            let line = looked_at.get(PREFIX.len()..end).unwrap_or_default();
            let endpoints = read_line(std::str::from_utf8(line).unwrap_or_default())?;
            Ok(Header::Complete(end + 2, endpoints))
        }
        _ => Err("PROXY header, version 1: a line of ASCII that ends with CR LF is expected"),
    }
}

fn unfinished(looked_at: &[u8]) -> Result<Header, &'static str> {
    if looked_at.len() < LINE_BYTES_MAX {
        Ok(Header::Partial)
    } else {
        Err("PROXY header, version 1: longer than 107 bytes")
    }
}

/// Reads what is between `PROXY ` and CR LF.
fn read_line(line: &str) -> Result<Option<Endpoints>, &'static str> {
    let mut words = line.split(' ');
    match words.next() {
        // What follows is to be ignored.
        Some("UNKNOWN") => Ok(None),
        Some("TCP4") => {
            read_endpoints(words, |text| text.parse().map(Ipv4Addr::into).ok()).map(Some)
        }
        Some("TCP6") => {
            read_endpoints(words, |text| text.parse().map(Ipv6Addr::into).ok()).map(Some)
        }
        _ => Err("PROXY header, version 1: TCP4, TCP6 or UNKNOWN is expected"),
    }
}

fn read_endpoints<'l>(
    mut words: impl Iterator<Item = &'l str>,
    address: impl Fn(&str) -> Option<IpAddr>,
) -> Result<Endpoints, &'static str> {
    let mut next = || words.next().unwrap_or_default();
    let addresses = [next(), next()].map(address);
    let ports = [next(), next()].map(port);
    if words.next().is_some() {
        return Err("PROXY header, version 1: more than two addresses and two ports");
    }
    let [Some(source), Some(destination)] = addresses else {
        return Err("PROXY header, version 1: two addresses of its family are expected");
    };
    let [Some(source_port), Some(destination_port)] = ports else {
        return Err("PROXY header, version 1: two decimal ports are expected");
    };
    Ok(Endpoints {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    })
}

/// A decimal number without leading zeros or sign.
fn port(text: &str) -> Option<u16> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

pub(super) fn write(out: &mut Vec<u8>, addresses: &Addresses, ports: [u16; 2]) {
    let [source_port, destination_port] = ports;
    let line = match addresses {
        Addresses::V4([source, destination]) => {
            format!("PROXY TCP4 {source} {destination} {source_port} {destination_port}\r\n")
        }
        Addresses::V6([source, destination]) => {
            format!("PROXY TCP6 {source} {destination} {source_port} {destination_port}\r\n")
        }
    };
    out.extend_from_slice(line.as_bytes());
}

pub(super) fn write_unknown(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PROXY UNKNOWN\r\n");
}
