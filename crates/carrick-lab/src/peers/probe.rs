//! What the carrick that is measured can do: it is asked with the very configuration that it would get.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::peers::template::render;
use crate::peers::{Family, Job, Peer, Programs, by_name, caches};

/// carrick's answer to a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `carrick check` takes it.
    Takes,
    /// It does not, and says why.
    Refuses(String),
}

/// Asks carrick whether it would take what [`Peer::start_with`] would give it, with addresses that stand in for the test
/// bed's, in the file for this job. Peers of other families take everything.
///
/// # Errors
/// When carrick cannot be run, or refuses even the configuration that every carrick takes.
pub fn ask_for(
    peer: &Peer,
    job: Job,
    programs: &Programs,
    configuration: &str,
    directory: &Path,
) -> Result<Answer> {
    if peer.engine().is_none() {
        return Ok(Answer::Takes);
    }
    let asked = check(programs, peer, job, configuration, directory)?;
    // A carrick that refuses everything (a broken build, a program that is none) must not look like one that waits.
    if let Answer::Refuses(why) = &asked
        && let Some(copy) = by_name("carrick-copy")
        && let Answer::Refuses(_) = check(
            &programs.with_variant(None),
            &copy,
            Job::Switch,
            "",
            directory,
        )?
    {
        bail!("carrick refuses even the configuration of its engine `copy`: {why}");
    }
    Ok(asked)
}

fn check(
    programs: &Programs,
    peer: &Peer,
    job: Job,
    configuration: &str,
    directory: &Path,
) -> Result<Answer> {
    let address = "192.0.2.1:80";
    let addresses = [
        ("configuration", configuration),
        ("access_log", ""),
        ("proxy", "127.0.0.1"),
        ("proxy_to_server", "127.0.0.1"),
        ("server", "192.0.2.1"),
        ("origin", address),
        ("origin_gif", address),
        ("origin_jpg", address),
        ("origin_html", address),
        ("tunnel_origin", address),
        ("tunnel_origin_port", "80"),
        ("clients", "192.0.2.0/24"),
    ];
    let of_cache = caches::values(Family::Carrick, job, directory);
    let mut values = [&addresses[..], &peer.carrick_values()].concat();
    values.extend(of_cache.iter().map(|(name, value)| (*name, value.as_str())));
    let text = render(&programs.template(peer.carrick_file(job))?, &values)?;
    let file = directory.join("asked.toml");
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let program = programs.path(Family::Carrick)?;
    let output = Command::new(program)
        .args(["check", "-c"])
        .arg(&file)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if output.status.success() {
        return Ok(Answer::Takes);
    }
    let said = [output.stdout, output.stderr].concat();
    Ok(Answer::Refuses(
        String::from_utf8_lossy(&said).trim().to_owned(),
    ))
}
