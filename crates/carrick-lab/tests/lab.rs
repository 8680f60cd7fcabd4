//! The laboratory as a whole: needs root, because it makes network namespaces; says so and is skipped without.

#[path = "lab/load.rs"]
mod load;
#[path = "lab/origin.rs"]
mod origin;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use carrick_lab::command::find;
use carrick_lab::testbed::Testbed;
use carrick_lab::testbed::cores::{self, CorePair, Placement};
use carrick_lab::testbed::name::{PREFIX, RunName, memory_directory};
use carrick_test::{EndInTime, RunInTime, wait_until};

const LAB: &str = env!("CARGO_BIN_EXE_carrick-lab");

/// Whether a test that needs root, and these, can be run here.
fn can_run(tools: &[&str]) -> bool {
    if !carrick_test::is_root() {
        return false;
    }
    let missing = tools.iter().find(|tool| find(tool).is_none());
    if let Some(tool) = missing {
        carrick_test::skip!("there is no {tool}");
    }
    missing.is_none()
}

macro_rules! skip_unless {
    ($($tool:literal),*) => {
        if !can_run(&["ip", "ss", "taskset", $($tool),*]) {
            return;
        }
    };
}

#[path = "lab/testbed.rs"]
mod testbed;
#[path = "lab/wan.rs"]
mod wan;

/// Namespaces and files that bear the name of one process's runs.
fn left_behind(pid: u32) -> Vec<PathBuf> {
    left_behind_by(&format!("{PREFIX}{pid}x"))
}

/// Namespaces and files whose names begin so.
fn left_behind_by(beginning: &str) -> Vec<PathBuf> {
    [PathBuf::from("/run/netns"), memory_directory()]
        .iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(beginning))
        })
        .collect()
}

#[test]
fn a_test_bed_leaves_nothing_behind_and_sweeps_what_a_killed_run_left() {
    skip_unless!();
    // The run is alive until everything is there, as other tests' test beds sweep, too.
    let mut owner = Command::new("sleep").arg("1000").spawn().unwrap();
    let name = format!(
        "{PREFIX}{}x{}b7",
        owner.id(),
        testbed::started_ticks(owner.id())
    );
    assert!(RunName::parse(&name).is_some_and(|run| run.is_alive()));
    let leftover = format!("{name}.client");
    assert!(
        Command::new("ip")
            .args(["netns", "add", &leftover])
            .status()
            .unwrap()
            .success()
    );
    fs::create_dir(memory_directory().join(&name)).unwrap();
    let mut orphan = Command::new("ip")
        .args(["netns", "exec", &leftover, "sleep", "1000"])
        .spawn()
        .unwrap();
    wait_until("the orphan", || {
        testbed::pids(&leftover).contains(&orphan.id())
    });
    owner.kill().unwrap();
    owner.wait_in_time().unwrap();

    let mut testbed = Testbed::create().unwrap();
    wait_until("nothing left behind", || left_behind_by(&name).is_empty());
    assert!(
        !orphan.wait_in_time().unwrap().success(),
        "the killed run's process was killed"
    );
    let own = testbed.service_name();
    assert_eq!(
        left_behind_by(&own).len(),
        4,
        "three namespaces and a directory"
    );

    let routes = testbed.client.run("ip", &["route"]).unwrap();
    assert_eq!(routes.lines().count(), 2);
    assert!(
        routes.lines().all(|route| route.contains("congctl cubic")),
        "{routes}"
    );

    if let Ok(cores) = CorePair::parse("0,1") {
        testbed.place(Placement::Separate(cores)).unwrap();
        let mask = testbed
            .proxy
            .run("cat", &["/sys/class/net/p0/queues/rx-0/rps_cpus"])
            .unwrap();
        assert_eq!(
            mask.trim_start_matches('0').trim_start_matches(',').trim(),
            "2"
        );
    }
    drop(testbed);
    assert_eq!(left_behind_by(&own), Vec::<PathBuf>::new());
}

/// The program, on all cores that this process began with: a bed of another test may have moved this process to one.
fn lab() -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cores::list(&cores::online()), LAB]);
    command
}

/// One for the proxy, one for everything else.
fn has_two_cores() -> bool {
    let has = CorePair::parse("0,1").is_ok();
    if !has {
        carrick_test::lacks!("benchmarks need two cores");
    }
    has
}

/// A short benchmark with these arguments: its results' directory, and what it says. Where the machine is so busy that a peer
/// does not answer in its second, again.
fn bench(arguments: &[&str]) -> std::io::Result<(tempfile::TempDir, String)> {
    loop {
        let out = tempfile::tempdir()?;
        let output = lab()
            .args(["bench", "--quick"])
            .args(arguments)
            .arg("--out")
            .arg(out.path())
            .output_in_time()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if said.contains("FAILED: not one response") {
            continue;
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{complaint}");
        return Ok((out, said));
    }
}

#[test]
fn a_short_benchmark_gives_a_table_json_and_plots() {
    skip_unless!("nginx", "wrk");
    if !has_two_cores() {
        return;
    }
    let works = "switch-1k,switch-close-1k,memory-switch";
    let (out, said) = bench(&[
        "--only",
        works,
        "--peers",
        "routed,nginx",
        "--figures",
        "rate",
        "--idle-connections",
        "200",
    ])
    .unwrap();
    for part in [
        "switch, keep-alive, 1 KB",
        "nginx",
        "process memory per idle keep-alive client",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    let results = carrick_lab::report::load_one(out.path()).unwrap();
    assert_eq!(results.ended_early, None);
    let cells: Vec<(&str, &str)> = results
        .cells
        .iter()
        .map(|cell| (cell.workload.as_str(), cell.series.as_str()))
        .collect();
    assert_eq!(
        cells,
        [
            ("switch-1k", "routed"),
            ("switch-1k", "nginx"),
            ("switch-1k", "nginx-fields"),
            ("switch-close-1k", "routed"),
            ("switch-close-1k", "nginx"),
            ("memory-switch", "nginx"),
        ]
    );
    for cell in &results.cells {
        assert_eq!((cell.samples.len(), &cell.failure), (1, &None));
    }
    for file in ["table.txt", "switch.svg", "memory.svg"] {
        assert!(out.path().join(file).is_file(), "{file}");
    }
    // Drawn again from the raw results, the table is the same.
    let again = lab()
        .args(["bench", "report"])
        .arg(out.path())
        .output_in_time()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&again.stdout), said);
}

