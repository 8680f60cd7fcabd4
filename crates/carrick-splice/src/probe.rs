//! Tries each engine and kernel feature on this machine and says which can be used, and why not.

/// One engine or kernel feature, tried on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Its name, as printed by `carrick doctor`.
    pub name: &'static str,
    /// Usable, with a detail worth knowing; or not supported, because of this.
    pub usable: Result<String, String>,
}

/// Tries everything, on loopback connections of its own. Takes a few milliseconds; blocks.
#[must_use]
pub fn probe() -> Vec<Feature> {
    unimplemented!()
}
