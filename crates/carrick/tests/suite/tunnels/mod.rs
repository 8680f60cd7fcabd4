//! Tunnels: TCP, by TLS server name, and what an upgrade turns a connection into.
mod plain;
mod sni;
mod upgrade;
