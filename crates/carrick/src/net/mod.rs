//! What every layer does with sockets and time: reads and writes, deadlines, buffers that are lent, the clock, and what this machine is short of.
pub mod admission;
pub mod bind;
pub mod clock;
pub mod deadline;
pub mod io;
pub mod memory;
pub mod scratch;
pub mod shortage;
pub mod tracking;
pub mod transport;
pub mod unread;
