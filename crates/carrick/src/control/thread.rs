//! The control thread's life: start, reload, end.
use super::acme::Acme;
use super::admin::{self, Admin};
use super::health::HealthChecks;
use super::{ControlState, Running};
use crate::config::plan::Plan;
use crate::resolver::{DnsOptions, Resolver};
use crate::resolver::{Service, resolver};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError, mpsc as blocking};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a reload waits for the control thread, and shutdown for its end.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// How often tunnels of an earlier carrick are checked.
const TEND_EVERY: Duration = Duration::from_secs(5);

/// How often the thread reports to the watchdog.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// Starts the control thread.
#[derive(Debug)]
pub struct Control;

impl Control {
    /// Binds the admin address, if one is configured. A draining carrick releases it.
    ///
    /// # Errors
    /// The address cannot be bound; the message says which one and gives a remedy.
    pub fn bind(plan: &Plan) -> io::Result<Option<TcpListener>> {
        plan.admin.map(admin::bind_or_take_over).transpose()
    }

    /// Whether the carrick that has the admin address is draining.
    #[must_use]
    pub fn has_draining_predecessor(plan: &Plan) -> bool {
        plan.admin.is_some_and(admin::is_draining)
    }

    /// Starts the thread with the result of [`Control::bind`]. Names are resolved as the system is configured.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        state: Arc<ControlState>,
        listener: Option<TcpListener>,
    ) -> io::Result<ControlHandle> {
        let names_max = state.running.load().plan.limits.dns_cache;
        Self::start_with(state, listener, DnsOptions::system(names_max))
    }

    /// Like [`Control::start`], with explicit name servers.
    ///
    /// # Errors
    /// See [`Control::start`].
    pub fn start_with(
        state: Arc<ControlState>,
        listener: Option<TcpListener>,
        dns: DnsOptions,
    ) -> io::Result<ControlHandle> {
        // Set before the thread runs, so that the program can print it.
        state.set_admin_address(listener.as_ref().map(TcpListener::local_addr).transpose()?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (orders, receiver) = mpsc::unbounded_channel();
        let (resolver, questions) = resolver(Arc::clone(&state.metrics));
        let (running, done) = blocking::channel::<()>();
        let of_thread = (Arc::clone(&state), resolver.clone());
        let thread = std::thread::Builder::new()
            .name(String::from("control"))
            .spawn(move || {
                let (state, resolver) = of_thread;
                runtime.block_on(async move {
                    let (dns_changes, changes) = mpsc::unbounded_channel();
                    let service = Service::new(&dns, Arc::clone(&state.metrics));
                    tokio::spawn(service.run(questions, changes));
                    let thread = Thread::new(state, resolver, dns, dns_changes);
                    thread.run(listener, receiver).await;
                });
                drop(running);
            })?;
        Ok(ControlHandle {
            orders,
            resolver,
            state,
            thread,
            done,
        })
    }
}

enum Order {
    /// It is withdrawn if nothing is left of it.
    Apply(
        Arc<Mutex<Option<Running>>>,
        blocking::Sender<io::Result<()>>,
    ),
    Stop,
}

fn taken(order: &Mutex<Option<Running>>) -> Option<Running> {
    let mut order = order.lock().unwrap_or_else(PoisonError::into_inner);
    order.take()
}

fn no_answer(error: blocking::RecvTimeoutError) -> io::Error {
    io::Error::other(match error {
        blocking::RecvTimeoutError::Timeout => "the control thread does not answer",
        blocking::RecvTimeoutError::Disconnected => "the control thread has ended",
    })
}

/// The program's handle to the control thread.
#[derive(Debug)]
pub struct ControlHandle {
    orders: mpsc::UnboundedSender<Order>,
    resolver: Resolver,
    state: Arc<ControlState>,
    thread: JoinHandle<()>,
    done: blocking::Receiver<()>,
}

impl ControlHandle {
    /// Applies a new configuration: admin address, health checks, limit of the DNS cache; rereads `/etc/resolv.conf` and `/etc/hosts`.
    /// Publishes `running` in the state. Blocks for a few milliseconds.
    ///
    /// # Errors
    /// The new admin address cannot be bound; nothing has changed.
    pub fn apply(&self, running: Running) -> io::Result<()> {
        self.apply_within(ANSWER_WAIT, running)
    }

    fn apply_within(&self, limit: Duration, running: Running) -> io::Result<()> {
        let order = Arc::new(Mutex::new(Some(running)));
        let (reply, result) = blocking::channel();
        self.orders
            .send(Order::Apply(Arc::clone(&order), reply))
            .map_err(|_| no_answer(blocking::RecvTimeoutError::Disconnected))?;
        match result.recv_timeout(limit) {
            // The thread has begun, so its answer counts.
            Err(blocking::RecvTimeoutError::Timeout) if taken(&order).is_none() => {
                result.recv_timeout(ANSWER_WAIT).map_err(no_answer)?
            }
            result => result.map_err(no_answer)?,
        }
    }

    /// The resolver; clone it into workers.
    #[must_use]
    pub fn resolver(&self) -> Resolver {
        self.resolver.clone()
    }

