//! The test bed: a client, a proxy and a server in their own namespaces, with a BPF file system that lasts as long as the test.
use crate::support::carrick::PROGRAM;
use crate::support::output::Output;
use crate::support::random::Random;
use crate::support::{End, PATIENCE, wait_until};
use crate::transparent::bed::{inside as command_in, lines};
use carrick_lab::command::run;
use carrick_lab::testbed::name::RunName;
use carrick_lab::testbed::namespace::Namespace;
use carrick_test::{EndInTime, RunInTime};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const INSIDE: &str = "CARRICK_OUTLIVING_INSIDE";
pub const PROXY: &str = "10.80.1.1:8080";
pub const SERVER: &str = "10.80.2.2:8000";

/// Greetings in each direction before anything else: the kernel must see packets of both connections.
const GREETINGS: usize = 3;

/// Bytes in one piece of a stream, and the interval between pieces.
const PIECE_BYTES: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(10);

/// Pieces of an exchange in each direction: 4 MB.
pub const PIECES: usize = 256;

/// Runs a test of this module in another process, with its own mounts, which disappear with it. Skipped without root.
pub fn inside<F: FnOnce(&Bed)>(play: F) {
    if std::env::var_os(INSIDE).is_some() {
        return play(&Bed::build());
    }
    // The closure's path contains the test's path.
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let test = path.split_once("::").expect("a crate").1;
    if !carrick_test::is_root() {
        return;
    }
    let output = Command::new("unshare")
        .args(["--mount", "--"])
        .arg(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output_in_time()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "inside its namespace: {text}");
    assert!(text.contains("1 passed"), "it did not run: {text}");
}

/// The hosts; removed when dropped.
pub struct Bed {
    pub client: Namespace,
    pub proxy: Namespace,
    pub server: Namespace,
    /// The server's socket.
    listener: TcpListener,
    directory: tempfile::TempDir,
}

impl Bed {
    fn build() -> Self {
        let name = RunName::of_this_process().expect("a name");
        let part = |role| {
            let namespace = Namespace::named(&name, role);
            namespace.create().expect("a namespace");
            namespace
        };
        let (client, proxy, server) = (part("client"), part("proxy"), part("server"));
        for (host, outer, inner, number) in [(&client, "c", "pc", 1), (&server, "s", "ps", 2)] {
            proxy.join(inner, host, outer).expect("a link");
            for (namespace, device, own) in [(&proxy, inner, 1), (host, outer, 2)] {
                let address = format!("address add 10.80.{number}.{own}/24 dev {device}");
                lines(namespace, &[&address, &format!("link set {device} up")]);
            }
        }
        let listener = on(&server, || carrick_test::listen(SERVER));
        let directory = tempfile::tempdir().expect("a directory");
        let pins = directory.path().join("bpf");
        std::fs::create_dir(&pins).expect("a directory");
        let pins = pins.display().to_string();
        run("mount", &["-t", "bpf", "-o", "mode=700", "bpf", &pins]).expect("a file system");
        Self {
            client,
            proxy,
            server,
            listener,
            directory,
        }
    }

    /// Sets `net.ipv4.NAME` on a host.
    pub fn set(&self, host: &Namespace, setting: &str, value: &str) {
        let path = format!("net/ipv4/{setting}");
        host.set_parameter(&path, value).expect("a parameter");
    }

    /// Sockets of a dead process answer for it for a while: here, only briefly.
    pub fn forget_orphans(&self) {
        self.set(&self.proxy, "tcp_orphan_retries", "1");
    }

    /// Removes the interfaces of the proxy, as when its namespace ends.
    pub fn remove_interfaces(&self) {
        lines(&self.proxy, &["link delete pc", "link delete ps"]);
    }

    /// The default directory of carrick's pins.
    pub fn pins(&self) -> PathBuf {
        self.directory.path().join("bpf/carrick")
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The pinned generations.
    pub fn generations(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.pins()).into_iter().flatten();
        let mut paths: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        paths
    }

