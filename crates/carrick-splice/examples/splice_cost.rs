//! What it costs to set a splice up and to take it down, by each engine: one pair of connections on loopback, again and again. For
//! the engine `packet`, the pair is between network namespaces of its own, which takes root.
//!
//!     cargo run --release -p carrick-splice --example splice_cost [CYCLES [ENGINE [idle|message|greeting]]]
//!
//! A tunnel is spliced by packet once the process has relayed something both ways: a *greeting*, which is in the time of setting it up,
//! as it is in that of `copy`, for comparison. ENGINE is also `responses`: those that the engine `packet` forwards, with a new place for each cycle, or with one for all.
//! `strace -c -f` of two runs with different CYCLES, one ENGINE and one kind shows the system calls of a cycle.

use bed::{Bed, Pair};
use carrick_splice::requests::RequestFields;
use carrick_splice::{
    Arming, Choice, Counters, Exchange, ExchangeOrder, PaceHandle, PacketService, PoolLimits,
    ResponseSplice, SPLICES_MAX, SocketService, Splicer,
};
use std::error::Error;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

mod bed;

type Outcome<T> = Result<T, Box<dyn Error>>;

const MESSAGE_BYTES: usize = 64;
/// A splice that is not in the kernel after so many looks at it does not get there.
const POLLS_MAX: usize = 100;
/// The packet engine keeps the places of connections that have been spliced until these have others.
const PLACES: u32 = 64;
/// It has seen the connections of responses, and they are at rest, after so many messages there and back, and so long.
const GREETINGS: usize = 3;
const REST: Duration = Duration::from_millis(10);

/// By what connections are spliced.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Exchange(Choice),
    Responses,
}

/// How it gets the connections: the socket engine takes given ones out of tokio's registry, and back. Responses have a place in
/// the maps that is kept, or a new one.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Lent,
    Given,
    New,
    Kept,
}

/// What happens between setting up and taking down; or while it is set up.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Idle,
    Message,
    Greeting,
}

/// What splices are made by.
struct Bench {
    splicer: Splicer,
    socket: SocketService,
    packet: PacketService,
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
    let ways = match words.get(1).map(String::as_str) {
        Some("responses") => vec![By::Responses],
        Some(word) => vec![By::Exchange(word.parse()?)],
        None => [Choice::Copy, Choice::Pipe, Choice::Socket, Choice::Packet]
            .map(By::Exchange)
            .into_iter()
            .chain([By::Responses])
            .collect(),
    };
    let kinds = match words.get(2).map(String::as_str) {
        Some("idle") => vec![Kind::Idle],
        Some("message") => vec![Kind::Message],
        Some("greeting") => vec![Kind::Greeting],
        Some(word) => return Err(format!("`{word}`: idle, message or greeting").into()),
        None => vec![Kind::Idle, Kind::Message, Kind::Greeting],
    };
    let (socket, packet) = (SocketService::default(), PacketService::default());
    if ways.contains(&By::Exchange(Choice::Socket)) {
        socket.load(SPLICES_MAX, None)?;
    }
    let bed = ways
        .iter()
        .any(By::is_packet)
        .then(|| Bed::with_engine(&packet, PLACES))
        .transpose()?;
    let splicer = Splicer::with_engines(
        PoolLimits::default(),
        Arc::new(Counters::default()),
        socket.clone(),
        packet.clone(),
    );
    let bench = Bench {
        splicer,
        socket,
        packet,
    };
    println!(
        "engine     pair  between   up us  down us   both us    99 % us   (medians of {cycles} cycles)"
    );
    for kind in kinds {
        for by in ways.iter().filter(|by| by.does(kind)) {
            // For the other engines it makes no difference.
            let hows: &[How] = match by {
                By::Exchange(Choice::Socket) => &[How::Lent, How::Given],
                By::Exchange(_) => &[How::Lent],
                By::Responses => &[How::New, How::Kept],
            };
            for how in hows {
                let pair = match &bed {
                    Some(bed) if by.is_packet() => bed.pair().await?,
                    _ => on_loopback().await?,
                };
                let times = match by {
                    By::Exchange(choice) => {
                        bench.exchanges(*choice, *how, kind, cycles, pair).await?
                    }
                    By::Responses => bench.responses(*how, kind, cycles, pair).await?,
                };
                show(*by, *how, kind, &times);
            }
        }
    }
    Ok(())
}

