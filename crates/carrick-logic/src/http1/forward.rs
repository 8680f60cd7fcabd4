//! How a head changes on its way through (RFC 9110 section 7.6): hop-by-hop fields go, `Via` and `Forwarded` come.
use super::{RequestHead, ResponseHead, Version};
use std::net::IpAddr;

/// Which form of target the next hop gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query` (or `*`): origins and gateways.
    Origin,
    /// `http://host/path?query`: a parent proxy.
    Absolute,
}

/// Whether the client's address is told to the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarded {
    /// What the client sent is passed on as it is, nothing is added.
    Unchanged,
    /// `X-Forwarded-For` (appended), `X-Forwarded-Proto`, `X-Forwarded-Host`.
    XForwarded,
    /// `Forwarded` (RFC 7239, appended).
    Standard,
    /// All of these fields are removed.
    Remove,
}

/// How a request's head is to be changed.
#[derive(Debug, Clone, Copy)]
pub struct RequestRewrite<'a> {
    /// The target's form for the next hop.
    pub form: TargetForm,
    /// Name in `Via`; empty: no `Via`.
    pub via: &'a str,
    /// The client's address, for `forwarded`.
    pub client: IpAddr,
    /// What is told about the client.
    pub forwarded: Forwarded,
    /// Whether `Proxy-Authorization` is passed on (to a parent that asks for it); else it is removed.
    pub pass_proxy_authorization: bool,
    /// Whether an `Upgrade` that the client asked for is passed on.
    pub pass_upgrade: bool,
    /// `Expect` is dropped when the proxy answered it itself.
    pub drop_expect: bool,
}

/// Appends the request head for the next hop to `out`: HTTP/1.1, `Host` first and equal to the target (RFC 9112 section 3.2.2),
/// hop-by-hop fields and those named in `Connection` removed (never the framing fields), order otherwise kept.
pub fn write_request(out: &mut Vec<u8>, bytes: &[u8], head: &RequestHead, how: &RequestRewrite<'_>) {
    let _ = (out, bytes, head, how);
    todo!()
}

/// How a response's head is to be changed.
#[derive(Debug, Clone, Copy)]
pub struct ResponseRewrite<'a> {
    /// Name in `Via`; empty: no `Via`.
    pub via: &'a str,
    /// The client's version: HTTP/1.0 gets `Connection: keep-alive` when kept, and no `Transfer-Encoding`.
    pub client_version: Version,
    /// Whether the client's connection stays open after this response; else `Connection: close` is added.
    pub keep_alive: bool,
    /// Whether the client gets the body chunked although the upstream sent it until close (HTTP/1.1 clients only).
    pub add_chunked: bool,
    /// Whether `Connection: upgrade` and `Upgrade` are kept (101, or 426).
    pub pass_upgrade: bool,
}

/// Appends the response head for the client to `out`: status line with HTTP/1.1, hop-by-hop fields removed, order otherwise kept.
pub fn write_response(out: &mut Vec<u8>, bytes: &[u8], head: &ResponseHead, how: &ResponseRewrite<'_>) {
    let _ = (out, bytes, head, how);
    todo!()
}
