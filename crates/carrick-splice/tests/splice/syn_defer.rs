//! Deferred SYNs between network namespaces: a client, a router that defers them, and a server behind it.

mod doubts;
mod flood;
mod packets;
mod places;

use crate::router::{Bed, FAMILIES, Family, Host, address, listen, send_frame};
use crate::support::HANG;
use carrick_splice::syn_defer::{DeferredSyn, Reader, Settings, SynDefer, UNATTENDED, Unreachable};
use packets::{ACK, FLAGS_AT, RST, SYN, Tap, header, syn, tcp};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

/// Time limit for what must not arrive.
const SHORT: Duration = Duration::from_millis(300);

/// The mark of SYNs to port 80.
const MARK: u32 = 7;

fn settings() -> Settings {
    Settings {
        marks: vec![MARK],
        readers: 1,
        assigned_only: false,
        unattended: HANG,
    }
}

/// `None` without root, and on older kernels.
fn bed() -> Option<Bed> {
    let bed = crate::router::bed()?;
    let tried = bed.at(Host::Middle, || SynDefer::attach(&settings()).map(drop));
    let Err(why) = tried else {
        return Some(bed);
    };
    let why = why.to_string();
    assert!(why.starts_with("it needs Linux 6.4 or later"), "{why}");
    carrick_test::lacks!("{why}");
    None
}

/// Runs `what` on the router with one reader of deferred SYNs, and waits until it reads.
fn defer<T: Send + 'static>(
    bed: &Bed,
    what: impl AsyncFnOnce(SynDefer, Reader) -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    defer_by(bed, settings(), what)
}

fn defer_by<T: Send + 'static>(
    bed: &Bed,
    settings: Settings,
    what: impl AsyncFnOnce(SynDefer, Reader) -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    mark(bed);
    let (begun, has_begun) = mpsc::channel();
    let deferring = bed.on(Host::Middle, move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let syn_defer = SynDefer::attach(&settings).unwrap();
            let reader = syn_defer.reader(0).unwrap();
            begun.send(()).unwrap();
            what(syn_defer, reader).await
        })
    });
    has_begun.recv().unwrap();
    deferring
}

/// The router routes, and marks packets to port 80.
fn mark(bed: &Bed) {
    bed.route();
    for line in [
        "nft add table inet t",
        "nft add chain inet t p { type filter hook prerouting priority mangle ; }",
        "nft add rule inet t p tcp dport 80 meta mark set 7",
    ] {
        bed.run(Host::Middle, line);
    }
}

async fn next(reader: &mut Reader) -> DeferredSyn {
    let deferred = tokio::time::timeout(HANG, reader.next()).await;
    deferred.expect("a SYN").unwrap()
}

/// A connection to port 80 of the server, through which the server sends a word.
fn connects(bed: &Bed, family: Family) {
    let listener = bed.at(Host::Server, move || listen(address(family.server, 80)));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"hello").unwrap();
    });
    bed.at(Host::Client, move || {
        let mut stream = TcpStream::connect_timeout(&address(family.server, 80), HANG).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said, "hello");
    });
    server.join().unwrap();
}

#[test]
fn a_syn_that_is_released_reaches_the_server() {
    let Some(bed) = bed() else {
        return;
    };
    let deferring = defer(&bed, async |syn_defer, mut reader| {
        for family in FAMILIES {
            let deferred = next(&mut reader).await;
            assert_eq!(deferred.server(), address(family.server, 80));
            assert_eq!(deferred.client().ip(), address(family.client, 0).ip());
            assert_eq!(
                (deferred.mark(), deferred.segment_bytes().is_some()),
                (MARK, true)
            );
            assert!(deferred.release().unwrap());
        }
        syn_defer.counts().unwrap()
    });
    for family in FAMILIES {
        connects(&bed, family);
    }
    let counts = deferring.join().unwrap();
    assert_eq!(counts.deferred, 2, "{counts:?}");
}

#[test]
fn several_programs_defer_side_by_side() {
    let Some(bed) = bed() else {
        return;
    };
    let attach = || {
        let settings = Settings {
            marks: vec![MARK + 1],
            ..settings()
        };
        SynDefer::attach(&settings)
    };
    let first = bed.at(Host::Middle, move || attach().unwrap());
    let deferring = defer(&bed, async |syn_defer, mut reader| {
        for _ in FAMILIES {
            assert!(next(&mut reader).await.release().unwrap());
        }
        syn_defer.counts().unwrap()
    });
    for family in FAMILIES {
        connects(&bed, family);
    }
    assert_eq!(deferring.join().unwrap().deferred, 2);
    assert_eq!(first.counts().unwrap().deferred, 0);
    let (all, why) = bed.at(Host::Middle, move || {
        let mut all = vec![first];
        loop {
            match attach() {
                Ok(another) => all.push(another),
                Err(why) => return (all, why.to_string()),
            }
        }
    });
    assert_eq!(all.len(), 16);
    assert!(why.contains("all priorities from -149 to -134"), "{why}");
}

#[test]
fn a_client_that_is_refused_hears_it_at_once() {
    let Some(bed) = bed() else {
        return;
    };
    let deferring = defer(&bed, async |_, mut reader| {
        for _ in FAMILIES {
            assert!(next(&mut reader).await.refuse().unwrap());
            for why in [
                Unreachable::Network,
                Unreachable::Host,
                Unreachable::Prohibited,
            ] {
                assert!(next(&mut reader).await.unreachable(why).unwrap());
            }
        }
    });
    for family in FAMILIES {
        let says = |bed: &Bed| {
            bed.at(Host::Client, move || {
                let failed = TcpStream::connect_timeout(&address(family.server, 80), HANG);
                failed.unwrap_err().raw_os_error().unwrap()
            })
        };
        assert_eq!(says(&bed), libc::ECONNREFUSED);
        assert_eq!(says(&bed), libc::ENETUNREACH);
        assert_eq!(says(&bed), libc::EHOSTUNREACH);
        assert!([libc::EHOSTUNREACH, libc::EACCES].contains(&says(&bed)));
    }
    deferring.join().unwrap();
}

