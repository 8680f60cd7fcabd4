//! The forward proxy: URLs, `CONNECT`, who may go where, users, parents.
mod access;
mod closing;
mod connect;
mod parent;
mod unreachable;
mod urls;
mod users;
