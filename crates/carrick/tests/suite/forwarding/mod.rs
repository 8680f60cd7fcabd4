//! The forward proxy: URLs, `CONNECT`, access, users, parents.
mod access;
mod closing;
mod connect;
mod parent;
mod unreachable;
mod urls;
mod users;
