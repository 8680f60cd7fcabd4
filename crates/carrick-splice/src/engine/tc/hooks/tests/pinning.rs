//! Hooks that outlive the process, and directories that cannot have them.

use super::support::*;
use crate::engine::tc::hooks::pins::mounted;
use crate::engine::tc::hooks::{
    AttachMode, Attachment, Direction, HookPosition, Hooks, Settings, tcx,
};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Tells a test that another one runs what to do: the directory, or none, and the way.
const HOLDER: &str = "CARRICK_HOOKS_TEST_HOLDER";

/// A BPF file system of this test's own; it disappears with the namespace.
fn bpffs() -> PathBuf {
    run("mount -t bpf bpf /mnt");
    PathBuf::from("/mnt")
}

fn pinned(folder: &Path, way: AttachMode) -> Settings {
    Settings {
        folder: Some(folder.to_owned()),
        ..by(way)
    }
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort_unstable();
    names
}

fn links(name: &str) -> Vec<tcx::OnHook> {
    tcx::on_hook(index(name), Direction::Ingress).expect("the hook")
}

#[test]
fn hooks_in_a_folder_stay_and_are_taken_over_in_place() {
    if !has_tcx() {
        return;
    }
    inside(
        "pinning::hooks_in_a_folder_stay_and_are_taken_over_in_place",
        || {
            let folder = bpffs().join("hooks");
            for &way in ways() {
                interfaces();
                let (old, new) = (Programs::load(), Programs::load());
                let hooks = old.attach(pinned(&folder, way));
                assert_eq!(files(&folder).len(), 4);
                assert_eq!(
                    fs::metadata(&folder).expect("it").permissions().mode() & 0o777,
                    0o700
                );
                drop(hooks);
                old.seen_of(5, 5, 5, 0);
                let before = (links("v0"), filters("v0").replace(char::is_numeric, ""));
                let mut hooks = new.attach(pinned(&folder, way));
                assert_eq!(hooks.attached().count(), 2);
                new.seen_of(5, 5, 5, 0);
                assert_eq!((old.seen().ingress, old.seen().egress), (5, 5));
                let after = (links("v0"), filters("v0").replace(char::is_numeric, ""));
                assert_eq!(
                    before.0.iter().map(|one| one.link).collect::<Vec<_>>(),
                    after.0.iter().map(|one| one.link).collect::<Vec<_>>(),
                    "the same links"
                );
                assert_eq!(before.1, after.1, "the same filters");
                hooks.detach().expect("detached");
                assert_eq!(files(&folder), [""; 0]);
                new.seen_of(5, 0, 0, 0);
                remove_interfaces();
            }
        },
    );
}

/// The kernel tells names only to those with CAP_SYS_ADMIN, which a service has not.
#[test]
fn programs_of_a_folder_beside_are_an_earlier_carricks() {
    if !has_tcx() {
        return;
    }
    inside(
        "pinning::programs_of_a_folder_beside_are_an_earlier_carricks",
        || {
            let all = bpffs();
            interfaces();
            let [earlier, later, without] = [(); 3].map(|()| Programs::load());
            drop(earlier.attach(pinned(&all.join("1"), AttachMode::Tcx)));
            let others = |programs: &Programs, settings| {
                let hooks = programs.attach(settings);
                let count = |at: &Attachment| at.foreign().len();
                hooks.attached().map(count).collect::<Vec<_>>()
            };
            let beside = pinned(&all.join("2"), AttachMode::Tcx);
            assert_eq!(others(&later, beside), [0, 0]);
            assert_eq!(others(&without, by(AttachMode::Tcx)), [4, 4]);
            remove_interfaces();
        },
    );
}

