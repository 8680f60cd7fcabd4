//! `carrick clean`: removes the rules that dead carricks have left behind.
use super::claim::Claim;
use super::leftovers;
use rustix::thread::{CapabilitySet, capabilities};
use std::io;

/// The result.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The rules that were removed.
    pub removed: Vec<String>,
    /// Rules of a running carrick, which stay.
    pub in_use: Vec<String>,
}

/// Removes the rules that no running carrick has claimed in this network namespace.
///
/// # Errors
/// A privilege or a tool is missing, or a tool fails; rules removed before that stay removed.
pub fn clean() -> io::Result<Cleaned> {
    if !capabilities(None)?
        .effective
        .contains(CapabilitySet::NET_ADMIN)
    {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "finding and removing rules needs CAP_NET_ADMIN: run this command as root",
        ));
    }
    let mut cleaned = Cleaned::default();
    for made in leftovers::find()? {
        // Claimed during removal, so that no carrick makes it meanwhile.
        if let Some(_claim) = Claim::try_take(made.key())? {
            made.remove()?;
            cleaned.removed.push(made.to_string());
        } else {
            let stranger = made.key().holder().filter(|holder| holder.is_stranger());
            cleaned.in_use.push(match stranger {
                Some(holder) => format!("{made} (claimed by {holder}, which may be no carrick)"),
                None => made.to_string(),
            });
        }
    }
    Ok(cleaned)
}
