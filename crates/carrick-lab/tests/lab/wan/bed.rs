//! Namespaces client - router - server for one test, the emulator in the router, and senders and receivers of packets.
#![expect(
    clippy::unwrap_used,
    reason = "in a test, a panic is the report of the failure"
)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use carrick_lab::wan::spec::{RuleCounts, WanCounts};
use carrick_test::{Killed, PATIENCE, wait_for, wait_until};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::LAB;

/// After what is due has come, packets that are not due may come for so long.
const SILENCE: Duration = Duration::from_millis(100);

/// Three namespaces and a directory; removed when dropped.
pub struct Bed {
    pub client: String,
    pub router: String,
    pub server: String,
    directory: tempfile::TempDir,
}

/// Where packets are sent to, from the other side.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    ServerIpv4,
    ServerIpv6,
    ClientIpv4,
}

/// A packet that came.
pub struct Arrival {
    pub number: u64,
    pub at: Instant,
}

/// Packets that were sent, by number, and those that came.
pub struct Sent {
    pub left: Vec<Instant>,
    pub arrivals: Vec<Arrival>,
}

impl Sent {
    pub fn delays(&self) -> impl Iterator<Item = Duration> {
        self.arrivals
            .iter()
            .map(|arrival| arrival.at - self.left[arrival.number as usize])
    }

    pub fn is_in_order(&self) -> bool {
        self.arrivals
            .windows(2)
            .all(|pair| pair[0].number <= pair[1].number)
    }
}

impl Bed {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("carrickwan{}n{number}{side}", std::process::id());
        let bed = Self {
            client: name('c'),
            router: name('r'),
            server: name('s'),
            directory: tempfile::tempdir().unwrap(),
        };
        for name in [&bed.client, &bed.router, &bed.server] {
            bed.ip(&["netns", "add", name]);
            bed.ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        bed.set(&bed.router, "net/ipv4/ip_forward", "0");
        bed.set(&bed.router, "net/ipv6/conf/all/forwarding", "0");
        for (side, device, of_router, subnet) in
            [(&bed.client, "c0", "r0", 1), (&bed.server, "s0", "r1", 2)]
        {
            let pair = [
                "type",
                "veth",
                "peer",
                "name",
                of_router,
                "netns",
                &bed.router,
            ];
            bed.ip(&[&["link", "add", device, "netns", side][..], &pair].concat());
            for (namespace, device, host) in [(side, device, 2), (&bed.router, of_router, 1)] {
                let ipv4 = format!("10.79.{subnet}.{host}/24");
                let ipv6 = format!("fd79:{subnet}::{host}/64");
                bed.ip(&["-n", namespace, "address", "add", &ipv4, "dev", device]);
                bed.ip(&[
                    "-n", namespace, "address", "add", &ipv6, "dev", device, "nodad",
                ]);
                // What waits for a neighbour's answer is not lost, however late that comes.
                for family in ["ipv4", "ipv6"] {
                    let queue = format!("net/{family}/neigh/{device}/unres_qlen_bytes");
                    bed.set(namespace, &queue, "67108864");
                    let questions = format!("net/{family}/neigh/{device}/mcast_solicit");
                    bed.set(namespace, &questions, "60");
                }
                bed.ip(&["-n", namespace, "link", "set", device, "up"]);
            }
            let (ipv4, ipv6) = (format!("10.79.{subnet}.1"), format!("fd79:{subnet}::1"));
            bed.ip(&[
                "-n", side, "route", "add", "default", "via", &ipv4, "congctl", "cubic",
            ]);
            bed.ip(&["-n", side, "route", "add", "default", "via", &ipv6]);
        }
        bed
    }

