//! The engines in the kernel, and what they share.

pub(crate) mod notifier;
pub(crate) mod slot_owner;
pub(crate) mod sockmap;
pub(crate) mod tc;
