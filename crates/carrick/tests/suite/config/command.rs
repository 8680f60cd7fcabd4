//! The commands around the configuration, as a user calls them.
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

fn carrick(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_carrick"))
        .args(arguments)
        .env("NO_COLOR", "1")
        .output()
        .expect("carrick runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn check(file: &str) -> (Option<i32>, String, String) {
    check_with(&[], file)
}

fn check_with(flags: &[&str], file: &str) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("carrick.toml");
    std::fs::write(&path, file).expect("a file");
    let path = path.display().to_string();
    let output = carrick(&[&["check", "-c", &path], flags].concat());
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

const RIGHT: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n";

#[test]
fn check_is_content_with_a_right_file() {
    let (code, out, error) = check(RIGHT);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(
        out.contains("carrick.toml: fine")
            && out.contains("forward proxy on 127.0.0.1:3128: CONNECT to 443"),
        "{out}"
    );
}

#[test]
fn check_without_a_file_shows_the_built_in_configuration() {
    let output = carrick(&["check"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("forward proxy on 127.0.0.1:3128: CONNECT to any port"));
}

#[test]
fn check_fails_with_2_and_shows_errors() {
    let (code, out, error) = check(&format!("{RIGHT}allow = [\"10.0.0.1/8\"]\nvia = 5\n"));
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        error.contains("carrick.toml:4:10") && error.contains("carrick.toml:5:7"),
        "{error}"
    );
    assert!(
        error.contains("write \"10.0.0.0/8\"")
            && error.trim_end().ends_with("carrick.toml: 2 errors"),
        "{error}"
    );
}

#[test]
fn a_warning_does_not_keep_a_reload_back_unless_check_is_strict() {
    let unused = format!("{RIGHT}[upstream.u]\nservers = \"10.0.0.1\"\n");
    let (code, out, error) = check(&unused);
    assert_eq!(code, Some(0));
    assert!(error.contains("warning: nothing uses"), "{error}");
    assert!(
        out.contains("carrick.toml: no errors, 1 warning\n") && out.contains("forward proxy on"),
        "{out}"
    );
    let (code, out, error) = check_with(&["--strict"], &unused);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        error.contains("warning: nothing uses") && error.trim_end().ends_with(": 1 warning"),
        "{error}"
    );
    for flags in [&[][..], &["--strict"]] {
        let note = format!("{RIGHT}allow = [\"0.0.0.0/0\"]\n").replace("127.0.0.1", "0.0.0.0");
        let (code, out, error) = check_with(flags, &note);
        assert_eq!(code, Some(0));
        assert!(
            out.contains("fine") && error.contains("note: this forward proxy is open to everybody"),
            "{error}"
        );
        assert_eq!(check_with(flags, "").0, Some(2));
    }
}

/// Starts a command whose standard output is closed.
fn into_a_closed_pipe(arguments: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    Command::new(env!("CARGO_BIN_EXE_carrick"))
        .args(arguments)
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .output()
        .expect("carrick runs")
}

#[test]
fn a_closed_standard_output_is_not_a_failure() {
    for arguments in [
        &["lab", "list"][..],
        &["generate", "configuration"],
        &["generate", "completions", "bash"],
        &["check"],
        &["doctor"],
        &["--help"],
    ] {
        let output = into_a_closed_pipe(arguments);
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(0), String::new()),
            "{arguments:?}"
        );
    }
}

#[test]
fn an_interface_is_known_where_sys_is_of_another_namespace() {
    if !carrick_test::is_root() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("carrick.toml");
    let configuration = "[[listener]]\nlisten = \"0.0.0.0:8080\"\nmode = \"forward\"\ntransparent = true\n\
        intercept = { ports = [80], interfaces = [\"here0\", \"absent0\"] }\n";
    std::fs::write(&path, configuration).expect("a file");
    // `unshare` does not remount /sys.
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c"])
        .arg("ip link add here0 type veth peer name there0 && exec \"$0\" check -c \"$1\"")
        .args([env!("CARGO_BIN_EXE_carrick")])
        .arg(&path)
        .env("NO_COLOR", "1")
        .output()
        .expect("unshare");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(error.contains("no interface absent0 now"), "{error}");
    assert!(!error.contains("no interface here0"), "{error}");
}

