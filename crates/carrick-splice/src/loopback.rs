//! What features are tried with: a connection on loopback, and bytes that show what is wrong.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// What is sent through each feature; long enough to need several segments and pages.
pub(crate) const SAMPLE_BYTES: usize = 24 << 10;

/// The time limit: loopback answers at once unless a feature is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// A pattern that shows missing, duplicated or misplaced bytes.
pub(crate) fn sample() -> Vec<u8> {
    (0..SAMPLE_BYTES as u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

pub(crate) fn verify(arrived: &[u8]) -> io::Result<()> {
    if arrived == sample() {
        Ok(())
    } else {
        Err(io::Error::other("other bytes arrived than were sent"))
    }
}

/// Both ends of a TCP connection on loopback.
pub(crate) fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE)?;
    // Another process may have connected to the port; only the connection made here counts.
    let far = loop {
        let (far, address) = listener.accept()?;
        if address == near.local_addr()? {
            break far;
        }
    };
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
    }
    Ok((near, far))
}
