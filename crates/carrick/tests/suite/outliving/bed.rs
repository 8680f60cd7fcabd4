//! The test bed: a client, a proxy and a server in namespaces of their own, with a BPF file system that goes with the test.
use crate::support::carrick::PROGRAM;
use crate::support::output::Output;
use crate::support::random::Random;
use crate::support::{PATIENCE, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const INSIDE: &str = "CARRICK_OUTLIVING_INSIDE";
const PROXY: &str = "10.80.1.1:8080";
const SERVER: &str = "10.80.2.2:8000";

/// For what must come.
const HANG: Duration = Duration::from_secs(60);

/// Greetings each way before anything else: the kernel has to see packets of both connections.
const GREETINGS: usize = 3;

/// Bytes in one piece of a stream, and how long after it comes the next.
const PIECE_BYTES: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a test of this module in another process, with mounts of its own, which go with it. Without root it is skipped.
pub fn inside(test: &str, play: impl FnOnce(&Bed)) {
    if std::env::var_os(INSIDE).is_some() {
        return play(&Bed::build());
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: {test}: network namespaces and pins need root");
        return;
    }
    let output = Command::new("unshare")
        .args(["--mount", "--"])
        .arg(std::env::current_exe().expect("this program"))
        .args([&format!("outliving::{test}"), "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "inside its namespace: {text}");
    assert!(text.contains("1 passed"), "it did not run: {text}");
}

/// A host.
#[derive(Clone, Copy)]
pub enum Host {
    Client,
    Proxy,
    Server,
}

/// The namespaces; removed when dropped.
pub struct Bed {
    names: [String; 3],
    directory: tempfile::TempDir,
}

impl Bed {
    fn build() -> Self {
        let stem = format!("cpo{}", std::process::id());
        let bed = Self {
            names: ["c", "p", "s"].map(|host| format!("{stem}{host}")),
            directory: tempfile::tempdir().expect("a directory"),
        };
        let [client, proxy, server] = &bed.names;
        for name in &bed.names {
            run(&format!("ip netns add {name}"));
            run(&format!("ip -n {name} link set lo up"));
        }
        for (outer, name, inner, number) in [("c", client, "pc", 1), ("s", server, "ps", 2)] {
            run(&format!(
                "ip link add {outer} netns {name} type veth peer name {inner} netns {proxy}"
            ));
            run(&format!("ip -n {proxy} link set {inner} up"));
            run(&format!("ip -n {name} link set {outer} up"));
            run(&format!(
                "ip -n {proxy} addr add 10.80.{number}.1/24 dev {inner}"
            ));
            run(&format!(
                "ip -n {name} addr add 10.80.{number}.2/24 dev {outer}"
            ));
        }
        std::fs::create_dir(bed.directory.path().join("bpf")).expect("a directory");
        run(&format!(
            "mount -t bpf -o mode=700 bpf {}",
            bed.directory.path().join("bpf").display()
        ));
        bed
    }

    /// The sockets of a process that is gone answer for it for a while: here, they are gone soon.
    pub fn forget_orphans(&self) {
        let set = ["sysctl", "-qw", "net.ipv4.tcp_orphan_retries=1"];
        let status = self.command(Host::Proxy, &set).status();
        assert!(status.expect("sysctl").success());
    }

    /// Takes the interfaces of the proxy away, as when its namespace goes.
    pub fn remove_interfaces(&self) {
        let proxy = &self.names[Host::Proxy as usize];
        run(&format!("ip -n {proxy} link delete pc"));
        run(&format!("ip -n {proxy} link delete ps"));
    }

    /// Where carrick's pins are, unless a configuration says otherwise.
    pub fn pins(&self) -> PathBuf {
        self.directory.path().join("bpf/carrick")
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The generations that are pinned.
    pub fn generations(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.pins()).into_iter().flatten();
        let mut paths: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        paths
    }

    /// Makes a command on a host.
    pub fn command(&self, host: Host, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[host as usize]]);
        command.args(words);
        command
    }

    /// Runs carrick with other arguments on the proxy: whether it succeeds, and all that it says.
    pub fn carrick(&self, arguments: &[&str]) -> (bool, String) {
        let words = [&[PROGRAM], arguments].concat();
        let output = self.command(Host::Proxy, &words).output().expect("carrick");
        let all = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&all).into_owned(),
        )
    }

    /// Runs `what` in a thread of its own on a host.
    pub fn on<T: Send + 'static>(
        &self,
        host: Host,
        what: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.names[host as usize]);
        std::thread::spawn(move || {
            let file = std::fs::File::open(path).expect("a namespace");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("to be there");
            what()
        })
    }

    /// The configuration of carrick number `number`, in a file; `more` are tables and keys of `[timeouts]`.
    pub fn configuration(&self, number: u16, more: &str) -> PathBuf {
        let pins = self.pins();
        let process = if more.contains("[process]") {
            String::new()
        } else {
            format!("[process]\npins = \"{}\"\n", pins.display())
        };
        let text = format!(
            "[admin]\nlisten = \"127.0.0.1:{}\"\n[log]\naccess = \"\"\n[workers]\ncount = 1\n\
             [splice]\nengine = \"packet\"\n{process}{more}\n\
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
        let words = [PROGRAM, "run", "-c", &file.display().to_string()];
        let mut child = self
            .command(Host::Proxy, &words)
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
        let asking = self.on(Host::Proxy, move || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("admin");
            stream.write_all(request.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer
        });
        let answer = asking.join().expect("an answer");
        answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
    }

    /// What a carrick says of its tunnels.
    pub fn tunnels(&self, carrick: &Running) -> Value {
        let text = self.page(carrick, "/splices");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Waits until a carrick says so of its tunnels.
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

    /// Waits until the kernel has these tunnels of a carrick, and no others, by saying something now and then.
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

    /// A client and a server that have greeted each other by a tunnel.
    pub fn tunnel(&self, listener: &TcpListener) -> [TcpStream; 2] {
        let connecting = self.on(Host::Client, || {
            TcpStream::connect(PROXY).expect("the proxy")
        });
        let (server, _) = listener.accept().expect("a connection");
        let mut ends = [connecting.join().expect("connected"), server];
        for end in &ends {
            end.set_nodelay(true).expect("set");
            end.set_read_timeout(Some(HANG)).expect("set");
        }
        for _ in 0..GREETINGS {
            say(&mut ends, 0, b"hello");
            say(&mut ends, 1, b"welcome");
        }
        ends
    }

    /// Where the server listens.
    pub fn listen(&self) -> TcpListener {
        let listening = self.on(Host::Server, || {
            TcpListener::bind(SERVER).expect("listening")
        });
        listening.join().expect("listening")
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for name in &self.names {
            run(&format!("ip netns del {name}"));
        }
        run(&format!(
            "umount {}",
            self.directory.path().join("bpf").display()
        ));
    }
}

/// A carrick on the proxy.
pub struct Running {
    child: Child,
    pub said: Output,
    number: u16,
}

impl Running {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }

    /// Kills it; no handler, no destructor runs.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("its end");
    }

    /// Tells it to end; it must, with success. All that it said.
    pub fn stop(self) -> String {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for its end, with success. All that it said.
    pub fn wait(mut self) -> String {
        let status = self.child.wait().expect("its end");
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

/// One end says something, and the other one hears it.
pub fn say(ends: &mut [TcpStream; 2], who: usize, words: &[u8]) {
    ends[who].write_all(words).expect("said");
    let mut heard = vec![0; words.len()];
    ends[1 - who].read_exact(&mut heard).expect("heard");
    assert_eq!(heard, words);
}

/// Neither end has its connection any more, which it learns when it says something.
pub fn assert_reset(ends: &mut [TcpStream; 2]) {
    for end in ends {
        wait_for("a reset", || {
            // The answer to the first is the reset.
            end.write_all(b"anybody there?").is_err().then_some(())
        });
    }
}

/// What is said, for so many exchanges of so many pieces: each has a part of its own.
pub fn words(exchanges: usize, pieces: usize) -> Arc<[u8]> {
    Random::new(1)
        .bytes(pieces * PIECE_BYTES + 2 * exchanges)
        .into()
}

/// Sends many pieces of `words` from each end to the other, slowly, both at the same time, the second half of them not before
/// `gate` is open, and the end of the stream. True if both have got exactly that.
pub fn exchange(
    ends: [TcpStream; 2],
    number: usize,
    words: &Arc<[u8]>,
    (pieces, gate): (usize, &Arc<AtomicBool>),
) -> mpsc::Receiver<bool> {
    let (words, gate) = (Arc::clone(words), Arc::clone(gate));
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || {
        let outcomes = std::thread::scope(|scope| {
            let ways = [0, 1].map(|side: usize| {
                let (from, to) = (&ends[side], &ends[1 - side]);
                let said = &words[2 * number + side..][..pieces * PIECE_BYTES];
                let gate = &gate;
                scope.spawn(move || {
                    for (number, piece) in said.chunks(PIECE_BYTES).enumerate() {
                        while number >= pieces / 2 && !gate.load(SeqCst) {
                            std::thread::sleep(PAUSE);
                        }
                        { from }.write_all(piece).expect("sent");
                        std::thread::sleep(PAUSE);
                    }
                    from.shutdown(std::net::Shutdown::Write).expect("ended");
                });
                scope.spawn(move || {
                    let mut got = Vec::new();
                    { to }.read_to_end(&mut got).expect("the end of the stream");
                    got == said
                })
            });
            ways.map(|way| way.join().expect("received"))
        });
        // Whoever does not ask has failed already.
        let _ = done.send(outcomes == [true, true]);
    });
    result
}

fn run(line: &str) {
    let mut words = line.split(' ');
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .expect("to run it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
}
