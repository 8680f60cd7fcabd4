//! `carrick clean`: removes the rules that dead carricks have left.
use super::claim::Claim;
use super::leftovers;
use rustix::thread::{CapabilitySet, capabilities};
use std::io;

/// What was done.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// What was removed.
    pub removed: Vec<String>,
    /// What belongs to a carrick that lives, and was left alone.
    pub in_use: Vec<String>,
}

/// Removes what no living carrick has claimed in this network namespace.
///
/// # Errors
/// The privilege or a tool is missing, or a tool refuses; what was removed until then stays removed.
pub fn clean() -> io::Result<Cleaned> {
    if !capabilities(None)?
        .effective
        .contains(CapabilitySet::NET_ADMIN)
    {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "looking for rules, and removing them, needs CAP_NET_ADMIN: run it as root",
        ));
    }
    let mut cleaned = Cleaned::default();
    for made in leftovers::find()? {
        // Held while it is removed, so that nobody makes it anew meanwhile.
        if let Some(_claim) = Claim::try_take(made.key())? {
            made.remove()?;
            cleaned.removed.push(made.to_string());
        } else {
            cleaned.in_use.push(made.to_string());
        }
    }
    Ok(cleaned)
}
