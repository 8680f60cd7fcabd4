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
