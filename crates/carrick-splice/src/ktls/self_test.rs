//! The self-test: data by `write(2)` and `splice(2)`, then an alert, both ways over loopback.

use super::{Direction, Keys, Record, Suite, attach, install, receive, send_record};
use crate::loopback::{PATIENCE, SAMPLE_BYTES, connection, sample, verify};
use crate::relay::pipe::Pipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::SpliceFlags;
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;

/// The alert that ends a stream in order (RFC 8446 section 6.1).
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// Far from zero, as after a handshake.
const SEQUENCE: u64 = 5;

/// The suites that pass.
pub(super) fn run() -> io::Result<Vec<Suite>> {
    let (near, _far) = connection()?;
    attach(&near)?;
    let (mut passed, mut why) = (Vec::new(), None);
    for suite in Suite::ALL {
        match try_suite(suite) {
            Ok(()) => passed.push(suite),
            Err(error) => why = Some(io::Error::other(format!("{suite}: {error}"))),
        }
    }
    match why {
        Some(error) if passed.is_empty() => Err(error),
        _ => Ok(passed),
    }
}

fn try_suite(suite: Suite) -> io::Result<()> {
    let (near, far) = connection()?;
    let key: Vec<u8> = (0..suite.cipher.key_bytes() as u8).collect();
    let keys = |first| Keys {
        key: &key,
        iv: if first { &[1; 12] } else { &[2; 12] },
        sequence: SEQUENCE,
    };
    for (end, is_near) in [(&near, true), (&far, false)] {
        attach(end)?;
        install(end, suite, Direction::Send, &keys(is_near))?;
        install(end, suite, Direction::Receive, &keys(!is_near))?;
    }
    pass(&near, &far)?;
    pass(&far, &near)
}

fn pass(mut from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let sample = sample();
    let (written, spliced) = sample.split_at(SAMPLE_BYTES / 3);
    from.write_all(written)?;
    let pipe = Pipe::open(1 << 16)?;
    let mut left = pipe.write(spliced)?;
    if left != spliced.len() {
        return Err(io::Error::other("a pipe took a part only"));
    }
    while left > 0 {
        left -= rustix::pipe::splice(pipe.reader(), None, from, None, left, SpliceFlags::MOVE)?;
    }
    send_record(&from, super::ALERT, &CLOSE_NOTIFY)?;
    // With room for the alert.
    let mut arrived = Vec::with_capacity(2 * SAMPLE_BYTES);
    loop {
        match receive(&to, &mut arrived, 2 * SAMPLE_BYTES) {
            Ok(Record::Data(_)) => {}
            Ok(Record::Other(super::ALERT, alert)) if alert == CLOSE_NOTIFY => {
                return verify(&arrived);
            }
            Ok(other) => return Err(io::Error::other(format!("not data: {other:?}"))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(to)?,
            Err(error) => return Err(error),
        }
    }
}

fn wait(readable: &TcpStream) -> io::Result<()> {
    let limit = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(readable, PollFlags::IN)], Some(&limit))? {
        0 => Err(ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}
