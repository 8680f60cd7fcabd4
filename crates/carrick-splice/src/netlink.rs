//! Asking the kernel by netlink: dumps of links, filters, rules, and the attributes that they consist of; and hearing of changes.
//!
//! What is asked here is a few dumps of six kinds, nftables among them, which no one crate has; so the messages are read by
//! hand, and the sockets are those of `rustix`. No message is trusted: what is too short is left out.

use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

/// linux/netlink.h
const HEADER_BYTES: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;
/// The upper bits of an attribute's type are flags.
const NLA_TYPE_MASK: u16 = 0x3fff;

/// The kernel fills at most 32 KB at a time (`netlink_dump`).
const BUFFER_BYTES: usize = 64 << 10;

/// So often a dump is begun again that changed while it was read.
const DUMP_TRIES: usize = 8;

/// Whom to ask, or to hear from.
#[derive(Debug, Clone, Copy)]
pub enum Family {
    /// Links, addresses, routes, rules, tc.
    Route,
    /// nftables.
    Netfilter,
}

/// A message of the kernel.
#[derive(Debug)]
pub(crate) struct Message {
    /// `RTM_NEWLINK` and the like.
    pub(crate) kind: u16,
    /// What follows the header.
    pub(crate) body: Vec<u8>,
}

/// Opens a socket that hears of the multicast `groups` (a bit each; 0: none), in this thread's network namespace.
///
/// # Errors
/// Those of `socket(2)` and `bind(2)`; groups of nftables need `CAP_NET_ADMIN`.
pub fn open(family: Family, groups: u32, flags: SocketFlags) -> io::Result<OwnedFd> {
    let protocol = match family {
        Family::Route => None,
        Family::Netfilter => Some(NETFILTER),
    };
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        flags | SocketFlags::CLOEXEC,
        protocol,
    )?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// All objects of a kind, in one consistent answer. Blocks for as long as the kernel needs.
pub(crate) fn dump(family: Family, kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
    for _ in 0..DUMP_TRIES {
        if let Some(messages) = try_dump(family, kind, body)? {
            return Ok(messages);
        }
    }
    Err(io::Error::other(
        "it changes faster than it can be read by netlink",
    ))
}

/// What the kernel answers to one question.
pub(crate) fn ask(family: Family, kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
    let answer = exchange(family, kind, NLM_F_REQUEST | NLM_F_ACK, body)?;
    Ok(answer.unwrap_or_default())
}

/// Appends an attribute.
pub(crate) fn put_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = 4 + value.len();
    body.extend_from_slice(&(length as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len() + align(length) - length, 0);
}

/// `None`: it changed meanwhile.
fn try_dump(family: Family, kind: u16, body: &[u8]) -> io::Result<Option<Vec<Message>>> {
    exchange(family, kind, NLM_F_REQUEST | NLM_F_DUMP, body)
}

/// Sends a request, and takes all that comes until its end. `None`: it changed meanwhile.
fn exchange(
    family: Family,
    kind: u16,
    flags: u16,
    body: &[u8],
) -> io::Result<Option<Vec<Message>>> {
    let socket = open(family, 0, SocketFlags::empty())?;
    let mut request = Vec::with_capacity(HEADER_BYTES + body.len());
    request.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    request.extend_from_slice(&kind.to_ne_bytes());
    request.extend_from_slice(&flags.to_ne_bytes());
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(body);
    retry_on_intr(|| rustix::net::send(&socket, &request, SendFlags::empty()))?;

    let mut messages = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut is_consistent = true;
    loop {
        let Some(datagram) = receive(&socket, &mut buffer)? else {
            continue;
        };
        for (header, body) in split(datagram) {
            is_consistent &= header.flags & NLM_F_DUMP_INTR == 0;
            match header.kind {
                NLMSG_DONE | NLMSG_ERROR => {
                    // Both begin with an error number, 0 or negative.
                    let error = u32_at(body, 0).map_or(0, u32::cast_signed);
                    if error != 0 {
                        return Err(io::Error::from_raw_os_error(-error));
                    }
                    return Ok(is_consistent.then_some(messages));
                }
                kind => messages.push(Message {
                    kind,
                    body: body.to_vec(),
                }),
            }
        }
    }
}

/// One datagram of the kernel's; `None` if somebody else sent it.
///
/// # Errors
/// Those of `recvfrom(2)`, `NOBUFS` among them: the kernel had to leave messages out. `MSGSIZE`: it is longer than the buffer.
pub fn receive<'b>(socket: &OwnedFd, buffer: &'b mut [u8]) -> Result<Option<&'b [u8]>, Errno> {
    let (_, bytes, sender) =
        retry_on_intr(|| rustix::net::recvfrom(socket, &mut *buffer, RecvFlags::TRUNC))?;
    let is_kernel = sender
        .and_then(|sender| SocketAddrNetlink::try_from(sender).ok())
        .is_some_and(|sender| sender.pid() == 0);
    if bytes > buffer.len() {
        return Err(Errno::MSGSIZE);
    }
    Ok(is_kernel.then(|| &buffer[..bytes]))
}

/// The part of `struct nlmsghdr` that matters.
#[derive(Debug)]
pub struct Header {
    /// `RTM_NEWLINK` and the like.
    pub kind: u16,
    flags: u16,
}

/// The messages of a datagram.
pub fn split(datagram: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = u32_at(rest, 0)? as usize;
        let message = rest.get(..length)?;
        let header = Header {
            kind: u16_at(message, 4)?,
            flags: u16_at(message, 6)?,
        };
        rest = rest.get(align(length)..).unwrap_or_default();
        Some((header, message.get(HEADER_BYTES..)?))
    })
}

/// The attributes in `bytes`: type and value.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & NLA_TYPE_MASK;
        let value = rest.get(4..length)?;
        rest = rest.get(align(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The first attribute of a type.
pub(crate) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value))
}

/// A string that ends with a zero byte.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&value[..end.unwrap_or(value.len())]).into_owned()
}

/// A number of the machine's byte order.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

/// A number of the machine's byte order.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

/// Messages and attributes begin at multiples of four.
const fn align(length: usize) -> usize {
    length.next_multiple_of(4)
}
