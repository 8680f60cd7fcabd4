//! Fields in which carrick tells servers of itself and of the client.
use crate::config::plan::Via;
use crate::context::destination::NextHop;
use crate::context::request_context::RequestContext;
use crate::net::scratch::Scratch;
use carrick_logic::cache::Fields;
use carrick_logic::http1::{Forwarded, NamedIn, StatedIn, states_identity};

/// The field that tells servers whose certificate the client has. All that begin so are removed from requests of those who are not trusted.
pub const SUBJECT: &str = "X-Forwarded-Client-Subject";

/// Its name in lower case.
pub const SUBJECT_LOWER: &[u8] = b"x-forwarded-client-subject";

/// Whether servers know from whom the request in `scratch` is: by a certificate that this proxy has verified, by the
/// connection, or by a field that reaches them, whoever has sent it. What they say is for nobody else. A field that is in the
/// key, or has no value, does not count.
pub fn is_known(context: &RequestContext, scratch: &Scratch, in_key: &[Vec<u8>]) -> bool {
    let is_in_key = |name: &[u8]| in_key.iter().any(|other| name.eq_ignore_ascii_case(other));
    let mut fields = Fields::of_request(&scratch.request_head, &scratch.request).iter();
    context.client_subject().is_some()
        || context.pinned.is_any()
        || fields
            .any(|(name, value)| !value.is_empty() && states_identity(name) && !is_in_key(name))
}

/// Whether carrick writes this field, lower-case, of requests for this next hop in such a way that requests with the same key, and with the
/// same lines of it from their clients, can reach the server with different values.
pub fn is_own_field(context: &RequestContext, next_hop: &NextHop, name: &[u8]) -> bool {
    let listener = &context.listener;
    let forwarded = listener.forwarded;
    match name {
        b"via" => named_in(&listener.via, next_hop) == NamedIn::Via,
        b"cdn-loop" => named_in(&listener.via, next_hop) == NamedIn::CdnLoop,
        b"forwarded" => forwarded == Forwarded::Standard,
        b"x-forwarded-for" => forwarded == Forwarded::XForwarded,
        // Otherwise they are of the URL, which is in the key.
        b"x-forwarded-host" | b"x-forwarded-proto" => {
            forwarded == Forwarded::XForwarded && listener.trusted.stated_in == StatedIn::Forwarded
        }
        _ => false,
    }
}

/// Where a request tells of this proxy. Strangers' servers lead nowhere else, and without `Via` need not know of it.
pub fn named_in(via: &Via, next_hop: &NextHop) -> NamedIn {
    match next_hop {
        _ if via.is_in_requests => NamedIn::Via,
        NextHop::Origin { parent: false, .. } => NamedIn::Nothing,
        NextHop::Origin { .. } | NextHop::Group { .. } => NamedIn::CdnLoop,
    }
}
