//! Answers of name servers: families, aliases, long answers, failures, and how long each is kept.
use super::super::name_servers::{
    Found, KEEP_FAILURE, KEEP_MAX, KEEP_MIN, KEEP_NEGATIVE, NameServers, OTHER_FAMILY_WAIT, join,
};
use super::*;
use tokio::net::UdpSocket;

#[tokio::test]
async fn both_families_are_asked_for_and_joined() {
    let server = NameServer::start(both).await;
    let found = server.look_up("www.example.org").await;
    assert_eq!(
        sorted(&found.addresses.unwrap()),
        addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"])
    );
    // Absolute: no search domain was tried.
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
async fn a_family_that_does_not_answer_delays_no_look_up() {
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
        let found = server.look_up("www.example.org").await;
        assert_eq!(&*found.addresses.unwrap(), addresses(&[address]));
        // The other family is asked for again soon.
        assert_eq!(found.keep, Duration::from_secs(10));
    }
}

#[tokio::test(start_paused = true)]
async fn a_family_that_is_a_little_late_is_waited_for() {
    let found = |address: &str| Found {
        addresses: Ok(addresses(&[address]).into()),
        keep: KEEP_MAX,
    };
    let tick = Duration::from_millis(1);
    for (late, count) in [(OTHER_FAMILY_WAIT - tick, 2), (OTHER_FAMILY_WAIT + tick, 1)] {
        let begun = tokio::time::Instant::now();
        let second = async {
            tokio::time::sleep(late).await;
            found("2001:db8::1")
        };
        let both = join(found("192.0.2.1"), second).await;
        assert_eq!(both.addresses.unwrap().len(), count);
        assert!(begun.elapsed() <= OTHER_FAMILY_WAIT);
    }
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
        assert_eq!(
            server.look_up("www.example.org").await.addresses,
            Err(error)
        );
        assert_eq!(error.status(), status);
    }
    let closed = DnsOptions {
        servers: vec![closed_port().await],
        timeout: Duration::from_millis(600),
        ..DnsOptions::system(10)
    };
    let found = NameServers::new(&closed)
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

async fn closed_port() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
}
