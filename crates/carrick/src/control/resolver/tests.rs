//! Resolution against a name server of our own on loopback, which answers as each test wants it.
use super::name_servers::{Found, KEEP_FAILURE, KEEP_MAX, KEEP_MIN, KEEP_NEGATIVE, NameServers};
use super::*;
use crate::control::LookupResult;
use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::{CNAME, SOA};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

/// What the name server does with a question.
#[derive(Debug, Clone)]
enum Reply {
    Addresses(u32, Vec<&'static str>),
    Alias(u32, &'static str, &'static str),
    NoSuchName(u32),
    Nothing(u32),
    Fails,
    Refuses,
    Silent,
    Late(Duration, &'static str),
    /// Truncated by UDP, whole by TCP.
    TooLong(Vec<&'static str>),
}

type Behaviour = fn(&str, RecordType) -> Reply;

/// A UDP and a TCP socket on the same port. A port that is free for one may be in use for the other, also by a connection in
/// TIME_WAIT: then another is tried.
async fn bind_both() -> (Arc<UdpSocket>, TcpListener, SocketAddr) {
    for _ in 0..100 {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        if let Ok(listener) = TcpListener::bind(address).await {
            return (Arc::new(socket), listener, address);
        }
    }
    panic!("no port is free for both UDP and TCP");
}

/// A name server, and the questions that it was asked.
struct NameServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, RecordType)>>>,
}

impl NameServer {
    async fn start(behaviour: Behaviour) -> Self {
        let (socket, listener, address) = bind_both().await;
        let asked: Arc<Mutex<Vec<(String, RecordType)>>> = Arc::default();
        let questions = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut bytes = [0; 4096];
            loop {
                let (read, client) = socket.recv_from(&mut bytes).await.unwrap();
                let question = Message::from_vec(&bytes[..read]).unwrap();
                let (name, kind) = asked_for(&question);
                questions.lock().unwrap().push((name.clone(), kind));
                let reply = behaviour(&name, kind);
                let socket = Arc::clone(&socket);
                tokio::spawn(async move {
                    if let Reply::Late(delay, _) = &reply {
                        tokio::time::sleep(*delay).await;
                    }
                    if let Some(answer) = answer(&question, &reply, false) {
                        socket.send_to(&answer, client).await.unwrap();
                    }
                });
            }
        });
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                while let Ok(length) = stream.read_u16().await {
                    let mut bytes = vec![0; usize::from(length)];
                    stream.read_exact(&mut bytes).await.unwrap();
                    let question = Message::from_vec(&bytes).unwrap();
                    let (name, kind) = asked_for(&question);
                    let answer = answer(&question, &behaviour(&name, kind), true).unwrap();
                    stream
                        .write_u16(u16::try_from(answer.len()).unwrap())
                        .await
                        .unwrap();
                    stream.write_all(&answer).await.unwrap();
                }
            }
        });
        Self { address, asked }
    }

    fn options(&self) -> DnsOptions {
        DnsOptions {
            servers: vec![self.address],
            hosts: false,
            timeout: Duration::from_millis(1500),
            names_max: 100,
        }
    }

    fn asked(&self) -> Vec<(String, RecordType)> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked
    }

    async fn look_up(&self, name: &str) -> Found {
        NameServers::new(&self.options())
            .unwrap()
            .look_up(name)
            .await
    }

    /// A resolver with a service that runs in this runtime.
    fn resolver(&self) -> (Resolver, Arc<ControlMetrics>) {
        let metrics: Arc<ControlMetrics> = Arc::default();
        let (resolver, questions) = resolver(Arc::clone(&metrics));
        let (changes, receiver) = mpsc::unbounded_channel();
        let service = Service::new(&self.options(), Arc::clone(&metrics));
        tokio::spawn(async move {
            let _changes = changes;
            service.run(questions, receiver).await;
        });
        (resolver, metrics)
    }
}

fn asked_for(question: &Message) -> (String, RecordType) {
    let query = &question.queries[0];
    (query.name().to_ascii().to_lowercase(), query.query_type())
}

fn record(name: &Name, ttl: u32, address: &str) -> Record {
    Record::from_rdata(
        name.clone(),
        ttl,
        RData::from(address.parse::<IpAddr>().unwrap()),
    )
}

