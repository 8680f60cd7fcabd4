//! Tests of the crate from outside: properties, and the replayed fuzz corpus.
// `cfg(test)` tells clippy that helpers in these modules may panic, as tests may.

#[cfg(test)]
mod checks;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod properties;