    /// Runs carrick with other arguments on the proxy; returns whether it succeeds, and its output.
    pub fn carrick(&self, arguments: &[&str]) -> (bool, String) {
        let words = [&[PROGRAM], arguments].concat();
        let output = command_in(&self.proxy, &words)
            .output_in_time()
            .expect("carrick");
        let all = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&all).into_owned(),
        )
    }

    /// The configuration file of carrick number `number`; `more` are tables and keys of `[timeouts]`.
    pub fn configuration(&self, number: u16, more: &str) -> PathBuf {
        let pins = self.pins();
        let process = if more.contains("[process]") {
            String::new()
        } else {
            format!("[process]\npins = \"{}\"\n", pins.display())
        };
        let splice = if more.contains("[splice]") {
            ""
        } else {
            "[splice]\nengine = \"packet\"\n"
        };
        let log = if more.contains("[log]") {
            ""
        } else {
            "[log]\naccess = \"\"\n"
        };
        let text = format!(
            "[admin]\nlisten = \"127.0.0.1:{}\"\n{log}[workers]\ncount = 1\n\
             {splice}{process}{more}\n\
             [[listener]]\nlisten = \"{PROXY}\"\nmode = \"tunnel\"\n[[listener.route]]\nupstream = \"u\"\n\
             [upstream.u]\nservers = [\"{SERVER}\"]\n",
            3129 + number
        );
        let path = self.directory.path().join(format!("carrick-{number}.toml"));
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// Starts carrick on the proxy.
    pub fn start(&self, number: u16, more: &str) -> Running {
        let file = self.configuration(number, more);
        self.start_by(number, &[], &file)
    }

    /// Starts it on the proxy through another program, such as one that drops privileges.
    pub fn start_by(&self, number: u16, by: &[&str], file: &Path) -> Running {
        let file = file.display().to_string();
        let words = [by, &[PROGRAM, "run", "-c", &file]].concat();
        let mut child = command_in(&self.proxy, &words)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("carrick");
        let said = Output::collect(child.stderr.take().expect("a pipe"));
        said.wait_for("is ready")
            .unwrap_or_else(|said| panic!("carrick did not start: {said}"));
        Running {
            child,
            said,
            number,
        }
    }

    /// A page of a carrick's admin server.
    pub fn page(&self, carrick: &Running, path: &str) -> String {
        let port = 3129 + carrick.number;
        let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
        let answer = on(&self.proxy, || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("admin");
            stream.write_all(request.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer
        });
        answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
    }

    /// A carrick's report on its tunnels.
    pub fn tunnels(&self, carrick: &Running) -> Value {
        let text = self.page(carrick, "/splices");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Waits until a carrick's report on its tunnels meets a condition.
    pub fn wait_until(
        &self,
        carrick: &Running,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = self.tunnels(carrick);
            if holds(&told) {
                return told;
            }
            assert!(
                Instant::now() < deadline,
                "waited in vain for {what}: {}",
                self.page(carrick, "/status")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the kernel has exactly these tunnels of a carrick, and sends something now and then.
    pub fn wait_for_kernel(&self, carrick: &Running, tunnels: &mut [[TcpStream; 2]]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for ends in &mut *tunnels {
                say(ends, 0, b"ping");
                say(ends, 1, b"pong");
            }
            let told = self.tunnels(carrick);
            if told["tunnels"]["packet"] == tunnels.len() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "they stay in the process: {told:#}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The server's side of the next connection.
    pub fn accept(&self) -> TcpStream {
        let (server, _) = self.listener.accept().expect("a connection");
        server.set_nodelay(true).expect("set");
        server.set_read_timeout(Some(PATIENCE)).expect("set");
        server
    }

    /// A client and a server that have exchanged greetings through a tunnel.
    pub fn tunnel(&self) -> [TcpStream; 2] {
        let client = on(&self.client, || {
            TcpStream::connect(PROXY).expect("the proxy")
        });
        client.set_nodelay(true).expect("set");
        client.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut ends = [client, self.accept()];
        for _ in 0..GREETINGS {
            say(&mut ends, 0, b"hello");
            say(&mut ends, 1, b"welcome");
        }
        ends
    }

    /// A tunnel of this carrick, which has no others; the kernel has it.
    pub fn kernel_tunnel(&self, carrick: &Running) -> [TcpStream; 2] {
        let mut ends = self.tunnel();
        self.wait_for_kernel(carrick, std::slice::from_mut(&mut ends));
        ends
    }

    /// The same, after its carrick was killed.
    pub fn orphan(&self) -> [TcpStream; 2] {
        let carrick = self.start(0, "");
        let ends = self.kernel_tunnel(&carrick);
        carrick.kill();
        ends
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for host in [&self.client, &self.proxy, &self.server] {
            host.remove();
        }
        let pins = self.directory.path().join("bpf").display().to_string();
        // It disappears with this process's mounts in any case.
        let _ = run("umount", &[&pins]);
    }
}

/// Runs a closure on a host.
pub fn on<T: Send>(host: &Namespace, what: impl FnOnce() -> T + Send) -> T {
    host.inside(|| Ok(what())).expect("an outcome")
}

/// A carrick on the proxy.
pub struct Running {
    child: Child,
    pub said: Output,
    number: u16,
}

impl Running {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it exists");
    }

    /// Kills it; no handler and no destructor runs.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait_in_time().expect("its end");
    }

    /// Tells it to end; it must succeed. Returns its output.
    pub fn stop(self) -> String {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for its successful end. Returns its output.
    pub fn wait(mut self) -> String {
        let status = self.child.wait_in_time().expect("its end");
        let said = self.said.wait_for_end();
        assert!(status.success() && !said.contains("panicked"), "{said}");
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("carrick {} said:\n{}", self.number, self.said.text());
        }
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The proxy's ends of a tunnel.
pub fn own_ends([client, server]: &[TcpStream; 2]) -> [End; 2] {
    let [proxy, far] = [PROXY, SERVER].map(|text| text.parse::<SocketAddr>().expect("an address"));
    let client = client.local_addr().expect("an address");
    let own = server.peer_addr().expect("an address");
    [(proxy, client), (own, far)].map(|(local, far)| End { local, far })
}

/// One end sends, and the other one receives.
pub fn say(ends: &mut [TcpStream; 2], who: usize, words: &[u8]) {
    ends[who].write_all(words).expect("said");
    let mut heard = vec![0; words.len()];
    ends[1 - who].read_exact(&mut heard).expect("heard");
    assert_eq!(heard, words);
}

/// Both ends have lost their connection, and notice when they send.
pub fn assert_reset(ends: &mut [TcpStream; 2]) {
    for end in ends {
        wait_until("a reset", || {
            // The first send is answered with the reset.
            end.write_all(b"hello?").is_err()
        });
    }
}

/// Tunnels through which both ends send much, slowly, at the same time.
pub struct Exchanges {
    /// Opened for the second half.
    gate: Arc<AtomicBool>,
    /// Whether both ends have received exactly what was sent.
    outcomes: Vec<mpsc::Receiver<bool>>,
    /// Bytes received by the ends.
    heard: Vec<Arc<[AtomicUsize; 2]>>,
}

impl Exchanges {
    /// Begins; the second half waits for [`Exchanges::go_on`].
    pub fn begin(tunnels: Vec<[TcpStream; 2]>) -> Self {
        // Each has a part of its own.
        let bytes = PIECES * PIECE_BYTES + 2 * tunnels.len();
        let words: Arc<[u8]> = Random::new(1).bytes(bytes).into();
        let gate = Arc::default();
        let heard: Vec<Arc<_>> = tunnels.iter().map(|_| Arc::default()).collect();
        let tunnels = tunnels.into_iter().zip(&heard).enumerate();
        let outcomes = tunnels
            .map(|(number, (ends, heard))| exchange(ends, number, &words, &gate, heard))
            .collect();
        Self {
            gate,
            outcomes,
            heard,
        }
    }

    /// Waits until every end has received ten more pieces, or the first half.
    pub fn wait_for_more(&self) {
        let counts = || self.heard.iter().flat_map(|counts| counts.iter());
        let wanted = |count: &AtomicUsize| {
            (count.load(SeqCst) + 10 * PIECE_BYTES).min(PIECES / 2 * PIECE_BYTES)
        };
        let wanted: Vec<_> = counts().map(wanted).collect();
        wait_until("more bytes", || {
            let mut both = counts().zip(&wanted);
            both.all(|(count, wanted)| count.load(SeqCst) >= *wanted)
        });
    }

    /// Whether all are in progress.
    pub fn are_under_way(&self) -> bool {
        let mut outcomes = self.outcomes.iter();
        outcomes.all(|outcome| outcome.try_recv().is_err())
    }

    /// Allows the second half.
    pub fn go_on(&self) {
        self.gate.store(true, SeqCst);
    }

    /// Waits for all ends: each has received everything.
    pub fn assert_whole(&self) {
        for (number, outcome) in self.outcomes.iter().enumerate() {
            assert_eq!(outcome.recv_timeout(PATIENCE), Ok(true), "tunnel {number}");
        }
    }
}

/// Sends [`PIECES`] of `words` in each direction, and ends. True if both ends received exactly that.
fn exchange(
    ends: [TcpStream; 2],
    number: usize,
    words: &Arc<[u8]>,
    gate: &Arc<AtomicBool>,
    heard: &Arc<[AtomicUsize; 2]>,
) -> mpsc::Receiver<bool> {
    let (words, gate, heard) = (Arc::clone(words), Arc::clone(gate), Arc::clone(heard));
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || {
        let outcomes = std::thread::scope(|scope| {
            let ways = [0, 1].map(|side: usize| {
                let (from, to) = (&ends[side], &ends[1 - side]);
                let said = &words[2 * number + side..][..PIECES * PIECE_BYTES];
                let (gate, heard) = (&gate, &heard[side]);
                scope.spawn(move || {
                    for (number, piece) in said.chunks(PIECE_BYTES).enumerate() {
                        while number >= PIECES / 2 && !gate.load(SeqCst) {
                            std::thread::sleep(PAUSE);
                        }
                        { from }.write_all(piece).expect("sent");
                        std::thread::sleep(PAUSE);
                    }
                    from.shutdown(std::net::Shutdown::Write).expect("ended");
                });
                scope.spawn(move || {
                    let (mut got, mut piece) = (Vec::new(), [0; PIECE_BYTES]);
                    while let count @ 1.. = { to }.read(&mut piece).expect("the stream") {
                        got.extend_from_slice(&piece[..count]);
                        heard.fetch_add(count, SeqCst);
                    }
                    got == said
                })
            });
            ways.map(|way| way.join().expect("received"))
        });
        // The receiver is gone if the test has failed.
        let _ = done.send(outcomes == [true, true]);
    });
    result
}
