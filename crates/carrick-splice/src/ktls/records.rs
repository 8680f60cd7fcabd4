//! Records of a connection of which the kernel has the keys: data is written like TCP's; these are the rest.

use super::SOL_TLS;
use std::io::{self, ErrorKind};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};

/// The type of alerts (RFC 8446 section 5.1).
pub const ALERT: u8 = 21;

/// The type of handshake messages.
pub const HANDSHAKE: u8 = 22;

/// The type of data.
const DATA: u8 = 23;

/// linux/tls.h
const TLS_SET_RECORD_TYPE: i32 = 1;
const TLS_GET_RECORD_TYPE: i32 = 2;

/// What was received.
#[derive(Debug, PartialEq, Eq)]
pub enum Record {
    /// So many bytes of data, at the end of the buffer; the record may have more, or others followed.
    Data(usize),
    /// A record of another type, or its beginning.
    Other(u8, Vec<u8>),
    /// The end of TCP's stream.
    End,
}

/// A control message that says a record's type.
#[repr(C)]
struct RecordType {
    header: libc::cmsghdr,
    value: [u8; 8],
}

/// Receives into the spare room of `buffer`, at most `room` bytes, without waiting.
///
/// # Errors
/// Those of `recvmsg(2)`: `EBADMSG` if a record is forged or damaged, `WouldBlock` if none is whole.
#[expect(
    unsafe_code,
    reason = "no library receives these control messages, or into spare room with them"
)]
pub fn receive(socket: &impl AsFd, buffer: &mut Vec<u8>, room: usize) -> io::Result<Record> {
    let before = buffer.len();
    let spare = buffer.spare_capacity_mut();
    let mut piece = libc::iovec {
        iov_base: spare.as_mut_ptr().cast(),
        iov_len: spare.len().min(room),
    };
    // SAFETY: structures of numbers and pointers, for which zero is a value.
    let (mut control, mut message): (RecordType, libc::msghdr) = unsafe { (zeroed(), zeroed()) };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<RecordType>() as _;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `iov_len` bytes to the spare room,
    // and `msg_controllen` to `control`.
    let received = unsafe {
        libc::recvmsg(
            socket.as_fd().as_raw_fd(),
            &raw mut message,
            libc::MSG_DONTWAIT,
        )
    };
    let Ok(received) = usize::try_from(received) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: the kernel has written so many bytes.
    unsafe { buffer.set_len(before + received) };
    let has_type = control.header.cmsg_level == SOL_TLS
        && control.header.cmsg_type == TLS_GET_RECORD_TYPE
        && message.msg_flags & libc::MSG_CTRUNC == 0;
    let [kind, ..] = control.value;
    match (has_type, received) {
        (true, _) if kind == DATA => Ok(Record::Data(received)),
        (true, _) => Ok(Record::Other(kind, buffer.split_off(before))),
        (false, 0) => Ok(Record::End),
        (false, _) => {
            buffer.truncate(before);
            Err(ErrorKind::InvalidData.into())
        }
    }
}

/// Sends a record of another type than data, such as an alert, without waiting.
///
/// # Errors
/// Those of `sendmsg(2)`.
#[expect(unsafe_code, reason = "no library sends these control messages")]
pub fn send_record(socket: &impl AsFd, kind: u8, content: &[u8]) -> io::Result<()> {
    let mut piece = libc::iovec {
        iov_base: content.as_ptr().cast_mut().cast(),
        iov_len: content.len(),
    };
    // SAFETY: structures of numbers and pointers, for which zero is a value.
    let (mut control, mut message): (RecordType, libc::msghdr) = unsafe { (zeroed(), zeroed()) };
    control.header.cmsg_level = SOL_TLS;
    control.header.cmsg_type = TLS_SET_RECORD_TYPE;
    // SAFETY: these only count.
    let (length, space) = unsafe { (libc::CMSG_LEN(1), libc::CMSG_SPACE(1)) };
    control.header.cmsg_len = length as _;
    control.value[0] = kind;
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = space as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads `content` and `control`, which are long enough.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags) };
    match usize::try_from(sent) {
        Ok(sent) if sent == content.len() => Ok(()),
        Ok(_) => Err(ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
