//! Standard output, whose reader may go: `carrick-lab list | head` is no failure.
use std::fmt;
use std::io::{self, Write};

/// Standard output. Its errors can be told from those of other pipes and of connections.
#[must_use]
pub fn output() -> Output {
    Output(io::stdout())
}

/// See [`output`].
#[derive(Debug)]
pub struct Output(io::Stdout);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

/// Whether a command ended because its standard output was closed.
#[must_use]
pub fn is_unread(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.get_ref().is_some_and(|inner| inner.is::<Unread>()))
}

fn named(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, Unread),
        _ => error,
    }
}

#[derive(Debug)]
struct Unread;

impl fmt::Display for Unread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("standard output is closed")
    }
}

impl std::error::Error for Unread {}
