//! How fast each engine passes small messages back and forth: one connection through a relay, everything on loopback.
//!
//!     cargo run --release -p carrick-splice --example ping_pong [SECONDS]

use carrick_splice::{
    Choice, Counters, ExchangeOrder, PoolLimits, SPLICES_MAX, SocketService, Splicer, tcp,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn main() -> Outcome<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let service = SocketService::default();
    if let Err(because) = service.load(SPLICES_MAX, None) {
        println!("the socket engine is not here, because {because}");
    }
    println!("engine   bytes   round trips/s   median us   99 % us   relay's CPU us/round trip");
    for bytes in [64, 1024, 16 << 10] {
        for choice in [Choice::Copy, Choice::Pipe, Choice::Socket] {
            measure(choice, bytes, Duration::from_secs(seconds), &service)?;
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a row of the table")]
fn measure(choice: Choice, bytes: usize, time: Duration, service: &SocketService) -> Outcome<()> {
    let (mut client, near) = connection()?;
    let (mut server, far) = connection()?;
    let service = service.clone();
    let relay = std::thread::spawn(move || relay(choice, near, far, service));
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let mut buffer = vec![0; bytes];
        while server.read_exact(&mut buffer).is_ok() {
            server.write_all(&buffer)?;
        }
        Ok(())
    });
    let mut buffer = vec![7; bytes];
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        let sent = Instant::now();
        client.write_all(&buffer)?;
        client.read_exact(&mut buffer)?;
        times.push(sent.elapsed());
    }
    let elapsed = begun.elapsed();
    drop(client);
    let _ = echo.join();
    let cpu = relay
        .join()
        .map_err(|_| "the relay panicked")?
        .map_err(|error| error.to_string())?;
    times.sort();
    let count = times.len();
    println!(
        "{:7} {bytes:6} {:15.0} {:11.1} {:9.1} {:27.2}",
        format!("{choice:?}"),
        count as f64 / elapsed.as_secs_f64(),
        times[count / 2].as_secs_f64() * 1e6,
        times[count * 99 / 100].as_secs_f64() * 1e6,
        cpu.as_secs_f64() * 1e6 / count as f64,
    );
    Ok(())
}

/// Relays until both have closed; the CPU time that its thread used.
fn relay(
    choice: Choice,
    near: TcpStream,
    far: TcpStream,
    service: SocketService,
) -> std::io::Result<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let before = cpu_time();
    runtime.block_on(async {
        let streams = [near, far].map(|stream| {
            stream.set_nonblocking(true)?;
            tokio::net::TcpStream::from_std(stream)
        });
        let [near, far] = streams;
        let (near, far) = (near?, far?);
        tcp::set_nodelay(&near)?;
        tcp::set_nodelay(&far)?;
        let splicer = Splicer::with_socket(
            PoolLimits::default(),
            Arc::new(Counters::default()),
            service,
        );
        let order = ExchangeOrder {
            choice,
            ..ExchangeOrder::default()
        };
        splicer.exchange(near, far, order).run().await;
        std::io::Result::Ok(())
    })?;
    Ok(cpu_time() - before)
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn connection() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let far = listener.accept()?.0;
    near.set_nodelay(true)?;
    Ok((near, far))
}
