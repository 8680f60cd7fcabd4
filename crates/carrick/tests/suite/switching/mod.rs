//! The switch's rules: routes, engines, and the PROXY protocol.
mod engine;
mod proxy_protocol;
mod routes;
