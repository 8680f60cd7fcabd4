//! A carrick of the test's own: started from a configuration text, ended and checked when it goes out of scope.
use super::output::Output;
use super::place::{ADMIN_PORT, FORWARD_PORT, LISTENER_PORT, Place, TUNNEL_PORT};
use super::{Peer, Server, wait_until};
use carrick_test::EndInTime as _;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// The name of the configuration file in the test's directory.
const FILE: &str = "carrick.toml";

/// The name of the access log in the test's directory.
pub const ACCESS_LOG: &str = "access.log";

/// The program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_carrick");

/// A running carrick.
#[derive(Debug)]
pub struct Carrick {
    child: Child,
    standard_error: Output,
    standard_output: Output,
    directory: PathBuf,
    listener: SocketAddr,
    forward: SocketAddr,
    tunnel: SocketAddr,
    admin: SocketAddr,
    is_ended: bool,
}

/// The end of a carrick.
#[derive(Debug)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// Its standard error.
    pub standard_error: String,
    /// Its standard output.
    pub standard_output: String,
}

impl Carrick {
    /// Starts `carrick run` with this configuration and waits until it listens.
    ///
    /// In `text`, `{ip}` stands for the test's address. Missing tables are added: `[admin]` on [`ADMIN_PORT`], `[log]`
    /// as JSON into [`ACCESS_LOG`], `[workers]` with two, `[timeouts]` with long limits and a short drain.
    pub fn start(place: &Place, text: &str) -> Self {
        Self::try_start(place, text).unwrap_or_else(|ended| {
            panic!(
                "carrick did not start: {}: {}",
                ended.status, ended.standard_error
            )
        })
    }

    /// Like [`start`](Self::start), for a carrick that may fail to start.
    pub fn try_start(place: &Place, text: &str) -> Result<Self, Ended> {
        Self::try_start_by(place, text, Command::new(PROGRAM))
    }

    /// Like [`try_start`](Self::try_start), by a command that executes carrick, such as `prlimit … carrick`; `run` and
    /// the file are appended.
    pub fn try_start_by(place: &Place, text: &str, command: Command) -> Result<Self, Ended> {
        let mut carrick = Self::spawn_by(place, text, command);
        // Every address is bound, and every engine loaded, before this line.
        match carrick.standard_error.wait_for(" is ready\n") {
            Ok(_) => Ok(carrick),
            Err(_) => Err(carrick.wait()),
        }
    }

    /// Starts it without waiting.
    pub fn spawn(place: &Place, text: &str) -> Self {
        Self::spawn_by(place, text, Command::new(PROGRAM))
    }

    /// Like [`spawn`](Self::spawn), by a command, as [`try_start_by`](Self::try_start_by) has it.
    pub fn spawn_by(place: &Place, text: &str, mut command: Command) -> Self {
        write_configuration(place, text);
        let mut child = command
            .arg("run")
            .arg("-c")
            .arg(place.directory().join(FILE))
            .current_dir(place.directory())
            .env("CARRICK_LOG", "carrick=debug,info")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let standard_error = child.stderr.take().expect("a pipe");
        // What a slow reader leaves there must not be full: carrick does not wait. All pipes of a user are limited to
        // 64 MB together, by default: beyond, the engine `pipe` gets none.
        fcntl_setpipe_size(&standard_error, 1 << 18).expect("a size");
        let standard_error = Output::collect(standard_error);
        let standard_output = Output::collect(child.stdout.take().expect("a pipe"));
        Self {
            child,
            standard_error,
            standard_output,
            directory: place.directory().to_owned(),
            listener: place.at(LISTENER_PORT),
            forward: place.at(FORWARD_PORT),
            tunnel: place.at(TUNNEL_PORT),
            admin: place.at(ADMIN_PORT),
            is_ended: false,
        }
    }

    /// A switch on [`LISTENER_PORT`] with one upstream of these servers, otherwise with defaults.
    pub fn switch(place: &Place, servers: &[SocketAddr]) -> Self {
        Self::start(place, &switch_text(servers))
    }

    /// A forward proxy on [`FORWARD_PORT`] that allows `CONNECT` to all ports.
    pub fn forward(place: &Place) -> Self {
        Self::start(place, FORWARD_TEXT)
    }

    /// A TCP tunnel on [`TUNNEL_PORT`] to these servers.
    pub fn tunnel(place: &Place, servers: &[SocketAddr]) -> Self {
        Self::start(place, &tunnel_text(servers))
    }

    /// The address of the switch.
    pub fn listener(&self) -> SocketAddr {
        self.listener
    }

    /// The address of the forward proxy.
    pub fn forward_address(&self) -> SocketAddr {
        self.forward
    }

    /// The address of the tunnel.
    pub fn tunnel_address(&self) -> SocketAddr {
        self.tunnel
    }

