//! A program of this machine, run in a clean environment: no proxy settings, no configuration, no home of the user.
use crate::support::{Place, output::Output};
use carrick_test::EndInTime as _;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A program with its arguments.
#[derive(Debug)]
pub struct Tool {
    name: &'static str,
    command: Command,
}

/// The result of a program.
#[derive(Debug)]
pub struct Done {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub error: String,
}

/// A running program. Dropping this ends it and its child processes.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: Output,
    error: Output,
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("it said:\n{}\n{}", self.out.text(), self.error.text());
        }
    }
}

impl Running {
    /// Its standard output.
    pub fn out(&self) -> &Output {
        &self.out
    }
}

/// The path of a program; `None`, with a visible message, if it is not installed.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(name))
        .find(|path| path.is_file());
    match (&found, name) {
        (Some(_), _) => {}
        // `make test` does not install these.
        (None, "npm" | "apt-get" | "dpkg-deb") => carrick_test::lacks!("{name} is not installed"),
        (None, _) => carrick_test::skip!("{name} is not installed"),
    }
    found
}

/// Whether all of these programs are installed; reports the missing one.
pub fn has_all(names: &[&str]) -> bool {
    names.iter().all(|name| find(name).is_some())
}

impl Tool {
    /// A program whose working directory and home is the test's directory.
    pub fn new(name: &'static str, place: &Place) -> Self {
        let path = find(name).unwrap_or_else(|| panic!("{name} was looked for before"));
        let mut command = Command::new(path);
        command
            .env_clear()
            .env("HOME", place.directory())
            .env("LC_ALL", "C.UTF-8")
            .current_dir(place.directory())
            .stdin(Stdio::null());
        // Programs that are installed by version managers need these.
        for name in ["PATH", "PYENV_ROOT", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
            for (name, folder) in [("PYENV_ROOT", ".pyenv"), ("RUSTUP_HOME", ".rustup")] {
                if std::env::var_os(name).is_none() && home.join(folder).is_dir() {
                    command.env(name, home.join(folder));
                }
            }
        }
        Self { name, command }
    }

    /// Adds arguments, separated by white space.
    pub fn words(mut self, words: &str) -> Self {
        self.command.args(words.split_whitespace());
        self
    }

    /// Adds one argument.
    pub fn word(mut self, word: impl AsRef<OsStr>) -> Self {
        self.command.arg(word);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Changes its working directory.
    pub fn at(mut self, directory: impl AsRef<std::path::Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Runs it until it exits, whatever its status.
    pub fn run(self) -> Done {
        let mut running = self.start();
        let status = running.child.wait_in_time().expect("a state");
        let (out, error) = (running.out.clone(), running.error.clone());
        // Helpers that outlive it would keep its output open.
        drop(running);
        Done {
            status,
            out: out.wait_for_end(),
            error: error.wait_for_end(),
        }
    }

    /// Starts it, and lets it run until the guard is dropped.
    pub fn start(mut self) -> Running {
        // A process group of its own, so that a browser's helpers end with it.
        std::os::unix::process::CommandExt::process_group(&mut self.command, 0);
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        Running {
            out: Output::collect(child.stdout.take().expect("a pipe")),
            error: Output::collect(child.stderr.take().expect("a pipe")),
            child,
        }
    }

    /// Runs it; it must succeed. Returns its standard output.
    pub fn expect(self) -> String {
        let shown = format!("{:?}", self.command);
        let done = self.run();
        assert!(
            done.status.success(),
            "{shown}: {}\n{}\n{}",
            done.status,
            done.out,
            done.error
        );
        done.out
    }
}
