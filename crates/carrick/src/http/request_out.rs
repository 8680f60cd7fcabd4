//! A request's head, as the next hop gets it.
use crate::config::plan::ServerHttp2;
use crate::context::destination::Destination;
use crate::context::destination::NextHop;
use crate::context::original;
use crate::context::request_context::RequestContext;
use crate::http::cached;
use crate::http::cached::Asking;
use crate::http::loop_detection;
use crate::http::own_fields::{SUBJECT, named_in};
use crate::net::scratch::Scratch;
use carrick_logic::http1;
use carrick_logic::http1::{Forwarded, NamedIn, Progress, RequestHead, RequestRewrite};
use carrick_splice::requests::RequestFields;

/// Writes the request for the next hop to `scratch.out`.
pub fn write_request(
    context: &RequestContext,
    scratch: &mut Scratch,
    destination: &Destination,
    asking: Option<&mut Asking>,
) {
    let mut added = Vec::new();
    let omitted = cached::request_lines(asking, scratch, &mut added);
    scratch.out.clear();
    // Whoever the client chose is told nothing of it.
    let is_own = matches!(destination.next_hop, NextHop::Group { .. });
    if let Some(subject) = context.client_subject().filter(|_| is_own) {
        for part in [SUBJECT, ": ", subject, "\r\n"] {
            added.extend_from_slice(part.as_bytes());
        }
    }
    let (bytes, head) = (&scratch.request, &scratch.request_head);
    write(
        &mut scratch.out,
        context,
        (bytes, head),
        destination,
        (omitted, &added),
    );
}

/// What a plain request of the client's for `host` gets behind its own field lines on its way to this destination: lines, and the empty one
/// that ends a head. `None`: no host of the usual form, or more than the kernel takes.
pub fn appended(
    context: &RequestContext,
    destination: &Destination,
    host: &[u8],
) -> Option<RequestFields> {
    let request = [b"GET / HTTP/1.1\r\nHost: ", host, b"\r\n\r\n"].concat();
    let mut head = RequestHead::new();
    let limits = context.live.plan().limits.head();
    if !matches!(head.parse(&request, &limits), Ok(Progress::Complete)) {
        return None;
    }
    let mut out = Vec::new();
    write(
        &mut out,
        context,
        (&request, &head),
        destination,
        (&[], &[]),
    );
    // The request line and `Host` are written as they are here.
    let text = out.split_off(request.len() - b"\r\n".len());
    let names_host = matches!(
        context.listener.forwarded,
        Forwarded::XForwarded | Forwarded::Standard
    );
    RequestFields::new(text, if names_host { host } else { b"" })
}

fn write(
    out: &mut Vec<u8>,
    context: &RequestContext,
    (bytes, head): (&[u8], &RequestHead),
    destination: &Destination,
    (omitted, added): (&[&[u8]], &[u8]),
) {
    let original = context.original.filter(|_| head.host.is_empty());
    let original = original.map(original::host).unwrap_or_default();
    let default_host = match &destination.next_hop {
        NextHop::Group { group, .. } => group
            .state
            .servers
            .first()
            .map_or("", |server| &server.label),
        NextHop::Origin { .. } => &original,
    };
    let via = &context.listener.via;
    let named_in = named_in(via, &destination.next_hop);
    let how = RequestRewrite {
        form: destination.form,
        default_host,
        name: &via.name,
        named_in,
        mark: (named_in != NamedIn::Nothing && head.has_come_through_proxies())
            .then(|| loop_detection::mark(context.listener.address, bytes, head)),
        client: context.address.ip(),
        forwarded: context.listener.forwarded,
        stated_in: context.listener.trusted.stated_in,
        pass_proxy_authorization: matches!(
            destination.next_hop,
            NextHop::Origin { parent: true, .. }
        ),
        pass_upgrade: head.wants_upgrade,
        pass_te_trailers: matches!(
            &destination.next_hop,
            NextHop::Group { group, .. } if group.state.plan.http2 != ServerHttp2::Never
        ),
        drop_expect: false,
        omitted,
        added,
    };
    http1::write_request(out, bytes, head, &how);
}
