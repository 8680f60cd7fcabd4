//! What a reload means to connections that are open.
use super::{kernel_forward, sender};
use crate::context::client::{Client, Next};
use crate::reply::Reply;
use carrick_logic::http1::{Method, RequestHead};
use std::net::SocketAddr;
use std::rc::Rc;

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
    let mut excluded = None;
    match live.listener(client.context.listener.address) {
        Some(listener)
            if std::mem::discriminant(&listener.mode)
                == std::mem::discriminant(&client.context.listener.mode) =>
        {
            let before = std::mem::replace(&mut client.context.listener, listener);
            client.context.live = live;
            if before.verifies_by() != client.context.listener.verifies_by() {
                client.downstream.is_last = true;
                excluded = sender::not_proven(&client.context);
            }
        }
        // The listener is gone or has another job: what came is answered under the old plan, unless it is meant to last, and that is all.
        other => {
            client.downstream.is_last = true;
            let is_allowed =
                other.is_none_or(|other| other.access.allows_client(client.context.address.ip()));
            if !is_allowed {
                excluded = Some(sender::not_allowed(client.context.address.ip()));
            } else if head.method == Method::Connect || head.wants_upgrade {
                let detail = "This server now does something else here than when you connected. Connect again.";
                excluded = Some(Reply::new(421, "connect_again", detail));
            }
        }
    }
    // The client that a trusted proxy names is still to be read.
    let allows = |address: SocketAddr| client.context.listener.access.allows_client(address.ip());
    if client.context.is_trusted_proxy() || allows(client.context.address) {
        return Ok(excluded);
    }
    client.downstream.is_last = true;
    Ok(Some(sender::not_allowed(client.context.who().ip())))
}
