//! The packet engine's programs, packet by packet (`BPF_PROG_TEST_RUN`): a packet and the state of a splice in; a verdict, a packet
//! and a state out. What is expected is made from nothing each time, checksums included.

mod checksums;
mod ends;
mod expired;
mod forsaken;
mod headers;
mod lab;
mod local;
mod messages;
mod model;
mod offsets;
mod ownership;
mod response_lengths;
mod spliced;
mod wire;
