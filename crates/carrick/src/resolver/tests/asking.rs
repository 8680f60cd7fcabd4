//! Questions: which ones share a look-up, which are refused, which are answered from a worker's cache.
use super::super::name_servers::KEEP_MIN;
use super::*;
use crate::telemetry::LookupResult;
use std::sync::atomic::AtomicBool;

/// Waits until the other tasks of this runtime have got so far.
async fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
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
    // On a busy machine, late questions are answered from the cache.
    assert_eq!(metrics.dns_lookups(LookupResult::Found).get(), 1);
    assert_eq!(metrics.dns_joined.get() + metrics.dns_hits.get(), 49);
}

#[tokio::test]
async fn a_client_that_gives_up_does_not_affect_others() {
    let server =
        NameServer::start(|_, _| Reply::Late(Duration::from_millis(100), "192.0.2.1")).await;
    let (resolver, metrics) = server.resolver();
    let impatient = resolver.clone();
    let impatient = tokio::spawn(async move { impatient.resolve("www.example.org").await });
    until(|| server.asked().len() >= 2).await;
    impatient.abort();
    assert!(resolver.resolve("www.example.org").await.is_ok());
    assert_eq!(metrics.dns_lookups(LookupResult::Found).get(), 1);
}

#[tokio::test]
async fn too_many_look_ups_are_refused_and_known_names_still_answered() {
    let mut server = NameServer::start(|name, kind| {
        if name == "known." {
            both(name, kind)
        } else {
            Reply::Silent
        }
    })
    .await;
    // No look-up ends before all have begun, however busy the machine is.
    server.timeout = Duration::from_secs(3600);
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
    for _ in 0..400 - 256 {
        let refused = tasks.join_next().await.unwrap().unwrap();
        assert!(matches!(refused, Err(ResolveError::Busy)), "{refused:?}");
    }
    assert!(resolver.resolve("known").await.is_ok());
    assert_eq!(metrics.dns_refused.load(Relaxed), 400 - 256);
    assert_eq!(metrics.dns_under_way.load(Relaxed), 256);
}

/// Silent for all names but `known`; no look-up ends by itself, however busy the machine is.
async fn silent_server() -> NameServer {
    let mut server = NameServer::start(|name, kind| {
        if name.starts_with("known.") {
            both(name, kind)
        } else {
            Reply::Silent
        }
    })
    .await;
    server.timeout = Duration::from_secs(3600);
    server
}

fn client(number: u32) -> NamedBy {
    NamedBy::client(std::net::Ipv4Addr::from_bits(number).into())
}

#[test]
fn addresses_of_one_line_are_one_client() {
    let client = |address: &str| NamedBy::client(address.parse().unwrap());
    assert_eq!(client("2001:db8::1"), client("2001:db8::2:3:4:5"));
    assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
    assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
    assert_ne!(client("192.0.2.2"), client("192.0.2.1"));
}

/// Asks for `count` names at once, each for the client that `client_of` gives.
fn ask_for(
    resolver: &Resolver,
    count: u32,
    client_of: fn(u32) -> u32,
) -> tokio::task::JoinSet<Result<Answer, ResolveError>> {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..count {
        let resolver = resolver.clone();
        tasks.spawn(async move {
            let name = format!("name-{number}.example.org");
            resolver.ask(&name, client(client_of(number))).await
        });
    }
    tasks
}

fn is_busy(answer: &Result<Answer, ResolveError>) -> bool {
    let addresses = answer.as_ref().map(|answer| &answer.addresses);
    matches!(
        addresses,
        Err(ResolveError::Busy) | Ok(Err(ResolveError::Busy))
    )
}

#[tokio::test]
async fn a_client_leaves_look_ups_to_other_clients() {
    let server = silent_server().await;
    let (resolver, metrics) = server.resolver();
    let mut tasks = ask_for(&resolver, 400, |_| 0);
    for _ in 0..400 - 96 {
        assert!(is_busy(&tasks.join_next().await.unwrap().unwrap()));
    }
    assert_eq!(metrics.dns_under_way.load(Relaxed), 96);
    let answer = resolver.ask("known.example.org", client(1)).await;
    assert!(answer.unwrap().addresses.is_ok());
}

#[tokio::test]
async fn a_client_leaves_room_to_others_that_wait_for_the_same_name() {
    let server = silent_server().await;
    let (resolver, metrics) = server.resolver();
    let answered = || metrics.dns_joined.get() + metrics.dns_refused.load(Relaxed);
    let mut tasks = tokio::task::JoinSet::new();
    let mut ask = |number| {
        let resolver = resolver.clone();
        tasks.spawn(async move { resolver.ask("www.example.org", client(number)).await });
    };
    // As many at once as the queue takes; the first one joins none.
    for batch in 1..=30 {
        (0..250).for_each(|_| ask(0));
        until(|| answered() == batch * 250 - 1).await;
    }
    let joined = metrics.dns_joined.get();
    assert_eq!(metrics.dns_refused.load(Relaxed), 30 * 250 - 1 - joined);
    assert!(joined < 30 * 250 - 1, "it has all places");
    ask(1);
    until(|| metrics.dns_joined.get() == joined + 1).await;
}

