//! The folder of what an authority has issued: account, certificates, and what failed. Several processes may share it.
use super::schedule::Validity;
use crate::config::plan::{AcmePlan, Plan, certificate_file};
use crate::config::tls::{Identity, load_stored};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Most bytes of a file here.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The folder of an authority.
#[derive(Debug, Clone)]
pub struct Storage(PathBuf);

/// What failed, for a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// How many attempts in a row.
    pub failures: u32,
    /// When the next one may be made, in seconds since 1970.
    pub not_before: u64,
    /// Why the last one failed.
    pub error: String,
}

impl Failures {
    /// When the next attempt may be made.
    pub fn not_before(&self) -> SystemTime {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.not_before));
        time.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// Held by the process that orders a certificate, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Makes the folder, if the plan has certificates by ACME, for the user that carrick becomes.
///
/// # Errors
/// It cannot be made; the message says what to do.
pub fn make(plan: &Plan) -> io::Result<()> {
    let Some(acme) = &plan.acme else {
        return Ok(());
    };
    let owner = (plan.account.as_ref()).filter(|_| rustix::process::geteuid().is_root());
    let missing: Vec<&Path> = acme
        .folder
        .ancestors()
        // The last one of a relative path is empty.
        .take_while(|one| !one.as_os_str().is_empty() && !one.exists())
        .collect();
    for folder in missing.into_iter().rev() {
        let made = DirBuilder::new().mode(0o700).create(folder);
        let owned = made.and_then(|()| match owner {
            Some(account) => chown(folder, Some(account.uid), Some(account.gid)),
            None => Ok(()),
        });
        match owned {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(unusable(acme, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the folder can be written, as the user that carrick is now.
///
/// # Errors
/// It cannot; the message says what to do.
pub fn check(plan: &Plan) -> io::Result<()> {
    let Some(acme) = &plan.acme else {
        return Ok(());
    };
    let storage = Storage::of(acme);
    // Others may be starting, too.
    let name = format!("writable-{}", std::process::id());
    let tried = storage.write_new(&name, b"");
    let tried = tried.and_then(|()| std::fs::remove_file(storage.0.join(name)));
    tried.map_err(|error| unusable(acme, &error))
}

fn unusable(acme: &AcmePlan, error: &io::Error) -> io::Error {
    let text = format!(
        "`storage` of [acme]: cannot write {}: {error}; make the user that carrick runs as its owner (`chown`, or `StateDirectory=` of systemd), or name another folder",
        acme.folder.display()
    );
    io::Error::new(error.kind(), text)
}

impl Storage {
    /// The folder of this authority.
    pub fn of(plan: &AcmePlan) -> Self {
        Self(plan.folder.clone())
    }

    /// Takes the lock of a name, if no process has it.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn lock(&self, name: &str) -> io::Result<Option<Lock>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.0.join(format!("{name}.lock")))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The validity of a name's certificate, if there is one that can be used.
    pub fn certificate(&self, name: &str) -> Option<Validity> {
        let identity = load_stored(&certificate_file(&self.0, name)).ok()?;
        is_for(&identity, name).then_some(identity.validity)
    }

    /// Keeps a name's certificate and key in place of those before, if they can be used.
    ///
    /// # Errors
    /// They cannot be used or kept. Those before stay.
    pub fn keep_certificate(&self, name: &str, pem: &str) -> Result<Validity, String> {
        let new = format!("{name}.new");
        let failed = |error: io::Error| format!("cannot write {}: {error}", self.0.display());
        self.write_new(&new, pem.as_bytes()).map_err(failed)?;
        let path = self.0.join(&new);
        let identity = load_stored(&path).map_err(|problems| {
            let why: Vec<_> = problems.iter().map(ToString::to_string).collect();
            format!(
                "the authority sent what is no certificate: {}",
                why.join("; ")
            )
        })?;
        if !is_for(&identity, name) {
            return Err("the authority sent a certificate for other names".to_owned());
        }
        self.put(&path, &certificate_file(&self.0, name))
            .map_err(failed)?;
        Ok(identity.validity)
    }

    /// The account, as the library writes it.
    pub fn account(&self) -> Option<Vec<u8>> {
        self.read("account.json")
    }

    /// Keeps the account.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_account(&self, account: &[u8]) -> io::Result<()> {
        self.write("account.json", account)
    }

    /// What failed for a name.
    pub fn failures(&self, name: &str) -> Failures {
        let text = self.read(&failures_file(name));
        let failures = text.and_then(|text| serde_json::from_slice(&text).ok());
        failures.unwrap_or_default()
    }

    /// Keeps what failed, so that neither a restart nor another process tries again at once.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_failures(&self, name: &str, failures: &Failures) -> io::Result<()> {
        self.write(&failures_file(name), &serde_json::to_vec_pretty(failures)?)
    }

    /// Nothing failed any more.
    pub fn forget_failures(&self, name: &str) {
        // If it stays, the next renewal is later.
        let _ = std::fs::remove_file(self.0.join(failures_file(name)));
    }

    /// The file to remove for an attempt before its time.
    pub fn failures_path(&self, name: &str) -> PathBuf {
        self.0.join(failures_file(name))
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(self.0.join(name)).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Writes a file so that others see it whole, even after the machine has failed.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = format!("{name}.new");
        self.write_new(&new, bytes)?;
        self.put(&self.0.join(new), &self.0.join(name))
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(self.0.join(name))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn put(&self, new: &Path, path: &Path) -> io::Result<()> {
        std::fs::rename(new, path)?;
        File::open(&self.0)?.sync_all()
    }
}

fn is_for(identity: &Identity, name: &str) -> bool {
    identity.names.iter().any(|own| own == name)
}

fn failures_file(name: &str) -> String {
    format!("{name}.failed.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_kept_is_read_again_and_nobody_else_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage(folder.path().to_owned());
        assert_eq!(storage.failures("a.example"), Failures::default());
        let failures = Failures {
            failures: 3,
            not_before: 77,
            error: "no".to_owned(),
        };
        storage.keep_failures("a.example", &failures).unwrap();
        assert_eq!(storage.failures("a.example"), failures);
        let rights = storage.failures_path("a.example").metadata().unwrap();
        assert_eq!(rights.permissions().mode() & 0o777, 0o600);
        storage.forget_failures("a.example");
        assert_eq!(storage.failures("a.example"), Failures::default());
    }

    #[test]
    fn a_name_has_one_lock() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage(folder.path().to_owned());
        let lock = storage.lock("a.example").unwrap();
        assert!(lock.is_some());
        assert!(storage.lock("a.example").unwrap().is_none());
        assert!(storage.lock("b.example").unwrap().is_some());
        drop(lock);
        assert!(storage.lock("a.example").unwrap().is_some());
    }

    #[test]
    fn what_cannot_be_used_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage(folder.path().to_owned());
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let pem = made.cert.pem() + &made.signing_key.serialize_pem();
        storage.keep_certificate("a.example", &pem).unwrap();
        for wrong in ["", "no", &made.cert.pem()] {
            assert!(storage.keep_certificate("a.example", wrong).is_err());
        }
        assert!(storage.keep_certificate("b.example", &pem).is_err());
        assert!(storage.certificate("a.example").is_some());
        assert!(storage.certificate("b.example").is_none());
    }
}
