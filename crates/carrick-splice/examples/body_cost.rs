//! From which size on a response's body should go by packet where the process has to see its head: the time of a request, a head and a
//! body through the process, by `copy` and by `pipe`, and with a body that the packet engine forwards, armed before and disarmed
//! after it. As root, in network namespaces of its own:
//!
//!     cargo run --release -p carrick-splice --example body_cost [BODIES [BYTES,BYTES,...]]
//!
//! One thread is client, proxy and server, on connections at rest; so the time is what it costs all three, packets included. Bodies
//! go by each engine in turns.

use bed::{Bed, Host, Pair};
use carrick_splice::{
    Arming, Choice, Counters, End, Ended, Order, PaceHandle, PacketService, PoolLimits,
    ResponseSplice, SocketService, Splicer,
};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

mod bed;

type Outcome<T> = Result<T, Box<dyn Error>>;

const PLACES: u32 = 16;
const SIZES: [usize; 11] = [
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
];
/// Of a request, and of a response's head.
const HEAD_BYTES: usize = 200;
/// The engine has seen both connections after so many heads, and they are at rest after so long.
const GREETINGS: usize = 3;
const REST: Duration = Duration::from_millis(10);
/// Of each engine, not measured.
const WARM_UP_BODIES: usize = 10;

/// The medians of a size, in microseconds.
pub struct Row {
    /// Of the body.
    pub bytes: usize,
    /// By `copy`, `pipe` and by packet.
    pub us: [f64; 3],
}

#[tokio::main(flavor = "local")]
async fn main() -> Outcome<()> {
    run(&std::env::args().skip(1).collect::<Vec<_>>())
        .await
        .map(drop)
}

/// Measures, and prints.
#[expect(clippy::print_stdout, reason = "it is what it is for")]
pub async fn run(words: &[String]) -> Outcome<Vec<Row>> {
    let bodies: usize = words.first().map_or(Ok(1000), |word| word.parse())?;
    let sizes = match words.get(1) {
        Some(list) => list.split(',').map(str::parse).collect::<Result<_, _>>()?,
        None => SIZES.to_vec(),
    };
    let packet = PacketService::default();
    let bed = Bed::with_engine(&packet, PLACES)?;
    let counters = Arc::new(Counters::default());
    let splicer = Splicer::with_engines(
        PoolLimits::default(),
        Arc::clone(&counters),
        SocketService::default(),
        packet,
    );
    let mut relayed = bed.pair().await?;
    bed.enter(Host::Proxy)?;
    println!("bytes      copy us   pipe us   packet us   (medians of {bodies} bodies)");
    let mut rows = Vec::new();
    let mut forwarded = Forwarded::open(&splicer, &bed).await?;
    for bytes in sizes {
        let mut times: [Vec<Duration>; 3] = Default::default();
        for number in 0..WARM_UP_BODIES + bodies {
            let taken = [
                through_process(&splicer, Choice::Copy, &mut relayed, bytes).await?,
                through_process(&splicer, Choice::Pipe, &mut relayed, bytes).await?,
                forwarded.body(bytes).await?,
            ];
            if number >= WARM_UP_BODIES {
                for (times, time) in times.iter_mut().zip(taken) {
                    times.push(time);
                }
            }
        }
        let us = times.map(|mut times| {
            times.sort();
            let median = times.get(times.len() / 2);
            median.map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
        });
        println!("{bytes:8} {:9.1} {:9.1} {:11.1}", us[0], us[1], us[2]);
        rows.push(Row { bytes, us });
    }
    let pays = |row: &Row| row.us[2] <= row.us[0].min(row.us[1]);
    let from = rows.iter().rev().take_while(|row| pays(row)).last();
    match from {
        Some(row) => println!("by packet is the cheapest from {} bytes on", row.bytes),
        None => println!("by packet is not the cheapest at the largest size"),
    }
    Ok(rows)
}