#[tokio::test]
async fn clients_cannot_take_the_look_ups_of_the_configuration() {
    let server = silent_server().await;
    let (resolver, metrics) = server.resolver();
    let mut tasks = ask_for(&resolver, 600, |number| number);
    for _ in 0..600 - 192 {
        assert!(is_busy(&tasks.join_next().await.unwrap().unwrap()));
    }
    assert_eq!(metrics.dns_under_way.load(Relaxed), 192);
    assert!(resolver.resolve("known.example.org").await.is_ok());
}

#[tokio::test]
async fn look_ups_that_nobody_waits_for_give_way() {
    let server = silent_server().await;
    let (resolver, metrics) = server.resolver();
    let mut tasks = ask_for(&resolver, 96, |_| 0);
    until(|| metrics.dns_under_way.load(Relaxed) == 96).await;
    tasks.shutdown().await;
    let answer = resolver.ask("known.example.org", client(0)).await;
    assert!(answer.unwrap().addresses.is_ok());
    until(|| metrics.dns_under_way.load(Relaxed) == 0).await;
}

#[tokio::test]
async fn a_change_of_options_begins_anew() {
    let (first, second) = (
        NameServer::start(both).await,
        NameServer::start(|_, _| Reply::NoSuchName(5)).await,
    );
    let metrics: Arc<ControlMetrics> = Arc::default();
    let (resolver, questions) = resolver(Arc::clone(&metrics));
    let (changes, receiver) = mpsc::unbounded_channel();
    tokio::spawn(Service::new(&first.options(), Arc::clone(&metrics)).run(questions, receiver));
    assert!(resolver.resolve("www.example.org").await.is_ok());
    changes.send(second.options()).unwrap();
    until(|| metrics.dns_names.load(Relaxed) == 0).await;
    assert_eq!(
        resolver.resolve("www.example.org").await,
        Err(ResolveError::NoSuchName)
    );
}

#[test]
fn a_workers_own_cache_answers_without_the_control_thread() {
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
            assert_eq!(
                worker
                    .resolve("www.example.org", client(0))
                    .await
                    .unwrap()
                    .len(),
                3
            );
            assert_eq!(
                worker
                    .resolve("WWW.EXAMPLE.ORG.", client(0))
                    .await
                    .unwrap()
                    .len(),
                3
            );
            assert_eq!(
                &*worker.resolve("192.0.2.77", client(0)).await.unwrap(),
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
    // Twice within the time that an answer is kept for, and the first time after that of an earlier attempt has expired.
    let misses = loop {
        let (begun, before) = (std::time::Instant::now(), metrics.dns_misses.get());
        assert!(worker.resolve("www.example.org", client(0)).await.is_ok());
        let misses = metrics.dns_misses.get();
        assert!(worker.resolve("www.example.org", client(0)).await.is_ok());
        if misses > before && begun.elapsed() < KEEP_MIN {
            assert_eq!(metrics.dns_misses.get(), misses);
            break misses;
        }
    };
    tokio::time::sleep(KEEP_MIN + Duration::from_millis(50)).await;
    assert!(worker.resolve("www.example.org", client(0)).await.is_ok());
    assert_eq!(metrics.dns_misses.get(), misses + 1);
    assert_eq!(server.asked().len() as u64, 2 * (misses + 1));
}

/// RFC 8767.
#[tokio::test]
async fn while_name_servers_fail_names_of_the_configuration_keep_their_addresses() {
    static WORKS: AtomicBool = AtomicBool::new(true);
    static IS_GONE: AtomicBool = AtomicBool::new(false);
    let server = NameServer::start(|_, _| match WORKS.load(Relaxed) {
        _ if IS_GONE.load(Relaxed) => Reply::NoSuchName(5),
        true => Reply::Addresses(0, vec!["192.0.2.1"]),
        false => Reply::Fails,
    })
    .await;
    let (resolver, metrics) = server.resolver();
    let known = Ok(Arc::from(addresses(&["192.0.2.1"])));
    let resolve = async || resolver.resolve("www.example.org").await;
    // Asks until the addresses have expired so often that there were so many such look-ups.
    let ask_until = async |result, count| {
        while metrics.dns_lookups(result).get() < count {
            assert_eq!(resolve().await, known);
            tokio::task::yield_now().await;
        }
    };
    ask_until(LookupResult::Found, 1).await;
    WORKS.store(false, Relaxed);
    ask_until(LookupResult::ServerFailure, 3).await;
    let unknown = resolver.resolve("unknown.example.org").await;
    assert_eq!(unknown, Err(ResolveError::ServerFailure));
    // What they say of a name goes before what they have said.
    IS_GONE.store(true, Relaxed);
    ask_until(LookupResult::NoSuchName, 1).await;
    assert_eq!(resolve().await, Err(ResolveError::NoSuchName));
}

#[tokio::test]
async fn a_reload_forgets_names_and_answers_that_are_under_way() {
    let late = |_: &str, _| Reply::Late(Duration::from_millis(100), "192.0.2.1");
    let server = NameServer::start(late).await;
    let (resolver, _, changes) = server.changing_resolver();
    let worker = WorkerResolver::new(resolver, 10, Arc::default());
    let change = || {
        changes.send(server.options()).unwrap();
        worker.forget();
    };
    let is_changed = async {
        until(|| server.asked().len() == 2).await;
        change();
    };
    let (found, ()) = tokio::join!(worker.resolve("a.example", client(0)), is_changed);
    assert!(found.is_ok());
    for asked in [4, 4, 6] {
        if asked == 6 {
            change();
        }
        assert!(worker.resolve("a.example", client(0)).await.is_ok());
        assert_eq!(server.asked().len(), asked);
    }
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
