//! The laboratory's experiments, shortened, with this carrick. They need root for network namespaces; otherwise they
//! are skipped with a message.
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use carrick_lab::command::find;
use carrick_lab::experiment::results::ExperimentResults;
use carrick_lab::report;
use carrick_lab::testbed::name::{PREFIX, memory_directory};
use carrick_test::{EndInTime, RunInTime, wait_until};

const CARRICK: &str = env!("CARGO_BIN_EXE_carrick");
/// The programs that experiments start besides carrick.
const TOOLS: [&str; 6] = ["ip", "ss", "taskset", "haproxy", "nginx", "squid"];

/// Whether an experiment can be run here.
fn can_run() -> bool {
    if !carrick_test::is_root() {
        return false;
    }
    if carrick_lab::testbed::cores::online().len() < 2 {
        carrick_test::lacks!("there is no second core");
        return false;
    }
    let missing = TOOLS.iter().find(|tool| find(tool).is_none());
    if let Some(missing) = missing {
        carrick_test::skip!("there is no {missing}");
    }
    missing.is_none()
}

fn lab(arguments: &[&str], out: &Path) -> Command {
    let mut command = Command::new(CARRICK);
    command.arg("lab").args(arguments).arg("--out").arg(out);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// Namespaces and files left by a process's runs.
fn left_behind(pid: u32) -> Vec<PathBuf> {
    let beginning = format!("{PREFIX}{pid}x");
    [
        PathBuf::from("/run/netns"),
        memory_directory(),
        std::env::temp_dir(),
    ]
    .iter()
    .filter_map(|directory| fs::read_dir(directory).ok())
    .flatten()
    .filter_map(|entry| Some(entry.ok()?.path()))
    .filter(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(&beginning)
    })
    .collect()
}

/// Messages of cells that fail because the machine is busy, not because the laboratory is wrong.
const BUSY: [&str; 6] = [
    "a look at the clock takes",
    "is not ready after",
    "no connection reached",
    "no request was completed while it was measured",
    "Resource temporarily unavailable",
    "does not listen on port",
];

