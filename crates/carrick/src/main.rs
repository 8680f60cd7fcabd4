//! The carrick program.
fn main() {}
