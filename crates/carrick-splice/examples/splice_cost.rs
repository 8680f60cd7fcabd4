//! What it costs to set a splice up and to take it down, by each engine: one pair of connections on loopback, again and again.
//!
//!     cargo run --release -p carrick-splice --example splice_cost [CYCLES [ENGINE [idle|message]]]
//!
//! `strace -c -f` of two runs with different CYCLES, one ENGINE and one kind shows the system calls of a cycle.

use carrick_splice::{Choice, Exchange, ExchangeOrder, SPLICES_MAX, SocketService, Splicer};
use std::error::Error;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Outcome<T> = Result<T, Box<dyn Error>>;

const MESSAGE_BYTES: usize = 64;
/// A splice that is not in the kernel after so many looks at it does not get there.
const POLLS_MAX: usize = 100;

/// How the exchange gets the connections: the socket engine takes given ones out of tokio's registry, and back.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Lent,
    Given,
}

/// What happens between setting up and taking down.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Idle,
    Message,
}

/// What splices are made by.
struct Bench {
    splicer: Splicer,
    service: SocketService,
}

/// The times of one cycle.
struct Cycle {
    up: Duration,
    down: Duration,
}

#[tokio::main(flavor = "local")]
async fn main() -> Outcome<()> {
    run(&std::env::args().skip(1).collect::<Vec<_>>()).await
}

/// Measures, and prints the table.
#[expect(clippy::print_stdout, reason = "the table is what it is for")]
pub async fn run(words: &[String]) -> Outcome<()> {
    let cycles = words.first().map_or(Ok(10_000), |word| word.parse())?;
    let choices = match words.get(1) {
        Some(word) => vec![word.parse()?],
        None => vec![Choice::Copy, Choice::Pipe, Choice::Socket],
    };
    let kinds = match words.get(2).map(String::as_str) {
        Some("idle") => vec![Kind::Idle],
        Some("message") => vec![Kind::Message],
        Some(word) => return Err(format!("`{word}`: idle or message").into()),
        None => vec![Kind::Idle, Kind::Message],
    };
    let service = SocketService::default();
    if choices.contains(&Choice::Socket) {
        service.load(SPLICES_MAX)?;
    }
    let splicer = Splicer::with_socket(Default::default(), Default::default(), service.clone());
    let bench = Bench { splicer, service };
    println!(
        "engine  pair  between   up us  down us   both us    99 % us   (medians of {cycles} cycles)"
    );
    for kind in kinds {
        for choice in &choices {
            // For the other engines it makes no difference.
            let hows: &[How] = match choice {
                Choice::Socket => &[How::Lent, How::Given],
                _ => &[How::Lent],
            };
            for how in hows {
                let times = measure(&bench, *choice, *how, kind, cycles).await?;
                show(*choice, *how, kind, &times);
            }
        }
    }
    Ok(())
}

async fn measure(
    bench: &Bench,
    choice: Choice,
    how: How,
    kind: Kind,
    cycles: usize,
) -> Outcome<Vec<Cycle>> {
    let (mut client, mut near) = connection().await?;
    let (mut server, mut far) = connection().await?;
    let order = ExchangeOrder {
        choice,
        ..ExchangeOrder::default()
    };
    let mut times = Vec::with_capacity(cycles);
    for _ in 0..cycles {
        let begun = Instant::now();
        let mut ends = [&mut client, &mut server];
        if how == How::Lent {
            let exchange = bench.splicer.exchange(&near, &far, order);
            times.push(
                bench
                    .cycle(begun, exchange, choice, kind, &mut ends)
                    .await?
                    .0,
            );
        } else {
            let exchange = bench.splicer.exchange(near, far, order);
            let (time, back) = bench
                .cycle(begun, exchange, choice, kind, &mut ends)
                .await?;
            let [Some(a), Some(b)] = back else {
                return Err("a connection did not come back".into());
            };
            (near, far) = (a, b);
            times.push(time);
        }
    }
    Ok(times)
}

impl Bench {
    /// Sets up, lets a message go there and back if it is to, takes down. Connections that were given come back.
    async fn cycle(
        &self,
        begun: Instant,
        mut exchange: Exchange<'_>,
        choice: Choice,
        kind: Kind,
        [client, server]: &mut [&mut TcpStream; 2],
    ) -> Outcome<(Cycle, [Option<TcpStream>; 2])> {
        let mut polls = 0;
        loop {
            // Nothing is there to be moved: one look, and it waits.
            poll_fn(|cx| Poll::Ready(exchange.poll_run(cx).is_ready())).await;
            polls += 1;
            if choice != Choice::Socket || self.service.splices().0 == 1 {
                break;
            }
            if polls >= POLLS_MAX {
                return Err("the kernel does not take the connections".into());
            }
        }
        let up = begun.elapsed();
        if kind == Kind::Message {
            let talk = async {
                let mut message = [7; MESSAGE_BYTES];
                client.write_all(&message).await?;
                server.read_exact(&mut message).await?;
                server.write_all(&message).await?;
                client.read_exact(&mut message).await.map(drop)
            };
            tokio::select! {
                said = talk => said?,
                end = exchange.run() => return Err(format!("the splice ended: {end:?}").into()),
            }
        }
        let begun = Instant::now();
        let (there, back, connections) = exchange.unsplice_own();
        let down = begun.elapsed();
        let expected = if kind == Kind::Message {
            MESSAGE_BYTES as u64
        } else {
            0
        };
        if (there.bytes, back.bytes) != (expected, expected) {
            return Err(format!("{} and {} bytes were moved", there.bytes, back.bytes).into());
        }
        Ok((Cycle { up, down }, connections))
    }
}

#[expect(clippy::print_stdout, reason = "a row of the table")]
fn show(choice: Choice, how: How, kind: Kind, times: &[Cycle]) {
    let quantile = |of: fn(&Cycle) -> Duration, share: f64| {
        let mut sorted: Vec<Duration> = times.iter().map(of).collect();
        sorted.sort();
        let place = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
        sorted
            .get(place)
            .map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    let both = |cycle: &Cycle| cycle.up + cycle.down;
    println!(
        "{:7} {:5} {:8} {:7.1} {:8.1} {:9.1} {:10.1}",
        format!("{choice:?}"),
        if how == How::Lent { "lent" } else { "given" },
        if kind == Kind::Idle {
            "nothing"
        } else {
            "message"
        },
        quantile(|cycle| cycle.up, 0.5),
        quantile(|cycle| cycle.down, 0.5),
        quantile(both, 0.5),
        quantile(both, 0.99),
    );
}

/// A connection on loopback: both ends.
async fn connection() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (near, far) = tokio::join!(
        TcpStream::connect(listener.local_addr()?),
        listener.accept()
    );
    let (near, far) = (near?, far?.0);
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}