/// A request and a head, which the process relays in any case. The server has heard of the window of the process' socket by then.
async fn ask(pair: &mut Pair) -> std::io::Result<()> {
    hop(&mut pair.client, &mut pair.near).await?;
    hop(&mut pair.far, &mut pair.server).await?;
    hop(&mut pair.server, &mut pair.far).await?;
    hop(&mut pair.near, &mut pair.client).await
}

/// A head from one end of a connection to the other.
async fn hop(from: &mut TcpStream, to: &mut TcpStream) -> std::io::Result<()> {
    from.write_all(&[7; HEAD_BYTES]).await?;
    to.read_exact(&mut [0; HEAD_BYTES]).await.map(drop)
}

/// A body that the process relays.
async fn through_process(
    splicer: &Splicer,
    choice: Choice,
    pair: &mut Pair,
    bytes: usize,
) -> Outcome<Duration> {
    let begun = Instant::now();
    ask(pair).await?;
    let order = Order {
        choice,
        ..Order::new(End::AfterBytes(bytes as u64))
    };
    let mut transfer = splicer.transfer(&pair.far, &pair.near, order);
    let (said, ended) = tokio::join!(
        say(&mut pair.server, &mut pair.client, bytes),
        transfer.run()
    );
    said?;
    if ended? != Ended::Bytes {
        return Err("the body is not whole".into());
    }
    Ok(begun.elapsed())
}

/// Two connections for bodies that go by packet.
struct Forwarded {
    pair: Pair,
    splice: ResponseSplice,
}

impl Forwarded {
    async fn open(splicer: &Splicer, bed: &Bed) -> Outcome<Forwarded> {
        let mut pair = bed.pair().await?;
        let splice = splicer
            .responses(&pair.near, &pair.far, 0)
            .map_err(|reason| format!("the kernel does not take the connections: {reason:?}"))?;
        for _ in 0..GREETINGS {
            ask(&mut pair).await?;
        }
        tokio::time::sleep(REST).await;
        Ok(Forwarded { pair, splice })
    }

    async fn body(&mut self, bytes: usize) -> Outcome<Duration> {
        let begun = Instant::now();
        ask(&mut self.pair).await?;
        let pace = PaceHandle::default();
        match self.splice.arm_body(0, bytes as u64, pace) {
            Arming::Armed => {}
            answer => return Err(format!("it was not armed: {answer:?}").into()),
        }
        // What the kernel leaves to the process is relayed: a packet that comes before all is received that was sent earlier.
        let mut relayed_bytes = 0;
        let Pair {
            client,
            near,
            far,
            server,
        } = &mut self.pair;
        tokio::select! {
            said = say(server, client, bytes) => said?,
            ended = relay(far, near, &mut relayed_bytes) => ended?,
        }
        // What is not acknowledged comes again when it is disarmed.
        while self.splice.progress().acked_bytes + relayed_bytes < bytes as u64 {
            tokio::task::yield_now().await;
        }
        self.splice.disarm()?;
        Ok(begun.elapsed())
    }
}

/// Relays until one end closes.
async fn relay(
    far: &mut TcpStream,
    near: &mut TcpStream,
    relayed_bytes: &mut u64,
) -> std::io::Result<()> {
    let mut room = vec![0; 64 << 10];
    loop {
        let count = far.read(&mut room).await?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        near.write_all(&room[..count]).await?;
        *relayed_bytes += count as u64;
    }
}

/// The server says a body, and the client acknowledges the last of it at once.
async fn say(server: &mut TcpStream, client: &mut TcpStream, bytes: usize) -> std::io::Result<()> {
    let body = vec![7; bytes];
    let mut room = vec![0; bytes];
    let (said, heard) = tokio::join!(server.write_all(&body), client.read_exact(&mut room));
    said?;
    heard?;
    rustix::net::sockopt::set_tcp_quickack(&*client, true)?;
    Ok(())
}