impl By {
    fn is_packet(&self) -> bool {
        matches!(self, By::Exchange(Choice::Packet) | By::Responses)
    }

    fn does(&self, kind: Kind) -> bool {
        match self {
            By::Exchange(Choice::Packet) => kind == Kind::Greeting,
            By::Exchange(Choice::Copy) => true,
            _ => kind != Kind::Greeting,
        }
    }
}

impl Bench {
    async fn exchanges(
        &self,
        choice: Choice,
        how: How,
        kind: Kind,
        cycles: usize,
        pair: Pair,
    ) -> Outcome<Vec<Cycle>> {
        let Pair {
            mut client,
            mut near,
            mut far,
            mut server,
        } = pair;
        let order = ExchangeOrder {
            choice,
            ..ExchangeOrder::default()
        };
        let mut times = Vec::with_capacity(cycles);
        for _ in 0..cycles {
            let begun = Instant::now();
            let mut ends = [&mut client, &mut server];
            if how == How::Lent {
                let exchange = self.splicer.exchange(&near, &far, order);
                let cycle = self.cycle(begun, exchange, choice, kind, &mut ends);
                times.push(cycle.await?.0);
            } else {
                let exchange = self.splicer.exchange(near, far, order);
                let cycle = self.cycle(begun, exchange, choice, kind, &mut ends);
                let (time, back) = cycle.await?;
                let [Some(a), Some(b)] = back else {
                    return Err("a connection did not come back".into());
                };
                (near, far) = (a, b);
                times.push(time);
            }
        }
        Ok(times)
    }

    /// Whether the kernel has what it is to have.
    fn is_up(&self, choice: Choice) -> bool {
        match choice {
            Choice::Socket => self.socket.splices().0 == 1,
            Choice::Packet => self.packet.spliced() == 1,
            _ => true,
        }
    }

    /// Sets up, lets a message go there and back if it is to, takes down. Connections that were given come back.
    async fn cycle(
        &self,
        begun: Instant,
        mut exchange: Exchange<'_>,
        choice: Choice,
        kind: Kind,
        [client, server]: &mut [&mut TcpStream; 2],
    ) -> Outcome<(Cycle, [Option<TcpStream>; 2])> {
        if kind == Kind::Greeting {
            tokio::select! {
                said = there_and_back(client, server) => said?,
                end = exchange.run() => return Err(format!("the splice ended: {end:?}").into()),
            }
        }
        let mut polls = 0;
        let up = loop {
            // Nothing is there to be moved: one look, and it waits.
            poll_fn(|cx| Poll::Ready(exchange.poll_run(cx).is_ready())).await;
            let up = begun.elapsed();
            polls += 1;
            if self.is_up(choice) {
                break up;
            }
            if polls >= POLLS_MAX {
                return Err("the kernel does not take the connections".into());
            }
        };
        if kind == Kind::Message {
            tokio::select! {
                said = there_and_back(client, server) => said?,
                end = exchange.run() => return Err(format!("the splice ended: {end:?}").into()),
            }
        }
        let begun = Instant::now();
        let (there, back, connections) = exchange.unsplice_own().await;
        let down = begun.elapsed();
        let expected = if kind == Kind::Idle {
            0
        } else {
            MESSAGE_BYTES as u64
        };
        if (there.bytes, back.bytes) != (expected, expected) {
            return Err(format!("{} and {} bytes were moved", there.bytes, back.bytes).into());
        }
        Ok((Cycle { up, down }, connections))
    }

