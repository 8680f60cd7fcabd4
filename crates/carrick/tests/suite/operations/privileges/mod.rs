//! Privileges: what each thread keeps after start, and how that affects later operations.
mod account;
mod later;
mod start;

use crate::support::carrick::{PROGRAM, tunnel_text};
use crate::support::place::TUNNEL_PORT;
use crate::support::{Carrick, Peer, Place, Server, wait_for, wait_until};
use carrick_test::is_root;
use nix::unistd::User;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A user that exists on every machine and has no privileges.
const NOBODY: &str = "nobody";

/// `[process]` with that user.
const AS_NOBODY: &str = "[process]\nuser = \"nobody\"\n";

/// Approximate number of bytes in the messages of [`chat`].
const CHAT_BYTES: f64 = 1000.0;

/// Capabilities by bit number (capabilities(7)).
const SETPCAP: u32 = 8;
const NET_BIND_SERVICE: u32 = 10;

/// A port below 1024 that no service uses.
const LOW_PORT: u16 = 1017;
const OTHER_LOW_PORT: u16 = 1018;

/// Whether root can load the socket engine here.
fn has_engine() -> bool {
    let output = Command::new(PROGRAM).arg("doctor").output();
    let text = String::from_utf8_lossy(&output.expect("the program").stdout).into_owned();
    let row = text.lines().find(|line| line.starts_with("engine socket"));
    let row = row.expect("a row for the engine");
    let has = row["engine socket".len()..].trim().starts_with("yes");
    if !has {
        carrick_test::skip!("{row}");
    }
    has
}

/// Whether low ports require a privilege here.
fn has_low_ports() -> bool {
    let first = carrick::privileges::unprivileged_port_start();
    if first <= OTHER_LOW_PORT {
        carrick_test::lacks!("ports from {first} need no privilege here");
    }
    first > OTHER_LOW_PORT
}

/// The unprivileged user.
fn nobody() -> User {
    User::from_name(NOBODY)
        .expect("the list of users")
        .expect("the user nobody")
}

/// Makes the test's directory accessible to all users.
fn open_to_all_users(place: &Place) {
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(place.directory(), everybody).expect("permissions");
}

/// A command that executes carrick as `nobody`, with the privileges added by `privileges`; all users may write to the test's directory.
fn by_nobody(place: &Place, privileges: &[&str]) -> Command {
    open_to_all_users(place);
    // Other users may not have access to the build directory. Another process makes the copy: programs that other tests
    // start meanwhile would inherit a descriptor open for writing, and the copy could not be executed (ETXTBSY).
    let program = place.directory().join("carrick");
    let copied = Command::new("cp").arg(PROGRAM).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()), "a copy");
    let user = nobody();
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={}", user.uid))
        .arg(format!("--regid={}", user.gid))
        .arg("--clear-groups")
        .args(privileges)
        .arg(program);
    command
}

/// Removes all privileges from a command of [`by_nobody`].
const NOTHING: &[&str] = &["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"];

/// A tunnel with the socket engine.
fn socket_tunnel(server: SocketAddr) -> String {
    format!("[splice]\nengine = \"socket\"\n{}", tunnel_text(&[server]))
}

/// Sends messages back and forth through the tunnel; returns both ends, still open.
fn chat(carrick: &Carrick, server: &Server) -> (Peer, Peer) {
    let mut ends = (carrick.connect_tunnel(), server.accept());
    go_on(&mut ends);
    ends
}

fn go_on((client, upstream): &mut (Peer, Peer)) {
    for number in 0..50 {
        let (question, answer) = (format!("question {number}\n"), format!("answer {number}\n"));
        client.send(&question);
        upstream.expect(&question);
        upstream.send(&answer);
        client.expect(&answer);
    }
}

/// The kernel takes over a chat as soon as both directions are idle, and carries later messages.
fn expect_kernel_carried(carrick: &Carrick, mut ends: (Peer, Peer)) {
    wait_until("the tunnel to be in the kernel", || {
        carrick.status()["splices"]["in_kernel"] == 1
    });
    go_on(&mut ends);
    drop(ends);
    carrick.wait_for_metric(
        "carrick_splice_bytes_total",
        &["engine=\"socket\""],
        CHAT_BYTES,
    );
}

/// Number of tunnels that asked for the engine and did not get it.
fn went_without(carrick: &Carrick) -> f64 {
    carrick.metric(
        "carrick_splice_choices_total",
        &["reason=\"socket_unavailable\""],
    )
}

/// A tunnel on another port, to the same upstream.
fn second_listener(port: u16) -> String {
    assert_ne!(port, TUNNEL_PORT);
    format!(
        "[[listener]]\nlisten = \"{{ip}}:{port}\"\nmode = \"tunnel\"\n[[listener.route]]\nupstream = \"u\"\n"
    )
}

/// The status files of all threads of a process, once the threads have set their names.
fn threads(carrick: &Carrick) -> Vec<Status> {
    let tasks = format!("/proc/{}/task", carrick.pid().as_raw_nonzero());
    wait_for("all threads", || {
        let threads: Vec<Status> = std::fs::read_dir(&tasks)
            .expect("a process")
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
            .map(Status)
            .collect();
        let is_there = |name: &&str| threads.iter().any(|thread| thread.field("Name") == *name);
        ["control", "access-log", "worker-0", "worker-1"]
            .iter()
            .all(is_there)
            .then_some(threads)
    })
}

/// A thread's `status` in /proc.
struct Status(String);

impl Status {
    fn of_this_process() -> Self {
        Self(std::fs::read_to_string("/proc/self/status").expect("this process"))
    }

    fn field(&self, name: &str) -> &str {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .unwrap_or_else(|| panic!("{name} is missing in {}", self.0))
            .trim()
    }

    /// The numbers of a field.
    fn numbers(&self, name: &str) -> Vec<u32> {
        let words = self.field(name).split_whitespace();
        words.map(|word| word.parse().expect("a number")).collect()
    }

    /// A set of capabilities.
    fn set(&self, name: &str) -> u64 {
        u64::from_str_radix(self.field(name), 16).expect("a set")
    }
}

/// Every thread must have exactly these capabilities, and cannot get any.
fn expect_capabilities(carrick: &Carrick, kept: u64) {
    for thread in threads(carrick) {
        let name = thread.field("Name");
        assert_eq!(thread.set("CapPrm"), kept, "permitted to {name}");
        assert_eq!(thread.set("CapEff"), kept, "effective for {name}");
        assert_eq!(thread.set("CapInh"), 0, "inheritable from {name}");
        assert_eq!(thread.set("CapAmb"), 0, "ambient for {name}");
        assert_eq!(thread.field("NoNewPrivs"), "1", "{name}");
    }
}

/// The same for a carrick that root started, which can also empty the bounding set.
fn expect_capabilities_of_root(carrick: &Carrick, kept: u64) {
    expect_capabilities(carrick, kept);
    if Status::of_this_process().set("CapEff") >> SETPCAP & 1 == 0 {
        carrick_test::lacks!("this root cannot empty the bounding set");
        return;
    }
    for thread in threads(carrick) {
        assert_eq!(thread.set("CapBnd"), 0, "{}", thread.field("Name"));
    }
}
