//! What sending a stored body costs from the heap by `sendmsg(2)`, and from a memory file by `sendfile(2)`, by size.
//!
//! `cargo run --release -p carrick --example cache_send_cost`
//!
//! Processor time of the sending thread, on a loopback connection whose receiver throws everything away.
#![allow(clippy::print_stdout, reason = "the table is what it is for")]

use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::pwrite;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, IoSlice, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

/// Bytes of all bodies together: more than the processor's caches have.
const STORED_BYTES: usize = 128 << 20;

/// Bytes that are sent for each figure.
const SENT_BYTES: usize = 256 << 20;

const HEAD: [u8; 300] = [b'h'; 300];

fn main() -> io::Result<()> {
    println!("| body | heap, us | file, us |");
    println!("|---|---|---|");
    let mut to = connection()?;
    for kilobytes in [1, 2, 4, 8, 12, 16, 24, 32, 64, 128, 256, 1024] {
        let bytes = kilobytes << 10;
        // Thrice by turns, the least of each: others use the machine, too.
        let mut least = [f64::MAX; 2];
        for _ in 0..3 {
            let heap: Vec<Box<[u8]>> = (0..STORED_BYTES / bytes)
                .map(|_| vec![1; bytes].into())
                .collect();
            least[0] = least[0].min(by_heap(&mut to, &heap)?);
            drop(heap);
            least[1] = least[1].min(by_file(&mut to, &file()?, bytes)?);
        }
        println!("| {kilobytes} KB | {:.2} | {:.2} |", least[0], least[1]);
    }
    Ok(())
}

/// A connection on which everything is read and forgotten.
fn connection() -> io::Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let to = TcpStream::connect(listener.local_addr()?)?;
    let (mut from, _) = listener.accept()?;
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while from.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    });
    to.set_nodelay(true)?;
    Ok(to)
}

fn file() -> io::Result<OwnedFd> {
    let file = memfd_create("bodies", MemfdFlags::CLOEXEC)?;
    let piece = vec![1; 1 << 20];
    for number in 0..STORED_BYTES >> 20 {
        pwrite(&file, &piece, (number << 20) as u64)?;
    }
    Ok(file)
}

fn by_heap(to: &mut TcpStream, bodies: &[Box<[u8]>]) -> io::Result<f64> {
    per_body(SENT_BYTES / bodies[0].len(), |number| {
        let body = &bodies[number * 7 % bodies.len()];
        let mut sent = 0;
        while sent < HEAD.len() + body.len() {
            let parts = [
                IoSlice::new(HEAD.get(sent..).unwrap_or_default()),
                IoSlice::new(&body[sent.saturating_sub(HEAD.len())..]),
            ];
            let mut control = SendAncillaryBuffer::default();
            sent += sendmsg(&mut *to, &parts, &mut control, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    })
}

fn by_file(to: &mut TcpStream, file: &OwnedFd, bytes: usize) -> io::Result<f64> {
    let bodies = STORED_BYTES / bytes;
    per_body(SENT_BYTES / bytes, |number| {
        send(&mut *to, &HEAD, SendFlags::NOSIGNAL | SendFlags::MORE)?;
        let mut at = ((number * 7 % bodies) * bytes) as u64;
        let mut left = bytes;
        while left > 0 {
            left -= sendfile(&mut *to, file, Some(&mut at), left)?;
        }
        Ok(())
    })
}

/// Microseconds of this thread's processor time for each of `count` bodies.
fn per_body(count: usize, mut body: impl FnMut(usize) -> io::Result<()>) -> io::Result<f64> {
    let before = processor_time();
    for number in 0..count {
        body(number)?;
    }
    let spent = processor_time().saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / count as f64)
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}
