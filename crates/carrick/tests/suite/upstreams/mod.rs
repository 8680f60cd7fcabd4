//! Servers of an upstream: reused connections, repetition where it is safe, choice, and health.
mod balance;
mod health;
mod retry;
mod reuse;