    /// The state that the thread shows and updates.
    #[must_use]
    pub fn state(&self) -> &Arc<ControlState> {
        &self.state
    }

    /// Ends the thread: closes admin and aborts look-ups. Waits for at most 5 s.
    pub fn shutdown(self) {
        // Fails if the thread has already ended.
        let _ = self.orders.send(Order::Stop);
        match self.done.recv_timeout(ANSWER_WAIT) {
            Err(blocking::RecvTimeoutError::Timeout) => {
                tracing::error!("the control thread did not end in time; exiting without it")
            }
            Ok(()) | Err(blocking::RecvTimeoutError::Disconnected) => {
                if self.thread.join().is_err() {
                    tracing::error!(
                        "the control thread ended before it was told to; please report it"
                    );
                }
            }
        }
    }
}

struct Thread {
    state: Arc<ControlState>,
    resolver: Resolver,
    dns: DnsOptions,
    dns_changes: mpsc::UnboundedSender<DnsOptions>,
    health: HealthChecks,
    acme: Acme,
    admin: Option<Admin>,
}

impl Thread {
    fn new(
        state: Arc<ControlState>,
        resolver: Resolver,
        dns: DnsOptions,
        dns_changes: mpsc::UnboundedSender<DnsOptions>,
    ) -> Self {
        let running = state.running.load();
        let mark = running.plan.own_mark();
        let packet = &state.kernel.packet;
        let health =
            HealthChecks::start(&running.upstreams, &resolver, mark, &state.metrics, packet);
        let acme = Acme::start(&running, &resolver, &state);
        drop(running);
        Self {
            state,
            resolver,
            dns,
            dns_changes,
            health,
            acme,
            admin: None,
        }
    }

    async fn run(
        mut self,
        listener: Option<TcpListener>,
        mut orders: mpsc::UnboundedReceiver<Order>,
    ) {
        if let Some(listener) = listener
            && let Err(error) = self.serve(listener)
        {
            tracing::error!("admin cannot serve: {error}");
        }
        let mut ticks = tokio::time::interval(TEND_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut shows = tokio::time::interval(SHOW_EVERY);
        shows.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let order = tokio::select! {
                order = orders.recv() => order,
                _ = shows.tick() => {
                    self.state.metrics.liveness.show();
                    continue;
                }
                _ = ticks.tick() => {
                    let idle = self.state.running.load().plan.timeouts.tunnel_idle;
                    self.state.kernel.packet.tend(idle);
                    continue;
                }
            };
            let Some(order) = order else { return };
            match order {
                Order::Apply(order, reply) => {
                    if let Some(running) = taken(&order) {
                        // The caller may have stopped waiting.
                        let _ = reply.send(self.apply(running).await);
                    }
                }
                Order::Stop => return,
            }
        }
    }

    async fn apply(&mut self, running: Running) -> io::Result<()> {
        let before = self.state.running.load().plan.admin;
        if running.plan.admin != before {
            self.move_admin(before, running.plan.admin).await?;
        }
        self.dns.names_max = running.plan.limits.dns_cache;
        // The service lives as long as the runtime.
        let _ = self.dns_changes.send(self.dns.clone());
        let mark = running.plan.own_mark();
        self.health = HealthChecks::start(
            &running.upstreams,
            &self.resolver,
            mark,
            &self.state.metrics,
            &self.state.kernel.packet,
        );
        self.acme.follow(&running, &self.resolver, &self.state);
        self.state.running.store(Arc::new(running));
        Ok(())
    }

    async fn move_admin(
        &mut self,
        from: Option<SocketAddr>,
        to: Option<SocketAddr>,
    ) -> io::Result<()> {
        let Some(to) = to else {
            self.stop_admin().await;
            return Ok(());
        };
        let listener = match admin::bind(to) {
            Ok(listener) => listener,
            // The old socket conflicts, as when changing from 127.0.0.1 to 0.0.0.0 on one port.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && self.is_in_the_way_of(to) => {
                self.stop_admin().await;
                match admin::bind(to) {
                    Ok(listener) => listener,
                    Err(error) => {
                        self.restore_admin(from);
                        return Err(error);
                    }
                }
            }
            Err(error) => return Err(error),
        };
        self.stop_admin().await;
        self.serve(listener)
    }

    fn is_in_the_way_of(&self, to: SocketAddr) -> bool {
        self.admin
            .as_ref()
            .is_some_and(|admin| admin.address().port() == to.port())
    }

    fn restore_admin(&mut self, address: Option<SocketAddr>) {
        let Some(address) = address else { return };
        if let Err(error) = admin::bind(address).and_then(|listener| self.serve(listener)) {
            tracing::error!("admin is off: {error}");
        }
    }

    fn serve(&mut self, listener: TcpListener) -> io::Result<()> {
        self.admin = Some(Admin::start(listener, Arc::clone(&self.state))?);
        Ok(())
    }

    async fn stop_admin(&mut self) {
        if let Some(admin) = self.admin.take() {
            admin.stop().await;
        }
        self.state.set_admin_address(None);
    }
}

#[cfg(test)]
mod tests;