fn answer(question: &Message, reply: &Reply, by_tcp: bool) -> Option<Vec<u8>> {
    let query = question.queries[0].clone();
    let name = query.name().clone();
    let mut message = Message::query();
    message.metadata = question.metadata;
    message.metadata.message_type = MessageType::Response;
    message.metadata.recursion_available = true;
    message.add_query(query);
    let negative = |ttl| {
        let soa = SOA::new(Name::root(), Name::root(), 1, 1, 1, 1, ttl);
        vec![Record::from_rdata(Name::root(), ttl, RData::SOA(soa))]
    };
    match reply {
        Reply::Addresses(ttl, addresses) => {
            message.insert_answers(
                addresses
                    .iter()
                    .map(|address| record(&name, *ttl, address))
                    .collect(),
            );
        }
        Reply::Alias(ttl, target, address) => {
            let target = Name::from_ascii(target).unwrap();
            let alias = Record::from_rdata(name, *ttl, RData::CNAME(CNAME(target.clone())));
            message.insert_answers(vec![alias, record(&target, 300, address)]);
        }
        Reply::NoSuchName(ttl) => {
            message.metadata.response_code = ResponseCode::NXDomain;
            message.insert_authorities(negative(*ttl));
        }
        Reply::Nothing(ttl) => {
            message.insert_authorities(negative(*ttl));
        }
        Reply::Fails => message.metadata.response_code = ResponseCode::ServFail,
        Reply::Refuses => message.metadata.response_code = ResponseCode::Refused,
        Reply::Silent => return None,
        Reply::Late(_, address) => {
            message.insert_answers(vec![record(&name, 300, address)]);
        }
        Reply::TooLong(_) if !by_tcp => message.metadata.truncation = true,
        Reply::TooLong(addresses) => {
            message.insert_answers(
                addresses
                    .iter()
                    .map(|address| record(&name, 300, address))
                    .collect(),
            );
        }
    }
    Some(message.to_vec().unwrap())
}