#[test]
fn an_upgrade_loses_no_packet() {
    inside("pinning::an_upgrade_loses_no_packet", || {
        const PACKETS: u64 = 20_000;
        let folder = bpffs().join("hooks");
        for &way in ways() {
            interfaces();
            let (old, new) = (Programs::load(), Programs::load());
            drop(old.attach(pinned(&folder, way)));
            let is_sent = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    send(PACKETS);
                    is_sent.store(true, std::sync::atomic::Ordering::SeqCst);
                });
                // Back and forth while packets pass; each passes one of the two, once.
                while !is_sent.load(std::sync::atomic::Ordering::SeqCst) {
                    drop(new.attach(pinned(&folder, way)));
                    drop(old.attach(pinned(&folder, way)));
                }
            });
            wait_for(|| old.seen().ingress + new.seen().ingress >= PACKETS);
            let (one, other) = (old.seen(), new.seen());
            assert_eq!(one.ingress + other.ingress, PACKETS, "{way}");
            assert_eq!(one.egress + other.egress, PACKETS, "{way}");
            assert_eq!(Hooks::remove_pinned(&folder).expect("removed"), 4);
            remove_interfaces();
        }
    });
}

#[test]
fn what_is_pinned_is_removed_and_only_that() {
    inside("pinning::what_is_pinned_is_removed_and_only_that", || {
        let folder = bpffs().join("hooks");
        assert_eq!(Hooks::remove_pinned(&folder).expect("nothing is there"), 0);
        for &way in ways() {
            interfaces();
            let (programs, theirs) = (Programs::load(), Programs::load());
            drop(programs.attach(pinned(&folder, way)));
            let others = theirs.attach(by(way));
            fs::create_dir(folder.join("others")).expect("a foreign directory");
            assert_eq!(Hooks::remove_pinned(&folder).expect("removed"), 4);
            assert_eq!(files(&folder), ["others"]);
            fs::remove_dir(folder.join("others")).expect("removed");
            programs.seen_of(5, 0, 0, 0);
            theirs.seen_of(5, 5, 5, 0);
            drop(others);
            remove_interfaces();
        }
    });
}

#[test]
fn what_is_recorded_follows_the_interfaces_and_the_settings() {
    if !has_tcx() {
        return;
    }
    inside(
        "pinning::what_is_recorded_follows_the_interfaces_and_the_settings",
        || {
            let folder = bpffs().join("hooks");
            for (way, other) in [
                (AttachMode::Tcx, AttachMode::Clsact),
                (AttachMode::Clsact, AttachMode::Tcx),
            ] {
                interfaces();
                let programs = Programs::load();
                drop(programs.attach(pinned(&folder, way)));
                // Down: it had them, it keeps them.
                run("ip link set v0 down");
                let hooks = programs.attach(pinned(&folder, way));
                assert!(hooks.has(index("v0")));
                drop(hooks);
                run("ip link set v0 up");
                // The other way: never both at the same time.
                let mut hooks = programs.attach(pinned(&folder, other));
                run("ip neighbour replace 10.9.0.2 lladdr 02:00:00:00:00:01 dev v1");
                programs.seen_of(5, 5, 5, 0);
                assert_eq!(files(&folder).len(), 4);
                // An interface that disappears takes its record with it.
                run("ip link add w0 type veth peer name w1");
                run("ip link set w0 up");
                assert_eq!(hooks.refresh().expect("refreshed").attached.len(), 1);
                assert_eq!(files(&folder).len(), 6);
                run("ip link delete w0");
                hooks.refresh().expect("refreshed");
                assert_eq!(files(&folder).len(), 4);
                drop(hooks);
                // Also while no process is running; and an interface that is no longer wanted loses them.
                remove_interfaces();
                interfaces();
                drop(programs.attach(Settings {
                    interfaces: named(&["v0"]),
                    ..pinned(&folder, way)
                }));
                assert_eq!(files(&folder).len(), 2);
                programs.seen_of(5, 5, 0, 0);
                Hooks::remove_pinned(&folder).expect("removed");
                remove_interfaces();
            }
        },
    );
}

#[test]
fn what_cannot_be_taken_over_is_removed_in_both_directions() {
    inside(
        "pinning::what_cannot_be_taken_over_is_removed_in_both_directions",
        || {
            let folder = bpffs().join("hooks");
            interfaces();
            let programs = Programs::load();
            // Not a BPF program.
            let file = fs::File::open("/dev/null").expect("a file");
            for &way in ways() {
                drop(programs.attach(pinned(&folder, way)));
                let hooks = Hooks::attach(
                    programs.fd("carrick_in"),
                    file.as_fd(),
                    pinned(&folder, way),
                );
                assert_eq!(hooks.expect("refusals").refused().len(), 3);
                assert_eq!(files(&folder), [""; 0]);
                programs.seen_of(3, 0, 0, 0);
            }
        },
    );
}