    #[track_caller]
    pub fn ip(&self, arguments: &[&str]) {
        let output = Command::new("ip").args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "ip {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Sets a kernel parameter inside a namespace.
    pub fn set(&self, namespace: &str, path: &str, value: &str) {
        self.inside(namespace, || {
            fs::write(format!("/proc/sys/{path}"), value).unwrap();
        });
    }

    /// Each segment a packet of its own.
    pub fn offloads_off(&self) {
        for (namespace, device) in [(&self.client, "c0"), (&self.server, "s0")] {
            let command = ["netns", "exec", namespace, "ethtool", "-K", device];
            self.ip(&[&command[..], &["tso", "off", "gso", "off", "gro", "off"]].concat());
        }
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs something on a thread inside a namespace: sockets made there stay there.
    pub fn inside<T: Send>(&self, namespace: &str, work: impl FnOnce() -> T + Send) -> T {
        let file = fs::File::open(format!("/run/netns/{namespace}")).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    fn bind(&self, namespace: &str, address: &str) -> UdpSocket {
        let socket = self.inside(namespace, || UdpSocket::bind(address).unwrap());
        // Root may have more than the system's limit: what comes while the test is not scheduled is not lost.
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
        socket
    }

    /// Sends numbered packets, `pace` apart, and receives on the other side as many as the emulator says it has sent on.
    /// To the client, where no rule is, that is all of them.
    pub fn send_udp(
        &self,
        wan: &Emulator,
        to: Place,
        count: u64,
        bytes: usize,
        pace: Duration,
    ) -> Sent {
        let has_rule = !matches!(to, Place::ClientIpv4);
        let before = wan.counts_now();
        let (from, sender, to, receiver) = match to {
            Place::ServerIpv4 => (&self.client, "10.79.1.2:0", &self.server, "10.79.2.2:0"),
            Place::ServerIpv6 => (&self.client, "[fd79:1::2]:0", &self.server, "[fd79:2::2]:0"),
            Place::ClientIpv4 => (&self.server, "10.79.2.2:0", &self.client, "10.79.1.2:0"),
        };
        let sender = self.bind(from, sender);
        let receiver = self.bind(to, receiver);
        receiver.set_read_timeout(Some(SILENCE)).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let due = OnceLock::<u64>::new();
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let deadline = Instant::now() + PATIENCE;
                let mut arrivals = Vec::new();
                let mut packet = [0; 2_048];
                loop {
                    let received = receiver.recv(&mut packet);
                    let at = Instant::now();
                    let Ok(length) = received else {
                        let is_all = due.get().is_some_and(|due| arrivals.len() as u64 >= *due);
                        if is_all || at > deadline {
                            return arrivals;
                        }
                        continue;
                    };
                    assert_eq!(length, bytes);
                    let number = u64::from_be_bytes(*packet.first_chunk().unwrap());
                    arrivals.push(Arrival { number, at });
                }
            });
            let mut packet = vec![0xa5; bytes];
            let mut left = Vec::new();
            for number in 0..count {
                packet[..8].copy_from_slice(&number.to_be_bytes());
                let now = Instant::now();
                left.push(now);
                sender.send(&packet).unwrap();
                if pace >= Duration::from_millis(1) {
                    std::thread::sleep(pace);
                } else {
                    while now.elapsed() < pace {
                        std::hint::spin_loop();
                    }
                }
            }
            due.set(if has_rule {
                let after = wan.wait_for_packets(matched(&before) + count);
                sent_on(&after) - sent_on(&before)
            } else {
                count
            })
            .unwrap();
            let arrivals = receiving.join().unwrap();
            Sent { left, arrivals }
        })
    }

    /// Sends two packets to each of `count` ports at once, and receives one from each.
    pub fn send_to_ports(&self, first: u16, count: u16, bytes: usize) {
        let receivers: Vec<UdpSocket> = (first..first + count)
            .map(|port| self.bind(&self.server, &format!("10.79.2.2:{port}")))
            .collect();
        let sender = self.bind(&self.client, "10.79.1.2:0");
        let packet = vec![0; bytes];
        // The first packet of all has to wait for an answer of ARP, which would part the two.
        for receiver in &receivers {
            for _ in 0..2 {
                sender
                    .send_to(&packet, receiver.local_addr().unwrap())
                    .unwrap();
            }
        }
        for receiver in &receivers {
            receiver.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(receiver.recv(&mut [0; 2_048]).unwrap(), bytes);
        }
    }

    /// Starts the emulator in the router, and waits until it is ready.
    pub fn emulate(&self, specification: &str) -> Emulator {
        let config = self.write("wan.toml", specification);
        let counts = self.directory.path().join("counts.json");
        let _ = fs::remove_file(&counts);
        let said = self.directory.path().join("said");
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.router, LAB, "wan", "--config"])
            .arg(&config)
            .arg("--counts")
            .arg(&counts)
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let emulator = Emulator {
            child: Killed(child),
            config,
            counts,
            said,
        };
        assert_eq!(line, "ready\n", "{}", emulator.said());
        emulator
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for name in [&self.client, &self.router, &self.server] {
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

/// Packets that a rule matched.
fn matched(counts: &WanCounts) -> u64 {
    counts.rules.iter().map(|rule| rule.packets).sum()
}

/// Packets that have come out of the rules, or are in them.
fn sent_on(counts: &WanCounts) -> u64 {
    let rules = counts.rules.iter();
    let gone = |rule: &RuleCounts| rule.lost_first + rule.lost_next + rule.dropped + rule.filtered;
    rules
        .map(|rule| rule.packets + rule.duplicated - gone(rule))
        .sum()
}

/// A running emulator.
pub struct Emulator {
    child: Killed,
    config: PathBuf,
    counts: PathBuf,
    said: PathBuf,
}

impl Emulator {
    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn read_counts(&self) -> WanCounts {
        serde_json::from_str(&fs::read_to_string(&self.counts).unwrap()).unwrap()
    }

    /// Waits until it has said something on standard error.
    pub fn wait_for(&mut self, part: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.said().contains(part) {
            assert!(
                Instant::now() < deadline,
                "{part:?} is missing: {}",
                self.said()
            );
            assert!(
                self.child.0.try_wait().unwrap().is_none(),
                "{}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The counts once it has seen so many packets that a rule matches.
    pub fn wait_for_packets(&self, packets: u64) -> WanCounts {
        wait_for("the packets", || {
            let counts = self.counts_now();
            (matched(&counts) >= packets).then_some(counts)
        })
    }

    /// Asks for the counts with a signal; it goes on.
    pub fn counts_now(&self) -> WanCounts {
        let _ = fs::remove_file(&self.counts);
        self.signal(rustix::process::Signal::USR1);
        wait_until("counts", || self.counts.exists());
        self.read_counts()
    }

    /// Gives it another specification.
    pub fn replace(&self, specification: &str) {
        fs::write(&self.config, specification).unwrap();
        self.signal(rustix::process::Signal::HUP);
    }

    /// Ends it with a signal, and reads its counts.
    pub fn stop(mut self) -> WanCounts {
        self.signal(rustix::process::Signal::TERM);
        let status = self.child.0.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.said());
        self.read_counts()
    }
}
