//! Only the process itself sees the effect of the programs, and they disappear with it.
//!
//! The other process runs a test of this binary that is ignored unless started here.

use super::bed::bed;
use crate::support::{HANG, wait_until};
use carrick_splice::tcp_tuning::{Moment, Profile, TcpTuning, measure};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// bpf/tcp_tuning/tcp_tuning.h
const LEVEL: i32 = 0x6361_726b;
const OPTION: i32 = 1;

/// A control group below that of this process, removed when this is dropped.
struct Group(PathBuf);

impl Group {
    fn new() -> Group {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = own_group().join(format!("csp{}x{count}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Group(folder)
    }

    /// Number of programs attached to this group.
    fn programs(&self) -> usize {
        let own = fs::metadata(&self.0).unwrap().ino();
        LinkInfoIter::default()
            .filter(
                |link| matches!(&link.info, LinkTypeInfo::Cgroup(group) if group.cgroup_id == own),
            )
            .count()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A killed process leaves its group a moment later.
        let began = Instant::now();
        while fs::remove_dir(&self.0).is_err() && began.elapsed() < HANG {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The control group of this process.
fn own_group() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields.find(|fields| fields[2] == "cgroup2").unwrap()[1].to_owned();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
    PathBuf::from(format!("{mount}{}", own.unwrap()))
}

/// Runs an ignored test of this binary in a process in a control group.
fn start(group: &Path, test: &str) -> Child {
    Command::new("sh")
        .args(["-c", "echo $$ > $0/cgroup.procs && exec \"$@\""])
        .arg(group)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            test,
            "--test-threads=1",
            "--nocapture",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads a process's output up to a line with this end.
fn wait_for(child: &mut Child, end: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap().ends_with(end)),
        "it ended without {end:?}"
    );
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = carrick_test::listen("127.0.0.1:0");
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Sets an option; returns the error's number.
#[expect(unsafe_code, reason = "no library has these options")]
fn set(stream: &TcpStream, level: i32, name: i32, value: &[u8]) -> i32 {
    let length = value.len() as libc::socklen_t;
    // SAFETY: the descriptor is open; the kernel reads at most `length` bytes, which `value` has.
    let outcome = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            length,
        )
    };
    if outcome == 0 {
        return 0;
    }
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// Ends the process after a while, so that it does not outlive the test.
fn end_after_a_while() {
    std::thread::spawn(|| {
        std::thread::sleep(HANG);
        std::process::abort();
    });
}

/// What an unrelated process sees.
#[test]
#[ignore = "it is run in a process of its own"]
fn an_unrelated_process() {
    end_after_a_while();
    let (mut near, far) = connection();
    let before = measure(&near).unwrap().congestion_window;
    assert_eq!(before, 10);
    // Requests without the key, of every kind and size.
    for ask in 0..8_u32 {
        for bytes in [0, 4, 16, 24, 56, 64, 5000] {
            let mut request = vec![0; bytes];
            if bytes >= 24 {
                request[16..20].copy_from_slice(&ask.to_ne_bytes());
                request[20..24].copy_from_slice(&40_u32.to_ne_bytes());
            }
            let outcome = set(&near, LEVEL, OPTION, &request);
            assert_eq!(outcome, libc::ENOPROTOOPT, "{ask}, {bytes} bytes");
        }
    }
    assert_eq!(measure(&near).unwrap().congestion_window, before);
    // Values longer than a page behave like short ones.
    for bytes in [4, 100, 4096, 4097, 20_000] {
        let mut value = vec![0; bytes];
        value[..4].copy_from_slice(&1_i32.to_ne_bytes());
        assert_eq!(
            set(&near, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &value),
            0,
            "{bytes} bytes"
        );
        assert!(socket2::SockRef::from(&near).keepalive().unwrap());
        let refused = set(&near, libc::SOL_SOCKET, 12_345, &value);
        assert_eq!(refused, libc::ENOPROTOOPT, "{bytes} bytes");
    }
    near.write_all(b"as ever").unwrap();
    drop(near);
    let mut arrived = String::new();
    let mut far = far;
    far.read_to_string(&mut arrived).unwrap();
    assert_eq!(arrived, "as ever");
    println!("unaffected");
}

#[test]
fn other_processes_see_no_effect() {
    let Some(_bed) = bed() else {
        return;
    };
    // In the group of this process, and below.
    let group = Group::new();
    let service = TcpTuning::load();
    service.handshake().unwrap();
    for folder in [&group.0, &own_group()] {
        let mut other = start(folder, "tcp_profiles::alone::an_unrelated_process");
        wait_for(&mut other, "unaffected");
        assert!(other.wait().unwrap().success());
    }
    // A thread of the process without the key is unrelated, too.
    let (near, _far) = connection();
    assert_eq!(set(&near, LEVEL, OPTION, &[0; 64]), libc::ENOPROTOOPT);
    drop(service);
}

/// Uses the programs, reports that, and waits for its end.
#[test]
#[ignore = "it is run in a process of its own"]
fn a_process_that_uses_the_programs() {
    end_after_a_while();
    let service = TcpTuning::load();
    service.handshake().unwrap();
    let (near, _far) = connection();
    let profile = Profile {
        initial_window_bytes: Some(64 << 10),
        ..Profile::default()
    };
    let applied = service.set(&near, &profile, Moment::Connected);
    assert_eq!(applied.refused, []);
    println!("using the programs");
    let _ = std::io::stdin().read(&mut [0; 1]);
    drop(service);
    println!("finished with them");
    let _ = std::io::stdin().read(&mut [0; 1]);
}

#[test]
fn the_programs_go_with_the_service_and_with_the_process() {
    let Some(_bed) = bed() else {
        return;
    };
    let group = Group::new();
    assert_eq!(group.programs(), 0);
    for is_killed in [true, false] {
        let mut user = start(
            &group.0,
            "tcp_profiles::alone::a_process_that_uses_the_programs",
        );
        wait_for(&mut user, "using the programs");
        assert_eq!(group.programs(), 2);
        if is_killed {
            user.kill().unwrap();
            user.wait().unwrap();
        } else {
            user.stdin.as_mut().unwrap().write_all(b"x").unwrap();
            wait_for(&mut user, "finished with them");
        }
        wait_until("the programs to go", || group.programs() == 0);
        drop(user.stdin.take());
        user.wait().unwrap();
    }
}
