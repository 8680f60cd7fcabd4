//! `carrick-lab testbed`: where commands run, how they end, what is left, and how failures are told.

use super::*;

fn testbed_command(arguments: &[&str]) -> Command {
    let mut command = crate::lab();
    command.arg("testbed").args(arguments);
    command
}

fn said(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = testbed_command(arguments).output_in_time().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_command_runs_where_it_is_told_to_and_its_exit_code_is_passed_on() {
    skip_unless!();
    let own = "ip -4 -o address show scope global; exit 7";
    for (arguments, address) in [
        (&[][..], "10.77.1.2/24"),
        (&["--in", "proxy"], "10.77.2.1/24"),
        (&["--in", "server"], "10.77.2.2/24"),
        (&["--layout", "routed", "--in", "proxy"], "10.77.3.2/24"),
        (&["--layout", "routed", "--in", "router"], "10.77.3.1/24"),
    ] {
        let all = [arguments, &["--", "sh", "-c", own]].concat();
        let (code, out, error) = said(&all);
        assert_eq!(code, Some(7), "{all:?}: {error}");
        assert!(out.contains(address), "{all:?}: {out}");
    }
    let script = "ip netns exec $CARRICK_LAB_ROUTER_NETNS true && ip netns exec $CARRICK_LAB_SERVER_NETNS \
                  ip -4 -o address | grep -q $CARRICK_LAB_SERVER_ADDRESS && test -d $CARRICK_LAB_DIRECTORY && kill -9 $$";
    let (code, _, error) = said(&[
        "--layout", "routed", "--in", "host", "--", "sh", "-c", script,
    ]);
    assert_eq!(code, Some(137), "as a shell has it: {error}");
    let (code, _, error) = said(&["--", "no-such-command"]);
    assert!(
        code == Some(127) && error.contains("no-such-command"),
        "{error}"
    );
}

#[test]
fn mistakes_are_explained_before_anything_is_made() {
    skip_unless!();
    for (arguments, part) in [
        (&["--congestion", "vegas"][..], "does not offer `vegas`"),
        (&["--in", "router"], "no router"),
        (&["--wan", "no/such/file"], "cannot read no/such/file"),
        (&["--cores", "1,1"], "must differ"),
    ] {
        let all = [arguments, &["--", "true"]].concat();
        let (code, _, error) = said(&all);
        assert!(
            code == Some(1) && error.contains(part),
            "{arguments:?}: {error}"
        );
    }
}

fn start_sleeping(arguments: &[&str]) -> Child {
    let all = [
        arguments,
        &["--", "sh", "-c", "trap '' HUP; sleep 1000 & sleep 1000"],
    ]
    .concat();
    let child = testbed_command(&all).stderr(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    wait_until("its processes", || {
        namespaces(pid).any(|name| pids(&name).len() >= 3)
    });
    child
}

#[test]
fn an_interrupted_command_leaves_nothing_behind() {
    skip_unless!();
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let mut child = start_sleeping(&["--layout", "routed"]);
        let pid = child.id();
        let killed = Command::new("kill")
            .args([signal, &pid.to_string()])
            .status();
        assert!(killed.unwrap().success());
        assert_eq!(child.wait_in_time().unwrap().code(), Some(code), "{signal}");
        assert_eq!(left_behind(pid), Vec::<PathBuf>::new(), "{signal}");
    }
}

#[test]
fn a_killed_run_is_cleaned_up_by_the_next() {
    skip_unless!();
    let mut child = start_sleeping(&[]);
    let pid = child.id();
    child.kill().unwrap();
    child.wait_in_time().unwrap();
    let (code, _, error) = said(&["--", "true"]);
    assert_eq!(code, Some(0), "{error}");
    wait_until("nothing left behind", || left_behind(pid).is_empty());
}

#[test]
fn without_capabilities_the_reason_is_told() {
    skip_unless!("setpriv");
    let output = Command::new("setpriv")
        .args([
            "--bounding-set=-sys_admin",
            "--inh-caps=-sys_admin",
            LAB,
            "testbed",
            "--",
            "true",
        ])
        .output_in_time()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("CAP_SYS_ADMIN"),
        "{said}"
    );
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "--regid=65534", LAB])
        .args(["testbed", "--", "true"])
        .output_in_time();
    let said = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    // The program's own folder may be closed to that user.
    match said {
        Ok(said) if said.contains("Permission denied") => {
            carrick_test::lacks!("nobody may not run {LAB}")
        }
        Ok(said) => assert!(said.contains("needs root"), "{said}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_missing_tool_is_named_with_its_package() {
    skip_unless!();
    let folder = tempfile::tempdir().unwrap();
    // The tools' usual places are looked at, too: hidden for this process alone.
    let script = format!(
        "mount -t tmpfs none /usr/sbin && mount -t tmpfs none /sbin && PATH={} exec {LAB} testbed -- true",
        folder.path().display()
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .output_in_time()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("`ip` is missing: apt-get install iproute2"),
        "{said}"
    );
}

#[test]
fn a_full_file_system_in_memory_is_told() {
    skip_unless!("unshare");
    let script = format!("mount -t tmpfs -o size=64k none /dev/shm && exec {LAB} testbed -- true");
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .output_in_time()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("/dev/shm is full"),
        "{said}"
    );
}

#[test]
fn a_command_behind_a_wan_leaves_its_counts() {
    skip_unless!();
    if !helpers::has_part("wan", "--counts") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("wan.toml");
    let counts = folder.path().join("counts.json");
    fs::write(&rules, "[[rule]]\ndelay_ms = 5\n").unwrap();
    let script = "ip netns exec $CARRICK_LAB_SERVER_NETNS \"$LAB\" echo --listen $CARRICK_LAB_SERVER_ADDRESS:7 & \
                  \"$LAB\" hold --connect $CARRICK_LAB_SERVER_ADDRESS:7 --count 1 --concurrency 1 --patience-seconds 60 \
                  </dev/null || exit 4; exit 3";
    let output = testbed_command(&["--wan", rules.to_str().unwrap(), "--counts"])
        .arg(&counts)
        .args(["--", "sh", "-c", script])
        .env("LAB", LAB)
        .output_in_time()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let counts: WanCounts = serde_json::from_slice(&fs::read(&counts).unwrap()).unwrap();
    assert!(counts.rules[0].packets > 2, "{counts:?}");
}
