//! The hooks on real interfaces; each test runs in a process with its own network namespace and mounts.

mod attaching;
mod coming_and_going;
mod doctor;
mod foreign;
mod messages;
mod pinning;
mod privileges;
mod support;
