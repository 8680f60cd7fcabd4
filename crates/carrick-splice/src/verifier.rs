//! What the kernel's verifier says of the BPF programs: how much of each it had to look at before it let it run.
//!
//! Loading takes time in proportion, and the kernel refuses whatever needs more than a million steps. The numbers that are
//! known are in `scripts/kernels/expected/`.

use crate::refusal;
use libbpf_rs::{AsRawLibbpf, ErrorKind, ObjectBuilder, OpenObject, libbpf_sys};
use std::ffi::{CStr, OsStr};
use std::io;

/// The compiled programs of this crate, by the name of their file in `bpf/`. Other crates may have some of their own.
pub const OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// Asks the verifier for the statistics alone (`BPF_LOG_STATS`).
const LOG_STATS: u32 = 4;

/// Long enough for them; they are three lines.
const LOG_BYTES: usize = 64 << 10;

/// So many lines of what the verifier says of a program that it refuses: how it came to the place, and what is wrong there.
const LAST_WORDS: usize = 25;

/// What one program cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// Its name.
    pub program: String,
    /// Its length when it was loaded.
    pub instructions: usize,
    /// Instructions that the verifier looked at, on all ways through the program together.
    pub processed: u64,
    /// States that it had to remember at a time, at most.
    pub states: u64,
    /// Bytes of stack, as the kernel tells it: `32`, with functions of its own `32+8`.
    pub stack: String,
}

/// The compiler that made the programs, as it calls itself.
#[must_use]
pub fn compiler() -> &'static str {
    env!("CARRICK_CLANG")
}

/// The names of all programs in these objects. Needs no privileges.
///
/// # Errors
/// An object cannot be read.
pub fn programs(objects: &[(&str, &[u8])]) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for (file, bytes) in objects {
        let object = open(file, bytes)?;
        names.extend(
            object
                .progs()
                .map(|program| program.name().to_string_lossy().into_owned()),
        );
    }
    Ok(names)
}

/// Loads each program in these objects by itself and tells what it cost, or the verifier's last words where it is refused; they are gone again afterwards. Needs
/// `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`. Blocks for some milliseconds.
///
/// # Errors
/// An object cannot be read.
pub fn verdicts(objects: &[(&str, &[u8])]) -> io::Result<Vec<(String, io::Result<Cost>)>> {
    let mut verdicts = Vec::new();
    for (file, bytes) in objects {
        let names: Vec<_> = open(file, bytes)?
            .progs()
            .map(|program| program.name().to_owned())
            .collect();
        for name in names {
            let cost = load(file, bytes, &name);
            verdicts.push((name.to_string_lossy().into_owned(), cost));
        }
    }
    Ok(verdicts)
}

/// Loads one program.
fn load(file: &str, bytes: &[u8], name: &OsStr) -> io::Result<Cost> {
    let mut object = open(file, bytes)?;
    let mut log = vec![0_u8; LOG_BYTES];
    for mut program in object.progs_mut() {
        let is_it = program.name() == name;
        program.set_autoload(is_it);
        if is_it {
            program.set_log_level(LOG_STATS);
            set_log(&program, &mut log)?;
        }
    }
    refusal::listen();
    let loaded = object.load().map_err(|error| {
        let error = named(file, "load", &error);
        io::Error::new(
            error.kind(),
            format!("{error}{}", why_not(file, bytes, name)),
        )
    })?;
    let log = CStr::from_bytes_until_nul(&log)
        .map_err(io::Error::other)?
        .to_string_lossy();
    let program = loaded.progs().find(|program| program.name() == name);
    let instructions = program.map_or(0, |program| program.insn_cnt());
    read(name.to_string_lossy().into_owned(), instructions, &log).ok_or_else(|| {
        io::Error::other(format!(
            "the verifier's statistics are not understood: {log:?}"
        ))
    })
}

/// The verifier's last words about a program that it refuses.
fn why_not(file: &str, bytes: &[u8], name: &OsStr) -> String {
    refusal::listen();
    // Only if no other log is asked for does libbpf make room for all of it.
    if let Ok(mut object) = open(file, bytes) {
        for mut program in object.progs_mut() {
            let is_it = program.name() == name;
            program.set_autoload(is_it);
        }
        let _ = object.load();
    }
    refusal::take().map_or_else(String::new, |refusal| {
        format!("\n{}", refusal.tail(LAST_WORDS))
    })
}

fn open(file: &str, bytes: &[u8]) -> io::Result<OpenObject> {
    ObjectBuilder::default()
        .name(file)
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(|error| named(file, "open", &error))
}

fn named(file: &str, call: &str, error: &libbpf_rs::Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    let text = format!("{call} of the BPF programs in {file}: {error:#}");
    io::Error::new(kind, text)
}

/// Lets the verifier write into `log` when the program is loaded.
#[expect(unsafe_code, reason = "libbpf-rs does not have it")]
fn set_log(program: &libbpf_rs::OpenProgramMut<'_>, log: &mut [u8]) -> io::Result<()> {
    // SAFETY: the program is open; the buffer has this size, and outlives the loading: `load` keeps it until then.
    let outcome = unsafe {
        libbpf_sys::bpf_program__set_log_buf(
            program.as_libbpf_object().as_ptr(),
            log.as_mut_ptr().cast(),
            log.len() as libbpf_sys::size_t,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(-outcome))
    }
}

/// Reads what `print_verification_stats` of the kernel writes.
fn read(program: String, instructions: usize, log: &str) -> Option<Cost> {
    let line = log.lines().find(|line| line.starts_with("processed "))?;
    let after = |word: &str| -> Option<u64> {
        let mut words = line.split_whitespace();
        words.find(|found| *found == word)?;
        words.next()?.parse().ok()
    };
    Some(Cost {
        program,
        instructions,
        processed: after("processed")?,
        states: after("peak_states")?,
        stack: log
            .lines()
            .find_map(|line| line.strip_prefix("stack depth "))?
            .to_owned(),
    })
}

#[cfg(test)]
mod tests;
