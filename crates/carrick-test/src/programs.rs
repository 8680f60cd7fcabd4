//! Programs that must end, but whose time is not measured; and that end with the test.
use crate::{PATIENCE, pause};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Instant;

/// A program that is killed when this goes out of scope.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// [`Command::output`] with a limit.
pub trait RunInTime {
    /// Runs the program to its end, without input.
    ///
    /// # Errors
    /// As [`Command::output`].
    ///
    /// # Panics
    /// It hangs; then it is killed.
    fn output_in_time(&mut self) -> io::Result<Output>;
}

impl RunInTime for Command {
    fn output_in_time(&mut self) -> io::Result<Output> {
        let command = self.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.stderr(Stdio::piped()).spawn()?;
        child.wait_with_output_in_time()
    }
}

/// [`Child::wait`] and [`Child::wait_with_output`] with a limit.
pub trait EndInTime {
    /// Waits for the program's end.
    ///
    /// # Errors
    /// As [`Child::wait`].
    ///
    /// # Panics
    /// It hangs; then it is killed.
    fn wait_in_time(&mut self) -> io::Result<ExitStatus>;

    /// The same, with what it has written.
    ///
    /// # Errors
    /// As [`Child::wait_with_output`].
    ///
    /// # Panics
    /// It hangs; then it is killed.
    fn wait_with_output_in_time(self) -> io::Result<Output>;
}

impl EndInTime for Child {
    fn wait_in_time(&mut self) -> io::Result<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            if begun.elapsed() > PATIENCE {
                let _ = self.kill();
                panic!("process {} does not end", self.id());
            }
            std::thread::sleep(pause(begun.elapsed()));
        }
    }

    fn wait_with_output_in_time(self) -> io::Result<Output> {
        let pid = Pid::from_child(&self);
        let (done, output) = mpsc::channel();
        std::thread::spawn(move || done.send(self.wait_with_output()));
        output.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let _ = kill_process(pid, Signal::KILL);
            panic!("process {} does not end", pid.as_raw_nonzero());
        })
    }
}
