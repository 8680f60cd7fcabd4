//! The test bed: both layouts carry traffic as planned, several at once; what is left behind; how failures are told.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which may fail as tests do"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use carrick_lab::content::Body;
use carrick_lab::load::outcome::LoadOutcome;
use carrick_lab::peers::{FURTHER, Family, Job, PEERS, Programs, start_origin};
use carrick_lab::testbed::cores::{CorePair, Placement};
use carrick_lab::testbed::namespace::Namespace;
use carrick_lab::testbed::{Layout, Meter, Side, TcpCounters, TcpOptions, Testbed, TestbedPlan};
use carrick_lab::wan::spec::{Path, Rule, WanCounts, WanSpec};

use carrick_test::{EndInTime, PATIENCE, RunInTime, listen, wait_until};

use crate::{LAB, can_run, left_behind, left_behind_by};

#[path = "testbed/command.rs"]
mod command;
#[path = "testbed/congestion.rs"]
mod congestion;
#[path = "testbed/helpers.rs"]
mod helpers;
#[path = "testbed/peers.rs"]
mod peers;

const LAYOUTS: [Layout; 2] = [Layout::Direct, Layout::Routed];
const BYTES: usize = 2_000_000;

/// Field 22 of `/proc/PID/stat`.
pub fn started_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let behind_name = stat.rsplit_once(')').unwrap().1;
    let field = behind_name.split_whitespace().nth(19).unwrap();
    field.parse().unwrap()
}

/// The processes in a namespace.
pub fn pids(namespace: &str) -> Vec<u32> {
    let mut command = Command::new("ip");
    let output = command.args(["netns", "pids", namespace]).output_in_time();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.lines().map(|pid| pid.parse().unwrap()).collect()
}

/// The namespaces of a process's runs.
pub fn namespaces(pid: u32) -> impl Iterator<Item = String> {
    let paths = left_behind(pid).into_iter();
    let paths = paths.filter(|path| path.starts_with("/run/netns"));
    paths.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
}

fn build(layout: Layout, change: impl FnOnce(&mut TestbedPlan)) -> Testbed {
    let mut plan = TestbedPlan {
        layout,
        ..TestbedPlan::default()
    };
    change(&mut plan);
    Testbed::build(&plan).unwrap()
}

/// A connection between sockets of two namespaces, made by threads inside; the sockets stay there.
fn connect(from: &Namespace, to: &Namespace, address: SocketAddr) -> (TcpStream, TcpStream) {
    let listener = to.inside(|| Ok(listen(address))).unwrap();
    let near = from.inside(|| Ok(TcpStream::connect(address)?)).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Sends bytes and checks each of them at the other end.
fn transfer(mut from: TcpStream, mut to: TcpStream) {
    let body = Body::of_seed(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut sent = 0;
            while sent < BYTES {
                let piece = body.piece(sent as u64, (BYTES - sent).min(65_536));
                from.write_all(piece).unwrap();
                sent += piece.len();
            }
        });
        let mut received = vec![0; BYTES];
        to.read_exact(&mut received).unwrap();
        assert_eq!(body.first_difference(0, &received), None);
    });
}

fn details(namespace: &Namespace) -> String {
    let said = namespace
        .run("ss", &["-tineH", "state", "established"])
        .unwrap();
    assert_eq!(said.lines().count(), 2, "one connection: {said}");
    said.lines().nth(1).unwrap().trim().to_owned()
}

#[test]
fn both_layouts_carry_traffic_with_the_planned_congestion_control() {
    skip_unless!();
    for layout in LAYOUTS {
        let bed = build(layout, |plan| plan.congestion = "reno".into());
        let addresses = bed.addresses();
        for (from, to, address) in [
            (&bed.client, &bed.server, addresses.origin_http()),
            (&bed.client, &bed.proxy, addresses.proxy_for(Job::Switch)),
            (&bed.proxy, &bed.server, addresses.origin_echo()),
        ] {
            let before = TcpCounters::read(to).unwrap();
            let (near, far) = connect(from, to, address);
            for side in [from, to] {
                let said = details(side);
                assert!(said.split(' ').any(|word| word == "reno"), "{said}");
            }
            transfer(far, near);
            let counters = TcpCounters::read(to).unwrap().since(&before);
            assert_eq!((counters.opened, counters.accepted), (0, 1), "{layout:?}");
            assert!(counters.data_out >= (BYTES / 1448) as u64, "{counters:?}");
            assert!(counters.acks_in() > 0 && counters.data_per_ack().unwrap() > 1.0);
        }
    }
}

