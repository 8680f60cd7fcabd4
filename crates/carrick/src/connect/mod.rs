//! Getting a connection to a server: one that waits, or a new one.
pub mod checkout;
pub mod dial;
pub mod tcp_profile;
