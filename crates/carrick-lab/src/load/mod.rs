//! Load of the laboratory that is not wrk.

pub mod hold;
pub mod spin;
