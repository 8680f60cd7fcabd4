//! A TCP relay: `relay LISTEN CONNECT [auto|copy|pipe|socket]`. One thread, as many connections as it has descriptors for.

#![allow(clippy::print_stderr, reason = "it says there what goes wrong")]

use carrick_splice::{Choice, ExchangeEnd, ExchangeOrder, SPLICES_MAX};
use carrick_splice::{SocketService, Splicer, tcp};
use std::error::Error;
use tokio::net::{TcpListener, TcpStream};

type Outcome = Result<(), Box<dyn Error>>;

/// Joins a client with the server until both have closed. Of a pair that breaks, both are reset: half must not look whole.
async fn relay(splicer: Splicer, client: TcpStream, to: &str, choice: Choice) -> Outcome {
    let no_server = |_: &_| drop(tcp::reset_on_close(&client));
    let server = TcpStream::connect(to).await.inspect_err(no_server)?;
    tcp::set_nodelay(&client)?;
    tcp::set_nodelay(&server)?;
    let mut exchange = splicer.exchange(client, server, ExchangeOrder::new(choice));
    let broken = match exchange.run().await {
        ExchangeEnd::Closed => return Ok(()),
        ExchangeEnd::Idle | ExchangeEnd::Stalled => "no byte for an hour".into(),
        ExchangeEnd::Fault { fault, .. } => format!("{fault}: {}", fault.source).into(),
    };
    for connection in exchange.connections().into_iter().flatten() {
        tcp::reset_on_close(connection)?;
    }
    Err(broken)
}

/// Relays whoever connects to LISTEN; ends when it cannot accept any more.
pub async fn run(mut words: impl Iterator<Item = String>) -> Outcome {
    let usage = "usage: relay LISTEN CONNECT [auto|copy|pipe|socket]";
    let (listen, to) = (words.next().ok_or(usage)?, words.next().ok_or(usage)?);
    let choice = words.next().as_deref().unwrap_or("auto").parse()?;
    let service = SocketService::default();
    let without = |because| eprintln!("going on without the socket engine: {because}");
    service.load(SPLICES_MAX, None).unwrap_or_else(without);
    let splicer = Splicer::with_socket(Default::default(), Default::default(), service);
    let listener = TcpListener::bind(listen).await?;
    eprintln!("listening on {}", listener.local_addr()?);
    loop {
        let (client, address) = listener.accept().await?;
        let (splicer, to) = (splicer.clone(), to.clone());
        tokio::task::spawn_local(async move {
            if let Err(error) = relay(splicer, client, &to, choice).await {
                eprintln!("{address}: {error}");
            }
        });
    }
}

#[tokio::main(flavor = "local")]
async fn main() -> Outcome {
    run(std::env::args().skip(1)).await
}
