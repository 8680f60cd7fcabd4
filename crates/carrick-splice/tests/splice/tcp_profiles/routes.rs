//! The interface by which a leg's packets leave.

use super::bed::{self, CLIENT, GATEWAY, Host, SERVER, bed};
use crate::support::HANG;
use carrick_splice::tcp_tuning::{
    Conditions, ProfileSide, Rule, Selector, facts, interface_towards,
};
use socket2::SockRef;
use std::net::{SocketAddr, TcpStream};

#[test]
fn each_leg_has_the_interface_of_its_route() {
    let Some(bed) = bed() else {
        return;
    };
    for family in [0, 1] {
        let listener = bed.listen(Host::Middle, family);
        let address = listener.local_addr().unwrap();
        let client = bed.at(Host::Client, move || TcpStream::connect(address).unwrap());
        let (accepted, _) = listener.accept().unwrap();
        let server = bed.listen(Host::Server, family);
        let address = server.local_addr().unwrap();
        let rules = ["ground", "sat"].map(|name| Rule {
            when: Conditions {
                interface: Some(name.into()),
                ..Conditions::default()
            },
            profile: name,
        });
        bed.at(Host::Middle, move || {
            let connected = TcpStream::connect(address).unwrap();
            assert_eq!(interface_towards(&accepted).unwrap(), "sat");
            assert_eq!(interface_towards(&connected).unwrap(), "ground");
            let selector = Selector::new(rules.into());
            for (leg, side, name) in [
                (&accepted, ProfileSide::Client, "sat"),
                (&connected, ProfileSide::Server, "ground"),
            ] {
                let peer = leg.peer_addr().unwrap().ip();
                let wanted = selector.wants(side, peer);
                let found = facts(leg, side, wanted).unwrap();
                assert_eq!(selector.choose(&found), Some(&name));
            }
        });
        drop(client);
    }
}

/// A mark selects another route; a socket that is bound to an interface stays there.
#[test]
fn marks_and_bound_sockets_are_considered() {
    let Some(bed) = bed() else {
        return;
    };
    let listener = bed.listen(Host::Server, 0);
    let address = listener.local_addr().unwrap();
    let table = format!(
        "route add {}/32 via {} dev sat table 83",
        SERVER[0], CLIENT[0]
    );
    bed.ip(Host::Middle, &table);
    bed.ip(Host::Middle, "rule add fwmark 7 table 83");
    bed.at(Host::Middle, move || {
        let connected = TcpStream::connect(address).unwrap();
        assert_eq!(interface_towards(&connected).unwrap(), "ground");
        SockRef::from(&connected).set_mark(7).unwrap();
        assert_eq!(interface_towards(&connected).unwrap(), "sat");
        SockRef::from(&connected)
            .bind_device(Some(b"ground"))
            .unwrap();
        assert_eq!(interface_towards(&connected).unwrap(), "ground");
    });
}

/// An intercepted client: the connection's local address is not this machine's.
#[test]
fn an_intercepted_client_has_the_interface_of_its_route() {
    let Some(bed) = bed() else {
        return;
    };
    let elsewhere: SocketAddr = "192.0.2.9:80".parse().unwrap();
    bed.ip(
        Host::Client,
        &format!("route add default via {}", GATEWAY[0]),
    );
    // Packets to other addresses are for the gateway, until it has accepted.
    bed.ip(Host::Middle, "route add local 192.0.2.9/32 dev lo");
    let accepted = bed.at(Host::Middle, move || {
        let listener = bed::socket(0);
        listener.set_ip_transparent_v4(true).unwrap();
        listener.bind(&elsewhere.into()).unwrap();
        listener.listen(1).unwrap();
        listener.set_read_timeout(Some(HANG)).unwrap();
        listener
    });
    let client = bed.at(Host::Client, move || TcpStream::connect(elsewhere).unwrap());
    let (accepted, _) = accepted.accept().unwrap();
    bed.ip(Host::Middle, "route del local 192.0.2.9/32 dev lo");
    let accepted = TcpStream::from(accepted);
    assert_eq!(accepted.local_addr().unwrap(), elsewhere);
    bed.at(Host::Middle, move || {
        assert_eq!(interface_towards(&accepted).unwrap(), "sat");
    });
    drop(client);
}
