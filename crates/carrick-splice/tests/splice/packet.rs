//! The packet engine, between namespaces: connections whose bytes the kernel forwards, packet by packet.

mod bad_legs;
mod bed;
mod bulk;
mod changes;
mod checksums;
mod chosen;
mod ends;
mod judged_requests;
mod messages;
mod pacing;
mod races;
mod response_ends;
mod responses;
mod roads;
mod tunnels;
mod unlike;
mod unsplicing;
