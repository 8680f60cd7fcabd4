//! What the tests share: a worker with a configuration, its clients, its servers, and what it logs.
use crate::cache::Cache;
use crate::config;
use crate::config::plan::Plan;
use crate::context::client::Client;
use crate::context::followers::Followers;
use crate::context::live::{Live, WorkerLive};
use crate::context::worker::{Connector, Sessions, Telemetry, Worker, WorkerStore};
use crate::engines::Engines;
use crate::http::{http2, session};
use crate::net::transport::testing::{End, Servers, pair};
use crate::net::transport::{Network, Transport};
use crate::resolver::{WorkerResolver, resolver};
use crate::telemetry::access_log::{LogSender, LogThread};
use crate::telemetry::metrics::WorkerMetrics;
use crate::upstream::state::UpstreamState;
use carrick_splice::{Pacer, PoolLimits, Splicer};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A switch with one server.
pub(super) const SWITCH: &str = r#"
[[listener]]
listen = "127.0.0.1:8080"
mode = "switch"
[[listener.route]]
upstream = "u"
[upstream.u]
servers = ["192.0.2.1:80"]
"#;

/// A switch with two servers, of which the first is asked first.
pub(super) const TWO_SERVERS: &str = r#"
[[listener]]
listen = "127.0.0.1:8080"
mode = "switch"
[[listener.route]]
upstream = "u"
[upstream.u]
servers = ["192.0.2.1:80", "192.0.2.2:80"]
"#;

/// A forward proxy.
pub(super) const FORWARD: &str = r#"
[[listener]]
listen = "127.0.0.1:3128"
mode = "forward"
connect_ports = "all"
"#;

/// The servers of [`SWITCH`] and [`TWO_SERVERS`].
pub(super) const FIRST: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    80,
);
pub(super) const SECOND: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)),
    80,
);

/// Every client.
pub(super) const CLIENT: ([u8; 4], u16) = ([198, 51, 100, 7], 4711);

/// Virtual time in which every play and every session is over.
const OVER: Duration = Duration::from_secs(24 * 3600);

/// A request without a body, and an answer of two bytes.
pub(super) const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
pub(super) const OK: &str = "HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 2\r\n\r\nok";

/// A line of the access log.
pub(super) struct Line(serde_json::Value);

impl Line {
    pub(super) fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or("-")
    }

    pub(super) fn number(&self, key: &str) -> u64 {
        self.0[key].as_u64().expect("a number")
    }

    pub(super) fn status(&self) -> u64 {
        self.number("status")
    }

    pub(super) fn is(&self, key: &str) -> bool {
        self.0[key] == true
    }

    /// The status, and how it ended.
    pub(super) fn end(&self) -> (u64, &str) {
        (self.status(), self.text("ended"))
    }
}

/// A worker, and who is around it.
pub(super) struct Stage {
    pub(super) worker: Rc<Worker>,
    pub(super) servers: Servers,
    sessions: RefCell<Vec<JoinHandle<()>>>,
}

/// Acts with this configuration, and ends when all sessions have. What was logged.
pub(super) fn play(configuration: &str, act: impl AsyncFnOnce(&Stage)) -> Vec<Line> {
    let folder = tempfile::tempdir().expect("a folder");
    let log = "[log]\naccess = \"log\"\nformat = \"json\"\n";
    let text = format!("{log}{configuration}");
    let plan = match config::parse(&text, "play.toml", folder.path()) {
        Ok(loaded) => loaded.plan,
        Err(rejected) => panic!("{rejected}"),
    };
    let (thread, sender) = LogThread::start(&plan.log, plan.limits.log_queue).expect("a log");
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build_local(Default::default())
        .expect("a runtime")
        .block_on(async {
            let stage = Stage::new(plan, &sender);
            let acting = tokio::time::timeout(OVER, act(&stage));
            acting.await.expect("the play is over some day");
            for session in stage.sessions.take() {
                let ended = tokio::time::timeout(OVER, session).await;
                ended.expect("it ends some day").expect("no panic");
            }
        });
    thread.stop();
    let written = std::fs::read_to_string(folder.path().join("log")).expect("the log");
    let lines = written.lines().map(serde_json::from_str);
    lines.map(|line| Line(line.expect("JSON"))).collect()
}

impl Stage {
    fn new(plan: Plan, log: &LogSender) -> Self {
        let servers = Servers::default();
        let worker = Rc::new(worker(plan, log, servers.clone()));
        Self {
            worker,
            servers,
            sessions: RefCell::default(),
        }
    }

    /// A client connects to the first listener; its end.
    pub(super) fn client(&self) -> Rc<End> {
        self.client_after(b"")
    }

    /// The same, of which something came before its session begins.
    pub(super) fn client_after(&self, first: &[u8]) -> Rc<End> {
        let first = first.to_vec();
        self.client_of(|client| async move {
            if let Some((client, first, begun)) = session::run(client, first).await {
                http2::serve(client, first, begun).await;
            }
        })
    }

