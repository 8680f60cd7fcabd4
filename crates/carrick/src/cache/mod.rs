//! The HTTP cache: `store` keeps responses in memory. What may be kept and sent is decided by `carrick_logic::cache`.
pub mod store;
