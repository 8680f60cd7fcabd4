//! Connections that go to a local port, whatever their destination.

use crate::router::{Bed, FAMILIES, Family, Host, address, bed, listen};
use crate::support::{HANG, connect_from};
use crate::traffic::{answer, ask, takes_reuseport};
use crate::{assert_used, attach, incoming, rule};
use carrick_packet_rules::{Action, Match, Protocol, Redirect, Rule};
use carrick_splice::PacketService;
use carrick_test::until_free;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;

fn redirect_of(family: &Family, mark: Option<u32>) -> Rule {
    let packets = Match {
        source: Some(family.clients.parse().unwrap()),
        destination_ports: 80..=89,
        ..incoming(Protocol::Tcp)
    };
    rule(
        "web",
        packets,
        Action::Redirect(Redirect { port: 8080, mark }),
    )
}

/// A client asks `to`, through a rule, and the router answers on port 8080.
fn is_redirected(
    bed: &Bed,
    rule: Rule,
    listen: impl FnOnce() -> TcpListener + Send + 'static,
    to: SocketAddr,
) {
    let (ready, is_ready) = mpsc::channel();
    let router = bed.on(Host::Middle, move || {
        let rules = attach(&[rule]);
        let listener = listen();
        ready.send(()).unwrap();
        let asked = answer(&listener);
        let second = answer(&listener);
        assert_used(&rules.counts().unwrap());
        (asked, second)
    });
    is_ready.recv().unwrap();
    let peers = bed.at(Host::Client, move || (ask(to).0, ask(to).0));
    assert_eq!(peers, (to, to), "who answers is who was asked");
    assert_eq!(
        router.join().unwrap(),
        (to, to),
        "and is told who was asked"
    );
}

#[test]
fn a_connection_to_the_host_goes_to_the_local_port() {
    let Some(bed) = bed() else {
        return;
    };
    for family in FAMILIES {
        for port in [80, 89] {
            let listen = move || listen(address(family.router, 8080));
            let to = address(family.router, port);
            is_redirected(&bed, redirect_of(&family, None), listen, to);
        }
    }
}

#[test]
fn a_connection_to_another_host_goes_to_the_local_port() {
    let Some(bed) = bed() else {
        return;
    };
    for family in ["-4", "-6"] {
        bed.ip(
            Host::Middle,
            &format!("{family} rule add fwmark 9 lookup 99"),
        );
        bed.ip(
            Host::Middle,
            &format!("{family} route add local default dev lo table 99"),
        );
    }
    for family in FAMILIES {
        let unspecified = if family.all == "::/0" {
            "::"
        } else {
            "0.0.0.0"
        };
        let listen = move || transparent(address(unspecified, 8080));
        let to = address(family.elsewhere, 80);
        is_redirected(&bed, redirect_of(&family, Some(9)), listen, to);
    }
}

/// A listening socket for connections to any address.
fn transparent(address: SocketAddr) -> TcpListener {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
    socket.set_ip_transparent_v4(true).unwrap();
    socket.set_reuse_address(true).unwrap();
    // As workers have it.
    socket.set_reuse_port(takes_reuseport()).unwrap();
    until_free(|| socket.bind(&address.into())).unwrap();
    socket.listen(16).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    socket.into()
}

#[test]
fn a_listener_on_the_own_port_does_not_get_what_is_redirected() {
    let Some(bed) = bed() else {
        return;
    };
    let family = FAMILIES[0];
    let own = bed.at(Host::Middle, move || listen(address(family.router, 80)));
    let listen = || listen(address("0.0.0.0", 8080));
    let to = address(family.router, 80);
    is_redirected(&bed, redirect_of(&family, None), listen, to);
    drop(own);
}

#[test]
fn a_client_may_use_its_port_again_after_the_proxy_has_closed() {
    let Some(bed) = bed() else {
        return;
    };
    let family = FAMILIES[0];
    let (ready, is_ready) = mpsc::channel();
    let router = bed.on(Host::Middle, move || {
        let rules = attach(&[redirect_of(&family, None)]);
        let listener = listen(address(family.router, 8080));
        ready.send(()).unwrap();
        for _ in 0..3 {
            // Who closes first keeps TIME_WAIT.
            let (mut stream, _) = listener.accept().unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        }
        rules.counts().unwrap()
    });
    is_ready.recv().unwrap();
    bed.at(Host::Client, move || {
        for _ in 0..3 {
            // The old connection has to be got rid of first (RFC 1337), but not waited for.
            let own = address(family.client, 5555);
            let mut stream = connect_from(own, address(family.router, 80));
            // The end is here before this side's end is said.
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        }
    });
    assert_used(&router.join().unwrap());
}

#[test]
fn rules_and_the_packet_engine_are_on_the_same_interfaces() {
    let Some(bed) = bed() else {
        return;
    };
    let family = FAMILIES[1];
    let to = address(family.router, 80);
    for is_engine_first in [true, false] {
        let engine = PacketService::default();
        let load = |engine: PacketService| move || engine.load(4, &[], None, None).unwrap();
        if is_engine_first {
            bed.at(Host::Middle, load(engine.clone()));
        }
        let engine_later = engine.clone();
        let listen = move || {
            if !is_engine_first {
                load(engine_later)();
            }
            listen(address(family.router, 8080))
        };
        is_redirected(&bed, redirect_of(&family, None), listen, to);
        assert!(engine.is_loaded());
    }
}
