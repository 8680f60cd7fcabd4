//! The certificate of proxies that speak TLS.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::command;

/// Its name in the run's directory, with its key in the same file.
pub const FILE: &str = "certificate.pem";

/// Makes it, unless it is there: ECDSA P-256, for `proxy.test`, signed by itself.
///
/// # Errors
/// When openssl is not installed, or fails.
pub fn prepare(directory: &Path) -> Result<()> {
    let file = directory.join(FILE);
    if file.is_file() {
        return Ok(());
    }
    let text = file.to_str().context("the run's directory is not UTF-8")?;
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=proxy.test \
        -addext subjectAltName=DNS:proxy.test -keyout";
    let mut arguments: Vec<&str> = words.split_whitespace().collect();
    arguments.extend([text, "-out", "-"]);
    // It would overwrite a file that has the key already.
    let certificate = command::run("openssl", &arguments)?;
    let key = std::fs::read_to_string(&file).context("cannot read the key")?;
    std::fs::write(&file, key + &certificate).context("cannot write the certificate")
}
