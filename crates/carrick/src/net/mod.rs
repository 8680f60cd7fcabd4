//! Sockets and time, for all layers: reads and writes, deadlines, pooled buffers, the clock, and shortages.
pub mod admission;
pub mod bind;
pub mod clock;
pub mod deadline;
pub mod io;
pub mod memory;
pub mod scratch;
pub mod shortage;
pub mod spares;
pub mod tracking;
pub mod transport;
pub mod unread;
