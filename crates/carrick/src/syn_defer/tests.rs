//! Tests of slots and waiting connections, without a kernel that defers SYNs.
use super::places::{PLACES_MAX, PLACES_PER_SERVER_MAX};
use super::*;
use crate::net::admission::Admission;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};

const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// A waiting connection, and the server's end of it.
fn kept(deferred_syns: &DeferredSyns, admission: &Arc<Admission>) -> (Kept, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let admitted = admission.admit(None).unwrap();
    admitted.count_syn_for([10, 0, 0, 1].into()).unwrap();
    let place = deferred_syns.place(usize::MAX, SERVER).unwrap();
    let connection = (stream, admission.take_upstream());
    let kept = Kept::new(connection, Duration::ZERO, admitted, place);
    (kept, server)
}

fn ends(port: u16) -> (SocketAddr, SocketAddr) {
    (
        SocketAddr::from(([10, 0, 0, 1], port)),
        SocketAddr::from(([10, 0, 0, 2], 80)),
    )
}

fn is_reset(mut server: TcpStream) -> bool {
    let end = server.read(&mut [0]);
    end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

#[test]
fn half_of_all_clients_may_wait_and_no_more_than_there_are_places() {
    let deferred_syns = DeferredSyns::default();
    let first = deferred_syns.place(4, SERVER);
    let second = deferred_syns.place(4, SERVER);
    assert!(first.is_some() && second.is_some());
    assert!(deferred_syns.place(4, SERVER).is_none());
    assert_eq!(deferred_syns.waiting(), 2);
    drop(first);
    assert!(deferred_syns.place(4, SERVER).is_some());
    drop(second);
    let servers = (0_u32..).map(|number| IpAddr::from(number.to_be_bytes()));
    let all = servers.map_while(|server| deferred_syns.place(usize::MAX, server));
    let all: Vec<Place> = all.collect();
    assert_eq!(all.len(), PLACES_MAX);
}

#[test]
fn a_server_has_a_limit_of_its_own() {
    let deferred_syns = DeferredSyns::default();
    let place = |server: &str| deferred_syns.place(usize::MAX, server.parse().unwrap());
    let mut all: Vec<Place> = std::iter::from_fn(|| place("10.0.0.2")).collect();
    assert_eq!(all.len(), PLACES_PER_SERVER_MAX);
    assert!(place("::ffff:10.0.0.2").is_none());
    let other = place("10.0.0.3").unwrap();
    assert_eq!(deferred_syns.waiting(), PLACES_PER_SERVER_MAX + 1);
    all.pop();
    all.extend(place("10.0.0.2"));
    assert_eq!(all.len(), PLACES_PER_SERVER_MAX);
    drop((all, other));
    assert_eq!(deferred_syns.waiting(), 0);
}

#[test]
fn what_is_taken_is_whole_and_what_is_not_taken_is_reset() {
    let deferred_syns = DeferredSyns::default();
    let admission = Arc::new(Admission::default());
    admission.set_limits(10, 0, 10);
    let mut servers = Vec::new();
    // The second one replaces the first.
    for port in [1, 1, 2, 3] {
        let (kept, server) = kept(&deferred_syns, &admission);
        let (client, to) = ends(port);
        deferred_syns.keep(client, to, kept);
        servers.push(server);
    }
    assert_eq!(deferred_syns.outcomes(DeferredOutcome::Expired), 1);
    assert_eq!((deferred_syns.waiting(), admission.open()), (3, 3));
    let (client, to) = ends(2);
    let taken = deferred_syns
        .take(client, to)
        .unwrap()
        .into_stream()
        .unwrap();
    assert!(deferred_syns.take(client, to).is_none());
    let now = Instant::now();
    deferred_syns.expire(now, KEPT_MAX);
    assert_eq!(deferred_syns.waiting(), 2, "not old enough to be removed");
    deferred_syns.expire(now + KEPT_MAX, KEPT_MAX);
    assert_eq!((deferred_syns.waiting(), admission.open()), (0, 0));
    assert_eq!(deferred_syns.outcomes(DeferredOutcome::Expired), 3);
    drop(taken);
    let ends: Vec<bool> = servers.into_iter().map(is_reset).collect();
    assert_eq!(ends, [true, true, false, true]);
}

#[test]
fn at_the_end_of_accepting_nothing_waits_any_more() {
    let deferred_syns = DeferredSyns::default();
    let admission = Arc::new(Admission::default());
    admission.set_limits(10, 0, 10);
    let (kept, server) = kept(&deferred_syns, &admission);
    deferred_syns.keep(ends(1).0, ends(1).1, kept);
    deferred_syns.expire(Instant::now(), Duration::ZERO);
    assert!(is_reset(server));
    assert_eq!((deferred_syns.waiting(), admission.open()), (0, 0));
    assert_eq!(deferred_syns.outcomes(DeferredOutcome::Expired), 1);
}

#[test]
fn a_client_that_comes_is_counted_and_not_before() {
    let deferred_syns = DeferredSyns::default();
    let admission = Arc::new(Admission::default());
    admission.set_limits(10, 2, 10);
    let open = [(); 2].map(|()| kept(&deferred_syns, &admission));
    let mut servers = Vec::new();
    for ((kept, server), port) in open.into_iter().zip(1..) {
        let (client, to) = ends(port);
        deferred_syns.keep(client, to, kept);
        servers.push(server);
    }
    let client = ends(1).0.ip();
    let connections = [(); 2].map(|()| admission.admit(Some(client)));
    let [Ok(first), Ok(_second)] = connections else {
        panic!("SYNs in a client's name are not its connections");
    };
    assert!(admission.is_full_for(client));
    let take = |port| deferred_syns.take(ends(port).0, ends(port).1);
    assert!(take(1).is_none());
    assert_eq!(deferred_syns.outcomes(DeferredOutcome::Expired), 1);
    drop(first);
    assert!(!admission.is_full_for(client));
    let taken = take(2).unwrap();
    assert!(admission.is_full_for(client));
    drop(taken);
    assert_eq!((deferred_syns.waiting(), admission.open()), (0, 1));
}

#[test]
fn a_descriptor_that_waits_for_its_client_is_counted() {
    let deferred_syns = DeferredSyns::default();
    let admission = Arc::new(Admission::default());
    admission.set_limits(10, 0, 2);
    let mut servers = Vec::new();
    for port in [1, 2] {
        let (kept, server) = kept(&deferred_syns, &admission);
        deferred_syns.keep(ends(port).0, ends(port).1, kept);
        servers.push(server);
    }
    let mut taken = deferred_syns.take(ends(1).0, ends(1).1).unwrap();
    let place = taken.upstream_place.take();
    assert!(place.is_some() && taken.into_stream().is_some());
    assert!(admission.take_upstream().is_none());
    drop(place);
    assert!(admission.take_upstream().is_some());
    deferred_syns.expire(Instant::now() + KEPT_MAX, KEPT_MAX);
    let free = [(); 2].map(|()| admission.take_upstream());
    assert!(free.iter().all(Option::is_some));
}
