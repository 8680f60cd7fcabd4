//! A client behind a router that cuts its longer packets into fragments.

use super::bed::*;
use crate::hosts::run;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::thread::JoinHandle;

/// A host behind the bed's client, which forwards its packets to the proxy by a path of 1300 bytes.
struct FarClient(String);

impl FarClient {
    fn new(bed: &Bed) -> FarClient {
        let router = bed.name(Host::Client);
        let far = FarClient(format!("{router}f"));
        let name = &far.0;
        run(&format!("ip netns add {name}"));
        run(&format!(
            "ip link add far netns {name} type veth peer name near netns {router}"
        ));
        run(&format!("ip -n {name} addr add 10.78.9.2/24 dev far"));
        run(&format!("ip -n {name} link set far up"));
        run(&format!("ip -n {name} route add default via 10.78.9.1"));
        // Otherwise it would get to know the path.
        run(&format!(
            "ip netns exec {name} sysctl -qw net.ipv4.ip_no_pmtu_disc=1"
        ));
        bed.ip(Host::Client, "addr add 10.78.9.1/24 dev near");
        bed.ip(Host::Client, "link set near up");
        bed.ip(
            Host::Client,
            "route change 10.78.1.0/24 dev c mtu lock 1300",
        );
        bed.set(Host::Client, "ip_forward", 1);
        bed.ip(Host::Middle, "route add 10.78.9.0/24 via 10.78.1.2");
        far
    }

    /// Runs `what` there.
    fn on<T: Send + 'static>(
        &self,
        bed: &Bed,
        what: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.0);
        bed.on(Host::Client, move || {
            let file = std::fs::File::open(path).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            what()
        })
    }
}

impl Drop for FarClient {
    fn drop(&mut self) {
        run(&format!("ip netns del {}", self.0));
    }
}

/// How many fragments the proxy's host has put together.
fn whole(bed: &Bed) -> u64 {
    let counters = bed.read(Host::Middle, "/proc/net/snmp");
    let mut lines = counters.lines().filter(|line| line.starts_with("Ip:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, value) = pairs.find(|(name, _)| *name == "ReasmOKs").unwrap();
    value.parse().unwrap()
}

fn close(mut stream: TcpStream) {
    use std::io::Read;
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

fn add(sum: &mut (u64, u64), bytes: (u64, u64)) {
    *sum = (sum.0 + bytes.0, sum.1 + bytes.1);
}

#[test]
fn the_process_goes_on_where_a_tunnel_comes_in_fragments() {
    let Some(bed) = Bed::new() else { return };
    let far = FarClient::new(&bed);
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = bed.tunnels(V4, 1);
    let asking = far.on(&bed, || {
        let mut stream = connect(V4[0]);
        let mut sum = ask_until_decided(&mut stream);
        for _ in 0..10 {
            add(&mut sum, ask(&mut stream, 100, 2000));
        }
        for _ in 0..10 {
            add(&mut sum, ask(&mut stream, 1400, 2000));
            add(&mut sum, ask(&mut stream, 100_000, 100_000));
        }
        close(stream);
        sum
    });
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    let told = proxying.join().unwrap().remove(0);
    assert_eq!(told.bytes, sent, "{told:?}");
    assert!(told.by_kernel > 0, "{told:?}");
    // It does not get the packets again.
    assert!(told.by_kernel < 100_000, "{told:?}");
    assert!(told.reasons.contains(&"packet_refused"), "{told:?}");
    assert!(whole(&bed) > 10);
}
