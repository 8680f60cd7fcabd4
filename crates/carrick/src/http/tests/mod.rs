//! The path of a request, from its first byte to its log line. Clients and servers are in this process, without sockets, and time is
//! virtual: a test that waits for a minute takes none.
mod bodies;
mod clients;
mod failures;
mod heads;
mod responses;
mod stage;
mod stored;
mod tunnels;
