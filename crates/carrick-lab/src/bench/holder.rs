//! This program again, inside a namespace, as a holder of idle connections (`carrick-lab hold`).

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::bench::plan::Target;
use crate::load::hold::CONNECTIONS_PER_ADDRESS;
use crate::testbed::namespace::Namespace;
use crate::testbed::{addresses, cores};

/// Connections that are being opened at the same moment.
const CONCURRENCY: usize = 16;
/// How long refused connections are tried again: a proxy has to come up within this time.
const PATIENCE_SECONDS: u64 = 90;
/// For opening all connections.
const OPEN_TIMEOUT: Duration = Duration::from_secs(120);

/// Where to connect to, and what to exchange on each connection, as arguments of `carrick-lab hold`.
#[derive(Clone, Debug)]
pub struct Request {
    arguments: Vec<String>,
}

impl Request {
    /// A GET.
    #[must_use]
    pub fn http(target: &Target, body_bytes: usize) -> Self {
        let body_bytes = body_bytes.to_string();
        let mut request = Self::echo(&target.connect);
        let more = [
            "--target",
            &target.request_target,
            "--host",
            &target.host,
            "--body-bytes",
            &body_bytes,
        ];
        request.arguments.extend(more.map(str::to_owned));
        if target.is_tls {
            request.arguments.push(String::from("--tls"));
        }
        request
    }

    /// Some bytes that come back.
    #[must_use]
    pub fn echo(connect: &str) -> Self {
        Self {
            arguments: vec![String::from("--connect"), connect.to_owned()],
        }
    }

    /// What comes is not read.
    #[must_use]
    pub fn stalled(connect: &str) -> Self {
        let mut request = Self::echo(connect);
        request.arguments.push(String::from("--stalled"));
        request
    }
}

/// Gives the namespace of clients the addresses that so many connections need; as arguments.
fn addresses_for(namespace: &Namespace, connections: usize) -> Result<Vec<String>> {
    if connections <= CONNECTIONS_PER_ADDRESS {
        return Ok(Vec::new());
    }
    let more: Vec<String> = (0..connections.div_ceil(CONNECTIONS_PER_ADDRESS))
        .map(|number| addresses::another_client(number).to_string())
        .collect();
    let lines: Vec<String> = (more.iter())
        .map(|address| format!("address replace {address}/32 dev lo"))
        .collect();
    namespace.ip(&lines)?;
    Ok(vec![format!("--from={}", more.join(","))])
}

/// A process with open connections; they are closed when it is dropped.
#[derive(Debug)]
pub struct Holder {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
    connections: usize,
}

impl Holder {
    /// Opens connections from inside a namespace and returns when each has had its exchange.
    ///
    /// # Errors
    /// When one of them fails for good: with the reason.
    pub async fn open(
        namespace: &Namespace,
        on: &[usize],
        request: &Request,
        connections: usize,
    ) -> Result<Self> {
        let program = crate::program::this_program()?;
        let from = addresses_for(namespace, connections)?;
        let mut child = namespace
            .command(&program, &cores::list(on))
            .arg("hold")
            .args(&request.arguments)
            .args(from)
            .args([
                "--count",
                &connections.to_string(),
                "--concurrency",
                &CONCURRENCY.to_string(),
            ])
            .args(["--patience-seconds", &PATIENCE_SECONDS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start the holder of connections")?;
        let stdout = child.stdout.take().context("the holder has no output")?;
        let mut holder = Self {
            child,
            output: BufReader::new(stdout).lines(),
            connections,
        };
        holder.expect("held").await?;
        Ok(holder)
    }

    /// Checks that all connections are still open, then closes them.
    ///
    /// # Errors
    /// When some were closed meanwhile.
    pub async fn close(mut self) -> Result<()> {
        let mut stdin = self.child.stdin.take().context("the holder has no input")?;
        stdin.write_all(b"\n").await.context("the holder is gone")?;
        self.expect("open").await?;
        drop(stdin);
        self.child
            .wait()
            .await
            .context("cannot wait for the holder")?;
        Ok(())
    }

    async fn expect(&mut self, word: &str) -> Result<()> {
        let connections = self.connections;
        let line = tokio::time::timeout(OPEN_TIMEOUT, self.output.next_line())
            .await
            .with_context(|| format!("{connections} connections were not {word} in time"))?
            .context("cannot read from the holder")?;
        let Some(line) = line else {
            let mut said = String::new();
            if let Some(mut stderr) = self.child.stderr.take() {
                // What cannot be read is not quoted.
                let _ = stderr.read_to_string(&mut said).await;
            }
            bail!("the first client failed: {}", said.trim());
        };
        if line != format!("{word} {connections}") {
            bail!("of {connections} connections: {line}");
        }
        Ok(())
    }
}
