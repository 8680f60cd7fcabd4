//! Tests of the crate from outside: properties, and the fuzz corpus replayed.

mod checks;
mod corpus;
mod properties;
