//! What many connections in the packet engine's maps cost: the kernel's memory for each, and the speed of a few tunnels beside them.
//! As root, in network namespaces of its own:
//!
//!     cargo run --release -p carrick-splice --example many_flows [FLOWS [TUNNELS [ROUNDS [MILLISECONDS]]]]
//!
//! Few tunnels have messages go back and forth, without and with splices of nobody in the same maps, in turns. A tunnel has two flows.

use carrick_splice::measuring::{Counting, MapMemory, ProgramRuns};
use carrick_splice::{
    Choice, Counters, ExchangeOrder, PacketService, PoolLimits, SocketService, Splicer,
};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bed::{Bed, Host, PROXY, SERVER};

mod bed;

type Outcome<T> = Result<T, Box<dyn Error>>;

const MESSAGE_BYTES: usize = 1024;
/// Both connections are seen and at rest by then: so many bytes there and back, and a pause.
const GREETINGS: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);
/// Of what was said, the kernel must have forwarded so much.
const FORWARDED_SHARE_MIN: f64 = 0.9;

/// What was found.
pub struct Report {
    /// The kernel's memory for all maps, with so many flows in them, divided by these.
    pub bytes_per_flow: f64,
    /// Of that, what was not there before they were.
    pub added_bytes_per_flow: f64,
    /// Without and with the crowd.
    pub rounds: Vec<[Round; 2]>,
}

/// One run.
#[derive(Clone, Copy)]
pub struct Round {
    /// Messages that went there and back, per second.
    pub trips_per_second: f64,
    /// Nanoseconds of each program for each of its runs: at the interfaces, in and out.
    pub program_ns: [f64; 2],
}

#[tokio::main(flavor = "local")]
async fn main() -> Outcome<()> {
    run(&std::env::args().skip(1).collect::<Vec<_>>())
        .await
        .map(drop)
}

