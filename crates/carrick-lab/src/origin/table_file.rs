//! The table of bodies as a file in memory, for `sendfile(2)`: a long body then costs no copy into the kernel.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::net::{SendFlags, send};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::content::{Body, TABLE_BYTES, table};

/// How much of the table's beginning follows it in the file, so that one call sends so much wherever it begins.
const OVERLAP_BYTES: usize = 1024 * 1024;

/// Shorter bodies are cheaper to copy, together with their head, than to send by two calls.
pub const SENDFILE_BYTES_MIN: u64 = 128 * 1024;

/// The file; `None`: this kernel gives none, and bodies are copied.
#[must_use]
pub fn table_file() -> Option<BorrowedFd<'static>> {
    static FILE: OnceLock<Option<OwnedFd>> = OnceLock::new();
    FILE.get_or_init(|| create().ok())
        .as_ref()
        .map(OwnedFd::as_fd)
}

fn create() -> io::Result<OwnedFd> {
    let table = &table()[..TABLE_BYTES];
    let file = memfd_create("carrick-lab-bodies", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(file);
    file.write_all(table)?;
    file.write_all(&table[..OVERLAP_BYTES.min(TABLE_BYTES)])?;
    Ok(file.into())
}

/// Sends `head`, if any, and some of the body from `offset` on: how many bytes of the body.
///
/// # Errors
/// Those of `send(2)` and `sendfile(2)`.
pub async fn send_piece(
    stream: &TcpStream,
    head: &mut &[u8],
    file: BorrowedFd<'_>,
    body: Body,
    offset: u64,
    bytes_max: u64,
) -> io::Result<u64> {
    while !head.is_empty() {
        // MSG_MORE: the head leaves in one segment with the beginning of the body.
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                Ok(send(stream, head, SendFlags::MORE | SendFlags::NOSIGNAL)?)
            })
            .await?;
        *head = &head[sent..];
    }
    let place = body.place_in_table(offset);
    let count = usize::try_from(bytes_max).map_or(OVERLAP_BYTES, |bytes| bytes.min(OVERLAP_BYTES));
    let sent = stream
        .async_io(Interest::WRITABLE, || {
            let mut position = place as u64;
            Ok(sendfile(stream, file, Some(&mut position), count)?)
        })
        .await?;
    if sent == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(sent as u64)
}
