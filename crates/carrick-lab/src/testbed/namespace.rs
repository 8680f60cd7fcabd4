//! One network namespace: made, entered, and removed with every process inside.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::testbed::command::run;
use crate::testbed::name::{RunName, memory_directory};

/// Where `ip netns` keeps its names.
const NAMES: &str = "/run/netns";

/// A network namespace of this run, by name.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Names a part of the run; makes nothing yet.
    #[must_use]
    pub fn named(run: &RunName, role: &str) -> Self {
        Self {
            name: run.part(role),
        }
    }

    /// The name, as `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the namespace, with its loopback device up.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn create(&self) -> Result<()> {
        run("ip", &["netns", "add", &self.name])?;
        self.run("ip", &["link", "set", "lo", "up"])?;
        Ok(())
    }

    /// Runs a tool to its end inside.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub fn run(&self, tool: &str, arguments: &[&str]) -> Result<String> {
        let mut all = vec!["netns", "exec", &self.name, tool];
        all.extend_from_slice(arguments);
        run("ip", &all)
    }

    /// A command to be started inside. `ip netns exec` replaces itself by the program, so the pid is the program's.
    /// The child is in a process group of its own (Ctrl-C on the terminal is for the laboratory alone) and is killed
    /// when its handle is dropped.
    #[must_use]
    pub fn command(&self, program: &Path, cores: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("ip");
        command
            .args(["netns", "exec", &self.name, "taskset", "-c", cores])
            .arg(program);
        command.process_group(0).kill_on_drop(true);
        command
    }

    /// Sets a kernel parameter inside, by its path below `/proc/sys`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_sysctl(&self, path: &str, value: &str) -> Result<()> {
        self.run("sh", &["-c", &format!("echo '{value}' > /proc/sys/{path}")])?;
        Ok(())
    }

    /// All processes inside.
    ///
    /// # Errors
    /// When the namespace is gone, or `/proc` unreadable.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let path = Path::new(NAMES).join(&self.name);
        let own =
            fs::metadata(&path).with_context(|| format!("namespace {} is gone", self.name))?;
        let mut pids = Vec::new();
        for entry in fs::read_dir("/proc").context("cannot list /proc")? {
            let Some(pid) = entry
                .ok()
                .and_then(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            else {
                continue;
            };
            // A process may end while we look: then it is not inside.
            if let Ok(theirs) = fs::metadata(format!("/proc/{pid}/ns/net"))
                && (theirs.dev(), theirs.ino()) == (own.dev(), own.ino())
            {
                pids.push(pid);
            }
        }
        Ok(pids)
    }

    /// Kills every process inside, and those that they start meanwhile.
    pub fn kill_processes(&self) {
        const ROUNDS: usize = 5;
        for _ in 0..ROUNDS {
            let pids = self.processes().unwrap_or_default();
            if pids.is_empty() {
                return;
            }
            for pid in pids {
                if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                    // It may have ended by itself.
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Kills what runs inside and removes the namespace, with its devices; does nothing if there is none.
    pub fn remove(&self) {
        if !Path::new(NAMES).join(&self.name).exists() {
            return;
        }
        self.kill_processes();
        // A failure is left to the next run's sweep.
        let _ = run("ip", &["netns", "delete", &self.name]);
    }
}

/// Removes namespaces and files of runs whose process is gone.
///
/// # Errors
/// When a leftover file cannot be removed.
pub fn sweep_stale() -> Result<()> {
    for name in entries_of(Path::new(NAMES), |run| !run.is_alive()) {
        Namespace { name }.remove();
    }
    remove_files(|run| !run.is_alive())
}

/// Removes the directory of runs, and what their programs left beside it (Squid's shared memory bears the run's name).
///
/// # Errors
/// When a file cannot be removed.
pub fn remove_files(of: impl Fn(&RunName) -> bool) -> Result<()> {
    let memory = memory_directory();
    for name in entries_of(&memory, of) {
        let path: PathBuf = memory.join(name);
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

fn entries_of(directory: &Path, wanted: impl Fn(&RunName) -> bool) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| RunName::parse(name).is_some_and(|run| wanted(&run)))
        .collect()
}