/// A handmade SYN to port 80 of the server, from this port.
fn by_hand(family: &Family, port: u16, sequence: u32, data: &[u8]) -> Vec<u8> {
    let ip = |text: &str| text.parse().unwrap();
    let (from, to) = ((ip(family.client), port), (ip(family.server), 80));
    syn(from, to, sequence, data)
}

/// Whether a packet goes to port 80.
fn goes_to_80(packet: &[u8]) -> bool {
    tcp(packet).is_some_and(|tcp| tcp[2..4] == 80_u16.to_be_bytes())
}

/// Sends a packet in a frame with an Ethernet header of this host.
fn send(bed: &Bed, family: &Family, packet: &[u8]) {
    let frame = [&header(bed, "rc", family.client.contains(':'))[..], packet].concat();
    bed.at(Host::Client, move || send_frame("c", &frame));
}

#[test]
fn a_syn_that_is_released_is_as_it_was() {
    let Some(bed) = bed() else {
        return;
    };
    let deferring = defer(&bed, async |_, mut reader| {
        for _ in 0..4 {
            let deferred = next(&mut reader).await;
            assert_eq!(deferred.segment_bytes(), Some(1400));
            deferred.release().unwrap();
        }
    });
    for family in FAMILIES {
        let tap = bed.at(Host::Server, || Tap::open("s"));
        for data in [&[][..], &[0x5a; 1301]] {
            let port = 4000 + data.len() as u16;
            let sent = by_hand(&family, port, 0xffff_ff00, data);
            send(&bed, &family, &sent);
            let came = tap.next(HANG, goes_to_80).unwrap();
            let (sent_tcp, came_tcp) = (tcp(&sent).unwrap(), tcp(&came).unwrap());
            // The checksum, too.
            assert_eq!(sent_tcp, came_tcp);
        }
    }
    deferring.join().unwrap();
}

#[test]
fn a_syn_that_is_repeated_is_asked_for_once_and_passes_when_it_was_released() {
    let Some(bed) = bed() else {
        return;
    };
    let (to_router, orders) = mpsc::channel::<&str>();
    let (tell, told) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    let deferring = defer(&bed, async move |syn_defer, mut reader| {
        let mut waiting = None;
        loop {
            let order = orders.try_recv();
            match (order, waiting.take()) {
                (Ok("release"), Some(deferred)) => {
                    assert!(DeferredSyn::release(deferred).unwrap());
                    done.send(()).unwrap();
                }
                (Ok("forget"), Some(deferred)) => {
                    drop(deferred);
                    done.send(()).unwrap();
                }
                (Ok("end"), _) => return syn_defer.counts().unwrap(),
                (_, deferred) => waiting = deferred,
            }
            if let Ok(deferred) = tokio::time::timeout(SHORT / 10, reader.next()).await {
                waiting = Some(deferred.unwrap());
                tell.send(syn_defer.counts().unwrap().repeated).unwrap();
            }
        }
    });
    let family = FAMILIES[0];
    let tap = bed.at(Host::Server, || Tap::open("s"));
    let packet = by_hand(&family, 4000, 77, &[]);
    for order in ["forget", "release"] {
        for _ in 0..3 {
            send(&bed, &family, &packet);
        }
        // Reported once.
        told.recv_timeout(HANG).unwrap();
        assert!(told.recv_timeout(SHORT).is_err());
        assert!(tap.next(SHORT, goes_to_80).is_none());
        to_router.send(order).unwrap();
        is_done.recv_timeout(HANG).unwrap();
    }
    tap.next(HANG, goes_to_80).expect("what was released");
    send(&bed, &family, &packet);
    tap.next(HANG, goes_to_80).expect("its repetition");
    assert!(told.recv_timeout(SHORT).is_err());
    // The same addresses and ports, with a new SYN.
    send(&bed, &family, &by_hand(&family, 4000, 78, &[]));
    told.recv_timeout(HANG).unwrap();
    to_router.send("end").unwrap();
    let counts = deferring.join().unwrap();
    assert_eq!((counts.deferred, counts.repeated), (3, 4), "{counts:?}");
}

#[test]
fn a_reset_acknowledges_all_of_the_syn() {
    let Some(bed) = bed() else {
        return;
    };
    let deferring = defer(&bed, async |_, mut reader| {
        for _ in FAMILIES {
            assert!(next(&mut reader).await.refuse().unwrap());
        }
    });
    for family in FAMILIES {
        let tap = bed.at(Host::Client, || Tap::open("c"));
        send(
            &bed,
            &family,
            &by_hand(&family, 4000, 0xffff_fffe, b"hello"),
        );
        let from_80 = |packet: &[u8]| tcp(packet).is_some_and(|tcp| tcp[0..2] == [0, 80]);
        let came = tap.next(HANG, from_80).unwrap();
        let came = tcp(&came).unwrap();
        assert_eq!(came[FLAGS_AT], RST | ACK);
        assert_eq!(came[4..8], [0; 4]);
        assert_eq!(came[8..12], 4_u32.to_be_bytes());
    }
    deferring.join().unwrap();
}
