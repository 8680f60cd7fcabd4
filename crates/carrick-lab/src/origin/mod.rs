//! Origins of the laboratory that are not nginx.

pub mod echo;
