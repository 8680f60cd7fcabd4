//! Which kernels are trusted; and one splice's end does not block another's.

use super::SocketService;
use super::repaired::{check, upstream_release};
use crate::{Choice, Counters, ExchangeOrder, PoolLimits, Splicer};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A connection's two ends.
async fn connection() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    [near.unwrap(), far.unwrap().0]
}

/// Sends a request and a response.
async fn talk(one: &mut TcpStream, other: &mut TcpStream) {
    for _ in 0..20 {
        one.write_all(b"?").await.unwrap();
        assert_eq!(other.read_u8().await.unwrap(), b'?');
        other.write_all(b"!").await.unwrap();
        assert_eq!(one.read_u8().await.unwrap(), b'!');
    }
}

/// A blocked end would delay its whole thread, and every splice that has to be returned.
#[test]
fn others_are_served_while_a_connection_is_late_to_come_back() {
    if !carrick_test::is_root() {
        return;
    }
    let service = SocketService::default();
    if let Err(reason) = service.load(2, None) {
        return carrick_test::lacks!("{reason}");
    }
    let counters = Arc::new(Counters::default());
    let splicer = Splicer::with_socket(
        PoolLimits::default(),
        Arc::clone(&counters),
        service.clone(),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let [mut client, near] = connection().await;
        let [far, mut server] = connection().await;
        let [mut other_client, other_near] = connection().await;
        let [other_far, mut other_server] = connection().await;
        let order = || ExchangeOrder::new(Choice::Socket);
        let mut late = splicer.exchange(&near, &far, order());
        tokio::select! {
            end = late.run() => panic!("{end:?}"),
            () = talk(&mut client, &mut server) => {}
        }
        let engine = service.engine().unwrap();
        let place = (0..2).find(|place| !engine.free().contains(place)).unwrap();
        let way = engine.directions.get(2 * place);
        way.set_passed_bytes(way.passed_bytes() + 1);
        let mut other = splicer.exchange(&other_near, &other_far, order());
        let mut coming_back = Box::pin(late.unsplice());
        tokio::select! {
            biased;
            came = &mut coming_back => panic!("{came:?}"),
            end = other.run() => panic!("{end:?}"),
            () = talk(&mut other_client, &mut other_server) => {}
        }
        way.set_passed_bytes(way.passed_bytes() - 1);
        // The other one is taken back after it.
        let ((up, down), _) = tokio::join!(coming_back, other.unsplice());
        assert!(
            up.unsent.is_empty() && down.unsent.is_empty(),
            "{up:?} {down:?}"
        );
        let (mut near, mut far) = (near, far);
        talk(&mut client, &mut near).await;
        talk(&mut server, &mut far).await;
        let (mut near, mut far) = (other_near, other_far);
        talk(&mut other_client, &mut near).await;
        talk(&mut other_server, &mut far).await;
    });
    assert_eq!(counters.socket_broken.get(), 0);
}

#[test]
fn kernels_that_lose_bytes_are_refused_by_name() {
    for release in [
        "5.15.0-91-generic",
        "6.1.0-13-amd64",
        "6.1.141",
        "6.2.9",
        "6.6.90",
        "6.12.34-1-lts",
        "6.13.7",
        "6.14-rc3",
        "6.15.9",
    ] {
        let reason = check(release).unwrap_err();
        assert!(reason.contains(release), "{reason}");
        assert!(reason.contains("repaired in"), "{reason}");
    }
    assert!(check("a kernel").unwrap_err().contains("not understood"));
}

#[test]
fn repaired_kernels_are_trusted() {
    for release in [
        "6.1.142",
        "6.1.170-amd64",
        "6.12.35",
        "6.12.40+deb13-amd64",
        "6.16-rc1",
        "6.16.0",
        "6.18.44-fc-v595",
        "7.0.1",
    ] {
        assert_eq!(check(release), Ok(()), "{release}");
    }
}

#[test]
fn distributions_that_keep_the_first_number_of_a_series_are_known() {
    let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-11-02)";
    let others = "#1 SMP Tue Nov 3 10:00:00 UTC 2026";
    for (release, version, signature, expected) in [
        ("6.1.0-50-cloud-amd64", debian, None, Ok(())),
        ("6.1.0-50-cloud-amd64", others, None, Err(())),
        ("6.12.95", others, None, Ok(())),
        (
            "6.12.0-31-generic",
            others,
            Some("Ubuntu 6.12.0-31.31-generic 6.12.36\n"),
            Ok(()),
        ),
        (
            "6.12.0-31-generic",
            others,
            Some("Ubuntu 6.12.0-31.31-generic 6.12.30\n"),
            Err(()),
        ),
    ] {
        let release = upstream_release(release, version, signature);
        assert_eq!(check(release).map_err(drop), expected, "{release}");
    }
}
