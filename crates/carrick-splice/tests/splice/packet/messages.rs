//! Routers that report that a packet is too large.

use super::bed::*;
use crate::hosts::run;
use crate::support::*;
use carrick_splice::{Choice, ExchangeEnd, ExchangeOrder};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use tokio::sync::Notify;

const BYTES: usize = 20_000_000;
/// Bytes that have arrived when the path's MTU shrinks.
const BEFORE: usize = 5_000_000;
/// More than is ever in flight at once.
const FIRST: usize = 16_000_000;
/// The MTU of the path then; segments are smaller by the longest headers.
const NARROW: u32 = 1400;
const SEGMENT_MIN: u32 = NARROW - 40 - 20 - 12;

/// A host between the proxy and the server, removed when dropped.
struct Router(String);

impl Router {
    fn between(bed: &Bed) -> Router {
        let name = format!("{}r", bed.name(Host::Middle));
        run(&format!("ip netns add {name}"));
        let router = Router(name);
        let proxy = bed.name(Host::Middle);
        bed.ip(Host::Middle, &format!("link set ps netns {}", router.0));
        run(&format!(
            "ip link add px netns {proxy} type veth peer name rp netns {}",
            router.0
        ));
        bed.ip(Host::Middle, "link set px up");
        bed.address(Host::Client, "c", 1, 2);
        bed.address(Host::Middle, "pc", 1, 1);
        bed.address(Host::Middle, "px", 3, 1);
        bed.address(Host::Server, "s", 2, 2);
        for line in [
            "link set ps up",
            "link set rp up",
            "addr add 10.78.3.2/24 dev rp",
            "addr add fd78:3::2/64 dev rp nodad",
            "addr add 10.78.2.1/24 dev ps",
            "addr add fd78:2::1/64 dev ps nodad",
        ] {
            router.ip(line);
        }
        for family in ["ipv4.ip_forward", "ipv6.conf.all.forwarding"] {
            let line = format!("ip netns exec {} sysctl -qw net.{family}=1", router.0);
            run(&line);
        }
        bed.ip(Host::Middle, "route add 10.78.2.0/24 via 10.78.3.2");
        bed.ip(Host::Middle, "route add fd78:2::/64 via fd78:3::2");
        bed.ip(Host::Server, "route add 10.78.3.0/24 via 10.78.2.1");
        bed.ip(Host::Server, "route add fd78:3::/64 via fd78:2::1");
        router
    }

    fn ip(&self, arguments: &str) {
        run(&format!("ip -n {} {arguments}", self.0));
    }

    /// From now on, nothing larger goes to the server.
    fn narrow(&self) {
        let lock = format!("dev ps mtu lock {NARROW}");
        self.ip(&format!("route replace 10.78.2.0/24 {lock}"));
        self.ip(&format!("-6 route add fd78:2::/64 {lock} metric 1"));
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        run(&format!("ip netns del {}", self.0));
    }
}

#[test]
fn a_road_that_becomes_narrow_takes_shorter_segments() {
    for addresses in [V4, V6] {
        let Some(bed) = Bed::bare() else {
            return;
        };
        let router = Router::between(&bed);
        become_narrow(&bed, &router, addresses);
    }
}

/// A server that reads a first part, reports that, and then waits in the middle of its reading until its path's MTU has
/// shrunk. Returns its thread, when to shrink it, and how to continue.
fn serve_half_way(
    bed: &Bed,
    address: IpAddr,
    first: usize,
) -> (JoinHandle<Vec<()>>, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (half_way, is_half_way) = mpsc::channel();
    let (narrowed, is_narrow) = mpsc::channel();
    let is_narrow = Mutex::new(is_narrow);
    let serving = bed.serve(address, 1, move |mut stream| {
        // Else all that is to come may be there before the path shrinks (32 MB since Linux 6.16).
        SockRef::from(&stream)
            .set_recv_buffer_size(1 << 20)
            .unwrap();
        greet_back(&mut stream);
        let mut read = vec![0; first];
        stream.read_exact(&mut read).unwrap();
        stream.write_all(&[1]).unwrap();
        let mut read = vec![0; BEFORE];
        stream.read_exact(&mut read).unwrap();
        half_way.send(()).unwrap();
        is_narrow.lock().unwrap().recv_timeout(HANG).unwrap();
        stream.read_to_end(&mut read).unwrap();
        assert_same(&read, &sample(6, BYTES), "what the server read");
    });
    (serving, is_half_way, narrowed)
}