#[test]
fn folders_that_cannot_be_used_are_refused_with_what_to_do() {
    if !has_tcx() {
        return;
    }
    inside(
        "pinning::folders_that_cannot_be_used_are_refused_with_what_to_do",
        || {
            interfaces();
            let programs = Programs::load();
            let refused = |folder: &Path, words: &[&str]| {
                let error = programs
                    .try_attach(pinned(folder, AttachMode::Tcx))
                    .expect_err("a refusal")
                    .to_string();
                for word in words {
                    assert!(error.contains(word), "{word} is not in: {error}");
                }
                assert!(error.contains(&folder.display().to_string()), "{error}");
                programs.seen_of(1, 0, 0, 0);
            };
            // Tools such as `ip` mount one by themselves.
            while let Some(at) = mounted() {
                run(&format!("umount {at}"));
            }
            let elsewhere = tempfile::tempdir().expect("a directory");
            refused(
                elsewhere.path(),
                &["not on a BPF file system", "mount -t bpf bpf /sys/fs/bpf"],
            );
            let below = elsewhere.path().join("hooks");
            assert!(
                programs
                    .try_attach(pinned(&below, AttachMode::Tcx))
                    .expect_err("a refusal")
                    .to_string()
                    .contains("not on a BPF file system")
            );
            assert!(!below.exists(), "nothing is made where it cannot be used");
            let mounted = bpffs();
            refused(elsewhere.path(), &["not on a BPF file system", "/mnt"]);
            let folder = mounted.join("hooks");

            // Other users could put something there.
            refused(&mounted, &["somebody else may write", "chmod 700"]);

            // In use.
            let mut hooks = programs.attach(pinned(&folder, AttachMode::Tcx));
            let error = programs
                .try_attach(pinned(&folder, AttachMode::Tcx))
                .expect_err("a refusal");
            assert!(error.to_string().contains("another process"), "{error}");
            let error = Hooks::remove_pinned(&folder).expect_err("a refusal");
            assert!(error.to_string().contains("another process"), "{error}");
            programs.seen_of(1, 1, 1, 0);
            hooks.detach().expect("detached");
            drop(hooks);

            // The name is taken by something else.
            let path = folder.join(format!("hook-{}-ingress", index("v0")));
            tcx::pin(programs.fd("foreign_next"), &path).expect("pinned");
            refused(&folder, &["is not the hook", "remove it"]);
            Hooks::remove_pinned(&folder).expect_err("it is not ours to remove");
            assert!(path.exists());
            fs::remove_file(&path).expect("removed");

            // Of another network namespace.
            for &way in ways() {
                drop(programs.attach(pinned(&folder, way)));
                let output = myself(
                    "pinning::another_namespace_is_distinguished",
                    &["unshare", "--net", "--"],
                )
                .env(HOLDER, format!("{}|{way}", folder.display()))
                .output()
                .expect("unshare");
                let text = String::from_utf8_lossy(&output.stdout);
                assert_eq!(
                    text.matches("another network namespace").count(),
                    if way == AttachMode::Clsact { 2 } else { 1 },
                    "{text}"
                );
                programs.seen_of(1, 1, 1, 0);
                assert_eq!(Hooks::remove_pinned(&folder).expect("removed"), 4);
            }
        },
    );
}

