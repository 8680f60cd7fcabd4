//! The origin as a whole: listeners, threads, and their end.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::content;
use crate::origin::quota::RequestsPerConnection;

use super::connection;
use super::counters::{Counters, Summary};
use super::quota::{self, Quota};

/// Most threads.
pub const THREADS_MAX: usize = 256;
/// Pause after a failed accept: descriptors do not come back by asking at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// How an origin is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen; port 0 is any that is free.
    pub listen: Vec<SocketAddr>,
    /// How many threads, each with a listening socket of its own for each address.
    pub threads: usize,
    /// For random choices: requests per connection. Bodies do not depend on it.
    pub seed: u64,
    /// How many requests a connection carries before it is closed.
    pub requests_per_connection: RequestsPerConnection,
    /// Connections that wait to be accepted, for each listening socket; the kernel's limit is `net.core.somaxconn`.
    pub backlog: u16,
}

impl Settings {
    /// One thread, everything unlimited.
    #[must_use]
    pub fn new(listen: Vec<SocketAddr>) -> Self {
        Self {
            listen,
            threads: 1,
            seed: 0,
            requests_per_connection: RequestsPerConnection::Unlimited,
            backlog: 4096,
        }
    }
}

/// An origin that listens. It ends when it is dropped.
pub struct Running {
    addresses: Vec<SocketAddr>,
    started: Instant,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    counters: Vec<Arc<Counters>>,
}

impl Running {
    /// Starts an origin. When this returns, it listens.
    ///
    /// # Errors
    /// When a setting is out of its limits, an address cannot be listened on, or a thread cannot be started.
    pub fn start(settings: &Settings) -> Result<Self> {
        ensure!(
            !settings.listen.is_empty(),
            "there is no address to listen on"
        );
        ensure!(
            (1..=THREADS_MAX).contains(&settings.threads),
            "1 to {THREADS_MAX} threads, not {}",
            settings.threads
        );
        quota::check(&settings.requests_per_connection)?;
        // Made now, so that the first request does not wait for it.
        let _ = content::Body::of_seed(0).piece(0, 1);
        let mut addresses = Vec::new();
        let mut sockets: Vec<Vec<StdListener>> =
            (0..settings.threads).map(|_| Vec::new()).collect();
        for &address in &settings.listen {
            let (address, listeners) = listen(address, settings)?;
            addresses.push(address);
            for (mine, listener) in sockets.iter_mut().zip(listeners) {
                mine.push(listener);
            }
        }
        let (stop, stopped) = watch::channel(false);
        let mut running = Self {
            addresses,
            started: Instant::now(),
            stop,
            threads: Vec::new(),
            counters: Vec::new(),
        };
        for (index, listeners) in sockets.into_iter().enumerate() {
            let counters = Arc::new(Counters::default());
            let worker = Worker::new(index, settings, listeners, Arc::clone(&counters))?;
            let mut stopped = stopped.clone();
            let thread = std::thread::Builder::new()
                .name(format!("origin-{index}"))
                .spawn(move || {
                    // An error means that the sender is gone, which is a stop as well. With the runtime go all tasks, and
                    // with them their connections.
                    let _ = worker
                        .runtime
                        .block_on(stopped.wait_for(|&is_stopped| is_stopped));
                })
                .context("cannot start a thread")?;
            running.threads.push(thread);
            running.counters.push(counters);
        }
        Ok(running)
    }

    /// Where it listens, in the order of the settings, with the ports that the kernel chose.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What was done so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut summary = Summary {
            seconds: self.started.elapsed().as_secs_f64(),
            ..Summary::default()
        };
        for counters in &self.counters {
            summary.add(counters);
        }
        summary
    }

    /// Closes all connections and ends; what was done.
    ///
    /// # Errors
    /// When a thread had panicked.
    pub fn stop(mut self) -> Result<Summary> {
        self.join()?;
        Ok(self.summary())
    }

    fn join(&mut self) -> Result<()> {
        // Fails when all threads have ended already.
        let _ = self.stop.send(true);
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread
                .join()
                .map_err(|_| anyhow!("a thread of the origin panicked"));
            result = result.and(ended);
        }
        result
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // `stop` reports failures; a drop ignores them.
        let _ = self.join();
    }
}

/// Listens on an address, once for each thread; the address with its port.
fn listen(address: SocketAddr, settings: &Settings) -> Result<(SocketAddr, Vec<StdListener>)> {
    let is_shared = settings.threads > 1;
    // SO_REUSEPORT would let two origins of one user share an address without a word: so the address is tried alone first.
    let trial = bind(address, false)?;
    let address = trial
        .local_addr()
        .ok()
        .and_then(|bound| bound.as_socket())
        .with_context(|| format!("cannot find the port of {address}"))?;
    let sockets = if is_shared {
        drop(trial);
        (0..settings.threads)
            .map(|_| bind(address, true))
            .collect::<Result<Vec<_>>>()?
    } else {
        vec![trial]
    };
    for socket in &sockets {
        socket
            .listen(i32::from(settings.backlog))
            .with_context(|| format!("listen on {address}"))?;
    }
    Ok((address, sockets.into_iter().map(Into::into).collect()))
}

fn bind(address: SocketAddr, is_shared: bool) -> Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )
    .with_context(|| format!("cannot create a socket for {address}"))?;
    let set = || -> std::io::Result<()> {
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(is_shared)?;
        // Accepted sockets inherit it: a message of the handshake must not wait for the acknowledgement of the last one.
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)
    };
    set().with_context(|| format!("cannot set the options of the socket for {address}"))?;
    socket.bind(&address.into()).with_context(|| {
        format!("cannot listen on {address}: the address must be this machine's, and its port free")
    })?;
    Ok(socket)
}

/// What a thread runs.
struct Worker {
    runtime: Runtime,
}

impl Worker {
    /// Everything that can fail, so that it fails before the origin says that it is ready.
    fn new(
        index: usize,
        settings: &Settings,
        listeners: Vec<StdListener>,
        counters: Arc<Counters>,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?;
        let context = runtime.enter();
        for (number, listener) in listeners.into_iter().enumerate() {
            let listener = TcpListener::from_std(listener).context("cannot watch a listener")?;
            let own = (index as u64) << 32 | number as u64;
            let quota = Quota::new(
                settings.requests_per_connection,
                content::mix(settings.seed) ^ own,
            );
            runtime.spawn(accept(listener, quota, Arc::clone(&counters)));
        }
        drop(context);
        Ok(Self { runtime })
    }
}

async fn accept(listener: TcpListener, mut quota: Quota, counters: Arc<Counters>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                counters.connections.add(1);
                let (quota, counters) = (quota.draw(), Arc::clone(&counters));
                tokio::spawn(async move { connection::serve(stream, quota, &counters).await });
            }
            Err(_) => {
                counters.accept_failures.add(1);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
