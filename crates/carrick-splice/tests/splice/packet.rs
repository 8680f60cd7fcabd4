//! The packet engine, between namespaces: connections whose bytes the kernel forwards, packet by packet.

mod bed;
mod bulk;
mod changes;
mod ends;
mod races;
mod response_ends;
mod responses;
mod roads;
mod tunnels;
mod unlike;
mod unsplicing;
