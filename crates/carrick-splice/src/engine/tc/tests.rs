//! The packet engine's programs, packet by packet (`BPF_PROG_TEST_RUN`): a packet and a splice's state in; a verdict, a
//! packet and a state out. Expected values are built independently each time, checksums included.

mod checksums;
mod ends;
mod expired;
mod forsaken;
mod headers;
mod lab;
mod loaded;
mod local;
mod messages;
mod model;
mod offsets;
mod ownership;
mod response_lengths;
mod slots;
mod spliced;
mod wire;