#[test]
fn in_the_routed_layout_everything_passes_the_router() {
    skip_unless!();
    let bed = build(Layout::Routed, |_| {});
    let router = bed.router().unwrap();
    let address = bed.addresses().proxy_for(Job::Switch);
    drop(connect(&bed.client, &bed.proxy, address));
    router.set_parameter("net/ipv4/ip_forward", "0").unwrap();
    let listener = bed.proxy.inside(|| Ok(listen(address))).unwrap();
    let patience = Duration::from_millis(300);
    let refused = bed
        .client
        .inside(|| Ok(TcpStream::connect_timeout(&address, patience)?));
    assert!(refused.is_err(), "the router's kernel does not forward");
    drop(listener);
    assert!(bed.side(Side::Router).is_some());
    assert!(build(Layout::Direct, |_| {}).router().is_none());
}

#[test]
fn each_side_has_its_tcp_options() {
    skip_unless!();
    let bed = build(Layout::Routed, |plan| {
        plan.mtu = 1000;
        plan.server = TcpOptions {
            sack: false,
            timestamps: false,
            window_scaling: false,
            initial_congestion_window: Some(44),
            initial_receive_window: Some(30),
            receive_buffer: Some([4096, 100_000, 100_000]),
            ..TcpOptions::default()
        };
    });
    let addresses = bed.addresses();
    let (near, far) = connect(&bed.client, &bed.server, addresses.origin_http());
    let said = details(&bed.server);
    let words: Vec<&str> = said.split(' ').collect();
    assert!(
        !words
            .iter()
            .any(|word| *word == "sack" || *word == "ts" || word.starts_with("wscale:")),
        "{said}"
    );
    assert!(words.contains(&"mss:960"), "MTU less two headers: {said}");
    assert!(words.contains(&"cwnd:44"), "{said}");
    let at_client = details(&bed.client);
    assert!(at_client.contains("snd_wnd:28800"), "30 * 960: {at_client}");
    drop((near, far));
    wait_until("no connection", || {
        let said = bed
            .server
            .run("ss", &["-tineH", "state", "established"])
            .unwrap();
        said.is_empty()
    });

    let (near, far) = connect(&bed.client, &bed.proxy, addresses.proxy_for(Job::Switch));
    let said = details(&bed.proxy);
    for word in ["sack", "ts", "cwnd:10"] {
        assert!(said.split(' ').any(|each| each == word), "{word} in {said}");
    }
    assert!(said.contains("wscale:"), "{said}");
    drop((near, far));
}

/// The longest IP packet that enters the router while something is sent from the server to the client.
fn longest_packet(bed: &Testbed) -> usize {
    use socket2::{Domain, Protocol, Socket, Type};
    let capture = bed
        .router()
        .unwrap()
        .inside(|| {
            let all = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
            Ok(Socket::new(Domain::PACKET, Type::DGRAM, Some(all))?)
        })
        .unwrap();
    // Far more than what is sent, so that the kernel drops nothing.
    capture.set_recv_buffer_size(32 * BYTES).unwrap();
    let (near, far) = connect(&bed.client, &bed.server, bed.addresses().origin_http());
    transfer(far, near);
    capture.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 100_000];
    let packets = std::iter::from_fn(|| (&capture).read(&mut buffer).ok());
    packets.max().unwrap_or(0)
}

#[test]
fn without_offloads_no_packet_is_larger_than_the_mtu() {
    skip_unless!();
    let with = build(Layout::Routed, |_| {});
    assert!(longest_packet(&with) > 1500, "with offloads, they are");
    let without = build(Layout::Routed, |plan| plan.offloads = false);
    assert_eq!(longest_packet(&without), 1500);
}

#[test]
fn several_test_beds_live_side_by_side() {
    skip_unless!();
    let beds = LAYOUTS.map(|layout| build(layout, |_| {}));
    let names = [&beds[0], &beds[1]].map(Testbed::service_name);
    assert_ne!(names[0], names[1]);
    // The same addresses in each.
    let pairs: Vec<_> = beds
        .iter()
        .map(|bed| connect(&bed.client, &bed.server, bed.addresses().origin_http()))
        .collect();
    for (near, far) in pairs {
        transfer(far, near);
    }
    let [first, second] = beds;
    drop(first);
    assert_eq!(left_behind_by(&names[0]), Vec::<PathBuf>::new());
    let (near, far) = connect(
        &second.client,
        &second.server,
        second.addresses().origin_http(),
    );
    transfer(far, near);
}