fn send_all(stream: &mut std::net::TcpStream) {
    stream.write_all(&sample(6, BYTES)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

fn become_narrow(bed: &Bed, router: &Router, addresses: [IpAddr; 2]) {
    let (serving, is_half_way, narrowed) = serve_half_way(bed, addresses[1], 0);
    let proxying = bed.tunnels(addresses, 1);
    let sending = bed.on(Host::Client, move || {
        let mut stream = connect(addresses[0]);
        greet(&mut stream);
        stream.read_exact(&mut [0]).unwrap();
        let before = SockRef::from(&stream).tcp_mss().unwrap();
        send_all(&mut stream);
        (before, SockRef::from(&stream).tcp_mss().unwrap())
    });
    is_half_way.recv_timeout(HANG).unwrap();
    router.narrow();
    narrowed.send(()).unwrap();
    let (before, after) = sending.join().unwrap();
    assert!(before > NARROW - 40, "{before}");
    serving.join().unwrap();
    let told = proxying.join().unwrap().remove(0);
    told.assert_closed((GREETING + BYTES as u64, GREETING + 1));
    // The kernel has forwarded all the time.
    assert!(told.by_kernel >= BYTES as u64, "{told:?}");
    // The client has learned of it from the proxy.
    assert!(
        (SEGMENT_MIN..=NARROW - 40).contains(&after),
        "{after}: {told:?}"
    );
}

/// The local sockets' numbers differ from their peers' by then.
#[test]
fn a_road_that_becomes_narrow_after_the_splice_is_for_the_local_socket() {
    for addresses in [V4, V6] {
        let Some(bed) = Bed::bare() else { return };
        let router = Router::between(&bed);
        let (serving, is_half_way, narrowed) = serve_half_way(&bed, addresses[1], FIRST);
        let greeted = Arc::new(Notify::new());
        let is_greeted = Arc::clone(&greeted);
        let (taken_back, is_taken_back) = mpsc::channel();
        let proxying = bed.proxy(addresses, (1, 8), move |splicer, client, server| {
            let (greeted, taken_back) = (Arc::clone(&is_greeted), taken_back.clone());
            async move {
                let order = ExchangeOrder::new(Choice::Packet);
                let mut exchange = splicer.exchange(client, server, order);
                tokio::select! {
                    end = exchange.run() => panic!("{end:?}"),
                    () = greeted.notified() => {}
                }
                let (_, _, [client, server]) = exchange.unsplice_own().await;
                let by_kernel = splicer.counters().packet_bytes.get();
                taken_back.send(()).unwrap();
                let (client, server) = (client.unwrap(), server.unwrap());
                let order = ExchangeOrder::new(Choice::Copy);
                let mut exchange = splicer.exchange(client, server, order);
                let end = exchange.run().await;
                (end, by_kernel, splicer.counters().packet_bytes.get())
            }
        });
        let sending = bed.on(Host::Client, move || {
            let mut stream = connect(addresses[0]);
            greet(&mut stream);
            stream.write_all(&vec![2; FIRST]).unwrap();
            stream.read_exact(&mut [0]).unwrap();
            greeted.notify_one();
            is_taken_back.recv_timeout(HANG).unwrap();
            send_all(&mut stream);
        });
        is_half_way.recv_timeout(HANG).unwrap();
        router.narrow();
        narrowed.send(()).unwrap();
        sending.join().unwrap();
        serving.join().unwrap();
        let (end, by_kernel, at_last) = proxying.join().unwrap().remove(0);
        assert!(matches!(end, ExchangeEnd::Closed), "{end:?}");
        assert!(by_kernel >= FIRST as u64, "{by_kernel}");
        assert_eq!(by_kernel, at_last);
    }
}