fn both(_: &str, kind: RecordType) -> Reply {
    Reply::Addresses(
        300,
        if kind == RecordType::A {
            vec!["192.0.2.1", "192.0.2.2"]
        } else {
            vec!["2001:db8::1"]
        },
    )
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn sorted(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let mut addresses = addresses.to_vec();
    addresses.sort();
    addresses
}

#[tokio::test]
async fn both_families_are_asked_for_and_joined() {
    let server = NameServer::start(both).await;
    let found = server.look_up("www.example.org").await;
    assert_eq!(
        sorted(&found.addresses.unwrap()),
        addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"])
    );
    // Absolute: no domain of this machine was tried.
    let asked = [
        ("www.example.org.".into(), RecordType::A),
        ("www.example.org.".into(), RecordType::AAAA),
    ];
    assert_eq!(server.asked(), asked);
    assert!(
        found.keep > Duration::from_secs(290) && found.keep <= Duration::from_secs(300),
        "{:?}",
        found.keep
    );
}

#[tokio::test]
async fn one_family_is_enough() {
    let server = NameServer::start(|_, kind| match kind {
        RecordType::A => Reply::Addresses(60, vec!["192.0.2.1"]),
        _ => Reply::Nothing(60),
    });
    let found = server.await.look_up("www.example.org").await;
    assert_eq!(&*found.addresses.unwrap(), addresses(&["192.0.2.1"]));
    assert!(found.keep > Duration::from_secs(50));
}

#[tokio::test]
async fn a_family_that_does_not_answer_holds_nobody_up() {
    let table: [(Behaviour, &str); 3] = [
        (
            |_, kind| {
                if kind == RecordType::A {
                    Reply::Addresses(300, vec!["192.0.2.1"])
                } else {
                    Reply::Silent
                }
            },
            "192.0.2.1",
        ),
        (
            |_, kind| {
                if kind == RecordType::AAAA {
                    Reply::Addresses(300, vec!["2001:db8::1"])
                } else {
                    Reply::Silent
                }
            },
            "2001:db8::1",
        ),
        (
            |_, kind| {
                if kind == RecordType::A {
                    Reply::Addresses(300, vec!["192.0.2.1"])
                } else {
                    Reply::Fails
                }
            },
            "192.0.2.1",
        ),
    ];
    for (behaviour, address) in table {
        let server = NameServer::start(behaviour).await;
        let begun = Instant::now();
        let found = server.look_up("www.example.org").await;
        assert!(
            begun.elapsed() < Duration::from_millis(900),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(&*found.addresses.unwrap(), addresses(&[address]));
        // The other family is asked for again soon.
        assert_eq!(found.keep, Duration::from_secs(10));
    }
}

#[tokio::test]
async fn a_family_that_is_a_little_late_is_waited_for() {
    let server = NameServer::start(|_, kind| match kind {
        RecordType::A => Reply::Addresses(300, vec!["192.0.2.1"]),
        _ => Reply::Late(Duration::from_millis(50), "2001:db8::1"),
    });
    let found = server.await.look_up("www.example.org").await;
    assert_eq!(found.addresses.unwrap().len(), 2);
}

#[tokio::test]
async fn how_long_answers_are_kept() {
    let table: [(Behaviour, Duration); 8] = [
        (|_, _| Reply::Addresses(0, vec!["192.0.2.1"]), KEEP_MIN),
        (|_, _| Reply::Addresses(86400, vec!["192.0.2.1"]), KEEP_MAX),
        (|_, _| Reply::NoSuchName(0), KEEP_NEGATIVE.0),
        (|_, _| Reply::NoSuchName(20), Duration::from_secs(20)),
        (|_, _| Reply::NoSuchName(86400), KEEP_NEGATIVE.1),
        (|_, _| Reply::Nothing(86400), KEEP_NEGATIVE.1),
        (|_, _| Reply::Fails, KEEP_FAILURE),
        (|_, _| Reply::Silent, KEEP_FAILURE),
    ];
    for (index, (behaviour, keep)) in table.into_iter().enumerate() {
        let found = NameServer::start(behaviour)
            .await
            .look_up("www.example.org")
            .await;
        assert_eq!(found.keep, keep, "row {index}: {:?}", found.addresses);
    }
}

#[tokio::test]
async fn an_alias_is_followed_and_its_ttl_counts() {
    let server = NameServer::start(|_, kind| match kind {
        RecordType::A => Reply::Alias(7, "real.example.org.", "192.0.2.9"),
        _ => Reply::Nothing(60),
    });
    let found = server.await.look_up("alias.example.org").await;
    assert_eq!(&*found.addresses.unwrap(), addresses(&["192.0.2.9"]));
    assert!(found.keep <= Duration::from_secs(7), "{:?}", found.keep);
}

#[tokio::test]
async fn truncated_answers_are_fetched_by_tcp() {
    let server = NameServer::start(|_, kind| match kind {
        RecordType::A => Reply::TooLong(vec!["192.0.2.1", "192.0.2.2", "192.0.2.3"]),
        _ => Reply::Nothing(60),
    });
    assert_eq!(
        server
            .await
            .look_up("many.example.org")
            .await
            .addresses
            .unwrap()
            .len(),
        3
    );
}

#[tokio::test]
async fn failures_are_told_apart() {
    let table: [(Behaviour, ResolveError, u16); 6] = [
        (|_, _| Reply::NoSuchName(5), ResolveError::NoSuchName, 502),
        (|_, _| Reply::Nothing(5), ResolveError::NoAddress, 502),
        (|_, _| Reply::Fails, ResolveError::ServerFailure, 502),
        (|_, _| Reply::Refuses, ResolveError::ServerFailure, 502),
        (|_, _| Reply::Silent, ResolveError::Timeout, 504),
        (
            |_, kind| {
                if kind == RecordType::A {
                    Reply::Nothing(5)
                } else {
                    Reply::Fails
                }
            },
            ResolveError::ServerFailure,
            502,
        ),
    ];
    for (behaviour, error, status) in table {
        let server = NameServer::start(behaviour).await;
        let begun = Instant::now();
        assert_eq!(
            server.look_up("www.example.org").await.addresses,
            Err(error)
        );
        assert!(begun.elapsed() < Duration::from_secs(3));
        assert_eq!(error.status(), status);
    }
    let nobody = DnsOptions {
        servers: vec![closed_port().await],
        timeout: Duration::from_millis(600),
        ..DnsOptions::system(10)
    };
    let found = NameServers::new(&nobody)
        .unwrap()
        .look_up("www.example.org")
        .await;
    assert!(
        matches!(
            found.addresses,
            Err(ResolveError::ServerFailure | ResolveError::Timeout)
        ),
        "{found:?}"
    );
}

#[tokio::test]
async fn the_hosts_file_comes_first_and_stands_for_both_families() {
    let server = NameServer::start(both).await;
    let hosts = "192.0.2.50 web printer.example.org # a comment\n2001:db8::50 web\n\nnonsense\n";
    let name_servers = NameServers::new(&server.options())
        .unwrap()
        .with(hosts, &["example.org."]);
    let found = name_servers.look_up("web").await;
    assert_eq!(
        &*found.addresses.unwrap(),
        addresses(&["192.0.2.50", "2001:db8::50"])
    );
    assert_eq!(found.keep, Duration::from_secs(5));
    let found = name_servers.look_up("printer.example.org").await;
    assert_eq!(&*found.addresses.unwrap(), addresses(&["192.0.2.50"]));
    // By the search domain, still without asking anybody.
    assert_eq!(
        &*name_servers.look_up("printer").await.addresses.unwrap(),
        addresses(&["192.0.2.50"])
    );
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn names_of_one_label_are_searched_for_and_others_are_not() {
    let behaviour: Behaviour = |name, kind| match (name, kind) {
        ("web.b.example.", RecordType::A) => Reply::Addresses(60, vec!["192.0.2.2"]),
        ("web.b.example.", _) => Reply::Nothing(60),
        // Another host, whose address must not be mixed in.
        ("web.", RecordType::AAAA) => Reply::Addresses(60, vec!["2001:db8::66"]),
        ("broken.a.example.", _) => Reply::Fails,
        ("bare.", RecordType::A) => Reply::Addresses(60, vec!["192.0.2.3"]),
        _ => Reply::NoSuchName(60),
    };
    let server = NameServer::start(behaviour).await;
    let name_servers = NameServers::new(&server.options())
        .unwrap()
        .with("", &["a.example.", "b.example."]);
    assert_eq!(
        &*name_servers.look_up("web").await.addresses.unwrap(),
        addresses(&["192.0.2.2"])
    );
    assert_eq!(
        &*name_servers.look_up("bare").await.addresses.unwrap(),
        addresses(&["192.0.2.3"])
    );
    assert_eq!(
        name_servers.look_up("nowhere").await.addresses,
        Err(ResolveError::NoSuchName)
    );
    assert_eq!(
        name_servers.look_up("broken").await.addresses,
        Err(ResolveError::ServerFailure)
    );
    server.asked.lock().unwrap().clear();
    assert_eq!(
        name_servers.look_up("web.b").await.addresses,
        Err(ResolveError::NoSuchName)
    );
    assert!(
        server.asked().iter().all(|(name, _)| name == "web.b."),
        "{:?}",
        server.asked()
    );
}

async fn closed_port() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
}

#[tokio::test]
async fn what_is_asked_twice_is_looked_up_once() {
    let server = NameServer::start(both).await;
    let (resolver, metrics) = server.resolver();
    for name in ["www.example.org", "WWW.example.ORG", "www.example.org."] {
        assert_eq!(resolver.resolve(name).await.unwrap().len(), 3);
    }
    assert_eq!(server.asked().len(), 2);
    assert_eq!(metrics.dns_hits.get(), 2);
    assert_eq!(metrics.dns_lookups(LookupResult::Found).get(), 1);
    assert_eq!(metrics.dns_names.load(Relaxed), 1);
}

#[tokio::test]
async fn failures_are_remembered_too() {
    let server = NameServer::start(|_, _| Reply::NoSuchName(5)).await;
    let (resolver, metrics) = server.resolver();
    for _ in 0..3 {
        assert_eq!(
            resolver.resolve("no.example.org").await,
            Err(ResolveError::NoSuchName)
        );
    }
    assert_eq!(server.asked().len(), 2);
    assert_eq!(metrics.dns_lookups(LookupResult::NoSuchName).get(), 1);
}

#[tokio::test]
async fn identical_questions_at_one_time_are_one_look_up() {
    let server =
        NameServer::start(|_, _| Reply::Late(Duration::from_millis(100), "192.0.2.1")).await;
    let (resolver, metrics) = server.resolver();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let resolver = resolver.clone();
        tasks.spawn(async move { resolver.resolve("www.example.org").await });
    }
    while let Some(result) = tasks.join_next().await {
        assert!(result.unwrap().is_ok());
    }
    assert_eq!(server.asked().len(), 2);
    assert_eq!(metrics.dns_joined.get(), 49);
}

#[tokio::test]
async fn a_client_that_gives_up_harms_nobody() {
    let server =
        NameServer::start(|_, _| Reply::Late(Duration::from_millis(100), "192.0.2.1")).await;
    let (resolver, _) = server.resolver();
    let impatient = tokio::time::timeout(
        Duration::from_millis(10),
        resolver.resolve("www.example.org"),
    );
    assert!(impatient.await.is_err());
    assert!(resolver.resolve("www.example.org").await.is_ok());
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn too_many_look_ups_are_refused_and_known_names_still_answered() {
    let server = NameServer::start(|name, kind| {
        if name == "known." {
            both(name, kind)
        } else {
            Reply::Silent
        }
    })
    .await;
    let (resolver, metrics) = server.resolver();
    assert!(resolver.resolve("known").await.is_ok());
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..400 {
        let resolver = resolver.clone();
        tasks.spawn(async move {
            resolver
                .resolve(&format!("name-{number}.example.org"))
                .await
        });
    }
    let mut counts = [0, 0];
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(resolver.resolve("known").await.is_ok());
    while let Some(result) = tasks.join_next().await {
        match result.unwrap() {
            Err(ResolveError::Busy) => counts[0] += 1,
            Err(ResolveError::Timeout) => counts[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counts, [400 - 256, 256]);
    assert_eq!(metrics.dns_refused.load(Relaxed), 400 - 256);
    assert_eq!(metrics.dns_under_way.load(Relaxed), 0);
}

#[tokio::test]
async fn a_change_of_options_begins_anew() {
    let (first, second) = (
        NameServer::start(both).await,
        NameServer::start(|_, _| Reply::NoSuchName(5)).await,
    );
    let (resolver, questions) = resolver(Arc::default());
    let (changes, receiver) = mpsc::unbounded_channel();
    tokio::spawn(Service::new(&first.options(), Arc::default()).run(questions, receiver));
    assert!(resolver.resolve("www.example.org").await.is_ok());
    changes.send(second.options()).unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(
        resolver.resolve("www.example.org").await,
        Err(ResolveError::NoSuchName)
    );
}

#[test]
fn a_workers_own_cache_asks_nobody() {
    // The service in one thread, the worker in another, as in the program.
    let (worker_done, control_ends) = oneshot::channel::<()>();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let control = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let server = NameServer::start(both).await;
            ready.send(server.resolver()).unwrap();
            control_ends.await.unwrap();
            server.asked().len()
        })
    });
    let (resolver, shared) = is_ready.recv().unwrap();
    let metrics: Arc<WorkerMetrics> = Arc::default();
    let worker = WorkerResolver::new(resolver, 10, Arc::clone(&metrics));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for _ in 0..10 {
            assert_eq!(worker.resolve("www.example.org").await.unwrap().len(), 3);
            assert_eq!(worker.resolve("WWW.EXAMPLE.ORG.").await.unwrap().len(), 3);
            assert_eq!(
                &*worker.resolve("192.0.2.77").await.unwrap(),
                addresses(&["192.0.2.77"])
            );
        }
    });
    worker_done.send(()).unwrap();
    assert_eq!(control.join().unwrap(), 2);
    assert_eq!((metrics.dns_hits.get(), metrics.dns_misses.get()), (19, 1));
    assert_eq!(shared.dns_hits.get(), 0);
}

