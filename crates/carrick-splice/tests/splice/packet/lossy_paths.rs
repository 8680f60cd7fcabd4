//! Lossy legs, for which two connections do better than one.

use super::bed::*;
use crate::support::on_worker;
use carrick_splice::{Choice, LossyPath, PacketService, PoolLimits, SocketService, Splicer};
use std::io::Read;
use std::net::{IpAddr, Shutdown};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// More small questions and answers than are needed to assess a leg.
const QUESTIONS: usize = 400;

/// A proxy of one tunnel after another, between these addresses and by these engines, with one packet engine. Returns
/// the reports, and the lossy pairs of networks afterwards.
fn relay_in_turn(
    bed: &Bed,
    turns: Vec<([IpAddr; 2], Choice)>,
) -> JoinHandle<(Vec<Told>, Vec<LossyPath>)> {
    let (ready, is_ready) = mpsc::channel();
    let proxying = bed.on(Host::Middle, move || {
        let service = PacketService::default();
        service.load(64, &[], None, None).unwrap();
        on_worker(async move {
            let (v4, v6) = (listen_at_proxy(V4[0]), listen_at_proxy(V6[0]));
            ready.send(()).unwrap();
            let mut told = Vec::new();
            for ([own, server], choice) in turns {
                let listener = if own.is_ipv4() { &v4 } else { &v6 };
                let (client, _) = listener.accept().await.unwrap();
                let server = tokio::net::TcpStream::connect((server, SERVER_PORT));
                let server = server.await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let splicer = Splicer::with_engines(
                    PoolLimits::default(),
                    tunnels().only(),
                    SocketService::default(),
                    service.clone(),
                );
                told.push(relay(splicer, client, server, choice).await);
            }
            (told, service.lossy_paths())
        })
    });
    is_ready.recv().unwrap();
    proxying
}

/// Asks often, and closes.
fn converse(address: IpAddr, choice: Choice) {
    let mut stream = connect(address);
    if choice == Choice::Packet {
        ask_until_decided(&mut stream);
    }
    for _ in 0..QUESTIONS {
        ask(&mut stream, 10, 10);
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// The first tunnel uses this engine, and suffers losses.
fn after_losses(first: Choice) {
    let Some(bed) = Bed::new() else { return };
    // IPv4 is lossy towards the client; the pair of IPv6 has other networks and a good path.
    bed.nft(
        Host::Client,
        "table netdev lossy { chain c { type filter hook ingress device c priority -500; \
         ip protocol tcp numgen inc mod 20 0 drop; }; }",
    );
    let turns = vec![(V4, first), (V4, Choice::Packet), (V6, Choice::Packet)];
    let proxying = relay_in_turn(&bed, turns.clone());
    for ([own, server], choice) in turns {
        let serving = bed.serve(server, 1, answer);
        bed.on(Host::Client, move || converse(own, choice))
            .join()
            .unwrap();
        serving.join().unwrap();
    }
    let (told, lossy) = proxying.join().unwrap();
    let is_refused = |told: &Told| told.reasons.contains(&"packet_lossy_path");
    assert_eq!(told[0].by_kernel > 0, first == Choice::Packet, "{told:?}");
    assert!(!is_refused(&told[0]), "{told:?}");
    assert_eq!(
        (told[1].by_kernel, is_refused(&told[1])),
        (0, true),
        "{told:?}"
    );
    assert!(told[2].by_kernel > 0 && !is_refused(&told[2]), "{told:?}");
    let [lossy] = &lossy[..] else {
        panic!("{lossy:?}")
    };
    assert_eq!(lossy.client.to_string(), "10.78.1.0/24");
    assert_eq!(lossy.server.to_string(), "10.78.2.0/24");
    let [to_client, to_server] = lossy.lost_percent;
    assert!(to_client > 2.0, "{lossy:?}");
    // A splice loses for both: the client retransmits data for which the server's acknowledgements were lost.
    assert!(first == Choice::Packet || to_server < 1.0, "{lossy:?}");
}

#[test]
fn after_losses_of_a_splice_the_next_tunnel_has_legs_of_its_own() {
    after_losses(Choice::Packet);
}

#[test]
fn after_losses_of_a_leg_the_next_tunnel_has_legs_of_its_own() {
    after_losses(Choice::Copy);
}
