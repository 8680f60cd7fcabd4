//! For examples of the packet engine: a client, a proxy and a server in network namespaces of their own. Needs root.

#![allow(dead_code, reason = "not every example needs all of it")]

use carrick_splice::PacketService;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::Command;
use tokio::net::{TcpListener, TcpStream};

/// The proxy's address for the client, and the server's.
pub const PROXY: &str = "10.79.1.1:8080";
pub const SERVER: &str = "10.79.2.2:8000";

/// Listens, also where another listener was closed just now.
fn listen(address: &str) -> io::Result<TcpListener> {
    let listener = carrick_test::listen(address);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// One of the three.
#[derive(Clone, Copy)]
pub enum Host {
    Client,
    Proxy,
    Server,
}

/// Two connections: the client's to `near`, and from `far` to the server.
pub struct Pair {
    pub client: TcpStream,
    pub near: TcpStream,
    pub far: TcpStream,
    pub server: TcpStream,
}

/// Three hosts, one set for a thread at a time. They go when this is dropped, which has to be in that thread: it goes back where it was.
pub struct Bed {
    names: [String; 3],
    before: File,
}

impl Bed {
    /// Makes them.
    pub fn new() -> io::Result<Bed> {
        let stem = format!("cex{}", rustix::thread::gettid());
        let bed = Bed {
            names: ["c", "p", "s"].map(|host| format!("{stem}{host}")),
            before: File::open("/proc/thread-self/ns/net")?,
        };
        let [client, proxy, server] = &bed.names;
        for name in &bed.names {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        for (host, outer, inner, network) in [(client, "c", "pc", 1), (server, "s", "ps", 2)] {
            ip(&format!(
                "link add {outer} netns {host} type veth peer name {inner} netns {proxy}"
            ))?;
            for (name, interface, own) in [(host, outer, 2), (proxy, inner, 1)] {
                ip(&format!(
                    "-n {name} addr add 10.79.{network}.{own}/24 dev {interface}"
                ))?;
                ip(&format!("-n {name} link set {interface} up"))?;
            }
        }
        Ok(bed)
    }

    /// Makes them, loads the engine at the proxy, and stays there.
    pub fn with_engine(service: &PacketService, splices_max: u32) -> io::Result<Bed> {
        let bed = Bed::new()?;
        bed.enter(Host::Proxy)?;
        let loaded = service.load(splices_max, &[], None, None);
        loaded.map_err(|because| io::Error::other(because.to_string()))?;
        Ok(bed)
    }

    /// A client and a server, connected to the proxy. This thread is at the proxy afterwards.
    pub async fn pair(&self) -> io::Result<Pair> {
        self.enter(Host::Server)?;
        let servers = listen(SERVER)?;
        self.enter(Host::Proxy)?;
        let proxies = listen(PROXY)?;
        self.enter(Host::Client)?;
        let client = TcpStream::connect(PROXY).await?;
        self.enter(Host::Proxy)?;
        let (near, _) = proxies.accept().await?;
        let far = TcpStream::connect(SERVER).await?;
        let (server, _) = servers.accept().await?;
        for socket in [&client, &near, &far, &server] {
            socket.set_nodelay(true)?;
        }
        Ok(Pair {
            client,
            near,
            far,
            server,
        })
    }

    /// What this thread does from now on, it does there; sockets stay where they were made.
    pub fn enter(&self, host: Host) -> io::Result<()> {
        let file = File::open(format!("/run/netns/{}", self.names[host as usize]))?;
        enter(&file)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // If it cannot, the thread has no host any more, and whoever uses it is told so.
        let _ = enter(&self.before);
        for name in &self.names {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

fn enter(file: &File) -> io::Result<()> {
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

fn ip(arguments: &str) -> io::Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {arguments}: {}", said.trim())))
}
