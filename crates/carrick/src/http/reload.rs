//! What a reload means to connections that are open.
use super::{kernel_forward, sender};
use crate::context::client::{Client, Next};
use crate::reply::Reply;
use carrick_logic::http1::{Method, RequestHead};
use std::mem::discriminant;
use std::rc::Rc;
use std::sync::Arc;

/// A reload may have changed what this connection's listener does, and who may use it: a request follows the plan that is in force when
/// its head is whole. The answer to a client that may not ask any more. `Err`: the connection has to end without one.
pub async fn follow_configuration(
    client: &mut Client,
    head: &RequestHead,
) -> Result<Option<Reply>, Next> {
    let live = client.context.worker.live();
    if Rc::ptr_eq(&live, &client.context.live) {
        return Ok(None);
    }
    Box::pin(kernel_forward::leave(client)).await?;
    client.downstream.kernel_forward.start_afresh();
    client.downstream.pace.forget();
    client.context.stated = None;
    let before = Arc::clone(&client.context.listener);
    let now = live.listener(before.address);
    let (mut excluded, who) = (None, client.context.address.ip());
    let rules = now.as_ref().unwrap_or(&before);
    // The client that a trusted proxy names is still to be read.
    let is_allowed = rules.trusted.contain(who) || rules.access.allows_client(who);
    match now {
        Some(now) if discriminant(&now.mode) == discriminant(&before.mode) => {
            (client.context.listener, client.context.live) = (now, live);
            client.downstream.is_last |=
                before.verifies_by() != client.context.listener.verifies_by();
        }
        // The listener is gone or has another job: what came is answered under the old plan, unless it is meant to last, and that is all.
        _ => {
            client.downstream.is_last = true;
            if head.method == Method::Connect || head.wants_upgrade {
                let detail = "This server now does something else here than when you connected. Connect again.";
                excluded = Some(Reply::new(421, "connect_again", detail));
            }
        }
    }
    if is_allowed {
        return Ok(excluded);
    }
    client.downstream.is_last = true;
    Ok(Some(sender::not_allowed(who)))
}