/// Runs an experiment to its end, and repeats it while the machine is too busy; returns its results, and the process ID.
fn run_unless_busy(name: &str) -> (tempfile::TempDir, u32) {
    let mut why = String::new();
    for _ in 0..5 {
        let out = tempfile::tempdir().unwrap();
        let child = lab(&["run", name, "--smoke"], out.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let output = child.wait_with_output_in_time().unwrap();
        let said = said(&output);
        let mut failed = said
            .lines()
            .filter(|line| line.starts_with("FAILED"))
            .peekable();
        let is_busy = failed.peek().is_some()
            && failed.all(|line| BUSY.iter().any(|reason| line.contains(reason)));
        assert!(output.status.success() || is_busy, "{said}");
        why = match output.status.success() {
            true => unmeasured(&report::load(out.path()).unwrap()[0]).join("\n"),
            false => said,
        };
        if why.is_empty() {
            return (out, pid);
        }
    }
    panic!("{name}: the machine was too busy five times: {why}");
}

/// Runs an experiment and draws its report: every series that does not wait for something has been measured, and every figure has its data.
fn smoke(name: &str) {
    if !can_run() {
        return;
    }
    let (out, pid) = run_unless_busy(name);
    assert_eq!(left_behind(pid), Vec::<PathBuf>::new());

    let results = report::load(out.path()).unwrap().remove(0);
    assert_eq!(results.ended_early, None);
    check_cells(&results);
    assert!(out.path().join(name).join("samples.csv").is_file());

    let output = Command::new(CARRICK)
        .args(["lab", "report"])
        .arg(out.path())
        .output_in_time()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(out.path().join("report.html").is_file());
}

fn check_cells(results: &ExperimentResults) {
    assert!(!results.cells.is_empty());
    for cell in &results.cells {
        let place = format!("{} {} {:?}", cell.workload, cell.series, cell.parameters);
        assert_eq!(cell.failure, None, "{place}");
        match cell.waiting_for {
            Some(_) => assert!(
                cell.samples.is_empty(),
                "{place}: measured, though it waits for something"
            ),
            None => assert_eq!(cell.samples.len(), 1, "{place}"),
        }
    }
}

/// The figures whose series were measured without what they show: no request of some kind was completed meanwhile. The shortest of runs leaves
/// out series that another workload had.
fn unmeasured(results: &ExperimentResults) -> Vec<String> {
    let mut unmeasured = Vec::new();
    for figure in &results.figures {
        let measured: Vec<_> = results
            .cells
            .iter()
            .filter(|cell| cell.workload == figure.workload && cell.waiting_for.is_none())
            .filter(|cell| figure.series.is_empty() || figure.series.contains(&cell.series))
            .collect();
        for axis in std::iter::once(&figure.y).chain(&figure.columns) {
            let has_metric = measured.iter().any(|cell| {
                cell.samples
                    .iter()
                    .any(|sample| sample.contains_key(&axis.name))
            });
            if !has_metric && !measured.is_empty() {
                unmeasured.push(format!(
                    "{}: no cell has the metric {}",
                    figure.id, axis.name
                ));
            }
        }
    }
    unmeasured
}

#[test]
fn rosu_2002_can_be_run() {
    smoke("rosu-2002");
}

#[test]
fn cohen_1999_can_be_run() {
    smoke("cohen-1999");
}

#[test]
fn kthread_2003_can_be_run() {
    smoke("kthread-2003");
}

#[test]
fn satellite_2003_can_be_run() {
    smoke("satellite-2003");
}

#[test]
fn peers_can_be_run() {
    smoke("peers");
}

#[test]
fn a_proxy_that_dies_in_the_middle_fails_its_cell_and_the_run_goes_on() {
    if !can_run() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    // carrick, killed soon after it begins to serve.
    let mortal = out.path().join("mortal-carrick");
    let script = format!(
        "#!/bin/sh\ncase $1 in run) exec timeout -s KILL 0.35 {CARRICK} \"$@\" ;; *) exec {CARRICK} \"$@\" ;; esac\n"
    );
    fs::write(&mortal, script).unwrap();
    fs::set_permissions(&mortal, fs::Permissions::from_mode(0o755)).unwrap();
    let output = lab(
        &[
            "run", "peers", "--only", "tunnel", "--proxy", "carrick", "--proxy", "routed",
            "--engine", "copy",
        ],
        out.path(),
    )
    .arg("--carrick")
    .arg(&mortal)
    .args(["--seed", "7"])
    .output_in_time()
    .unwrap();
    assert!(!output.status.success());
    assert!(said(&output).contains("FAILED"), "{}", said(&output));
    let results = report::load(out.path()).unwrap().remove(0);
    assert_eq!((results.ended_early.as_deref(), results.seed), (None, 7));
    for cell in &results.cells {
        match cell.series.as_str() {
            // The run went on to it, though a busy machine may let it complete nothing.
            "routed" => match cell.failure.as_deref() {
                None => assert_eq!(cell.samples.len(), 1),
                Some(why) => assert_eq!(why, "no request was completed while it was measured"),
            },
            _ => {
                let why = cell.failure.as_deref().unwrap_or_default();
                assert!(why.contains("carrick-copy ended"), "{why}");
            }
        }
    }
}

#[test]
fn an_interrupted_experiment_keeps_what_it_has_and_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let mut run = lab(
        &["run", "peers", "--proxy", "routed", "--only", "tunnel"],
        out.path(),
    )
    .stdout(Stdio::null())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let pid = run.id();
    let file = out.path().join("peers/results.json");
    wait_until("its first results", || file.is_file());
    let kill = Command::new("kill")
        .args(["-INT", &pid.to_string()])
        .status()
        .unwrap();
    let status = run.wait_in_time().unwrap();
    assert!(kill.success() && !status.success());
    assert_eq!(left_behind(pid), Vec::<PathBuf>::new());
    let results = report::load(out.path()).unwrap().remove(0);
    assert_eq!(results.ended_early.as_deref(), Some("ended by SIGINT"));
    // A busy machine may let the one that was over complete nothing.
    assert!(!results.cells.is_empty());
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    let out = tempfile::tempdir().unwrap();
    let wrong = out.path().join("wrong.toml");
    fs::write(&wrong, "name = \"x\"\ntitle = 3\n").unwrap();
    let wrong = wrong.to_str().unwrap();
    for (arguments, part) in [
        (
            &["run", "rosu-2003"][..],
            "there is no experiment `rosu-2003`: all, rosu-2002",
        ),
        (
            &["run", "peers", "--only", "figure-99"],
            "no workload or figure `figure-99`",
        ),
        (
            &["run", "--experiment", wrong],
            "wrong.toml:2: invalid type",
        ),
        (
            &["run", "--experiment", "no/such.toml"],
            "cannot read the experiment no/such.toml",
        ),
        (
            &["run", "peers", "--proxy", "apache"],
            "invalid value 'apache'",
        ),
        (&["run"], "required"),
    ] {
        let output = lab(arguments, out.path()).output_in_time().unwrap();
        assert!(!output.status.success());
        assert!(
            said(&output).contains(part),
            "{arguments:?}: {}",
            said(&output)
        );
    }
}

#[test]
fn the_list_names_experiments_figures_and_what_they_wait_for() {
    let output = Command::new(CARRICK)
        .args(["lab", "list"])
        .output_in_time()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let text = said(&output);
    for part in [
        "rosu-2002: ",
        "cohen-1999: ",
        "kthread-2003: ",
        "satellite-2003: ",
        "peers: ",
        "Figure 21",
        "Table VI",
        "quick ",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}
