//! A request's head, as the next hop gets it.
use crate::config::plan::Via;
use crate::context::destination::Destination;
use crate::context::destination::NextHop;
use crate::context::original;
use crate::context::request_context::RequestContext;
use crate::http::cached;
use crate::http::cached::Asking;
use crate::http::loop_detection;
use crate::net::scratch::Scratch;
use carrick_logic::http1;
use carrick_logic::http1::{NamedIn, RequestRewrite};

/// Writes the request for the next hop to `scratch.out`.
pub fn write_request(
    context: &RequestContext,
    scratch: &mut Scratch,
    destination: &Destination,
    asking: Option<&mut Asking>,
) {
    let mut added = Vec::new();
    let omitted = cached::request_lines(asking, scratch, &mut added);
    let head = &scratch.request_head;
    scratch.out.clear();
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
            .then(|| loop_detection::mark(context.listener.address, &scratch.request, head)),
        client: context.address.ip(),
        forwarded: context.listener.forwarded,
        stated_in: context.listener.trusted.stated_in,
        pass_proxy_authorization: matches!(
            destination.next_hop,
            NextHop::Origin { parent: true, .. }
        ),
        pass_upgrade: head.wants_upgrade,
        drop_expect: false,
        omitted,
        added: &added,
    };
    http1::write_request(&mut scratch.out, &scratch.request, head, &how);
}

/// Where a request tells of this proxy. Strangers' servers lead nowhere else, and without `Via` need not know of it.
fn named_in(via: &Via, next_hop: &NextHop) -> NamedIn {
    match next_hop {
        _ if via.is_in_requests => NamedIn::Via,
        NextHop::Origin { parent: false, .. } => NamedIn::Nothing,
        NextHop::Origin { .. } | NextHop::Group { .. } => NamedIn::CdnLoop,
    }
}
