//! Privileges of a transparent carrick and its rule supervisor: as few as possible; and the messages without them.
use super::*;
use crate::support::carrick::PROGRAM;
use rustix::process::Pid;

/// Capabilities by bit number (capabilities(7)).
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;

/// Fields of a thread's status, by name.
fn field(status: &str, name: &str) -> String {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a field").trim().to_owned()
}

/// The status of each thread of a process.
fn threads(pid: Pid) -> Vec<String> {
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let tasks = std::fs::read_dir(tasks).expect("a process");
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
        .collect()
}

fn expect(pid: Pid, kept: u64, uid: u32) {
    for thread in threads(pid) {
        for set in ["CapPrm", "CapEff"] {
            let has = u64::from_str_radix(&field(&thread, set), 16).expect("a set");
            assert_eq!(has, kept, "{set} of {}", field(&thread, "Name"));
        }
        assert_eq!(field(&thread, "NoNewPrivs"), "1");
        let uids = field(&thread, "Uid");
        assert!(
            uids.split_whitespace().all(|one| one == uid.to_string()),
            "{uids}"
        );
    }
}

#[test]
fn carrick_keeps_at_most_one_capability_and_its_supervisor_another() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    bed.open_to_all_users();
    let as_nobody = "[process]\nuser = \"nobody\"\n";
    for (text, kept, uid) in [
        (SWITCH.to_owned(), 0, 0),
        (as_nobody.to_owned() + SWITCH, 0, nobody()),
        (
            as_nobody.to_owned() + SWITCH + "keep_client_address = true\n",
            NET_RAW,
            nobody(),
        ),
    ] {
        let log = bed.directory().join("carrick-0.log");
        let _ = std::fs::remove_file(log);
        let _ = std::fs::remove_file(bed.directory().join("carrick-0.toml"));
        let carrick = bed.carrick(&text);
        expect(carrick.pid(), kept, uid);
        let [supervisor] = bed.supervisors()[..] else {
            panic!("one supervisor: {:?}", bed.supervisors());
        };
        expect(supervisor, NET_ADMIN, uid);
        assert!(bed.curl("http://10.2.0.2/").contains(VIA));
        carrick.stop();
        assert_eq!(
            bed.rules(),
            before,
            "a supervisor with another user removes the rules"
        );
    }
}

#[test]
fn without_the_privilege_it_says_which() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let keep = SWITCH.to_owned() + "keep_client_address = true\n";
    for (without, text, part) in [
        (
            "net_admin",
            SWITCH,
            "`transparent` on the listener [::]:8080 needs CAP_NET_ADMIN; start carrick as root",
        ),
        (
            "net_raw",
            &keep,
            "`keep_client_address` on the listener [::]:8080 needs CAP_NET_RAW; start carrick as root",
        ),
    ] {
        let without = format!("-{without}");
        let command = [
            "setpriv",
            "--bounding-set",
            &without,
            "--inh-caps",
            &without,
            PROGRAM,
        ];
        let said = bed.try_carrick(&command, text).err().expect("no start");
        assert!(said.contains(part), "{part:?} is missing in {said}");
        assert_eq!(bed.rules(), before);
    }
}

#[test]
fn without_the_tools_it_names_the_package() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let tools = tempfile::tempdir().expect("a directory");
    let path = format!("PATH={}", tools.path().display());
    for (tool, package) in [("nft", "nftables"), ("ip", "iproute2")] {
        let said = bed
            .try_carrick(&["env", &path, PROGRAM], SWITCH)
            .err()
            .expect("no start");
        let part = format!("the program `{tool}` is not in PATH: install the package {package}");
        assert!(said.contains(&part), "{part:?} is missing in {said}");
        let found = carrick_lab::command::find(tool).expect("it exists");
        std::os::unix::fs::symlink(found, tools.path().join(tool)).expect("a link");
    }
    assert_eq!(bed.rules(), before);
    // With both of them it works.
    let carrick = bed
        .try_carrick(&["env", &path, PROGRAM], SWITCH)
        .unwrap_or_else(|said| panic!("{said}"));
    carrick.stop();
}

#[test]
fn the_supervisor_command_is_not_for_users_and_doctor_knows_the_tools() {
    let Some(bed) = Bed::build() else { return };
    let mut command = super::bed::inside(&bed.router, &[PROGRAM, "keep-rules"]);
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .expect("carrick");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("carrick starts this command itself"),
        "{said}"
    );
    let (_, table) = bed.command(&["doctor"]);
    for name in ["nft ", "ip ", "TPROXY "] {
        let line = table
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a row");
        assert!(line[name.len()..].trim_start().starts_with("yes"), "{line}");
    }
    let without = [
        "setpriv",
        "--bounding-set",
        "-net_admin",
        "--inh-caps",
        "-net_admin",
        PROGRAM,
        "doctor",
    ];
    let output = super::bed::inside(&bed.router, &without)
        .output()
        .expect("carrick");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = table
        .lines()
        .find(|line| line.starts_with("TPROXY"))
        .expect("a row");
    assert!(
        line.contains(" no ") && line.contains("CAP_NET_ADMIN"),
        "{line}"
    );
}

#[test]
fn a_user_with_ambient_capabilities_needs_no_root() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    bed.open_to_all_users();
    // Other users may have no access to the build directory.
    let program = bed.directory().join("carrick").display().to_string();
    let copied = std::process::Command::new("cp")
        .args([PROGRAM, &program])
        .status();
    assert!(copied.is_ok_and(|status| status.success()), "a copy");
    let granted = "+net_admin,+net_raw";
    let command = [
        "setpriv",
        "--reuid=nobody",
        "--regid=nogroup",
        "--clear-groups",
        "--bounding-set=-all,+net_admin,+net_raw",
        "--inh-caps",
        granted,
        "--ambient-caps",
        granted,
        &program,
    ];
    let text = SWITCH.to_owned() + "keep_client_address = true\n";
    let carrick = bed
        .try_carrick(&command, &text)
        .unwrap_or_else(|said| panic!("{said}"));
    let uid = nobody();
    expect(carrick.pid(), NET_RAW, uid);
    expect(bed.supervisors()[0], NET_ADMIN, uid);
    let said = bed.curl("http://10.2.0.2/");
    assert!(
        said.contains(VIA) && said.contains("client=10.1.0.2 "),
        "{said}"
    );
    carrick.stop();
    assert_eq!(bed.rules(), before);
}

/// The ID of the unprivileged user.
pub fn nobody() -> u32 {
    let user = nix::unistd::User::from_name("nobody").expect("users");
    user.expect("nobody").uid.as_raw()
}
