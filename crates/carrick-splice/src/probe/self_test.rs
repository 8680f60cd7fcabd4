//! The self-test: a real splice over loopback with a slow receiver, a half-close and a response. The engine
//! is offered only if everything arrives.

use crate::{
    Choice, Counters, ExchangeEnd, ExchangeOrder, Pacing, PoolLimits, SocketService, Splicer,
    Unavailable,
};
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// More than the receiver's buffers hold, so that bytes queue up and the process has to help.
const QUESTION_BYTES: usize = 1 << 20;
const ANSWER_BYTES: usize = 100_000;
/// The receiver's buffer.
const SMALL_BUFFER_BYTES: usize = 64 << 10;
/// How long the receiver waits before it reads. On a busy machine the first time may be too short for the kernel to get
/// the connections before the bytes arrive.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
];
/// The time limit: loopback answers at once, unless the machine is very busy or the engine is broken.
const PATIENCE: Duration = Duration::from_secs(10);

impl SocketService {
    /// Loads the engine if it works here: the kernel has no known losses, the privileges suffice (`CAP_BPF`,
    /// `CAP_NET_ADMIN` and `CAP_PERFMON`), and a splice over loopback with a slow receiver and a half-close
    /// arrives whole. At most `splices_max` splices are in the kernel at a time
    /// ([`SPLICES_MAX`](crate::SPLICES_MAX) is a good number); the process relays further ones. With
    /// `pacing`, the kernel paces splices, too. Takes some tens of milliseconds; blocks. Does nothing if it
    /// is loaded already.
    ///
    /// # Errors
    /// Why not.
    pub fn load(&self, splices_max: u32, pacing: Option<&Pacing>) -> Result<(), Unavailable> {
        self.load_tried(splices_max, pacing, run)
    }
}

/// The engine on this machine, for `carrick doctor` and the like.
pub(super) fn probe() -> io::Result<String> {
    let service = SocketService::default();
    service.load(1, None).map_err(io::Error::other)?;
    Ok("the kernel hands bytes on (BPF sk_skb); its self-test passed".into())
}

/// Runs it. Blocks.
fn run(service: &SocketService) -> io::Result<()> {
    for pause in PAUSES {
        if run_once(service, pause)? {
            return Ok(());
        }
    }
    Err(io::Error::other("the kernel handed nothing on"))
}

/// Whether the kernel forwarded anything. All received bytes were correct.
fn run_once(service: &SocketService, pause: Duration) -> io::Result<bool> {
    let (client, near) = connection(None)?;
    let (server, far) = connection(Some(SMALL_BUFFER_BYTES))?;
    let service = service.clone();
    // The caller may be inside a runtime of its own.
    let relay = thread::Builder::new().spawn(move || relay(&service, near, far))?;
    let asking = thread::Builder::new().spawn(move || ask(client, pause))?;
    answer(server, pause)?;
    let gone = |_| io::Error::other("a thread panicked");
    asking.join().map_err(gone)??;
    relay.join().map_err(gone)?
}

fn relay(service: &SocketService, near: TcpStream, far: TcpStream) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let counters = Arc::new(Counters::default());
        let splicer = Splicer::with_socket(
            PoolLimits::default(),
            Arc::clone(&counters),
            service.clone(),
        );
        for stream in [&near, &far] {
            stream.set_nonblocking(true)?;
        }
        let (near, far) = (
            tokio::net::TcpStream::from_std(near)?,
            tokio::net::TcpStream::from_std(far)?,
        );
        let order = ExchangeOrder {
            choice: Choice::Socket,
            idle: PATIENCE,
            ..ExchangeOrder::default()
        };
        let mut exchange = splicer.exchange(&near, &far, order);
        let end = exchange.run().await;
        let counts = (exchange.a_to_b_bytes(), exchange.b_to_a_bytes());
        drop(exchange);
        match end {
            ExchangeEnd::Closed if counts == (QUESTION_BYTES as u64, ANSWER_BYTES as u64) => {}
            ExchangeEnd::Closed => return Err(io::Error::other(format!("it counted {counts:?}"))),
            ExchangeEnd::Idle | ExchangeEnd::Stalled => {
                return Err(io::Error::other("bytes stood still"));
            }
            ExchangeEnd::Fault { fault, .. } => return Err(io::Error::other(fault)),
        }
        Ok(counters.socket_bytes.get() > 0)
    })
}

/// Sends the request and closes; then expects the response.
fn ask(mut client: TcpStream, pause: Duration) -> io::Result<()> {
    client.write_all(b"hello")?;
    // The first bytes go alone: both connections are in the kernel when the rest arrives.
    thread::sleep(pause / 4);
    client.write_all(&sample(QUESTION_BYTES)[5..])?;
    client.shutdown(std::net::Shutdown::Write)?;
    read_to_end(&mut client, ANSWER_BYTES)
}

fn answer(mut server: TcpStream, pause: Duration) -> io::Result<()> {
    thread::sleep(pause);
    read_to_end(&mut server, QUESTION_BYTES)?;
    server.write_all(&sample(ANSWER_BYTES))
}

fn read_to_end(stream: &mut TcpStream, bytes: usize) -> io::Result<()> {
    let mut arrived = Vec::new();
    stream.read_to_end(&mut arrived)?;
    if arrived == sample(bytes) {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "{} bytes arrived of {bytes}, or other ones",
            arrived.len()
        )))
    }
}

/// Bytes in which missing, duplicated and misplaced ones show: they repeat after 65,521, a prime.
fn sample(bytes: usize) -> Vec<u8> {
    let pattern: Vec<u8> = (0..65_521_u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut sample = pattern.repeat(bytes.div_ceil(pattern.len()));
    sample.truncate(bytes);
    sample[..5].copy_from_slice(b"hello");
    sample
}

/// Both ends of a TCP connection on loopback: the connecting one and the accepted one.
fn connection(buffer_bytes: Option<usize>) -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    if let Some(bytes) = buffer_bytes {
        near.set_recv_buffer_size(bytes)?;
    }
    near.connect_timeout(&listener.local_addr()?.into(), PATIENCE)?;
    let near = TcpStream::from(near);
    // Another process may have connected to the port; only the connection made here counts.
    let far = loop {
        let (far, address) = listener.accept()?;
        if address == near.local_addr()? {
            break far;
        }
    };
    if let Some(bytes) = buffer_bytes {
        SockRef::from(&far).set_send_buffer_size(bytes)?;
    }
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
    }
    Ok((near, far))
}
