//! The far end: sends back what comes, sends a stream, or answers a browser. A thread for each connection, which does nothing but that.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;

use crate::bench::plan::Talk;
use crate::bench::talk::{PAGE, READY};

/// Longer than any message.
const BUFFER_BYTES: usize = 64 << 10;
/// Of the file that is sent again and again.
const STREAM_FILE_BYTES: usize = 16 << 20;

/// Serves until the process ends.
///
/// # Errors
/// When the address cannot be bound, or there is no memory for what is streamed.
pub fn serve(listen: SocketAddr, talk: Talk) -> Result<()> {
    let listener = TcpListener::bind(listen).with_context(|| format!("cannot bind {listen}"))?;
    writeln!(io::stdout(), "{READY}").context("cannot report")?;
    serve_on(&listener, talk)
}

/// The same, on a listener that is there.
///
/// # Errors
/// When there is no memory for what is streamed.
pub fn serve_on(listener: &TcpListener, talk: Talk) -> Result<()> {
    let file = memfd_create("stream", MemfdFlags::CLOEXEC).context("cannot create a file")?;
    let mut file = std::fs::File::from(file);
    if talk == Talk::Stream {
        let piece: Vec<u8> = (0..STREAM_FILE_BYTES).map(|index| index as u8).collect();
        file.write_all(&piece).context("cannot fill the file")?;
    }
    loop {
        // An accept fails for a client that is gone already, or for want of descriptors: neither ends the server.
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let file = file.try_clone().context("cannot duplicate the file")?;
        // A connection that fails has a client that tells.
        std::thread::spawn(move || match talk {
            Talk::PingPong => echo(stream),
            Talk::Stream => send(&stream, &file),
            Talk::Pages => answer(stream),
        });
    }
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    for (asked, answered) in PAGE {
        stream.read_exact(&mut buffer[..asked])?;
        stream.write_all(&buffer[..answered])?;
    }
    Ok(())
}

/// By sendfile(2), so that the far end costs little beside the proxy.
fn send(stream: &TcpStream, file: &std::fs::File) -> io::Result<()> {
    loop {
        let mut offset = 0;
        while offset < STREAM_FILE_BYTES as u64 {
            match sendfile(stream, file, Some(&mut offset), STREAM_FILE_BYTES) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
