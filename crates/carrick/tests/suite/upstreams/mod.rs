//! Servers of an upstream: reused connections, safe retries, balancing, and health.
mod balance;
mod health;
mod names;
mod retry;
mod reuse;

pub use reuse::authenticate_connection;
