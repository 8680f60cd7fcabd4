//! One network namespace: made, entered, and removed with every process inside.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::command::{run, run_with_input};
use crate::testbed::name::{DISK_DIRECTORY, RunName, memory_directory};

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
        run("ip", &["netns", "add", &self.name]).map_err(explain)?;
        self.ip(&[String::from("link set lo up")])
    }

    /// Runs lines of `ip` inside, as in `address add 10.0.0.1/24 dev eth0`.
    ///
    /// # Errors
    /// When one of them fails: with its number and what `ip` said.
    pub fn ip(&self, lines: &[String]) -> Result<()> {
        let input = lines.join("\n") + "\n";
        run_with_input("ip", &["-n", &self.name, "-batch", "-"], &input)
            .with_context(|| format!("in namespace {}: {}", self.name, lines.join("; ")))
            .map_err(explain)?;
        Ok(())
    }

    /// Joins two namespaces by a pair of devices (veth), which are down. Each end asks for its neighbour's address for a minute: in the
    /// three seconds that are usual, a busy machine can drop all questions and answers (EHOSTUNREACH).
    ///
    /// # Errors
    /// When `ip` or the kernel refuses.
    pub fn join(&self, device: &str, other: &Self, others: &str) -> Result<()> {
        let peer = other.name();
        self.ip(&[format!(
            "link add {device} type veth peer name {others} netns {peer}"
        )])?;
        for (namespace, device) in [(self, device), (other, others)] {
            for family in ["ipv4", "ipv6"] {
                if Path::new("/proc/sys/net").join(family).exists() {
                    let path = format!("net/{family}/neigh/{device}/mcast_solicit");
                    namespace.set_parameter(&path, "60")?;
                }
            }
        }
        Ok(())
    }

    /// Does something in a thread that has moved into the namespace: sockets, `/proc/sys/net` and `/proc/thread-self/net`
    /// are then the namespace's.
    ///
    /// # Errors
    /// When the namespace cannot be entered, or what is done fails.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let path = Path::new(NAMES).join(&self.name);
        let file = File::open(&path).with_context(|| format!("namespace {} is gone", self.name))?;
        std::thread::scope(|scope| {
            let entered = std::thread::Builder::new()
                .name(String::from("namespace"))
                .spawn_scoped(scope, || {
                    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                        .with_context(|| format!("setns: cannot enter {}", path.display()))?;
                    work()
                })
                .context("cannot start a thread")?;
            entered
                .join()
                .unwrap_or_else(|_| bail!("a thread in namespace {} failed", self.name))
        })
    }

    /// Whether a program inside listens on a TCP port.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn is_listening(&self, port: u16) -> Result<bool> {
        self.inside(|| {
            let listens = |path: &str| {
                // Without IPv6 in the kernel, the second file does not exist.
                fs::read_to_string(path).is_ok_and(|text| has_listener(&text, port))
            };
            Ok(listens("/proc/thread-self/net/tcp") || listens("/proc/thread-self/net/tcp6"))
        })
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
    pub fn set_parameter(&self, path: &str, value: &str) -> Result<()> {
        let file = Path::new("/proc/sys").join(path);
        self.inside(|| {
            fs::write(&file, value).with_context(|| {
                format!(
                    "cannot write `{value}` to {} in namespace {}",
                    file.display(),
                    self.name
                )
            })
        })
    }

    /// As [`Self::set_parameter`]; does nothing if the kernel has no such parameter.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_parameter_if_there(&self, path: &str, value: &str) -> Result<()> {
        if Path::new("/proc/sys").join(path).exists() {
            self.set_parameter(path, value)
        } else {
            Ok(())
        }
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

/// Removes the directories of runs, and what their programs left beside it (Squid's shared memory bears the run's name).
///
/// # Errors
/// When a file cannot be removed.
pub fn remove_files(of: impl Fn(&RunName) -> bool) -> Result<()> {
    let places = [memory_directory(), PathBuf::from(DISK_DIRECTORY)];
    let left = places.iter().flat_map(|place| {
        entries_of(place, &of)
            .into_iter()
            .map(|name| place.join(name))
    });
    for path in left {
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        match removed {
            // Another run may sweep at the same time.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// `ip` passes on what the kernel says, which does not say what to do.
fn explain(error: anyhow::Error) -> anyhow::Error {
    let said = format!("{error:#}");
    if said.contains("Operation not permitted") {
        error.context(
            "this process may not make network namespaces although it is root: it needs the capabilities CAP_SYS_ADMIN and \
             CAP_NET_ADMIN (in a container: --privileged)",
        )
    } else if said.contains("File exists") {
        error.context("a name that the test bed needs is in use")
    } else {
        error
    }
}

/// Lines of `/proc/net/tcp` (proc(5)): the local address and port in hexadecimal, and the state, where 0A is LISTEN.
fn has_listener(text: &str, port: u16) -> bool {
    text.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|local| local.rsplit_once(':'));
        let state = fields.nth(1);
        local.is_some_and(|(_, at)| u16::from_str_radix(at, 16) == Ok(port)) && state == Some("0A")
    })
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

#[cfg(test)]
mod tests;
