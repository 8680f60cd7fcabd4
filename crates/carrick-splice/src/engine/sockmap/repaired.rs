//! Kernel releases that lose or duplicate bytes in a SOCKMAP.

use crate::sys::release::parse;

/// Whether the running kernel may be trusted, or why not. The self-test cannot tell, since losing a byte
/// takes a race.
pub(super) fn check_running() -> Result<(), String> {
    let names = rustix::system::uname();
    let (release, version) = (
        names.release().to_string_lossy(),
        names.version().to_string_lossy(),
    );
    let signature = std::fs::read_to_string("/proc/version_signature").ok();
    check(upstream_release(&release, &version, signature.as_deref()))
}

/// The upstream release: a distribution's may keep the number with which a series began. Debian has it in the
/// version (`#1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-11-02)`), Ubuntu in a file of its own (`Ubuntu
/// 6.8.0-31.31-generic 6.8.1`).
pub(super) fn upstream_release<'text>(
    release: &'text str,
    version: &'text str,
    signature: Option<&'text str>,
) -> &'text str {
    let ubuntus = signature.and_then(|signature| signature.split_whitespace().nth(2));
    let debians = version.split_once(" Debian ").map(|(_, rest)| rest);
    ubuntus.or(debians).unwrap_or(release)
}

/// The first release of each series with the fixes of net/core/skmsg.c that keep a backlog whole
/// (`sk_psock_backlog`, `tcp_read_skb`). Other series lack them, or some of them.
const REPAIRED: [(u32, u32, u32); 2] = [(6, 1, 142), (6, 12, 35)];

/// All series from here on have them.
const SAFE_FROM: (u32, u32) = (6, 16);

/// Checks a release such as `6.1.0-13-amd64` or `6.12.35`.
pub(super) fn check(release: &str) -> Result<(), String> {
    let Some((major, minor, patch)) = parse(release) else {
        return Err(format!(
            "the kernel's release {release:?} is not understood"
        ));
    };
    if (major, minor) >= SAFE_FROM {
        return Ok(());
    }
    let series = REPAIRED
        .iter()
        .find(|repaired| (repaired.0, repaired.1) == (major, minor));
    match series {
        Some(repaired) if patch >= repaired.2 => Ok(()),
        Some(repaired) => Err(format!(
            "Linux {release} loses or doubles bytes in a SOCKMAP; repaired in {}.{}.{}",
            repaired.0, repaired.1, repaired.2
        )),
        None => Err(format!(
            "Linux {release} loses or doubles bytes in a SOCKMAP; repaired in 6.1.142, 6.12.35 and 6.16"
        )),
    }
}
