//! Restricts the reachable files by landlock(7) once carrick serves.
use crate::config::plan::{LogTarget, Mode, Plan};
use crate::config::tls::FromFiles;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, path_beneath_rules,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The first ABI that allows renames between directories, which the cache needs (Linux 5.19).
const LEAST: ABI = ABI::V2;

/// The newest ABI that carrick knows (Linux 6.10); older kernels enforce a part of it.
const KNOWN: ABI = ABI::V5;

/// Where the system's own files are: resolver configuration, users, time zones, shared libraries, /proc and /sys. `/etc` as a whole, since
/// files there are replaced by others of the same name.
const OF_SYSTEM: [&str; 8] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/run",
    "/proc",
    "/sys",
    "/var/lib/sss",
];

/// A path, and the access to it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reach {
    read: BTreeSet<PathBuf>,
    /// Create, append, read.
    append: BTreeSet<PathBuf>,
    /// Everything but execute.
    change: BTreeSet<PathBuf>,
}

/// Restricts this thread and the threads that it starts.
pub(super) fn restrict(plan: &Plan, source: Option<&Path>) -> Result<String, String> {
    probe()?;
    let reach = reach(plan, source);
    let status = enforce(&reach).map_err(|error| format!("Landlock: {error}"))?;
    match status {
        RulesetStatus::FullyEnforced => Ok("Landlock".to_owned()),
        RulesetStatus::PartiallyEnforced => Ok("Landlock, as far as this kernel has it".to_owned()),
        RulesetStatus::NotEnforced => Err("this kernel does not enforce Landlock".to_owned()),
    }
}

/// Whether the kernel has what is needed.
pub(super) fn probe() -> Result<String, String> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LEAST))
        .and_then(Ruleset::create)
        .map(|_| "Landlock".to_owned())
        .map_err(|_| {
            "Landlock is unavailable: it needs Linux 5.19 or later with `landlock` in /sys/kernel/security/lsm; containers may forbid it".to_owned()
        })
}

