//! More SYNs than can be deferred.

use super::*;
use crate::router::send_frames;
use std::net::{IpAddr, Ipv4Addr};

/// From as many addresses.
const SYNS: u32 = 100_000;

/// This many are deferred, without a decision for as long as the flood lasts.
const WAITING_MAX: usize = 5_000;

#[test]
fn a_flood_passes_and_a_client_behind_it_is_served() {
    let Some(bed) = bed() else {
        return;
    };
    let (to_router, orders) = mpsc::channel::<()>();
    let deferring = defer(&bed, async move |syn_defer, mut reader| {
        let mut waiting = Vec::new();
        let honest = address(FAMILIES[0].client, 0).ip();
        while orders.try_recv().is_err() {
            let Ok(deferred) = tokio::time::timeout(SHORT, reader.next()).await else {
                continue;
            };
            let deferred = deferred.unwrap();
            if deferred.client().ip() == honest || waiting.len() >= WAITING_MAX {
                // With so many, some are evicted at once.
                deferred.release().unwrap();
            } else {
                waiting.push(deferred);
            }
        }
        (syn_defer.counts().unwrap(), waiting.len())
    });
    // Released SYNs, and those that pass, go nowhere: the server does not have that address.
    let server = address(FAMILIES[0].elsewhere, 0).ip();
    bed.ip(Host::Middle, &format!("route add blackhole {server}"));
    bed.run(Host::Middle, "sysctl -q -w net.ipv4.conf.all.rp_filter=0");
    bed.run(Host::Middle, "sysctl -q -w net.ipv4.conf.rc.rp_filter=0");
    let head = header(&bed, "rc", false);
    bed.at(Host::Client, move || {
        let frames = (0..SYNS).map(|number| {
            // 11.0.0.0/8, in no particular order.
            let host = number.wrapping_mul(0x9e37_79b1) >> 8;
            let from = IpAddr::from(Ipv4Addr::from(11 << 24 | host));
            let port = 1024 + (number >> 8) as u16;
            let packet = syn((from, port), (server, 80), number, &[]);
            [&head[..], &packet].concat()
        });
        send_frames("c", frames);
    });
    let family = FAMILIES[0];
    let listener = bed.at(Host::Server, move || listen(address(family.server, 80)));
    let listening = std::thread::spawn(move || {
        for _ in 0..10 {
            listener.accept().unwrap();
        }
    });
    bed.at(Host::Client, move || {
        for _ in 0..10 {
            TcpStream::connect_timeout(&address(family.server, 80), HANG).unwrap();
        }
    });
    listening.join().unwrap();
    to_router.send(()).unwrap();
    let (counts, waiting) = deferring.join().unwrap();
    assert_eq!(waiting, WAITING_MAX);
    let met = counts.deferred + counts.crowded + counts.unattended;
    assert!(met > u64::from(SYNS) / 2, "{counts:?}");
}
