//! The effects of the Debian package on a system, tried with the real `dpkg` on a directory as its root.
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command, which must succeed.
fn succeeds(command: &mut Command) -> Output {
    let output = command.output().expect("it can be started");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// A package with only our maintainer scripts.
fn scripts_alone(folder: &Path) -> std::path::PathBuf {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/debian");
    let control = folder.join("tree/DEBIAN");
    fs::create_dir_all(&control).expect("a folder");
    let text = "Package: carrick\nVersion: 0\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: scripts\n";
    fs::write(control.join("control"), text).expect("a file");
    for script in ["postinst", "prerm", "postrm"] {
        // With its permissions.
        let path = control.join(script);
        succeeds(
            Command::new("install")
                .args(["-m", "755"])
                .arg(scripts.join(script))
                .arg(path),
        );
    }
    let package = folder.join("carrick.deb");
    let (tree, package_path) = (folder.join("tree"), package.as_path());
    succeeds(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build"])
            .args([&tree, package_path]),
    );
    package
}

#[test]
fn purging_the_package_leaves_neither_cache_nor_logs() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        carrick_test::lacks!("there is no dpkg");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let package = scripts_alone(folder.path());
    let root = folder.path().join("root");
    let ours = ["var/cache/carrick", "var/log/carrick"].map(|path| root.join(path));
    for path in ours
        .iter()
        .chain([&root.join("var/lib/dpkg"), &root.join("var/cache/other")])
    {
        fs::create_dir_all(path).expect("a folder");
        fs::write(path.join("file"), "").expect("a file");
    }
    fs::remove_file(root.join("var/lib/dpkg/file")).expect("it exists");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).expect("a folder");
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).expect("a folder");
    fs::write(root.join("var/lib/dpkg/status"), "").expect("a file");
    let dpkg = |action: &str, what: &Path| {
        let root = format!("--root={}", root.display());
        let force = "--force-script-chrootless,not-root,depends,bad-path";
        succeeds(
            Command::new("dpkg")
                .args([&root, force, "--no-triggers", action])
                .arg(what),
        );
    };
    dpkg("--install", &package);
    dpkg("--remove", Path::new("carrick"));
    assert!(
        ours.iter().all(|path| path.join("file").exists()),
        "removing is not purging"
    );
    dpkg("--purge", Path::new("carrick"));
    assert!(
        !ours.iter().any(|path| path.exists()),
        "purging removes everything"
    );
    assert!(
        root.join("var/cache/other/file").exists(),
        "another package's files stay"
    );
}

/// Runs `postinst` after an upgrade of a running service, on a system of programs that only tell what they are asked:
/// `carrick check` and `systemctl restart` end with these codes. What `systemctl` was asked, and what was said.
fn upgrade(check: u8, restart: u8) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a file");
        succeeds(Command::new("chmod").arg("755").arg(path));
    };
    program("carrick", &format!("exit {check}"));
    program("systemd-sysusers", "");
    let asked = folder.path().join("asked");
    let case = format!("case $* in restart*) exit {restart}; esac");
    program(
        "systemctl",
        &format!("echo \"$*\" >> {}\n{case}", asked.display()),
    );
    let system = "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /etc && mkdir -p /run/systemd/system /etc/carrick \
                  && : > /etc/carrick/carrick.toml && exec sh \"$0\" configure 0.1";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/debian/postinst");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = succeeds(
        Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", system])
            .arg(script)
            .env("PATH", format!("{}:{path}", folder.path().display())),
    );
    let asked = fs::read_to_string(asked).expect("systemctl was asked");
    (asked, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn an_upgrade_that_refuses_the_file_leaves_the_old_version_running() {
    if !carrick_test::is_root() {
        return;
    }
    const RESTART: &str = "restart carrick.service\n";
    let (asked, said) = upgrade(0, 0);
    assert!(asked.ends_with(RESTART) && said.is_empty(), "{asked}{said}");
    let (asked, said) = upgrade(2, 0);
    assert!(!asked.contains("restart"), "{asked}");
    assert!(said.contains("the old one goes on"), "{said}");
    // The package is installed all the same.
    let (asked, said) = upgrade(0, 1);
    assert!(asked.ends_with(RESTART), "{asked}");
    assert!(said.contains("does not start"), "{said}");
}

#[test]
fn the_unit_never_gives_up() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/carrick.service");
    let text = fs::read_to_string(unit).expect("the unit");
    // The default allows five starts in ten seconds.
    let (unit, service) = text.split_once("[Service]").expect("its parts");
    assert!(unit.contains("\nStartLimitIntervalSec=0\n"), "{unit}");
    assert!(service.contains("\nRestart=on-failure\n"), "{service}");
}