#[test]
fn what_a_process_was_just_about_to_record_when_it_was_killed_is_removed() {
    if !has_tcx() {
        return;
    }
    inside(
        "pinning::what_a_process_was_just_about_to_record_when_it_was_killed_is_removed",
        || {
            let folder = bpffs().join("hooks");
            interfaces();
            let (programs, killed) = (Programs::load(), Programs::load());
            drop(programs.attach(pinned(&folder, AttachMode::Tcx)));
            let link = tcx::attach(
                killed.fd("carrick_in"),
                index("v0"),
                Direction::Ingress,
                HookPosition::First,
            );
            tcx::pin(link.expect("a link").as_fd(), &folder.join("hook-new")).expect("pinned");
            killed.seen_of(1, 1, 0, 0);
            drop(programs.attach(pinned(&folder, AttachMode::Tcx)));
            assert_eq!(files(&folder).len(), 4);
            programs.seen_of(1, 1, 1, 0);
            assert_eq!(killed.seen().ingress, 1);
        },
    );
}

/// The second process of the previous test.
#[test]
fn another_namespace_is_distinguished() {
    let Some((folder, way)) = holder() else {
        return;
    };
    interfaces();
    let error = Programs::load().try_attach(Settings {
        folder: folder.clone(),
        ..by(way)
    });
    println!("{}", error.expect_err("a refusal"));
    // A link is removed from everywhere; a filter with this number would be a different one here.
    if let (Some(folder), AttachMode::Clsact) = (folder, way) {
        println!("{}", Hooks::remove_pinned(&folder).expect_err("a refusal"));
    }
}

#[test]
fn a_process_that_is_killed_leaves_what_is_pinned_and_nothing_else() {
    if !has_tcx() {
        return;
    }
    inside(
        "pinning::a_process_that_is_killed_leaves_what_is_pinned_and_nothing_else",
        || {
            let folder = bpffs().join("hooks");
            for &way in ways() {
                for is_pinned in [true, false] {
                    interfaces();
                    kill_a_holder(is_pinned.then_some(&folder), way);
                    let left = links("v0").len() + filters("v0").matches("carrick_in:[").count();
                    assert_eq!(left, usize::from(is_pinned || way == AttachMode::Clsact));
                    // A process without pins leaves pinned hooks alone, and removes leftovers.
                    let (stranger, heir) = (Programs::load(), Programs::load());
                    let hooks = stranger.attach(by(way));
                    stranger.seen_of(5, 5, 5, 0);
                    let there = links("v0").len() + filters("v0").matches("carrick_in:[").count();
                    assert_eq!(there, 1 + usize::from(is_pinned), "{way}");
                    drop(hooks);
                    if is_pinned {
                        let mut hooks = heir.attach(pinned(&folder, way));
                        heir.seen_of(5, 5, 5, 0);
                        let there =
                            links("v0").len() + filters("v0").matches("carrick_in:[").count();
                        assert_eq!(there, 1, "{way}: in place of what was there");
                        hooks.detach().expect("detached");
                    }
                    assert_eq!(links("v0"), []);
                    assert!(!filters("v0").contains("carrick"), "{}", filters("v0"));
                    remove_interfaces();
                }
            }
        },
    );
}

fn kill_a_holder(folder: Option<&PathBuf>, way: AttachMode) {
    let folder = folder.map_or(String::new(), |folder| folder.display().to_string());
    let mut child = myself("pinning::hooks_are_held_until_the_process_is_killed", &[])
        .env(HOLDER, format!("{folder}|{way}"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let is_holding = lines
        .map_while(Result::ok)
        .any(|line| line.contains("HOLDING"));
    assert!(is_holding, "it could not attach");
    child.kill().expect("killed");
    child.wait().expect("its end");
}

fn holder() -> Option<(Option<PathBuf>, AttachMode)> {
    let what = std::env::var(HOLDER).ok()?;
    let (folder, way) = what.split_once('|')?;
    let way = if way == "tcx" {
        AttachMode::Tcx
    } else {
        AttachMode::Clsact
    };
    Some(((!folder.is_empty()).then(|| PathBuf::from(folder)), way))
}

/// The process that the previous test kills.
#[test]
fn hooks_are_held_until_the_process_is_killed() {
    let Some((folder, way)) = holder() else {
        return;
    };
    let programs = Programs::load();
    let hooks = programs.attach(Settings { folder, ..by(way) });
    assert_eq!(hooks.attached().count(), 2);
    println!("HOLDING");
    loop {
        std::thread::park();
    }
}
