//! A process in its own namespace, two connected interfaces, and programs that count.

use crate::engine::tc::hooks::{AttachMode, Direction, Hooks, Interfaces, Settings, tcx};
use carrick_test::PATIENCE;
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::time::{Duration, Instant};

const INSIDE: &str = "CARRICK_HOOKS_TEST_INSIDE";
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hooks_test.o"));

/// The ways that this kernel has: tcx from Linux 6.6 on.
pub fn ways() -> &'static [AttachMode] {
    match tcx::on_hook(index("lo"), Direction::Ingress) {
        Ok(_) => &[AttachMode::Tcx, AttachMode::Clsact],
        Err(_) => &[AttachMode::Clsact],
    }
}

/// Whether this kernel has tcx.
pub fn has_tcx() -> bool {
    let has_tcx = ways().contains(&AttachMode::Tcx);
    if !has_tcx {
        carrick_test::lacks!("tcx needs Linux 6.6 or later");
    }
    has_tcx
}

/// Runs the test with this name (below `tests::`) in another process, with its own network interfaces and mounts, which
/// disappear with it. Without root the test is skipped with a message.
pub fn inside(name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    if let Err(why) = may_unshare() {
        carrick_test::skip!("it makes network namespaces, and needs root: {why}");
        return;
    }
    let output = myself(name, &["unshare", "--mount", "--net", "--"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "inside its namespace: {text}");
    assert!(text.contains("1 passed"), "it did not run: {text}");
}

/// This program, to run one test, through a wrapper.
pub fn myself(name: &str, wrapper: &[&str]) -> Command {
    let path = format!("{}::{name}", module_path!().trim_end_matches("::support"));
    let path = path.split_once("::").expect("a crate").1;
    let program = std::env::current_exe().expect("this program");
    let mut command = match wrapper {
        [] => Command::new(program),
        [tool, arguments @ ..] => {
            let mut command = Command::new(tool);
            command.args(arguments).arg(program);
            command
        }
    };
    command.args([path, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

fn may_unshare() -> Result<(), String> {
    let tried = Command::new("unshare")
        .args(["--mount", "--net", "--", "true"])
        .output()
        .map_err(|error| error.to_string())?;
    if tried.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned())
    }
}

/// Runs a command line, which must succeed; returns what it prints.
pub fn run(line: &str) -> String {
    let mut words = line.split(' ');
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {text}");
    text.into_owned()
}

/// Creates `v0` and `v1`, connected, so that sent packets leave at `v1` and arrive at `v0`.
pub fn interfaces() {
    run(
        "ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02",
    );
    run("ip link set v0 up");
    run("ip link set v1 up");
    run("ip address add 10.9.0.1/24 dev v1");
    run("ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:01 dev v1");
}

/// Waits until a condition holds, and a moment longer, so that unexpected packets would show.
pub fn wait_for(holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(20));
}

/// The index of an interface.
pub fn index(name: &str) -> u32 {
    crate::engine::tc::hooks::interfaces()
        .expect("the interfaces")
        .iter()
        .find(|interface| interface.name == name)
        .unwrap_or_else(|| panic!("there is no {name}"))
        .index
}

/// Sends packets from `v1` to `v0`.
pub fn send(packets: u64) {
    let socket = UdpSocket::bind("10.9.0.1:0").expect("a socket");
    for _ in 0..packets {
        socket.send_to(b"x", "10.9.0.2:9").expect("sent");
    }
}

/// The programs of `bpf/tc/hooks_test.bpf.c`, loaded.
pub struct Programs(Object);

/// Counted packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub ingress: u64,
    pub egress: u64,
    pub foreign: u64,
}

impl Programs {
    pub fn load() -> Programs {
        let open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .expect("the object");
        Programs(open.load().expect("the programs"))
    }

    pub fn fd(&self, name: &str) -> BorrowedFd<'_> {
        let program = self.0.progs().find(|program| program.name() == name);
        let program = program.unwrap_or_else(|| panic!("no program {name}"));
        // The object keeps the descriptor open.
        self.borrow(std::os::fd::AsRawFd::as_raw_fd(&program.as_fd()))
    }

    #[expect(
        unsafe_code,
        reason = "the program that is borrowed from is made anew each time"
    )]
    fn borrow(&self, fd: i32) -> BorrowedFd<'_> {
        // SAFETY: the descriptor belongs to the object, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// The hooks on all interfaces.
    pub fn attach(&self, settings: Settings) -> Hooks {
        self.try_attach(settings).expect("the hooks")
    }

    pub fn try_attach(&self, settings: Settings) -> Result<Hooks, super::super::HookError> {
        Hooks::attach(self.fd("carrick_in"), self.fd("carrick_out"), settings)
    }

    pub fn seen(&self) -> Seen {
        let map = self
            .0
            .maps()
            .find(|map| map.name() == "seen")
            .expect("seen");
        let count = |place: u32| {
            let value = map
                .lookup(&place.to_ne_bytes(), MapFlags::ANY)
                .expect("a count")
                .expect("a value");
            u64::from_ne_bytes(value.try_into().expect("eight bytes"))
        };
        Seen {
            ingress: count(0),
            egress: count(1),
            foreign: count(2),
        }
    }

    /// Sends packets, and checks the counts when no more arrive.
    pub fn seen_of(&self, packets: u64, ingress: u64, egress: u64, foreign: u64) {
        let before = self.seen();
        send(packets);
        let expected = Seen {
            ingress: before.ingress + ingress,
            egress: before.egress + egress,
            foreign: before.foreign + foreign,
        };
        wait_for(|| self.seen() == expected);
        assert_eq!(self.seen(), expected, "{packets} packets were sent");
    }
}

pub fn by(way: AttachMode) -> Settings {
    Settings {
        way: Some(way),
        ..Settings::default()
    }
}

pub fn named(names: &[&str]) -> Interfaces {
    Interfaces::Named(names.iter().map(|name| (*name).to_owned()).collect())
}

/// Removes the interfaces, for the next round of a test.
pub fn remove_interfaces() {
    run("ip link delete v0");
}

/// The output of `tc` for an interface.
pub fn filters(name: &str) -> String {
    run(&format!("tc filter show dev {name} ingress"))
        + &run(&format!("tc filter show dev {name} egress"))
}
