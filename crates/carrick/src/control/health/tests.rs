//! Checks against servers whose state changes, and servers that misbehave.
use super::super::testing::upstream;
use super::check_error::CheckError;
use super::probe::Probe;
use super::server_health::ServerHealth;
use super::*;
use crate::config::plan::{HealthPlan, ProxyVersion, ServerAddress, UpstreamPlan};
use crate::resolver::DnsOptions;
use crate::resolver::{Service, resolver};
use carrick_test::PATIENCE;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

fn health(path: Option<&str>) -> HealthPlan {
    HealthPlan {
        path: path.map(String::from),
        grpc: None,
        host: None,
        every: Duration::from_millis(40),
        fall: 2,
        rise: 3,
    }
}

fn a_resolver() -> Resolver {
    let (resolver, questions) = resolver(Arc::default());
    let (changes, receiver) = mpsc::unbounded_channel();
    let options = DnsOptions {
        servers: vec![([127, 0, 0, 1], 9).into()],
        hosts: false,
        ..DnsOptions::system(10)
    };
    tokio::spawn(async move {
        let _changes = changes;
        Service::new(&options, Arc::default())
            .run(questions, receiver)
            .await;
    });
    resolver
}

/// A server that gives every connection the same answer, then closes; requests arrive at the channel.
async fn server(answer: &'static [u8]) -> (SocketAddr, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, questions) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut question = Vec::new();
            while !question.ends_with(b"\r\n\r\n")
                && stream.read_buf(&mut question).await.unwrap_or(0) > 0
            {}
            let _ = asked.send(question);
            let _ = stream.write_all(answer).await;
        }
    });
    (address, questions)
}

async fn check(plan: &UpstreamPlan, limit: Duration) -> Result<(), CheckError> {
    let server = ServerState::new(plan.servers[0].address.clone());
    Probe::new(plan, (0, &server), &a_resolver())
        .unwrap()
        .check(limit)
        .await
}

async fn check_answer(answer: &'static [u8]) -> Result<(), CheckError> {
    let (address, _questions) = server(answer).await;
    check(
        &upstream("u", &[address], Some(health(Some("/healthz")))),
        PATIENCE,
    )
    .await
}

#[test]
fn opinions_change_after_enough_checks_in_a_row() {
    // The checks, and after each the change: `-` none, `U` up, `D` down.
    let table = [
        (1, 1, "+-+--+", "-DU D-U".replace(' ', "")),
        (2, 3, "--+++", "-D--U".into()),
        (2, 3, "-+-+--", "-----D".into()),
        (3, 2, "---+-++-", "--D---U-".into()),
        (0, 0, "-+", "DU".into()),
    ];
    for (fall, rise, checks, expected) in table {
        let mut server_health = ServerHealth::new(true, fall, rise);
        let changes: String = checks
            .chars()
            .map(|check| match server_health.note(check == '+') {
                None => '-',
                Some(true) => 'U',
                Some(false) => 'D',
            })
            .collect();
        assert_eq!(changes, expected, "fall {fall} rise {rise}: {checks}");
    }
    assert_eq!(ServerHealth::new(false, 2, 1).note(true), Some(true));
}

#[tokio::test]
async fn the_request_is_what_it_should_be() {
    let (address, mut questions) = server(b"HTTP/1.1 204 No Content\r\n\r\n").await;
    let mut plan = upstream("u", &[address], Some(health(Some("/healthz?deep=1"))));
    check(&plan, PATIENCE).await.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let rest = format!("User-Agent: carrick/{version}\r\nAccept: */*\r\nConnection: close\r\n\r\n");
    let expected = format!("GET /healthz?deep=1 HTTP/1.1\r\nHost: {address}\r\n{rest}");
    assert_eq!(
        String::from_utf8(questions.recv().await.unwrap()).unwrap(),
        expected
    );

    plan.health.as_mut().unwrap().host = Some("www.example.org".into());
    plan.send_proxy_protocol = Some(ProxyVersion::V1);
    check(&plan, PATIENCE).await.unwrap();
    let expected =
        format!("PROXY UNKNOWN\r\nGET /healthz?deep=1 HTTP/1.1\r\nHost: www.example.org\r\n{rest}");
    assert_eq!(
        String::from_utf8(questions.recv().await.unwrap()).unwrap(),
        expected
    );

    plan.send_proxy_protocol = Some(ProxyVersion::V2);
    check(&plan, PATIENCE).await.unwrap();
    let question = questions.recv().await.unwrap();
    // proxy-protocol.txt section 2.2: signature, version 2 and LOCAL, unspecified family, no address bytes.
    assert_eq!(
        question[..12],
        [
            0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a
        ]
    );
    assert_eq!(question[12..16], [0x20, 0, 0, 0]);
    assert!(question[16..].starts_with(b"GET /healthz?deep=1 "));
}

