//! The kernel's netem in place of the WAN emulator, where neither its own counts nor its seeds matter: it costs no process, and is what users have.

use anyhow::{Context as _, Result};

use crate::testbed::Testbed;
use crate::testbed::namespace::Namespace;
use crate::wan::spec::Path;

/// Packets that may be under way: so many that none is dropped for want of room.
const LIMIT_PACKETS: u32 = 100_000;

/// What happens between the proxy and its peers in the layout `routed`.
#[derive(Clone, Copy, Debug)]
pub struct NetemPaths<'a> {
    /// To the client.
    pub to_client: &'a Path,
    /// From the client.
    pub from_client: &'a Path,
    /// To the server.
    pub to_server: &'a Path,
    /// From the server.
    pub from_server: &'a Path,
}

/// Disciplines on the devices, until it is dropped.
#[derive(Debug)]
pub struct Netem(Vec<(Namespace, &'static str)>);

impl Testbed {
    /// Lets the kernel do to packets what the paths say, but for rate limits and filters of ACKs.
    ///
    /// # Errors
    /// In the direct layout, which has no router; when the kernel has no netem.
    pub fn start_netem(&self, paths: NetemPaths<'_>) -> Result<Netem> {
        let router = self
            .router()
            .context("the direct layout has no router for netem: use the layout `routed`")?;
        let mut netem = Netem(Vec::new());
        for (namespace, device, path) in [
            (router, "r0", paths.to_client),
            (&self.client, "c0", paths.from_client),
            (router, "r1", paths.to_server),
            (&self.server, "s0", paths.from_server),
        ] {
            let words = format!("qdisc replace dev {device} root netem {}", words(path));
            let words: Vec<&str> = words.split(' ').collect();
            namespace
                .run("tc", &words)
                .context("netem (CONFIG_NET_SCH_NETEM)")?;
            netem.0.push((namespace.clone(), device));
        }
        Ok(netem)
    }
}

impl Netem {
    /// Packets that were lost.
    ///
    /// # Errors
    /// When `tc` does not tell.
    pub fn lost(&self) -> Result<u64> {
        let mut lost = 0;
        for (namespace, device) in &self.0 {
            let told = namespace.run("tc", &["-s", "-j", "qdisc", "show", "dev", device])?;
            let told: serde_json::Value = serde_json::from_str(&told)?;
            lost += told[0]["drops"]
                .as_u64()
                .context("tc does not tell of drops")?;
        }
        Ok(lost)
    }
}

impl Drop for Netem {
    fn drop(&mut self) {
        for (namespace, device) in &self.0 {
            // The namespace may be gone already.
            let _ = namespace.run("tc", &["qdisc", "delete", "dev", device, "root"]);
        }
    }
}

/// As `tc-netem` takes it.
fn words(path: &Path) -> String {
    let percent = |share: f64| format!("{:.4}%", 100.0 * share);
    let mut words = format!("limit {LIMIT_PACKETS}");
    if path.delay_ms > 0.0 {
        words += &format!(" delay {:.3}ms {:.3}ms", path.delay_ms, path.jitter_ms);
    }
    match path.loss_after_loss {
        _ if path.loss == 0.0 => {}
        None => words += &format!(" loss random {}", percent(path.loss)),
        // Gilbert's model: from good to bad, and back.
        Some(again) => {
            words += &format!(
                " loss gemodel {} {}",
                percent(path.loss),
                percent(1.0 - again)
            );
        }
    }
    if path.duplicate > 0.0 {
        words += &format!(" duplicate {}", percent(path.duplicate));
    }
    // What overtakes, overtakes what is delayed.
    if path.reorder > 0.0 && path.delay_ms > 0.0 {
        words += &format!(" reorder {}", percent(path.reorder));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_the_words_of_tc() {
        let path = Path {
            delay_ms: 2.0,
            jitter_ms: 0.5,
            loss: 0.01,
            loss_after_loss: Some(0.3),
            reorder: 0.02,
            duplicate: 0.005,
            ..Path::default()
        };
        assert_eq!(
            words(&path),
            "limit 100000 delay 2.000ms 0.500ms loss gemodel 1.0000% 70.0000% duplicate 0.5000% reorder 2.0000%"
        );
        let undelayed = Path {
            delay_ms: 0.0,
            loss_after_loss: None,
            ..path
        };
        assert_eq!(
            words(&undelayed),
            "limit 100000 loss random 1.0000% duplicate 0.5000%"
        );
        assert_eq!(words(&Path::default()), "limit 100000");
    }
}