    /// The address of the admin interface.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// A client of the switch.
    pub fn connect(&self) -> Peer {
        Peer::connect(self.listener)
    }

    /// A client of the switch that has sent a request, and the server's end, which has read its head.
    pub fn asked(&self, server: &Server, request: impl AsRef<[u8]>) -> (Peer, Peer) {
        let mut client = self.connect();
        client.send(request);
        let mut upstream = server.accept();
        upstream.read_head();
        (client, upstream)
    }

    /// A client of the forward proxy.
    pub fn connect_forward(&self) -> Peer {
        Peer::connect(self.forward)
    }

    /// A client of the tunnel.
    pub fn connect_tunnel(&self) -> Peer {
        Peer::connect(self.tunnel)
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Open descriptors of the process.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }

    /// The directory of its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its standard error so far.
    pub fn standard_error(&self) -> &Output {
        &self.standard_error
    }

    /// Its standard output so far.
    pub fn standard_output(&self) -> &Output {
        &self.standard_output
    }

    /// Writes another configuration and has the process read it.
    pub fn reload(&self, place: &Place, text: &str) {
        write_configuration(place, text);
        self.signal(Signal::HUP);
    }

    /// Like [`reload`](Self::reload), and waits until it is `ok`, or has `failed`.
    pub fn reload_as(&self, place: &Place, text: &str, result: &str) {
        let label = format!("result=\"{result}\"");
        let count = || self.metric("carrick_reloads_total", &[&label]);
        let before = count();
        self.reload(place, text);
        wait_until(&format!("a reload that is {result}"), || count() > before);
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process is there");
    }

    /// Ends it and waits; its exit status must be 0.
    pub fn stop(mut self) -> Ended {
        self.end()
    }

    /// Waits until it exits by itself.
    pub fn wait(&mut self) -> Ended {
        let status = self.child.wait_in_time().expect("the process's state");
        self.is_ended = true;
        Ended {
            status,
            standard_error: self.standard_error.wait_for_end(),
            standard_output: self.standard_output.wait_for_end(),
        }
    }

    fn end(&mut self) -> Ended {
        self.signal(Signal::TERM);
        let ended = self.wait();
        assert!(ended.status.success(), "carrick failed: {ended:#?}");
        assert!(
            !ended.standard_error.contains("panicked"),
            "a panic: {}",
            ended.standard_error
        );
        ended
    }
}

impl Drop for Carrick {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        if std::thread::panicking() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            eprintln!("carrick said:\n{}", self.standard_error.text());
        } else {
            self.end();
        }
    }
}

/// The configuration of [`Carrick::switch`], to which tables can be appended.
pub fn switch_text(servers: &[SocketAddr]) -> String {
    format!(
        "[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n{}",
        upstream_text("u", servers)
    )
}

/// The configuration of [`Carrick::tunnel`], to which tables can be appended.
pub fn tunnel_text(servers: &[SocketAddr]) -> String {
    format!(
        "[[listener]]\nlisten = \"{{ip}}:{TUNNEL_PORT}\"\nmode = \"tunnel\"\n[[listener.route]]\nupstream = \"u\"\n{}",
        upstream_text("u", servers)
    )
}

/// The configuration of [`Carrick::forward`], to which keys of the listener can be appended.
pub const FORWARD_TEXT: &str =
    "[[listener]]\nlisten = \"{ip}:13128\"\nmode = \"forward\"\nconnect_ports = \"all\"\n";

/// An upstream's table, to which keys can be appended.
pub fn upstream_text(name: &str, servers: &[SocketAddr]) -> String {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    format!("[upstream.{name}]\nservers = {servers:?}\n")
}

fn write_configuration(place: &Place, text: &str) {
    let mut whole = String::new();
    let defaults = [
        ("[admin]", format!("listen = \"{{ip}}:{ADMIN_PORT}\"")),
        (
            "[log]",
            format!("access = \"{ACCESS_LOG}\"\nformat = \"json\""),
        ),
        ("[workers]", "count = 2".to_owned()),
        (
            "[timeouts]",
            "head = \"10m\"\nidle = \"10m\"\ndrain = \"2s\"".to_owned(),
        ),
    ];
    for (table, keys) in defaults {
        if !text.contains(table) {
            let _ = writeln!(whole, "{table}\n{keys}");
        }
    }
    whole += text;
    place.write(
        FILE,
        &patient(&whole).replace("{ip}", &place.ip().to_string()),
    );
}

/// A configuration with `[timeouts]` that, unless it says for how long, waits as long as tests do for a server to begin
/// with TLS, HTTP/2, or a link.
pub fn patient(text: &str) -> String {
    match text.contains("\nconnect = ") {
        true => text.to_owned(),
        false => text.replacen("[timeouts]\n", "[timeouts]\nconnect = \"10m\"\n", 1),
    }
}
