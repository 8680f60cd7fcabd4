//! TCP senders as they were: congestion controls that the laboratory itself brings, as BPF programs.
//!
//! A congestion control belongs to the whole machine, but only the routes of a test bed's namespaces name these. Each
//! process has them under names of its own, so that runs side by side do not share them. The kernel takes them back when
//! the process ends, however it ends: what holds them are file descriptors.

use std::sync::Mutex;

use anyhow::{Context as _, Result, bail};
use libbpf_rs::{Link, MapCore as _, ObjectBuilder};

/// The programs (`bpf/congestion.bpf.c`).
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/congestion.o"));

/// The names in plans: of the RFC that says what an ACK adds to the window. `rfc2581`: a segment for each ACK, whatever it
/// acknowledges. `rfc3465`: bytes are counted, but no more than two segments for an ACK in slow start.
pub const NAMES: [&str; 2] = ["rfc2581", "rfc3465"];

/// Used where the kernel does not take them.
pub const FALLBACK: &str = "reno";

/// Those of this process, once they are loaded: until it ends, so that no route names one that is gone.
static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

struct Loaded {
    /// They are the kernel's for as long as these exist.
    _links: Vec<Link>,
}

/// Whether the laboratory brings this one itself.
#[must_use]
pub fn is_own(name: &str) -> bool {
    NAMES.contains(&name)
}

/// What the kernel knows one of [`NAMES`] by while this process runs; any other name stays as it is.
#[must_use]
pub fn kernel_name(name: &str) -> String {
    if is_own(name) {
        // A pid has seven digits at most (`PID_MAX_LIMIT`), and a name 15 bytes (`TCP_CA_NAME_MAX`).
        format!("{name}_{:07}", std::process::id())
    } else {
        name.to_owned()
    }
}

/// Gives them to the kernel, unless it has them from this process.
///
/// # Errors
/// When the kernel does not take them: it needs BTF and Linux 6.4, and the process CAP_BPF and CAP_NET_ADMIN.
pub fn load() -> Result<()> {
    let Ok(mut loaded) = LOADED.lock() else {
        bail!("a thread failed while it loaded the congestion controls");
    };
    if loaded.is_none() {
        *loaded = Some(load_all().context(
            "the kernel does not take the laboratory's congestion controls (BPF struct_ops: Linux 6.4 and later)",
        )?);
    }
    Ok(())
}

fn load_all() -> Result<Loaded> {
    let mut object = ObjectBuilder::default().open_memory(OBJECT)?;
    for mut map in object.maps_mut() {
        let plain = map.name().to_string_lossy().into_owned();
        if !is_own(&plain) {
            continue;
        }
        let bytes = map
            .initial_value_mut()
            .with_context(|| format!("{plain} has no initial value"))?;
        rename(bytes, &plain)?;
    }
    let mut object = object.load()?;
    let mut links = Vec::new();
    for mut map in object.maps_mut() {
        if is_own(&map.name().to_string_lossy()) {
            links.push(map.attach_struct_ops()?);
        }
    }
    if links.len() != NAMES.len() {
        bail!(
            "the program has {} of {} controls",
            links.len(),
            NAMES.len()
        );
    }
    Ok(Loaded { _links: links })
}

/// Writes this process' name over the one that the program was compiled with, which is as long.
fn rename(bytes: &mut [u8], plain: &str) -> Result<()> {
    let (compiled, own) = (format!("{plain}_0000000"), kernel_name(plain));
    let at = bytes
        .windows(compiled.len())
        .position(|window| window == compiled.as_bytes())
        .filter(|_| own.len() == compiled.len())
        .with_context(|| format!("{plain} is not named {compiled}"))?;
    if let Some(name) = bytes.get_mut(at..at + own.len()) {
        name.copy_from_slice(own.as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
