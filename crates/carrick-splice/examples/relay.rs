//! A TCP relay in a few lines: `relay LISTEN CONNECT [auto|copy|pipe] [PIPE_KB] [BUFFER_KB]`. One thread.

use carrick_splice::{Choice, Counters, ExchangeEnd, ExchangeOrder, PoolLimits, Splicer, tcp};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};

async fn serve(
    splicer: Splicer,
    client: TcpStream,
    upstream: String,
    choice: Choice,
) -> std::io::Result<()> {
    let server = TcpStream::connect(&upstream).await?;
    tcp::set_nodelay(&client)?;
    tcp::set_nodelay(&server)?;
    let order = ExchangeOrder {
        choice,
        ..ExchangeOrder::default()
    };
    let mut exchange = splicer.exchange(&client, &server, order);
    if let ExchangeEnd::Fault { .. } = exchange.run().await {
        tcp::reset_on_close(&client)?;
        tcp::reset_on_close(&server)?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let usage = || {
        std::io::Error::other("usage: relay LISTEN CONNECT [auto|copy|pipe] [PIPE_KB] [BUFFER_KB]")
    };
    let (listen, upstream) = (
        words.next().ok_or_else(usage)?,
        words.next().ok_or_else(usage)?,
    );
    let choice = match words.next().as_deref() {
        None | Some("auto") => Choice::Auto,
        Some("copy") => Choice::Copy,
        Some("pipe") => Choice::Pipe,
        Some(_) => return Err(usage()),
    };
    let mut limits = PoolLimits::default();
    let mut kilobytes = || {
        words
            .next()
            .and_then(|word| word.parse::<usize>().ok())
            .map(|number| number << 10)
    };
    limits.pipe_bytes = kilobytes().unwrap_or(limits.pipe_bytes);
    limits.copy_buffer_bytes = kilobytes().unwrap_or(limits.copy_buffer_bytes);

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let splicer = Splicer::new(limits, Arc::new(Counters::default()));
        let listener = TcpListener::bind(&listen).await?;
        loop {
            let (client, _) = listener.accept().await?;
            tokio::task::spawn_local(serve(splicer.clone(), client, upstream.clone(), choice));
        }
    })
}
