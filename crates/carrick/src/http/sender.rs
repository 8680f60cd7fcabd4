//! Whose a request is, as far as the sender is believed, and whether it may be served at all.
use super::loop_detection;
use super::own_fields::SUBJECT_LOWER;
use crate::config::plan::ListenerPlan;
use crate::context::client::Client;
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::net::admission::Admitted;
use crate::net::deadline::now;
use crate::net::scratch::Scratch;
use crate::reply::Reply;
use crate::telemetry::metrics::{Limit, WorkerMetrics};
use carrick_logic::http1::{Refusal, RequestHead};
use std::net::IpAddr;
use std::time::Duration;

/// How long a certificate is taken for verified: it ends some day, and so do revocation lists.
const VERIFIED_FOR: Duration = Duration::from_secs(60);

/// What the head alone says against a request; learns whose it is.
pub fn refuse(client: &mut Client, scratch: &mut Scratch, log: &mut RequestLog) -> Option<Reply> {
    if !is_proven(&client.context) {
        client.downstream.is_last = true;
        let detail = "This server now demands TLS, or a certificate, by other rules than when you connected. Connect again.";
        return Some(Reply::new(421, "connect_again", detail));
    }
    let stated = take_statement(client, scratch);
    log.client = client.context.stated;
    stated
        .map_err(|refusal| refused(client.context.metrics(), refusal))
        .and_then(|()| may_ask(&client.context, client.downstream.admitted.as_deref()))
        .err()
        .or_else(|| {
            loop_detection::refuse(
                client.context.listener.address,
                &scratch.request,
                &scratch.request_head,
            )
        })
}

/// Whether the client has shown what the listener demands of it: the configuration, authorities and revocation lists may have changed since.
fn is_proven(context: &RequestContext) -> bool {
    let tls = context.listener.tls.as_ref();
    let Some(agreed) = &context.tls else {
        return tls.is_none();
    };
    if agreed.client_chain.is_empty() {
        let clients = tls.and_then(|tls| tls.settings.clients.as_ref());
        return clients.is_none_or(|clients| !clients.is_required);
    }
    tls.is_some_and(|tls| {
        let in_force = tls.in_force();
        let (serial, at) = agreed.verified.get();
        let is_known = serial == in_force.serial && now() < at + VERIFIED_FOR;
        let is_accepted = is_known || in_force.accepts(&agreed.client_chain);
        if is_accepted && !is_known {
            agreed.verified.set((in_force.serial, now()));
        }
        is_accepted
    })
}

/// Whether the client that a trusted proxy has named may use the listener, and has room for one more connection, or a client for one
/// more tunnel beside its connection of HTTP/2.
fn may_ask(context: &RequestContext, admitted: Option<&Admitted>) -> Result<(), Reply> {
    let is_proxy = context.is_trusted_proxy();
    if is_proxy && !context.listener.access.allows_client(context.who().ip()) {
        return Err(not_allowed(context.who().ip()));
    }
    let (admitted, counted) = match admitted {
        Some(admitted) if is_proxy => (admitted, context.stated),
        Some(admitted) if admitted.is_beside() => (admitted, Some(context.address)),
        _ => return Ok(()),
    };
    admitted
        .count_for(counted.map(|counted| counted.ip()))
        .map_err(|_| {
            let limits = &context.metrics().limits;
            limits.reached(Limit::ConnectionsPerClient);
            Reply::new(
                429,
                "connections_per_client",
                "As many requests of this client are under way as one client may have.",
            )
        })
}

/// The answer to a client that may not use the listener.
pub fn not_allowed(client: IpAddr) -> Reply {
    let detail = format!("Your address, {client}, is not among those that may use this listener.");
    Reply::new(403, "client_not_allowed", detail)
}

/// Learns whose request it is, if a trusted proxy sends it, and drops the fields that are not to be trusted; both by the configuration in
/// force for the request.
///
/// # Errors
/// The listener refuses such fields.
fn take_statement(client: &mut Client, scratch: &mut Scratch) -> Result<(), Refusal> {
    let (bytes, head) = (&scratch.request, &mut scratch.request_head);
    let trusted = &client.context.listener.trusted;
    let stated = if client.context.is_trusted_proxy() {
        head.stated_client(bytes, trusted.stated_in, |address| trusted.contain(address))
    } else {
        Ok(None)
    };
    let before = client.context.who();
    client.context.stated = stated.unwrap_or_default();
    if client.context.who().ip() != before.ip() {
        client.downstream.pace.forget();
    }
    check_fields(
        &client.context.listener,
        client.context.is_trusted_proxy(),
        head,
        bytes,
    )?;
    stated.map(|_| ())
}

/// Drops, or refuses, fields as the listener has it.
///
/// # Errors
/// The listener refuses one.
pub fn check_fields(
    listener: &ListenerPlan,
    is_trusted_proxy: bool,
    head: &mut RequestHead,
    bytes: &[u8],
) -> Result<(), Refusal> {
    head.apply_name_policy(listener.odd_names)?;
    let tls = listener.tls.as_ref();
    if tls.is_some_and(|tls| tls.settings.clients.is_some()) {
        // Here it is carrick that says so, and nobody else.
        head.forget_field(bytes, SUBJECT_LOWER);
    }
    if !listener.believes(is_trusted_proxy) {
        head.forget_claims(bytes);
    } else if is_trusted_proxy {
        head.forget_other_form(listener.trusted.stated_in);
    }
    Ok(())
}

/// The answer to a request that must not be passed on.
pub fn refused(metrics: &WorkerMetrics, refusal: Refusal) -> Reply {
    if refusal.status == 431 {
        let fields = refusal.label == "too_many_fields";
        metrics.limits.reached(if fields {
            Limit::HeadFields
        } else {
            Limit::HeadBytes
        });
    }
    Reply::new(refusal.status, refusal.label, refusal.reason)
}
