//! The packet engine, between namespaces: connections whose bytes the kernel forwards, packet by packet.

mod bed;
mod bulk;
mod changes;
mod checksums;
mod chosen;
mod classified_requests;
mod ends;
mod forged;
mod fragments;
mod lossy_paths;
mod messages;
mod pacing;
mod races;
mod response_ends;
mod responses;
mod roads;
mod tracked;
mod tunnels;
mod unlike;
mod unsplicing;
mod wire;
