//! Exchanges whose engine is chosen by observation, with the packet engine loaded.

use super::bed::*;
use crate::support::wait_until;
use carrick_splice::{Choice, Engine, PacketService, PoolLimits, Reason, SocketService, Splicer};
use std::io::Read;
use std::net::{IpAddr, Shutdown, TcpStream};

/// Without obstacles.
fn bed() -> Option<Bed> {
    let bed = Bed::new()?;
    for interface in ["all", "default", "pc", "ps"] {
        bed.set(Host::Middle, &format!("conf.{interface}.rp_filter"), 0);
    }
    Some(bed)
}

/// This many small questions and answers, for which a splice pays; they begin after the decision about the packets.
fn chat(stream: &mut TcpStream, rounds: usize) -> (u64, u64) {
    let decided = ask_until_decided(stream);
    let asked = chat_shortly(stream, rounds);
    (decided.0 + asked.0, decided.1 + asked.1)
}

fn chat_shortly(stream: &mut TcpStream, rounds: usize) -> (u64, u64) {
    (0..rounds).fold((0, 0), |sum, _| {
        let bytes = ask(stream, 10, 10);
        (sum.0 + bytes.0, sum.1 + bytes.1)
    })
}

/// The same once the kernel has the sockets: it refuses them if the client ends before.
fn chat_by_sockets(stream: &mut TcpStream) -> (u64, u64) {
    let mut sum = (0, 0);
    wait_until("the sockets are joined", || {
        let bytes = ask(stream, 10, 10);
        sum = (sum.0 + bytes.0, sum.1 + bytes.1);
        tunnels().all(|counters| counters.socket_stays.get() > 0)
    });
    let bytes = chat_shortly(stream, 100);
    (sum.0 + bytes.0, sum.1 + bytes.1)
}

/// The result of a chat by `auto`, with or without the socket engine.
fn chatted(
    bed: &Bed,
    addresses: [IpAddr; 2],
    with_socket: bool,
    chat: impl FnOnce(&mut TcpStream) -> (u64, u64) + Send + 'static,
) -> Told {
    let serving = bed.serve(addresses[1], 1, answer);
    let proxying = bed.proxy_with(
        addresses,
        (1, 128),
        |packet| &*Box::leak(Box::new(packet.clone())),
        move |_, client, server, packet: &'static PacketService| async move {
            let socket = SocketService::default();
            if with_socket {
                socket.load(64, None).unwrap();
            }
            let counters = tunnels().only();
            let splicer =
                Splicer::with_engines(PoolLimits::default(), counters, socket, packet.clone());
            relay(splicer, client, server, Choice::Auto).await
        },
    );
    let asking = bed.on(Host::Client, move || {
        let mut stream = connect(addresses[0]);
        let sum = chat(&mut stream);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        sum
    });
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    let told = proxying.join().unwrap().remove(0);
    assert_eq!(told.bytes, sent, "{told:?}");
    told
}

#[track_caller]
fn assert_reasons(told: &Told, wanted: &[&str]) {
    let first = "unknown_length";
    assert_eq!(told.reasons, [&[first], wanted].concat(), "{told:?}");
}

#[test]
fn a_long_tunnel_goes_packet_by_packet() {
    for addresses in [V4, V6] {
        let Some(bed) = bed() else {
            return;
        };
        let told = chatted(&bed, addresses, false, |stream| chat(stream, 100));
        assert_reasons(&told, &["packet_pays"]);
        assert_eq!(told.engines, (Engine::Packet, Engine::Packet), "{told:?}");
        assert!(told.by_kernel > 50 * 36, "{told:?}");
    }
}

#[test]
fn a_short_tunnel_stays_in_the_process() {
    let Some(bed) = bed() else {
        return;
    };
    let told = chatted(&bed, V4, false, |stream| chat_shortly(stream, 1));
    assert_reasons(&told, &[]);
    assert_eq!((told.by_kernel, told.engines.0), (0, Engine::Copy));
}

