//! What carrick tells about itself: counters, the access log.
pub mod access_log;
pub mod metrics;