/// Ping-pong, many connections and streams, with and without a proxy, with every figure.
#[test]
fn a_short_look_at_tunnels_has_round_trips_bytes_and_the_process_alone() {
    skip_unless!("nginx", "wrk");
    if !has_two_cores() {
        return;
    }
    let carrick = PathBuf::from(LAB).with_file_name("carrick");
    let peers = if carrick.is_file() {
        ["routed", "carrick-copy"]
    } else {
        carrick_test::lacks!("carrick's part: it is not built");
        ["routed", "nginx"]
    };
    let works = ["ping-64", "tunnel-256-1k", "bulk-16"];
    let (out, said) = bench(&[
        "--only",
        &works.join(","),
        "--peers",
        &peers.join(","),
        "--carrick",
        &carrick.display().to_string(),
    ])
    .unwrap();
    for part in ["trips/s", "Gbit/s", "CPU ms/GB", "process", "x copy"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    let results = carrick_lab::report::load_one(out.path()).unwrap();
    assert_eq!(results.cells.len(), works.len() * peers.len() * 2);
    for work in works {
        let (rate, cpu, process) = match work {
            "bulk-16" => (
                "throughput_bytes_per_second",
                "cpu_ms_per_gigabyte",
                "process_ms_per_gigabyte",
            ),
            _ => (
                "requests_per_second",
                "cpu_us_per_request",
                "process_us_per_request",
            ),
        };
        for peer in peers {
            let value = |cores, metric| {
                let values = results.values(work, peer, cores, metric);
                values.unwrap_or_default().first().copied()
            };
            for (cores, metric) in [("shared", rate), ("separate", cpu)] {
                let value = value(cores, metric);
                assert!(
                    value.is_some_and(|value| value > 0.0),
                    "{work} {peer}: {metric}"
                );
            }
            // Routing has no process; a proxy that reads and writes has some time of its own.
            let process = value("separate", process).unwrap();
            assert_eq!(process > 0.0, peer != "routed", "{work} {peer}: {process}");
            assert_eq!(value("shared", cpu), None);
            let latency = |metric| value("shared", metric);
            match work {
                "bulk-16" => assert_eq!(latency("latency_p50_ms"), None),
                _ => assert!(latency("latency_p50_ms") <= latency("latency_p99_ms")),
            }
        }
    }
}

#[test]
fn a_proxy_that_dies_fails_its_cell_visibly() {
    skip_unless!("nginx", "wrk");
    if !has_two_cores() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    // It takes its configuration, and that is all.
    let carrick = out.path().join("carrick");
    fs::write(&carrick, "#!/bin/sh\n[ \"$1\" = check ]\n").unwrap();
    fs::set_permissions(&carrick, fs::Permissions::from_mode(0o755)).unwrap();
    let output = lab()
        .arg("bench")
        .args([
            "--quick",
            "--only",
            "switch-1k",
            "--peers",
            "carrick-copy",
            "--figures",
            "rate",
        ])
        .arg("--carrick")
        .arg(&carrick)
        .arg("--out")
        .arg(out.path())
        .output_in_time()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("FAILED") && said.contains("carrick-copy ended"),
        "{said}"
    );
}

#[test]
fn an_interrupted_benchmark_leaves_nothing_behind() {
    skip_unless!("nginx", "wrk");
    if !has_two_cores() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    for signal in ["-INT", "-TERM"] {
        let mut bench = lab()
            .args([
                "bench",
                "--only",
                "switch-1k",
                "--peers",
                "routed,nginx",
                "--figures",
                "rate",
                "--out",
            ])
            .arg(out.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = bench.id();
        let is_load =
            |pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "wrk\n");
        wait_until("the load", || {
            testbed::namespaces(pid).any(|name| testbed::pids(&name).into_iter().any(is_load))
        });
        assert!(
            Command::new("kill")
                .args([signal, &pid.to_string()])
                .status()
                .unwrap()
                .success()
        );
        assert!(!bench.wait_in_time().unwrap().success());
        assert_eq!(left_behind(pid), Vec::<PathBuf>::new());
    }
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    for (arguments, part) in [
        (&["--only", "switch-7k"][..], "no work `switch-7k`"),
        (&["--peers", "apache"], "no peer `apache`"),
        (&["--cores", "0,0"], "must differ"),
        (&["--figures", "speed"], "no figure `speed`"),
        (
            &["--peers", "carrick", "--carrick", "no/such/file"],
            "no carrick at no/such/file",
        ),
    ] {
        if arguments.contains(&"--carrick") && !has_two_cores() {
            continue;
        }
        let output = lab().arg("bench").args(arguments).output_in_time().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(part),
            "{arguments:?}: {said}"
        );
    }
}
