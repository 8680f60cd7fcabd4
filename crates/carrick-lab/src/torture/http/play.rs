//! A scenario being played: clients and origin in one thread, as tasks.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::torture::http::scenario::Scenario;
use crate::torture::http::shared::Play;
use crate::torture::http::tally::Tally;
use crate::torture::http::{client, origin};

/// Between two looks whether the origin has heard of the last client's end.
const POLL: Duration = Duration::from_millis(20);

/// Plays a scenario to its end. What is due and does not come within `patience` counts as lost. The origin's connections
/// are closed then. To be called in a `LocalSet`.
///
/// # Errors
/// When the runtime does not take the listener.
pub async fn play(
    scenario: Scenario,
    proxy: SocketAddr,
    clients: fn(&Scenario, usize) -> Option<SocketAddr>,
    listener: std::net::TcpListener,
    patience: Duration,
) -> Result<Tally> {
    listener
        .set_nonblocking(true)
        .context("cannot make the origin's listener non-blocking")?;
    let listener = TcpListener::from_std(listener).context("cannot listen")?;
    let conversations = scenario.conversations.len();
    let play = Rc::new(Play {
        scenario,
        proxy,
        clients,
        patience,
        tally: RefCell::default(),
        arrivals: RefCell::default(),
        busy: RefCell::default(),
        connections: Cell::new(0),
    });
    let serving = Serving(tokio::task::spawn_local(serve(listener, Rc::clone(&play))));
    let mut talking = JoinSet::new();
    for number in 0..conversations {
        talking.spawn_local(client::converse(Rc::clone(&play), number));
    }
    while let Some(ended) = talking.join_next().await {
        ended.context("a client failed")?;
    }
    let until = Instant::now() + patience;
    while !play.busy.borrow().is_empty() && Instant::now() < until {
        tokio::time::sleep(POLL).await;
    }
    for (_, what) in play.busy.take() {
        play.complain_of(
            "the origin",
            &format!("its connection is still held for {what}, whose client has gone"),
        );
    }
    drop(serving);
    let repeated = play
        .arrivals
        .borrow()
        .values()
        .filter(|&&times| times > 1)
        .count();
    let mut tally = play.tally.take();
    tally.repeated = repeated as u64;
    Ok(tally)
}

/// The origin's task, which ends when it is dropped.
struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(listener: TcpListener, play: Rc<Play>) {
    // Dropped with this task, and all connections with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn_local(origin::serve(Rc::clone(&play), stream));
                }
                // For want of descriptors, or a connection that is gone already: neither ends the server.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(ended) = connections.join_next() => {
                if ended.is_err() {
                    play.complain_of("the origin", "a task of its own failed");
                }
            }
        }
    }
}
