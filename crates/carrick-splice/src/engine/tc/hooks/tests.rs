//! The hooks on real interfaces, each test in a process with a network namespace (and mounts) of its own.

mod attaching;
mod coming_and_going;
mod doctor;
mod foreign;
mod messages;
mod pinning;
mod privileges;
mod support;
