//! Tunnels: TCP, by TLS server name, and what an upgrade turns a connection into.
mod plain;
mod seen;
mod sni;
mod upgrade;
