//! Pacing without a socket: in virtual time.

mod buckets;
mod classes;
mod policies;
mod programs;
mod queue;