#[tokio::test]
async fn a_workers_answers_expire() {
    let server = NameServer::start(|_, _| Reply::Addresses(0, vec!["192.0.2.1"])).await;
    let (resolver, _) = server.resolver();
    let metrics: Arc<WorkerMetrics> = Arc::default();
    let worker = WorkerResolver::new(resolver, 10, Arc::clone(&metrics));
    assert!(worker.resolve("www.example.org").await.is_ok());
    assert!(worker.resolve("www.example.org").await.is_ok());
    assert_eq!(metrics.dns_misses.get(), 1);
    tokio::time::sleep(KEEP_MIN + Duration::from_millis(50)).await;
    assert!(worker.resolve("www.example.org").await.is_ok());
    assert_eq!(metrics.dns_misses.get(), 2);
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn without_a_control_thread_there_is_an_error() {
    let metrics: Arc<ControlMetrics> = Arc::default();
    let (resolver, questions) = resolver(Arc::clone(&metrics));
    drop(questions);
    assert_eq!(
        resolver.resolve("www.example.org").await,
        Err(ResolveError::Busy)
    );
    assert_eq!(metrics.dns_refused.load(Relaxed), 1);
    assert!(resolver.resolve("::1").await.is_ok());
}

#[test]
fn hosts_that_need_no_look_up() {
    let table = [
        ("192.0.2.1", vec!["192.0.2.1"]),
        ("2001:db8::1", vec!["2001:db8::1"]),
        ("[2001:db8::1]", vec!["2001:db8::1"]),
        ("::ffff:10.0.0.1", vec!["::ffff:10.0.0.1"]),
        ("localhost", vec!["127.0.0.1", "::1"]),
        ("LOCALHOST.", vec!["127.0.0.1", "::1"]),
        ("a.b.localhost", vec!["127.0.0.1", "::1"]),
    ];
    for (host, expected) in table {
        assert_eq!(
            Host::parse(host),
            Ok(Host::Addresses(addresses(&expected).into())),
            "{host}"
        );
    }
}

#[test]
fn names_take_their_normal_form() {
    for (host, name) in [
        ("www.example.org", "www.example.org"),
        ("WWW.Example.ORG.", "www.example.org"),
        ("web", "web"),
        ("_dmarc.example.org", "_dmarc.example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("1.example", "1.example"),
        ("0xg.0xyz", "0xg.0xyz"),
        ("notlocalhost", "notlocalhost"),
        ("localhost.example.org", "localhost.example.org"),
    ] {
        assert_eq!(Host::parse(host), Ok(Host::Name(name.into())), "{host}");
    }
}

#[test]
fn what_is_no_host_name() {
    let long_label = format!("{}.example", "a".repeat(64));
    let long_name = vec!["a".repeat(60); 5].join(".");
    let table = [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a..",
        "a b",
        "a\0b",
        "a\r\nb",
        "bücher.example",
        "a/b",
        "a:80",
        "a@b",
        "*.example.org",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "10.0.0.256",
        "1.2.3.4.5",
        "1.2.3.0x",
        "example.123",
        "[::1",
        "::1]",
        "[example.org]",
        "fe80::1%eth0",
        "%2e",
        &long_label,
        &long_name,
    ];
    for host in table {
        assert_eq!(Host::parse(host), Err(ResolveError::Invalid), "{host:?}");
    }
    assert!(Host::parse(&format!("{}.example", "a".repeat(63))).is_ok());
}

mod cache {
    use super::super::cache::NameCache;
    use std::time::{Duration, Instant};

    #[test]
    fn values_last_until_their_moment() {
        let (mut cache, now) = (NameCache::new(10), Instant::now());
        let second = Duration::from_secs(1);
        cache.insert("a", 1, now + second, now);
        assert_eq!(cache.get("a", now), Some(&1));
        assert_eq!(cache.get("b", now), None);
        assert_eq!(cache.get("a", now + second), None);
        assert_eq!(cache.len(), 0);
        cache.insert("a", 2, now + second, now);
        cache.insert("a", 3, now + second, now);
        assert_eq!(cache.get("a", now), Some(&3));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_flood_of_names_neither_fills_it_nor_drives_out_what_is_used() {
        let (mut cache, now) = (NameCache::new(100), Instant::now());
        let later = now + Duration::from_secs(60);
        cache.insert("used", 0, later, now);
        for number in 0..10_000 {
            cache.insert(&format!("name-{number}"), number, later, now);
            assert!(cache.len() <= 100, "{}", cache.len());
            assert_eq!(cache.get("used", now), Some(&0));
        }
        let evicted = cache.take_evicted();
        assert!((9_800..10_000).contains(&evicted), "{evicted}");
        assert_eq!(cache.take_evicted(), 0);
    }

    #[test]
    fn entries_that_are_used_do_not_exceed_the_limit_either() {
        let (mut cache, now) = (NameCache::new(10), Instant::now());
        let later = now + Duration::from_secs(60);
        for number in 0..1000_usize {
            cache.insert(&number.to_string(), number, later, now);
            for recent in number.saturating_sub(9)..=number {
                cache.get(&recent.to_string(), now);
            }
            assert!(cache.len() <= 10, "{}", cache.len());
        }
    }

    #[test]
    fn what_has_expired_goes_first_and_is_not_counted() {
        let (mut cache, now) = (NameCache::new(10), Instant::now());
        for number in 0..1000_u32 {
            let now = now + Duration::from_secs(u64::from(number));
            cache.insert(
                &number.to_string(),
                number,
                now + Duration::from_secs(1),
                now,
            );
            assert_eq!(cache.take_evicted(), 0);
            assert!(cache.len() <= 10);
        }
    }
}
