//! A Redis or Valkey of the test's own; also three of them as a cluster.
use super::{Place, wait_until};
use carrick_test::Killed;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The servers' ports on the test's address. A cluster's servers communicate on ports 10000 higher.
const PORTS: [u16; 3] = [13379, 13380, 13381];

/// A server, until dropped.
#[derive(Debug)]
pub struct Redis {
    _process: Killed,
    address: SocketAddr,
}

impl Redis {
    /// Starts one with these additional arguments, and waits until it answers.
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        Self::start_at(place, place.at(PORTS[0]), arguments)
    }

    /// Three servers that form a cluster.
    pub fn cluster(place: &Place) -> [Self; 3] {
        let servers = PORTS.map(|port| {
            let nodes = format!("nodes-{port}.conf");
            let arguments = ["--cluster-enabled", "yes", "--cluster-config-file", &nodes];
            Self::start_at(place, place.at(port), &arguments)
        });
        let mut create = Command::new("timeout");
        create.arg("60").arg(program("cli"));
        create.args(["--cluster", "create"]);
        create.args(servers.each_ref().map(|server| server.address.to_string()));
        create.args(["--cluster-replicas", "0", "--cluster-yes"]);
        let created = create.output().expect("redis-cli");
        assert!(created.status.success(), "{created:?}");
        for server in &servers {
            wait_until("the cluster", || {
                server
                    .ask(&["CLUSTER", "INFO"])
                    .contains("cluster_state:ok")
            });
        }
        servers
    }

    fn start_at(place: &Place, address: SocketAddr, arguments: &[&str]) -> Self {
        let process = Command::new(program("server"))
            .current_dir(place.directory())
            .args(["--bind", &address.ip().to_string()])
            // The servers of a cluster identify each other by their source addresses.
            .args(["--bind-source-addr", &address.ip().to_string()])
            .args(["--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server");
        let server = Self {
            _process: Killed(process),
            address,
        };
        wait_until("redis-server", || {
            let answer = server.ask(&["PING"]);
            answer.contains("PONG") || answer.contains("NOAUTH")
        });
        server
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its answer to a command.
    pub fn ask(&self, command: &[&str]) -> String {
        let asked = client()
            .args(["-h", &self.address.ip().to_string()])
            .args(["-p", &self.address.port().to_string()])
            .args(command)
            .output()
            .expect("redis-cli");
        String::from_utf8_lossy(&asked.stdout).trim().to_owned()
    }

    /// Its keys.
    pub fn keys(&self) -> Vec<String> {
        let keys = self.ask(&["KEYS", "*"]);
        keys.lines().map(str::to_owned).collect()
    }
}

fn client() -> Command {
    Command::new(program("cli"))
}

/// `valkey-…` or `redis-…`, whichever is installed.
fn program(what: &str) -> PathBuf {
    let names = ["valkey", "redis"].map(|name| format!("{name}-{what}"));
    let folders = ["/usr/bin", "/usr/local/bin"];
    let mut places = names
        .iter()
        .flat_map(|name| folders.map(|folder| Path::new(folder).join(name)));
    places
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("there is no {}", names[1]))
}