#[test]
fn check_of_a_missing_file_is_2() {
    let output = carrick(&["check", "-c", "/nonexistent/carrick.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot be read"));
}

#[test]
fn a_configuration_that_another_user_may_read_is_reported_with_what_to_do() {
    if !carrick_test::is_root() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("carrick.toml");
    std::fs::write(&path, RIGHT).expect("a file");
    // Without capabilities root is a user like others, and is not this file's owner.
    let closed = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(&path, closed).expect("permissions");
    let output = Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .args([env!("CARGO_BIN_EXE_carrick"), "check", "-c"])
        .arg(&path)
        .output()
        .expect("setpriv");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("let this user read the file"), "{error}");
}

#[test]
fn a_damaged_password_file_is_shown_by_line_and_without_its_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("carrick.toml");
    std::fs::write(&path, format!("{RIGHT}users = \"people\"\n")).expect("a file");
    std::fs::write(directory.path().join("people"), "# people\nalice:sesame\n").expect("a file");
    let output = carrick(&["check", "-c", &path.display().to_string()]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error.contains("people:2") && error.contains("\"alice\"") && !error.contains("sesame"),
        "{error}"
    );
}

#[test]
fn colours_are_for_terminals() {
    let output = Command::new(env!("CARGO_BIN_EXE_carrick"))
        .args(["check", "-c", "/nonexistent"])
        .output()
        .expect("carrick runs");
    assert!(!output.stderr.contains(&0x1b));
}

#[test]
fn version_help_and_wrong_usage() {
    let version = carrick(&["--version"]);
    assert_eq!(
        (version.status.code(), text(&version.stdout)),
        (Some(0), format!("carrick {}\n", env!("CARGO_PKG_VERSION")))
    );
    let help = carrick(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for part in [
        "run",
        "check",
        "doctor",
        "curl -x http://127.0.0.1:3128",
        "Exit codes",
    ] {
        assert!(text(&help.stdout).contains(part), "{part}");
    }
    assert!(
        !text(&help.stdout).contains("generate"),
        "commands for packaging are hidden"
    );
    assert_eq!(carrick(&["rnu"]).status.code(), Some(2));
    assert_eq!(carrick(&[]).status.code(), Some(2));
}

#[test]
fn doctor_finds_system_call_filters_where_proc_sys_is_hidden() {
    if !carrick_test::is_root() {
        return;
    }
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg("mount -t tmpfs none /proc/sys && exec \"$0\" doctor")
        .arg(env!("CARGO_BIN_EXE_carrick"))
        .output()
        .expect("unshare");
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let row = table.lines().find(|line| line.contains("seccomp"));
    let row = row.expect("a row for the sandbox");
    assert!(!row.contains("has no seccomp"), "{row}");
}

#[test]
fn man_pages_are_written_for_every_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = carrick(&["generate", "man", &directory.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut names: Vec<_> = std::fs::read_dir(directory.path())
        .expect("the directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "carrick-cache-ls.1",
            "carrick-cache-stat.1",
            "carrick-cache.1",
            "carrick-check.1",
            "carrick-clean.1",
            "carrick-doctor.1",
            "carrick-lab.1",
            "carrick-pace.1",
            "carrick-purge.1",
            "carrick-reload.1",
            "carrick-run.1",
            "carrick-status-certificates.1",
            "carrick-status-paths.1",
            "carrick-status.1",
            "carrick-top.1",
            "carrick.1"
        ]
    );
    let page = std::fs::read_to_string(directory.path().join("carrick-run.1")).expect("a page");
    assert!(
        page.contains(".TH") && page.contains("SIGHUP") && page.contains("\\-\\-config"),
        "{page}"
    );
    assert_eq!(
        carrick(&["generate", "man", "/nonexistent"]).status.code(),
        Some(1)
    );
}

#[test]
fn completions_are_written_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = carrick(&["generate", "completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("doctor"), "{shell}");
    }
    assert_eq!(
        carrick(&["generate", "completions", "csh"]).status.code(),
        Some(2)
    );
}