    /// Responses that the kernel forwards.
    async fn responses(
        &self,
        how: How,
        kind: Kind,
        cycles: usize,
        pair: Pair,
    ) -> Outcome<Vec<Cycle>> {
        let Pair {
            mut client,
            mut near,
            mut far,
            mut server,
        } = pair;
        let refused = |reason| format!("the kernel does not take the connections: {reason:?}");
        let mut kept = self.splicer.responses(&near, &far, 0).map_err(refused)?;
        for _ in 0..GREETINGS {
            tokio::try_join!(
                there_and_back(&mut client, &mut server),
                relay(&mut near, &mut far)
            )?;
        }
        tokio::time::sleep(REST).await;
        let mut times = Vec::with_capacity(cycles);
        for _ in 0..cycles {
            let begun = Instant::now();
            if how == How::New {
                kept = self.splicer.responses(&near, &far, 0).map_err(refused)?;
            }
            match kept.arm(None, &RequestFields::default(), PaceHandle::default()) {
                Arming::Armed => kept.expect_response(true, false),
                answer => return Err(format!("it was not armed: {answer:?}").into()),
            }
            let up = begun.elapsed();
            if kind == Kind::Message {
                pass(&mut client, &mut near).await?;
                pass(&mut far, &mut server).await?;
                respond(&mut server, &mut client, &kept).await?;
            }
            let begun = Instant::now();
            kept.disarm()?;
            times.push(Cycle {
                up,
                down: begun.elapsed(),
            });
        }
        Ok(times)
    }
}

/// A message from one end of a connection to the other.
async fn pass(from: &mut TcpStream, to: &mut TcpStream) -> std::io::Result<()> {
    from.write_all(&[7; MESSAGE_BYTES]).await?;
    to.read_exact(&mut [0; MESSAGE_BYTES]).await.map(drop)
}

/// A message from the server, which the client acknowledges.
async fn respond(
    server: &mut TcpStream,
    client: &mut TcpStream,
    splice: &ResponseSplice,
) -> Outcome<()> {
    let mut message = [7; MESSAGE_BYTES];
    server.write_all(&message).await?;
    client.read_exact(&mut message).await?;
    rustix::net::sockopt::set_tcp_quickack(&*client, true)?;
    while splice.progress().acked_bytes < MESSAGE_BYTES as u64 {
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// A message there and back. Both are acknowledged at once: by what follows, or because it is asked for.
async fn there_and_back(client: &mut TcpStream, server: &mut TcpStream) -> std::io::Result<()> {
    let mut message = [7; MESSAGE_BYTES];
    client.write_all(&message).await?;
    server.read_exact(&mut message).await?;
    server.write_all(&message).await?;
    client.read_exact(&mut message).await?;
    rustix::net::sockopt::set_tcp_quickack(&*client, true)?;
    Ok(())
}

/// The proxy's part in a message there and back that goes through the process.
async fn relay(near: &mut TcpStream, far: &mut TcpStream) -> std::io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    near.read_exact(&mut message).await?;
    far.write_all(&message).await?;
    far.read_exact(&mut message).await?;
    near.write_all(&message).await
}

#[expect(clippy::print_stdout, reason = "a row of the table")]
fn show(by: By, how: How, kind: Kind, times: &[Cycle]) {
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
        "{:10} {:5} {:8} {:7.1} {:8.1} {:9.1} {:10.1}",
        match by {
            By::Exchange(choice) => format!("{choice:?}"),
            By::Responses => String::from("Responses"),
        },
        match how {
            How::Lent => "lent",
            How::Given => "given",
            How::New => "new",
            How::Kept => "kept",
        },
        match kind {
            Kind::Idle => "nothing",
            Kind::Message => "message",
            Kind::Greeting => "greeting",
        },
        quantile(|cycle| cycle.up, 0.5),
        quantile(|cycle| cycle.down, 0.5),
        quantile(both, 0.5),
        quantile(both, 0.99),
    );
}

async fn on_loopback() -> std::io::Result<Pair> {
    let (client, near) = connection().await?;
    let (server, far) = connection().await?;
    Ok(Pair {
        client,
        near,
        far,
        server,
    })
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
