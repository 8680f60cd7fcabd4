//! The emulator of wide-area networks: the papers' modified NISTNet, as a router in user space.

pub mod spec;
