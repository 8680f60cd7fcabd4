//! The thread that talks to the server.
use super::order::{GetReply, Order};
use super::server::{Server, ServerFailure};
use super::{SharedCacheEvent, SharedState};
use crate::config::plan::SharedPlan;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::LocalSet;

/// Orders that are under way at the same time, at most.
const UNDER_WAY_MAX: usize = 128;

/// Starts the thread. It ends when all senders of orders are dropped, and all orders are done.
pub(super) fn start(
    plan: SharedPlan,
    orders: Receiver<Order>,
    state: Arc<SharedState>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("shared-cache".to_owned())
        .spawn(move || LocalSet::new().block_on(&runtime, serve(plan, orders, state)))?;
    Ok(())
}

async fn serve(plan: SharedPlan, mut orders: Receiver<Order>, state: Arc<SharedState>) {
    let server = Rc::new(Server::new(plan));
    let permits = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    while let Some(order) = orders.recv().await {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let (server, state) = (Rc::clone(&server), Arc::clone(&state));
        tokio::task::spawn_local(async move {
            Box::pin(execute(&server, &state, order)).await;
            drop(permit);
        });
    }
    // Orders under way end within their time-outs.
    let _ = permits
        .acquire_many(u32::try_from(UNDER_WAY_MAX).unwrap_or(u32::MAX))
        .await;
}

async fn execute(server: &Server, state: &SharedState, order: Order) {
    match order {
        Order::Get { key, field, reply } => {
            let settled = {
                let _one_at_a_time = server.settling.lock().await;
                // The request does not wait any more.
                if reply.is_closed() {
                    return;
                }
                Box::pin(settle(server, state)).await
            };
            let got = match settled {
                Ok(()) => Box::pin(server.get(&key, field)).await,
                Err(failure) => Err(failure),
            };
            match got {
                Ok(GetReply { generation, value }) => {
                    state.succeeded();
                    let _ = reply.send(GetReply { generation, value });
                }
                Err(failure) => failed(state, &failure, SharedCacheEvent::Failed),
            }
        }
        Order::Put {
            key,
            fields,
            ttl_s,
            bytes,
        } => {
            let written = server.put(&key, &fields, ttl_s).await;
            state.queued_bytes.fetch_sub(bytes, Relaxed);
            match written {
                Ok(()) => state.count(SharedCacheEvent::Written),
                Err(failure) => failed(state, &failure, SharedCacheEvent::NotWritten),
            }
        }
        Order::Forget { key, reply } => {
            let result = server.forget(&key).await;
            if result.is_err() {
                state.owed.add(Some(key));
            }
            answer(state, result, reply);
        }
        Order::Renew { reply } => answer(state, server.renew().await, Some(reply)),
    }
}

/// Makes deletions good that failed. For everything, a new generation is drawn; records that are written meanwhile have the old one.
async fn settle(server: &Server, state: &SharedState) -> Result<(), ServerFailure> {
    while let Some(deletion) = state.owed.first() {
        let deleted = match &deletion.key {
            Some(key) => server.forget(key).await,
            None => server.renew().await,
        };
        match deleted {
            // The user may not delete: no record that is there is used any more.
            Err(ServerFailure::Refused(_)) if deletion.key.is_some() => server.renew().await?,
            deleted => deleted?,
        }
        state.owed.done(&deletion);
    }
    Ok(())
}

/// A server that does not answer is left out. One that answers with an error may answer the next command.
fn failed(state: &SharedState, failure: &ServerFailure, event: SharedCacheEvent) {
    state.count(event);
    match failure {
        ServerFailure::Silent(why) => state.leave_out(why),
        ServerFailure::Refused(why) => {
            state.succeeded();
            tracing::debug!("shared cache: {why}");
        }
    }
}

fn answer(
    state: &SharedState,
    result: Result<(), ServerFailure>,
    reply: Option<oneshot::Sender<Result<(), String>>>,
) {
    if let Err(failure) = &result {
        failed(state, failure, SharedCacheEvent::NotWritten);
    }
    if let Some(reply) = reply {
        let _ = reply.send(result.map_err(|failure| failure.to_string()));
    }
}
