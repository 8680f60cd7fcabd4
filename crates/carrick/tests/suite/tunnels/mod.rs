//! Tunnels: TCP, by TLS server name, and upgraded connections.
mod plain;
mod seen;
mod sni;
mod upgrade;
