//! Runs `nft` and `ip`, with their commands on standard input.
use std::io::{self, Write};
use std::process::{Command, Stdio};

/// A tool, and the package that contains it.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    name: &'static str,
    package: &'static str,
}

/// Packet filter rules.
pub const NFT: Tool = Tool {
    name: "nft",
    package: "nftables",
};

/// Routes and routing rules.
pub const IP: Tool = Tool {
    name: "ip",
    package: "iproute2",
};

impl Tool {
    /// Runs it to completion; returns its output.
    ///
    /// # Errors
    /// It is not installed (`NotFound`), or failed; includes its error message.
    pub fn run(self, arguments: &[&str], input: &str) -> io::Result<String> {
        let mut child = Command::new(self.name)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| self.not_started(&error))?;
        if let Some(mut pipe) = child.stdin.take()
            && let Err(error) = pipe.write_all(input.as_bytes())
            // It rejected a line and closed its input; its own message says why.
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(error);
        }
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!(
            "`{} {}` failed ({}): {}",
            self.name,
            arguments.join(" "),
            output.status,
            said.trim()
        )))
    }

    /// Its version, as it prints it.
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn version(self) -> io::Result<String> {
        let option = if self.name == "ip" { "-V" } else { "--version" };
        self.run(&[option], "").map(|text| text.trim().to_owned())
    }

    fn not_started(self, error: &io::Error) -> io::Error {
        let text = match error.kind() {
            io::ErrorKind::NotFound => format!(
                "the program `{}` is not in PATH: install the package {}",
                self.name, self.package
            ),
            _ => format!("cannot start `{}`: {error}", self.name),
        };
        io::Error::new(error.kind(), text)
    }
}