#[tokio::test]
async fn good_answers() {
    let table: [&'static [u8]; 7] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\n\r\nok",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n",
        b"HTTP/1.1 399 Odd\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
    ];
    for answer in table {
        let result = check_answer(answer).await;
        assert!(
            result.is_ok(),
            "{}: {result:?}",
            String::from_utf8_lossy(answer)
        );
    }
}

#[tokio::test]
async fn bad_answers() {
    let table: [(&'static [u8], &str); 8] = [
        (
            b"HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "answered with status 503",
        ),
        (
            b"HTTP/1.1 404 Not Found\r\n\r\n",
            "answered with status 404",
        ),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 X\r\n\r\n",
            "answered with status 500",
        ),
        (b"", "connection closed without a response"),
        (b"HTTP/1.1 200 OK\r\nX: cut", "the response is not HTTP/1"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the response is not HTTP/1"),
        (b"HTTP/1.1 2xx OK\r\n\r\n", "the response is not HTTP/1"),
        (
            b"\x15\x03\x01\x00\x02\x02\x46",
            "the response is not HTTP/1",
        ),
    ];
    for (answer, why) in table {
        let error = check_answer(answer).await.unwrap_err().to_string();
        assert_eq!(error, why, "{}", String::from_utf8_lossy(answer));
    }
}

#[tokio::test]
async fn an_endless_head_is_not_read_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await
            .unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").await.unwrap();
        while stream.write_all(&[b'a'; 1024]).await.is_ok() {}
    });
    let plan = upstream("u", &[address], Some(health(Some("/"))));
    let error = check(&plan, PATIENCE).await.unwrap_err();
    assert!(
        matches!(error, CheckError::NotHttp | CheckError::Lost(_)),
        "{error}"
    );
}

#[tokio::test]
async fn silence_is_illness() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plan = upstream("u", &[address], Some(health(Some("/"))));
    let error = check(&plan, Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 100ms");
}

#[tokio::test]
async fn an_answer_counts_even_if_its_connection_stays_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        std::future::pending::<()>().await;
    });
    let plan = upstream("u", &[address], Some(health(Some("/"))));
    check(&plan, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn without_a_path_a_connection_is_enough() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plan = upstream("u", &[address], Some(health(None)));
    check(&plan, PATIENCE).await.unwrap();
    drop(listener);
    // A program that another test starts may have a copy of it for a moment.
    let begun = std::time::Instant::now();
    let error = loop {
        assert!(begun.elapsed() < PATIENCE);
        if let Err(error) = check(&plan, PATIENCE).await {
            break error;
        }
    };
    assert!(error.to_string().starts_with("cannot connect: "), "{error}");
}

#[tokio::test]
async fn a_servers_name_is_resolved_and_each_of_its_addresses_tried() {
    // `localhost` is also ::1, where nothing listens.
    let (address, _questions) = server(b"HTTP/1.1 200 OK\r\n\r\n").await;
    let mut plan = upstream("u", &[address], Some(health(Some("/"))));
    plan.servers[0].address = ServerAddress::Name {
        host: "localhost".into(),
        port: address.port(),
    };
    check(&plan, PATIENCE).await.unwrap();
    plan.servers[0].address = ServerAddress::Name {
        host: "1.2.3".into(),
        port: address.port(),
    };
    assert_eq!(
        check(&plan, PATIENCE).await.unwrap_err().to_string(),
        "this is not a host name"
    );
}

