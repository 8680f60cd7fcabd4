//! Loads for proxies with a cache: what is asked for, whether it was in the cache, and how often the origin was asked.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::bench::fetch::{self, Fetched, Wish};
use crate::bench::plan::{Asks, Target, Work};
use crate::testbed::Testbed;

/// Connections on which objects are stored before they are measured.
const PRIME_CONNECTIONS: usize = 16;
/// A cache that has stored nothing more in so many rounds will not.
const PRIME_ROUNDS_IN_VAIN_MAX: u32 = 3;
/// Between two rounds.
const PRIME_PAUSE: Duration = Duration::from_millis(500);
/// Of the last objects that were asked for, so many are asked for again, and most must be there.
const STORED_CHECKED: u64 = 8;
/// The very last ones may have been cut off by the end of the load.
const STORED_SKIPPED: u64 = 64;
/// For one question to the origin.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Has the objects stored; `target` is that of [`Asks::target`].
///
/// # Errors
/// When the proxy goes on asking the origin for some of them.
pub async fn prime(testbed: &Testbed, asks: Asks, work: &Work, target: &Target) -> Result<()> {
    let objects = asks.objects(work.body_bytes);
    let wish = Wish {
        first: 0,
        requests: objects,
        objects,
        connections: PRIME_CONNECTIONS,
        body_bytes: work.body_bytes,
    };
    let (mut least, mut in_vain) = (u64::MAX, 0);
    while in_vain < PRIME_ROUNDS_IN_VAIN_MAX {
        let before = OriginCount::read(testbed)?;
        fetch::run(testbed, target, &wish)
            .await
            .context("storing what is to be measured")?;
        let asked = before.since(testbed)?;
        if asked == 0 {
            return Ok(());
        }
        in_vain = if asked < least { 0 } else { in_vain + 1 };
        least = least.min(asked);
        // A disk is written to behind the answers, and may refuse what comes faster than that.
        tokio::time::sleep(PRIME_PAUSE).await;
    }
    anyhow::bail!(
        "{least} of {objects} objects do not come into the cache, however often each is asked for"
    )
}

/// A crowd, once.
///
/// # Errors
/// When one client does not get the whole object.
pub async fn crowd(testbed: &Testbed, work: &Work, target: &Target) -> Result<Fetched> {
    let clients = work.connections;
    let wish = Wish {
        first: 0,
        requests: clients as u64,
        objects: 1,
        connections: clients,
        body_bytes: work.body_bytes,
    };
    fetch::run(testbed, target, &wish).await
}

/// Whether what was new lately is in the cache now, where there is one.
///
/// # Errors
/// When more than a quarter of it is not.
pub async fn check_stored(
    testbed: &Testbed,
    work: &Work,
    target: &Target,
    requests: u64,
) -> Result<()> {
    let Some(first) = requests.checked_sub(STORED_SKIPPED + STORED_CHECKED) else {
        // Too few to tell which were complete.
        return Ok(());
    };
    let before = OriginCount::read(testbed)?;
    let wish = Wish {
        first,
        requests: STORED_CHECKED,
        objects: STORED_CHECKED,
        connections: 1,
        body_bytes: work.body_bytes,
    };
    fetch::run(testbed, target, &wish)
        .await
        .context("what was new before")?;
    let asked = before.since(testbed)?;
    // One that a slow connection asked for may still have been on its way when the load ended.
    ensure!(
        asked <= STORED_CHECKED / 4,
        "INVALID: {asked} of {STORED_CHECKED} objects that were new a moment ago had not been stored"
    );
    Ok(())
}

/// Why a run with a cache must not be used, if so.
#[must_use]
pub fn fault(asks: Asks, requests: u64, origin_requests: u64) -> Option<String> {
    if asks.is_hit() && origin_requests > 0 {
        return Some(format!(
            "INVALID: the origin was asked {origin_requests} times while hits were measured"
        ));
    }
    (asks == Asks::New && origin_requests < requests).then(|| {
        format!(
            "INVALID: of {requests} requests for new objects only {origin_requests} reached the origin"
        )
    })
}

/// Requests that the origin has had.
#[derive(Clone, Copy, Debug)]
pub struct OriginCount {
    requests: u64,
}

impl OriginCount {
    /// Asks it; the question is counted, too.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn read(testbed: &Testbed) -> Result<Self> {
        let address = testbed.addresses().origin_http();
        let said = testbed.server.inside(|| ask(address))?;
        let requests = requests_of(&said)
            .with_context(|| format!("the origin's status cannot be read: {said}"))?;
        Ok(Self { requests })
    }

    /// Requests since then, without the questions.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn since(self, testbed: &Testbed) -> Result<u64> {
        let now = Self::read(testbed)?;
        Ok(now.requests.saturating_sub(self.requests + 1))
    }
}

fn ask(address: SocketAddr) -> Result<String> {
    let about = || format!("the origin's status at {address}");
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).with_context(about)?;
    stream.set_read_timeout(Some(TIMEOUT)).with_context(about)?;
    stream
        .write_all(b"GET /status HTTP/1.0\r\n\r\n")
        .with_context(about)?;
    let mut said = String::new();
    stream.read_to_string(&mut said).with_context(about)?;
    Ok(said)
}

/// The third number below `server accepts handled requests` (nginx's `stub_status`).
fn requests_of(said: &str) -> Option<u64> {
    let mut lines = said.lines();
    lines.find(|line| line.starts_with("server accepts handled requests"))?;
    lines.next()?.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests;
