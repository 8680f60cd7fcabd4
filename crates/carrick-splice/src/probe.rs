//! Tests each engine and kernel feature on this machine: which are available, and why not.

mod self_test;

pub use crate::engine::tc::hooks::AttachMode;
pub use crate::engine::tc::hooks::doctor::{
    InterfaceFact, OWN_PROTOCOL, Obstacle, interface_facts, obstacles,
};

use crate::loopback::{SAMPLE_BYTES, connection, sample, verify};
use crate::relay::pipe::Pipe;
use crate::unavailable::on_loopback;
use rustix::pipe::SpliceFlags;
use std::fs::read_to_string;
use std::io::{self, Read, Write};

/// One engine or kernel feature, tried on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Its name, as printed by `carrick doctor`.
    pub name: &'static str,
    /// Available, with a detail; or why not.
    pub usable: Result<String, String>,
}

/// Tries everything, on loopback connections of its own. Takes a few milliseconds; blocks.
///
/// ```
/// for feature in carrick_splice::probe::probe() {
///     match feature.usable {
///         Ok(detail) => println!("{}: {detail}", feature.name),
///         Err(because) => println!("{}: not supported, because {because}", feature.name),
///     }
/// }
/// ```
#[must_use]
pub fn probe() -> Vec<Feature> {
    probe_with(crate::PoolLimits::default().pipe_bytes)
}

/// Like [`probe`], without the engines socket and packet, TCP profiles and deferred SYNs, for programs that
/// load these themselves.
#[must_use]
pub fn probe_but_socket() -> Vec<Feature> {
    features(crate::PoolLimits::default().pipe_bytes, None)
}

/// Like [`probe`], for pipes of `pipe_bytes`.
#[must_use]
pub fn probe_with(pipe_bytes: usize) -> Vec<Feature> {
    let mut features = features(pipe_bytes, Some(self_test::probe));
    features.push(feature("engine packet", crate::engine::tc::probe()));
    features.push(feature("engine ktls", crate::ktls::probe()));
    features.extend(crate::tcp_tuning::probe().map(|(name, tried)| feature(name, tried)));
    features.push(feature(
        "handshakes after the server's",
        crate::syn_defer::probe(),
    ));
    features
}

/// Tries everything; the socket engine by a function, if at all.
fn features(pipe_bytes: usize, socket: Option<fn() -> io::Result<String>>) -> Vec<Feature> {
    let mut features = vec![
        feature("engine copy", try_copy()),
        feature("engine pipe", try_pipe(pipe_bytes)),
    ];
    features.extend(socket.map(|probe| feature("engine socket", probe())));
    features.push(feature("pipe size", try_pipe_size(pipe_bytes)));
    features.push(feature("local copy by tee", try_tee(pipe_bytes)));
    features
}

fn feature(name: &'static str, tried: io::Result<String>) -> Feature {
    Feature {
        name,
        usable: tried.map_err(|error| on_loopback(error).to_string()),
    }
}

fn try_copy() -> io::Result<String> {
    let (mut near, mut far) = connection()?;
    near.write_all(&sample())?;
    let mut arrived = vec![0; SAMPLE_BYTES];
    far.read_exact(&mut arrived)?;
    verify(&arrived)?;
    Ok("bytes go through the process".into())
}

fn try_pipe(pipe_bytes: usize) -> io::Result<String> {
    let (mut client, from) = connection()?;
    let (to, mut server) = connection()?;
    let pipe = Pipe::open(pipe_bytes)?;
    client.write_all(&sample())?;
    let mut left = SAMPLE_BYTES;
    while left > 0 {
        let taken =
            rustix::pipe::splice(&from, None, pipe.writer(), None, left, SpliceFlags::MOVE)?;
        let mut in_pipe = taken;
        while in_pipe > 0 {
            in_pipe -=
                rustix::pipe::splice(pipe.reader(), None, &to, None, in_pipe, SpliceFlags::MOVE)?;
        }
        if taken == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= taken;
    }
    let mut arrived = vec![0; SAMPLE_BYTES];
    server.read_exact(&mut arrived)?;
    verify(&arrived)?;
    Ok("splice(2) moves bytes between sockets without copying".into())
}

fn try_pipe_size(pipe_bytes: usize) -> io::Result<String> {
    let pipe = Pipe::open(pipe_bytes)?;
    let size_kb = pipe.size_bytes() >> 10;
    if pipe.size_bytes() >= pipe_bytes {
        return Ok(format!("{size_kb} KB, as requested"));
    }
    let limit = |name| -> String {
        read_to_string(format!("/proc/sys/fs/{name}"))
            .map_or("unknown".into(), |text| text.trim().into())
    };
    Ok(format!(
        "{size_kb} KB instead of {} KB: fs.pipe-max-size is {}, fs.pipe-user-pages-soft {}",
        pipe_bytes >> 10,
        limit("pipe-max-size"),
        limit("pipe-user-pages-soft"),
    ))
}

fn try_tee(pipe_bytes: usize) -> io::Result<String> {
    let (first, second) = (Pipe::open(pipe_bytes)?, Pipe::open(pipe_bytes)?);
    let sample = sample();
    if first.write(&sample)? != SAMPLE_BYTES || first.tee(&second, SAMPLE_BYTES)? != SAMPLE_BYTES {
        return Err(io::Error::other("tee(2) copied a part only"));
    }
    let mut copied = vec![0; SAMPLE_BYTES + 1];
    for pipe in [&second, &first] {
        let read = pipe.read(&mut copied)?;
        verify(&copied[..read])?;
    }
    Ok("tee(2) copies by reference".into())
}

#[cfg(test)]
mod tests;