/// Measures, and prints.
#[expect(clippy::print_stdout, reason = "it is what it is for")]
pub async fn run(words: &[String]) -> Outcome<Report> {
    let number = |at: usize, usual: u32| words.get(at).map_or(Ok(usual), |word| word.parse());
    let (flows, tunnels, rounds) = (number(0, 200_000)?, number(1, 8)?, number(2, 5)?);
    let time = Duration::from_millis(number(3, 1000)?.into());
    let splices = flows / 2;
    let service = PacketService::for_measuring();
    let bed = Bed::with_engine(&service, splices.saturating_add(tunnels))?;
    let empty = service.map_memory()?;
    let dummies = service.dummy_splices(splices)?;
    let full = service.map_memory()?;
    drop(dummies);
    println!(
        "map                 bytes empty   with {flows} flows   more per flow   altogether per flow"
    );
    let all = |maps: &[MapMemory]| -> u64 { maps.iter().map(|map| map.bytes).sum() };
    let rows = empty.iter().zip(&full);
    let rows = rows.map(|(empty, full)| (empty.name.as_str(), empty.bytes, full.bytes));
    for (name, before, after) in rows.chain([("all", all(&empty), all(&full))]) {
        println!(
            "{name:<18} {before:>12} {after:>19} {:>15.1} {:>21.1}",
            (after as f64 - before as f64) / f64::from(flows),
            after as f64 / f64::from(flows),
        );
    }
    let beside = Beside::open(&bed, &service, tunnels).await?;
    println!("round  flows of nobody  trips/s   arriving ns  leaving ns");
    let mut report = Report {
        bytes_per_flow: all(&full) as f64 / f64::from(flows),
        added_bytes_per_flow: (all(&full) as f64 - all(&empty) as f64) / f64::from(flows),
        rounds: Vec::new(),
    };
    for round in 1..=rounds {
        let mut pair = Vec::new();
        for dummies in [0, splices] {
            let _dummies = service.dummy_splices(dummies)?;
            let measured = beside.measure(&service, time).await?;
            println!(
                "{round:5} {:16} {:8.0} {:13.0} {:11.0}",
                2 * dummies,
                measured.trips_per_second,
                measured.program_ns[0],
                measured.program_ns[1]
            );
            pair.push(measured);
        }
        report.rounds.extend(<[Round; 2]>::try_from(pair));
    }
    let median = |of: fn(&Round) -> f64| {
        let mut ratios: Vec<f64> = report.rounds.iter().map(|[a, b]| of(b) / of(a)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
    };
    println!(
        "with : without, median of the rounds: trips/s {:.3}, arriving {:.3}, leaving {:.3}",
        median(|round| round.trips_per_second),
        median(|round| round.program_ns[0]),
        median(|round| round.program_ns[1])
    );
    beside.close().await?;
    Ok(report)
}

/// Tunnels in which messages go back and forth all the time.
struct Beside {
    trips: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    clients: Vec<TcpStream>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

impl Beside {
    async fn open(bed: &Bed, service: &PacketService, tunnels: u32) -> Outcome<Beside> {
        bed.enter(Host::Server)?;
        let servers = TcpListener::bind(SERVER)?;
        bed.enter(Host::Proxy)?;
        let proxies = TcpListener::bind(PROXY)?;
        let splicer = Splicer::with_engines(
            PoolLimits::default(),
            Arc::new(Counters::default()),
            SocketService::default(),
            service.clone(),
        );
        let mut beside = Beside {
            trips: Arc::default(),
            is_over: Arc::default(),
            clients: Vec::new(),
            threads: Vec::new(),
        };
        for _ in 0..tunnels {
            bed.enter(Host::Client)?;
            let client = TcpStream::connect(PROXY)?;
            bed.enter(Host::Proxy)?;
            let (near, far) = (proxies.accept()?.0, TcpStream::connect(SERVER)?);
            let server = servers.accept()?.0;
            for socket in [&client, &near, &far, &server] {
                socket.set_nodelay(true)?;
            }
            let (near, far) = (to_tokio(near)?, to_tokio(far)?);
            let splicer = splicer.clone();
            tokio::task::spawn_local(async move {
                let mut exchange = splicer.exchange(near, far, ExchangeOrder::new(Choice::Packet));
                exchange.run().await
            });
            // It ends with its connection.
            std::thread::spawn(move || echo(server));
            beside.clients.push(client.try_clone()?);
            let (trips, is_over) = (Arc::clone(&beside.trips), Arc::clone(&beside.is_over));
            beside.threads.push(std::thread::spawn(move || {
                let outcome = talk(client, &trips);
                if is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                outcome
            }));
        }
        tokio::time::sleep(3 * PAUSE).await;
        Ok(beside)
    }

    async fn measure(&self, service: &PacketService, time: Duration) -> Outcome<Round> {
        let forwarded = || -> u64 { service.live().iter().map(|(_, [a, b])| a + b).sum() };
        let counting = Counting::start()?;
        let runs = service.program_runs()?;
        // What was forwarded is looked at before and after all that is said.
        let bytes = forwarded();
        let (trips, begun) = (self.trips.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(time).await;
        let trips = self.trips.load(Ordering::Relaxed) - trips;
        let seconds = begun.elapsed().as_secs_f64();
        let by_kernel = (forwarded() - bytes) as f64;
        let runs_after = service.program_runs()?;
        drop(counting);
        let said = (2 * MESSAGE_BYTES) as f64 * trips as f64;
        if trips == 0 || by_kernel < said * FORWARDED_SHARE_MIN {
            return Err(format!(
                "of {said} bytes, {by_kernel} were forwarded: these are no tunnels in the kernel"
            )
            .into());
        }
        Ok(Round {
            trips_per_second: trips as f64 / seconds,
            program_ns: ["carrick_arrivin", "carrick_leaving"]
                .map(|name| run_ns(name, &runs, &runs_after)),
        })
    }

    async fn close(self) -> Outcome<()> {
        self.is_over.store(true, Ordering::Relaxed);
        for client in &self.clients {
            // Fails only if it is closed already.
            let _ = client.shutdown(Shutdown::Both);
        }
        for thread in self.threads {
            while !thread.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            thread.join().map_err(|_| "a client panicked")??;
        }
        Ok(())
    }
}

/// Nanoseconds for each run of this program in between. The kernel cuts names to 15 bytes.
fn run_ns(name: &str, before: &[ProgramRuns], after: &[ProgramRuns]) -> f64 {
    let of = |all: &[ProgramRuns]| {
        let its = all.iter().find(|program| program.name.starts_with(name));
        its.map_or((0, Duration::ZERO), |its| (its.runs, its.time))
    };
    let ((runs, time), (runs_after, time_after)) = (of(before), of(after));
    (time_after - time).as_nanos() as f64 / (runs_after - runs) as f64
}

fn to_tokio(stream: TcpStream) -> std::io::Result<tokio::net::TcpStream> {
    stream.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(stream)
}

fn talk(mut stream: TcpStream, trips: &AtomicU64) -> std::io::Result<()> {
    for _ in 0..GREETINGS {
        stream.write_all(&[1])?;
        stream.read_exact(&mut [0])?;
    }
    std::thread::sleep(PAUSE);
    let mut message = [7; MESSAGE_BYTES];
    loop {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        trips.fetch_add(1, Ordering::Relaxed);
    }
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 2 * MESSAGE_BYTES];
    loop {
        let got = stream.read(&mut buffer)?;
        if got == 0 {
            return Ok(());
        }
        stream.write_all(buffer.get(..got).unwrap_or_default())?;
    }
}
