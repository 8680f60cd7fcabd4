//! Getting a connection to a server: an idle one, or a new one.
pub mod checkout;
pub mod dial;
mod http2;
pub mod open;
pub mod tcp_profile;
pub mod tls;
