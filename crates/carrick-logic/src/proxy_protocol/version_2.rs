//! Version 2: binary, with type-length-value extensions, of which only the checksum is read.
use super::{Addresses, Endpoints, HEADER_BYTES_MAX, Header, agrees};
use crate::cursor::Cursor;
use crc::{CRC_32_ISCSI, Crc};
use std::net::{IpAddr, SocketAddr};

/// Section 2.2 of the specification; no HTTP, TLS or version 1 begins like this.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family, length.
const FIXED_BYTES: usize = 16;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

/// `PP2_TYPE_CRC32C`
const TYPE_CHECKSUM: u8 = 0x03;

/// CRC-32C, which iSCSI uses, too (RFC 4960 appendix B).
static CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

pub(super) fn read(bytes: &[u8]) -> Result<Header, &'static str> {
    if !agrees(bytes, &SIGNATURE) {
        return Err("no PROXY header: neither version 1 nor version 2");
    }
    let Some(&command) = bytes.get(SIGNATURE.len()) else {
        return Ok(Header::Partial);
    };
    if !matches!(command, LOCAL | PROXY) {
        return Err("PROXY header, version 2: unknown version or command");
    }
    let Some(&[family, high, low]) = bytes
        .get(SIGNATURE.len() + 1..)
        .and_then(<[u8]>::first_chunk)
    else {
        return Ok(Header::Partial);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let end = FIXED_BYTES + length;
    if end > HEADER_BYTES_MAX {
        return Err("PROXY header, version 2: longer than 4096 bytes");
    }
    let shape = Shape::of(command, family)?;
    if length < shape.address_bytes() {
        return Err("PROXY header, version 2: too short for the addresses of its family");
    }
    let Some(header) = bytes.get(..end) else {
        return Ok(Header::Partial);
    };
    let endpoints = shape.read(header)?;
    Ok(Header::Complete(end, endpoints))
}

/// How the bytes after the fixed part are laid out.
enum Shape {
    V4,
    V6,
    /// Two `sun_path`, not used here.
    Unix,
    /// Datagrams, which a TCP connection is not; the addresses have this many bytes.
    Datagram(usize),
    /// Not to be looked at: `LOCAL`, whose family is to be ignored, and `UNSPEC`.
    Opaque,
}

impl Shape {
    /// Section 2.2 lists the families that exist; those that are not supported are as `UNSPEC`, all else is to be refused.
    fn of(command: u8, family: u8) -> Result<Self, &'static str> {
        match (command, family) {
            (LOCAL, _) | (_, 0x00) => Ok(Self::Opaque),
            (_, TCP_OVER_IPV4) => Ok(Self::V4),
            (_, TCP_OVER_IPV6) => Ok(Self::V6),
            (_, 0x12) => Ok(Self::Datagram(12)),
            (_, 0x22) => Ok(Self::Datagram(36)),
            (_, 0x31 | 0x32) => Ok(Self::Unix),
            _ => Err("PROXY header, version 2: unknown address family"),
        }
    }

    fn address_bytes(&self) -> usize {
        match self {
            Self::V4 => 12,
            Self::V6 => 36,
            Self::Unix => 216,
            Self::Datagram(bytes) => *bytes,
            Self::Opaque => 0,
        }
    }

    fn read(&self, header: &[u8]) -> Result<Option<Endpoints>, &'static str> {
        if matches!(self, Self::Opaque) {
            return Ok(None);
        }
        let extensions_at = FIXED_BYTES + self.address_bytes();
        check_extensions(header, extensions_at)?;
        let mut addresses = Cursor::new(header.get(FIXED_BYTES..extensions_at).unwrap_or_default());
        Ok(match self {
            Self::V4 => read_endpoints::<4>(&mut addresses),
            Self::V6 => read_endpoints::<16>(&mut addresses),
            Self::Unix | Self::Datagram(_) | Self::Opaque => None,
        })
    }
}

/// Source, destination, source port, destination port.
fn read_endpoints<const N: usize>(addresses: &mut Cursor<'_>) -> Option<Endpoints>
where
    IpAddr: From<[u8; N]>,
{
    let source: [u8; N] = addresses.take_array()?;
    let destination: [u8; N] = addresses.take_array()?;
    Some(Endpoints {
        source: SocketAddr::new(IpAddr::from(source), addresses.take_u16()?),
        destination: SocketAddr::new(IpAddr::from(destination), addresses.take_u16()?),
    })
}

/// Checks that the extensions fill the rest of the header exactly, and the checksum if there is one.
fn check_extensions(header: &[u8], extensions_at: usize) -> Result<(), &'static str> {
    const TOO_LONG: &str = "PROXY header, version 2: an extension is longer than the header";
    let mut extensions = Cursor::new(header.get(extensions_at..).unwrap_or_default());
    let mut has_checksum = false;
    while !extensions.is_empty() {
        let kind = extensions.take_u8().ok_or(TOO_LONG)?;
        let value = extensions.take_block().ok_or(TOO_LONG)?;
        if kind == TYPE_CHECKSUM {
            let value_end = header.len() - extensions.remaining();
            if has_checksum || !is_checksum(header, value, value_end) {
                return Err("PROXY header, version 2: its checksum is wrong");
            }
            has_checksum = true;
        }
    }
    Ok(())
}

/// Whether `value`, which ends at `value_end`, is the checksum of the header with zeros in its own place.
fn is_checksum(header: &[u8], value: &[u8], value_end: usize) -> bool {
    let Ok(expected) = <[u8; 4]>::try_from(value) else {
        return false;
    };
    let mut digest = CHECKSUM.digest();
    digest.update(&header[..value_end - value.len()]);
    digest.update(&[0; 4]);
    digest.update(&header[value_end..]);
    digest.finalize() == u32::from_be_bytes(expected)
}

pub(super) fn write(out: &mut Vec<u8>, addresses: &Addresses, ports: [u16; 2]) {
    out.extend_from_slice(&SIGNATURE);
    match addresses {
        Addresses::V4(pair) => {
            out.extend_from_slice(&[PROXY, TCP_OVER_IPV4, 0, 12]);
            pair.iter()
                .for_each(|address| out.extend_from_slice(&address.octets()));
        }
        Addresses::V6(pair) => {
            out.extend_from_slice(&[PROXY, TCP_OVER_IPV6, 0, 36]);
            pair.iter()
                .for_each(|address| out.extend_from_slice(&address.octets()));
        }
    }
    ports
        .iter()
        .for_each(|port| out.extend_from_slice(&port.to_be_bytes()));
}

pub(super) fn write_local(out: &mut Vec<u8>) {
    out.extend_from_slice(&SIGNATURE);
    out.extend_from_slice(&[LOCAL, 0, 0, 0]);
}
