//! Three hosts in a row, each a network namespace: shared by the test beds of the packet engine and of the rules.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

/// A host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Host {
    Client,
    /// A proxy, or a router.
    Middle,
    Server,
}

/// An interface and its host.
pub type Interface = (Host, &'static str);

/// The hosts, removed when this is dropped.
pub struct Hosts {
    names: [String; 3],
    interfaces: [Interface; 4],
    number: u8,
    /// The machine's own interfaces that are used instead.
    lent: Vec<String>,
}

impl Hosts {
    /// Hosts with two links, without addresses. `interfaces`: the client's, the one towards it, the one towards the
    /// server, the server's. `number` is part of their networks' addresses.
    pub fn new(interfaces: [Interface; 4], number: u8) -> Hosts {
        Hosts::with(interfaces, number, Vec::new())
    }

    /// The same with interfaces of the machine, of which the first two and the last two are linked; they are returned when this is dropped.
    pub fn with(interfaces: [Interface; 4], number: u8, lent: Vec<String>) -> Hosts {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("csp{}x{count}", std::process::id());
        let hosts = Hosts {
            names: ["c", "m", "s"].map(|host| format!("{stem}{host}")),
            interfaces,
            number,
            lent,
        };
        for name in &hosts.names {
            run(&format!("ip netns add {name}"));
            run(&format!("ip -n {name} link set lo up"));
        }
        let [outer, inner, other_inner, other_outer] = interfaces;
        for ((host, interface), lent) in interfaces.iter().zip(&hosts.lent) {
            let name = hosts.name(*host);
            run(&format!("ip link set {lent} netns {name} name {interface}"));
        }
        let links = [(outer, inner), (other_outer, other_inner)];
        let links = links.into_iter().filter(|_| hosts.lent.is_empty());
        for ((host, outer), (middle, inner)) in links {
            let (name, middle) = (hosts.name(host), hosts.name(middle));
            run(&format!(
                "ip link add {outer} netns {name} type veth peer name {inner} netns {middle}"
            ));
        }
        for (host, interface) in interfaces {
            // In the three seconds that are usual, a busy machine can drop all questions for a neighbour's address. Windows do not depend on
            // what this machine is set to.
            let neighbours = ["ipv4", "ipv6"]
                .map(|family| format!("net.{family}.neigh.{interface}.mcast_solicit=60"))
                .join(" ");
            let windows = "net.ipv4.tcp_rmem=4096\t131072\t6291456";
            hosts.run(host, &format!("sysctl -qw {neighbours} {windows}"));
            hosts.ip(host, &format!("link set {interface} up"));
        }
        hosts
    }

    /// Gives each interface an address: the client 2 of network 1, the server 2 of network 2, the host between them 1 of both.
    pub fn give_addresses(&self) {
        let addresses = [(1, 2), (1, 1), (2, 1), (2, 2)];
        for ((host, interface), (network, own)) in self.interfaces.into_iter().zip(addresses) {
            self.address(host, interface, network, own);
        }
    }

    /// Gives an interface host `own` of a network, in both families.
    pub fn address(&self, host: Host, interface: &str, network: u8, own: u8) {
        let number = self.number;
        self.ip(
            host,
            &format!("addr add 10.{number}.{network}.{own}/24 dev {interface}"),
        );
        self.ip(
            host,
            &format!("addr add fd{number}:{network}::{own}/64 dev {interface} nodad"),
        );
    }

    /// The name of a namespace.
    pub fn name(&self, host: Host) -> &str {
        &self.names[host as usize]
    }

    /// `ip` on this host.
    pub fn ip(&self, host: Host, arguments: &str) {
        run(&format!("ip -n {} {arguments}", self.name(host)));
    }

    /// A command on this host, not run yet.
    pub fn command(&self, host: Host, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name(host)]).args(words);
        command
    }

    /// Runs a command line there.
    pub fn run(&self, host: Host, line: &str) {
        succeed(&mut self.line(host, line));
    }

    /// Whether a command line works there.
    pub fn can(&self, host: Host, line: &str) -> bool {
        self.line(host, line).output().unwrap().status.success()
    }

    /// The contents of a file there.
    pub fn read(&self, host: Host, path: &str) -> String {
        let output = succeed(&mut self.command(host, &["cat", path]));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs `what` in a separate thread on this host.
    pub fn on<T: Send + 'static>(
        &self,
        host: Host,
        what: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.name(host));
        std::thread::spawn(move || {
            let file = std::fs::File::open(path).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            what()
        })
    }

    fn line(&self, host: Host, line: &str) -> Command {
        self.command(host, &line.split(' ').collect::<Vec<_>>())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for ((host, interface), lent) in self.interfaces.iter().zip(&self.lent) {
            self.ip(*host, &format!("link set {interface} down"));
            self.ip(*host, &format!("link set {interface} netns 1 name {lent}"));
        }
        for name in &self.names {
            run(&format!("ip netns del {name}"));
        }
    }
}

/// Runs a program here, which must succeed.
pub fn run(line: &str) {
    let mut words = line.split(' ');
    succeed(Command::new(words.next().unwrap()).args(words));
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}