#[tokio::test]
async fn too_many_look_ups_say_nothing_about_a_server() {
    let mut plan = upstream("u", &[([127, 0, 0, 1], 9).into()], Some(health(None)));
    plan.servers[0].address = ServerAddress::Name {
        host: "www.example.org".into(),
        port: 9,
    };
    let upstreams = UpstreamState::for_plan(&[Arc::new(plan)], &[]);
    let metrics: Arc<ControlMetrics> = Arc::default();
    // Nobody takes the questions.
    let (busy, _) = resolver(Arc::default());
    let packet = PacketService::default();
    let _checks = HealthChecks::start(&upstreams, &busy, None, &metrics, &packet);
    until("checks fail", || {
        metrics.health_checks_unmade.get() + metrics.health_checks_failed.get() >= 4
    })
    .await;
    assert_eq!(metrics.health_checks_failed.get(), 0);
    assert!(upstreams[0].servers[0].is_healthy());
}

/// A server whose status can be changed; 0: it closes at once.
async fn moody_server() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mood = Arc::new(AtomicUsize::new(200));
    let status = Arc::clone(&mood);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let status = status.load(Relaxed);
            if status > 0 {
                let mut question = [0; 1024];
                let _ = stream.read(&mut question).await;
                let _ = stream
                    .write_all(
                        format!("HTTP/1.1 {status} X\r\nConnection: close\r\n\r\n").as_bytes(),
                    )
                    .await;
            }
        }
    });
    (address, mood)
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn servers_go_down_and_come_up_again() {
    let (good, _) = moody_server().await;
    let (moody, mood) = moody_server().await;
    // A check may take as long as the interval, so the good server is never late.
    let plans = [(good, Duration::from_secs(20)), (moody, health(None).every)];
    let plans = plans.map(|(server, every)| {
        let health = HealthPlan {
            every,
            ..health(Some("/healthz"))
        };
        Arc::new(upstream(&server.to_string(), &[server], Some(health)))
    });
    let upstreams = UpstreamState::for_plan(&plans, &[]);
    let metrics = Arc::default();
    let checks = HealthChecks::start(
        &upstreams,
        &a_resolver(),
        None,
        &metrics,
        &PacketService::default(),
    );
    let [good, moody] = [0, 1].map(|index| Arc::clone(&upstreams[index].servers[0]));
    until("checks are done", || metrics.health_checks_good.get() >= 4).await;
    for answer in [503, 0] {
        mood.store(answer, Relaxed);
        until("it is down", || !moody.is_healthy()).await;
        assert!(good.is_healthy());
        mood.store(200, Relaxed);
        until("it is up", || moody.is_healthy()).await;
    }
    assert!(metrics.health_checks_failed.get() >= 4);
    mood.store(0, Relaxed);
    drop(checks);
    let before = metrics.health_checks_good.get();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(
        metrics.health_checks_good.get() <= before + 2,
        "checks go on after they were dropped"
    );
}

#[tokio::test]
async fn without_checks_a_server_is_healthy_again() {
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let upstreams = UpstreamState::for_plan(&[Arc::new(upstream("u", &[address], None))], &[]);
    upstreams[0].servers[0].set_healthy(false);
    let _checks = HealthChecks::start(
        &upstreams,
        &a_resolver(),
        None,
        &Arc::default(),
        &PacketService::default(),
    );
    assert!(upstreams[0].servers[0].is_healthy());
}

#[test]
fn the_first_check_comes_at_a_random_moment() {
    let most = PATIENCE;
    let moments: Vec<_> = (0..50).map(|_| below(most)).collect();
    assert!(moments.iter().all(|moment| *moment < most));
    assert!(
        moments.iter().any(|moment| *moment < most / 2)
            && moments.iter().any(|moment| *moment > most / 2)
    );
}