fn enforce(reach: &Reach) -> Result<RulesetStatus, RulesetError> {
    let append =
        AccessFs::from_read(KNOWN) | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::Truncate;
    let rules: [(&BTreeSet<PathBuf>, BitFlags<AccessFs>); 3] = [
        (&reach.read, AccessFs::from_read(KNOWN)),
        (&reach.append, append),
        (&reach.change, AccessFs::from_all(KNOWN)),
    ];
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .create()?;
    for (paths, access) in rules {
        // Paths that do not exist are skipped.
        ruleset = ruleset.add_rules(path_beneath_rules(paths, access & !AccessFs::Execute))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

fn reach(plan: &Plan, source: Option<&Path>) -> Reach {
    let mut reach = Reach {
        read: OF_SYSTEM.iter().map(PathBuf::from).collect(),
        ..Reach::default()
    };
    let users = plan
        .listeners
        .iter()
        .filter_map(|listener| match &listener.mode {
            Mode::Forward(forward) => forward.users.as_ref().map(|users| users.path()),
            _ => None,
        });
    let tls = plan
        .listeners
        .iter()
        .filter_map(|listener| listener.tls.as_ref());
    let tls = tls.flat_map(|tls| tls.settings.files());
    let to_servers = plan.server_tls().flat_map(|tls| tls.files.settings.files());
    let acme = plan.acme.as_deref();
    let to_authority = acme.iter().flat_map(|acme| acme.tls.files());
    let account = acme.and_then(|acme| acme.external_account.as_ref());
    let tls = (tls.chain(to_servers).chain(to_authority))
        .chain(account.map(|account| account.file.as_path()));
    let shared = plan.cache.as_ref().and_then(|cache| cache.shared.as_ref());
    let password = shared.and_then(|shared| shared.password.as_ref());
    let files = source.into_iter().chain(users).chain(tls);
    for file in files.chain(password.map(|password| password.file.as_path())) {
        reach.read.extend(folders(file));
    }
    // They may be links to somewhere else.
    for file in ["/etc/resolv.conf", "/etc/hosts"] {
        reach.read.extend(folders(Path::new(file)));
    }
    if let LogTarget::File(path) = &plan.log.access {
        match std::fs::metadata(path) {
            // A device such as /dev/stdout: only itself, not its directory. If that is a pipe without a name, Landlock has no
            // rule for it, and does not restrict it.
            Ok(metadata) if !metadata.is_file() => {
                reach
                    .append
                    .extend(path.canonicalize().is_ok().then(|| path.clone()));
            }
            _ => reach.append.extend(folders(path)),
        }
    }
    let disk = plan.cache.as_ref().and_then(|cache| cache.disk.as_ref());
    reach.change.extend(disk.map(|disk| disk.path.clone()));
    let to_servers = plan.server_tls().map(|tls| &tls.files.settings);
    for settings in to_servers.chain(acme.map(|acme| &acme.tls)) {
        reach.read.extend(settings.authorities.folders());
    }
    // `storage`: a reload may name another authority, which has another folder there.
    reach
        .change
        .extend(acme.and_then(|acme| Some(acme.folder.parent()?.to_owned())));
    reach.change.extend(plan.pins.clone());
    reach
}

/// The directory of the path, and that of the file it resolves to: both a file and a link may be replaced.
fn folders(file: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = |file: &Path| {
        let folder = file.parent()?;
        Some(if folder.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            folder.to_owned()
        })
    };
    let real = std::fs::canonicalize(file).ok();
    folder(file)
        .into_iter()
        .chain(real.as_deref().and_then(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::plan::{AcmePlan, CachePlan, ExternalAccount, Password, SharedPlan};
    use crate::config::tls::{Authorities, ServerTlsSettings};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_file_is_reached_where_it_is_named_and_where_it_is() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (real, named) = (place.join("real"), place.join("named"));
        std::fs::create_dir(&real).unwrap();
        std::fs::create_dir(&named).unwrap();
        std::fs::write(real.join("file"), "").unwrap();
        std::os::unix::fs::symlink(real.join("file"), named.join("file")).unwrap();
        let found: Vec<_> = folders(&named.join("file")).collect();
        assert_eq!(found, [named, real]);
        let here: Vec<_> = folders(Path::new("not-there.toml")).collect();
        assert_eq!(here, [PathBuf::from(".")]);
    }

    #[test]
    fn what_an_authority_is_asked_with_is_reached() {
        let mut plan = Plan::built_in();
        plan.acme = Some(Arc::new(AcmePlan {
            email: None,
            directory: "https://ca.example/dir".to_owned(),
            folder: "/kept".into(),
            tls: ServerTlsSettings::new(Authorities::System("/trusted/all.pem".into())),
            challenges: Vec::new(),
            external_account: Some(ExternalAccount {
                id: "kid-1".to_owned(),
                file: "/keys/external.key".into(),
                key: vec![1],
            }),
            names: Vec::new(),
        }));
        let found = reach(&plan, None);
        for folder in ["/trusted", "/keys"] {
            assert!(found.read.contains(Path::new(folder)), "{folder}");
        }
    }

    #[test]
    fn the_password_of_a_shared_cache_is_reached() {
        let mut plan = Plan::built_in();
        plan.cache = Some(CachePlan {
            shared: Some(SharedPlan {
                servers: Vec::new(),
                cluster: false,
                prefix: "p".to_owned(),
                timeout: Duration::ZERO,
                object_bytes_max: 0,
                user: None,
                password: Some(Password {
                    file: "/secrets/redis".into(),
                    text: "word".to_owned(),
                }),
            }),
            ..CachePlan::default()
        });
        let found = reach(&plan, None);
        assert!(found.read.contains(Path::new("/secrets")));
    }

    #[test]
    fn a_log_that_is_no_file_does_not_open_its_folder() {
        let mut plan = Plan::built_in();
        plan.log.access = LogTarget::File("/dev/null".into());
        let found = reach(&plan, Some(Path::new("/etc/carrick/carrick.toml")));
        assert_eq!(found.append, BTreeSet::from(["/dev/null".into()]));
        assert!(found.read.contains(Path::new("/etc/carrick")));
        assert!(!found.change.contains(Path::new("/")));
    }
}
