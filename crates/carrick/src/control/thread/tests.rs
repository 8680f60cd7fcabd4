//! Reloading and ending the control thread.
use super::super::testing::{
    LOOPBACK_ANY_PORT, get, plan, running, start_control, state, upstream,
};
use super::*;
use crate::config::plan::HealthPlan;
use carrick_test::wait_until;
use std::net::TcpStream;

fn any_port() -> Option<SocketAddr> {
    Some(LOOPBACK_ANY_PORT.parse().unwrap())
}

/// A port of 127.0.0.1 at which nobody listens, reserved as long as the socket lives: it is bound, and lets others bind to listen.
fn reserve_port() -> (u16, socket2::Socket) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&any_port().unwrap().into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (address.port(), socket)
}

/// A program that another test starts may hold the last listener for a moment.
fn apply(handle: &ControlHandle, admin: Option<SocketAddr>) {
    carrick_test::until_free(|| handle.apply(running(plan(admin, Vec::new())))).unwrap();
}

fn expect_refusal(address: SocketAddr) {
    wait_until("nobody listens", || TcpStream::connect(address).is_err());
}

fn local(port: u16) -> Option<SocketAddr> {
    Some(SocketAddr::from(([127, 0, 0, 1], port)))
}

#[test]
fn admin_moves_goes_and_comes_back() {
    let handle = start_control(state(plan(any_port(), Vec::new()))).unwrap();
    let first = handle.state().admin_address().unwrap();
    assert_eq!(get(first, "/health").0, 200);

    let (port, _reserved) = reserve_port();
    let second = local(port);
    apply(&handle, second);
    assert_eq!(handle.state().admin_address(), second);
    assert_eq!(get(second.unwrap(), "/health").0, 200);
    expect_refusal(first);

    apply(&handle, None);
    assert_eq!(handle.state().admin_address(), None);
    expect_refusal(second.unwrap());

    apply(&handle, second);
    assert_eq!(get(second.unwrap(), "/health").0, 200);
    handle.shutdown();
    expect_refusal(second.unwrap());
}

#[test]
fn admin_moves_to_another_address_of_its_own_port() {
    let (port, _reserved) = reserve_port();
    let handle = start_control(state(plan(local(port), Vec::new()))).unwrap();
    let everywhere = Some(SocketAddr::from(([0, 0, 0, 0], port)));
    apply(&handle, everywhere);
    assert_eq!(handle.state().admin_address(), everywhere);
    assert_eq!(get(local(port).unwrap(), "/health").0, 200);
    apply(&handle, local(port));
    assert_eq!(get(local(port).unwrap(), "/health").0, 200);
    handle.shutdown();
}

#[test]
fn an_address_that_cannot_be_bound_changes_nothing() {
    let handle = start_control(state(plan(any_port(), Vec::new()))).unwrap();
    let before = handle.state().admin_address();
    let taken = std::net::TcpListener::bind(LOOPBACK_ANY_PORT).unwrap();
    let upstreams = vec![Arc::new(upstream("new", &[local(9).unwrap()], None))];
    let error = handle
        .apply(running(plan(taken.local_addr().ok(), upstreams)))
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert_eq!(handle.state().admin_address(), before);
    assert_eq!(get(before.unwrap(), "/health").0, 200);
    assert!(handle.state().running.load().upstreams.is_empty());
    handle.shutdown();
}

#[test]
fn an_order_that_nobody_waits_for_any_more_is_not_applied() {
    let mut handle = start_control(state(plan(any_port(), Vec::new()))).unwrap();
    let upstreams = vec![Arc::new(upstream("new", &[local(9).unwrap()], None))];
    let late = running(plan(None, upstreams));
    // A thread that has no time.
    let (orders, mut waiting) = mpsc::unbounded_channel();
    let of_thread = std::mem::replace(&mut handle.orders, orders);
    handle.apply_within(Duration::ZERO, late).unwrap_err();
    // Now it has.
    of_thread.send(waiting.try_recv().unwrap()).unwrap();
    handle.orders = of_thread;
    let before = handle.state().admin_address();
    let taken = std::net::TcpListener::bind(LOOPBACK_ANY_PORT).unwrap();
    let next = running(plan(taken.local_addr().ok(), Vec::new()));
    handle.apply(next).unwrap_err();
    assert_eq!(handle.state().admin_address(), before);
    assert!(handle.state().running.load().upstreams.is_empty());
    handle.shutdown();
}

#[test]
fn an_address_of_the_same_port_that_cannot_be_bound_gives_the_old_one_back() {
    let (port, _reserved) = reserve_port();
    let handle = start_control(state(plan(local(port), Vec::new()))).unwrap();
    // Another socket has the port at another address, so the wildcard address cannot be bound.
    let _other = std::net::TcpListener::bind(("127.0.0.2", port)).unwrap();
    let everywhere = Some(SocketAddr::from(([0, 0, 0, 0], port)));
    handle
        .apply(running(plan(everywhere, Vec::new())))
        .unwrap_err();
    assert_eq!(handle.state().admin_address(), local(port));
    assert_eq!(get(local(port).unwrap(), "/health").0, 200);
    handle.shutdown();
}

#[test]
fn health_checks_follow_the_configuration() {
    let health = HealthPlan {
        path: None,
        grpc: None,
        host: None,
        every: std::time::Duration::from_millis(20),
        fall: 1,
        rise: 1,
    };
    let (port, _reserved) = reserve_port();
    let dead = local(port).unwrap();
    let checked = || vec![Arc::new(upstream("u", &[dead], Some(health.clone())))];
    let handle = start_control(state(plan(None, checked()))).unwrap();
    let server = Arc::clone(&handle.state().running.load().upstreams[0].servers[0]);
    wait_until("the server is down", || !server.is_healthy());

    let before = Arc::clone(&handle.state().running.load());
    let unchecked = plan(None, vec![Arc::new(upstream("u", &[dead], None))]);
    let upstreams =
        crate::upstream::state::UpstreamState::for_plan(&unchecked.upstreams, &before.upstreams);
    handle
        .apply(Running {
            plan: Arc::new(unchecked),
            upstreams,
        })
        .unwrap();
    assert!(server.is_healthy());
    assert!(Arc::ptr_eq(
        &server,
        &handle.state().running.load().upstreams[0].servers[0]
    ));
    let failed = handle.state().metrics.health_checks_failed.get();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(handle.state().metrics.health_checks_failed.get(), failed);

    handle.apply(running(plan(None, checked()))).unwrap();
    let server = Arc::clone(&handle.state().running.load().upstreams[0].servers[0]);
    wait_until("the server is down again", || !server.is_healthy());
    handle.shutdown();
}

#[test]
fn the_end_does_not_wait_for_clients_and_is_final() {
    let handle = start_control(state(plan(any_port(), Vec::new()))).unwrap();
    let resolver = handle.resolver();
    let address = handle.state().admin_address().unwrap();
    let _idle = TcpStream::connect(address).unwrap();
    handle.shutdown();
    expect_refusal(address);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let error = runtime
        .block_on(resolver.resolve("www.example.org"))
        .unwrap_err();
    assert_eq!(error, crate::resolver::ResolveError::Busy);
}