    /// The same, served in this way.
    pub(super) fn client_of<F>(&self, serve: impl FnOnce(Client) -> F) -> Rc<End>
    where
        F: Future<Output = ()> + 'static,
    {
        let live = self.worker.live();
        let listener = Arc::clone(&live.plan().listeners[0]);
        let [near, far] = pair([CLIENT.into(), listener.address]);
        let transport = (Transport::Memory(far), SocketAddr::from(CLIENT));
        let client = Client::new(Rc::clone(&self.worker), live, listener, transport);
        let session = tokio::task::spawn_local(serve(client));
        self.sessions.borrow_mut().push(session);
        near
    }

    /// A client asks the first server, which hears the request up to `end`: the server, the client's end, and the server's.
    pub(super) async fn asked(
        &self,
        request: impl AsRef<[u8]>,
        end: &str,
    ) -> (Server, Rc<End>, Rc<End>) {
        let mut server = self.server(FIRST);
        let client = self.client();
        client.say(request).await;
        let connection = server.accept().await;
        connection.hear(end).await;
        (server, client, connection)
    }

    /// A server of the upstream begins to listen.
    pub(super) fn server(&self, address: SocketAddr) -> Server {
        Server(self.servers.listen(address))
    }
}

/// A server that listens.
pub(super) struct Server(mpsc::UnboundedReceiver<Rc<End>>);

impl Server {
    pub(super) async fn accept(&mut self) -> Rc<End> {
        self.0.recv().await.expect("somebody connects")
    }

    /// Nobody has connected whom it has not accepted.
    pub(super) fn is_alone(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

/// One client says everything that it has to say, and ends its side; one server answers one request. What the server got, which ends with
/// `end`, and all that the client got, and whether it was reset.
pub(super) async fn ask_once(
    stage: &Stage,
    (request, end): (&str, &str),
    response: &str,
) -> (String, (String, bool)) {
    let mut server = stage.server(FIRST);
    let client = stage.client();
    client.say(request).await;
    client.end().expect("the client's side can end");
    let connection = server.accept().await;
    let heard = connection.hear(end).await;
    connection.say(response).await;
    connection.end().expect("the server's side can end");
    (heard, client.hear_all().await)
}

/// A response with a length, to its last byte.
pub(super) async fn hear_reply(client: &End) -> String {
    let mut answer = client.hear("\r\n\r\n").await;
    let length = answer.split("Content-Length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next());
    let length: usize = length.expect("a length").parse().expect("a number");
    let whole = answer.len() + length;
    while answer.len() < whole {
        answer += &client.hear_some(whole - answer.len()).await;
    }
    answer
}

/// Waits until nobody has anything to do: virtual time passes only then.
pub(super) async fn all_at_rest() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Lets most of the idle time-out pass, which is virtual time.
pub(super) async fn idle_nearly() {
    tokio::time::sleep(Duration::from_secs(45)).await;
}

/// Reads a message that ends with `!`: a little of it at a time for longer than the idle time-out, each time before that is over.
pub(super) async fn hear_slowly(client: &End) {
    client.hear("\r\n\r\n").await;
    for _ in 0..10 {
        idle_nearly().await;
        client.hear_some(1000).await;
    }
    client.hear("!").await;
}

/// Runs `act`, and says how many seconds of virtual time have gone by.
pub(super) async fn timed<T>(act: impl Future<Output = T>) -> (T, f64) {
    let begun = Instant::now();
    let done = act.await;
    (done, begun.elapsed().as_secs_f64())
}

fn worker(plan: Plan, log: &LogSender, servers: Servers) -> Worker {
    let engines = Engines::new().expect("room for classes");
    engines.pace(&plan.pace).expect("valid classes");
    let metrics = Arc::<WorkerMetrics>::default();
    let pacer = Pacer::new(engines.pacing, 0);
    let splicer = Splicer::with_engines(
        PoolLimits::default(),
        Arc::clone(&metrics.splice),
        engines.socket,
        engines.packet,
    );
    splicer.set_pacer(pacer.clone());
    let (resolver, _) = resolver(Arc::default());
    let cache = (plan.cache.as_ref()).map(|plan| Arc::new(Cache::new(plan, None)));
    let upstreams = UpstreamState::for_plan(&plan.upstreams, &[]);
    let admission = Arc::<crate::net::admission::Admission>::default();
    admission.set_limits(100, 0, 100);
    let live = Live {
        generation: 0,
        plan: Arc::new(plan),
        upstreams,
        route_tables: Default::default(),
        followers: Followers::new(1),
    };
    Worker {
        number: 0,
        splicer,
        ktls: engines.ktls,
        pacer,
        connector: Connector {
            network: Network::Memory(servers),
            resolver: WorkerResolver::new(resolver, 10, Arc::clone(&metrics)),
            admission,
            tcp_tuning: engines.tcp_tuning,
            origins: Default::default(),
            deferred_syns: engines.deferred_syns,
            tracking: Default::default(),
            metrics: Arc::clone(&metrics),
            live: RefCell::new(Rc::new(WorkerLive::new(Arc::new(live), 0, None))),
        },
        store: WorkerStore {
            cache,
            ..WorkerStore::default()
        },
        telemetry: Telemetry {
            log: log.worker(Arc::clone(&metrics)),
            metrics,
            forwarded: engines.forwarded,
            path_history: engines.path_history,
            acknowledgements: Rc::default(),
        },
        sessions: Sessions::default(),
        tunnels: Rc::default(),
        scratch: Rc::default(),
        clock: Default::default(),
    }
}