#[test]
fn packets_come_before_sockets() {
    let Some(bed) = bed() else {
        return;
    };
    let told = chatted(&bed, V4, true, |stream| chat(stream, 100));
    assert_reasons(&told, &["packet_pays"]);
    assert_eq!(told.engines, (Engine::Packet, Engine::Packet), "{told:?}");
}

#[test]
fn what_is_unlike_goes_by_sockets() {
    let Some(bed) = bed() else {
        return;
    };
    bed.set(Host::Server, "tcp_timestamps", 0);
    let told = chatted(&bed, V4, true, chat_by_sockets);
    // On a busy machine, data that accumulates looks like bulk, and is taken back from the sockets.
    for reason in ["chatter", "packet_timestamps", "packet_pays"] {
        assert!(told.reasons.contains(&reason), "{told:?}");
    }
    assert!(told.by_kernel == 0 && told.by_sockets > 0, "{told:?}");
}

#[test]
fn sockets_wait_until_packets_are_given_up() {
    let Some(mut bed) = bed() else { return };
    bed.hooked = vec!["pc".to_owned()];
    let told = chatted(&bed, V4, true, |stream| {
        let mut sum = (0, 0);
        // The kernel has two seconds to see the packets of both connections.
        wait_until("packets are given up", || {
            let bytes = ask(stream, 10, 10);
            sum = (sum.0 + bytes.0, sum.1 + bytes.1);
            let has_sockets = tunnels().have(Reason::Chatter);
            let is_given_up = tunnels().have(Reason::PacketInterface);
            assert!(is_given_up || !has_sockets);
            is_given_up
        });
        let bytes = chat_by_sockets(stream);
        (sum.0 + bytes.0, sum.1 + bytes.1)
    });
    for reason in ["chatter", "packet_interface"] {
        assert!(told.reasons.contains(&reason), "{reason}: {told:?}");
    }
    assert!(told.by_sockets > 0, "{told:?}");
}

#[test]
fn where_connections_are_tracked_a_long_tunnel_goes_packet_by_packet() {
    let Some(bed) = bed() else { return };
    bed.nft(
        Host::Middle,
        "table inet tracked { chain c { type filter hook input priority 0; ct state invalid drop; }; }",
    );
    let told = chatted(&bed, V4, false, |stream| chat(stream, 100));
    assert_reasons(&told, &["packet_pays"]);
    assert!(told.by_kernel > 0, "{told:?}");
}

#[test]
fn where_others_must_see_packets_they_do() {
    type Prepare = fn(&Bed);
    let cases: [(&str, Prepare); 3] = [
        ("packet_netfilter", |bed| {
            bed.nft(
                Host::Middle,
                "table inet counted { chain c { type filter hook input priority 0; quota over 1000000 mbytes drop; }; }",
            );
        }),
        ("packet_marks", |bed| {
            bed.nft(
                Host::Middle,
                "table inet marked { chain c { type filter hook prerouting priority 0; meta mark set 7; }; }",
            );
        }),
        ("packet_rp_filter", |bed| {
            bed.set(Host::Middle, "conf.pc.rp_filter", 1);
        }),
    ];
    for (reason, prepare) in cases {
        let Some(bed) = bed() else { return };
        prepare(&bed);
        let told = chatted(&bed, V4, false, |stream| chat(stream, 30));
        assert_reasons(&told, &[reason]);
        assert_eq!(told.by_kernel, 0, "{told:?}");
    }
}

#[test]
fn an_order_that_names_the_engine_gets_it_all_the_same() {
    let Some(bed) = bed() else {
        return;
    };
    bed.set(Host::Middle, "conf.pc.rp_filter", 1);
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = bed.tunnels(V4, 1);
    let asking = bed.on(Host::Client, || ask_and_close(V4[0], 40));
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    proxying.join().unwrap()[0].assert_closed(sent);
}
