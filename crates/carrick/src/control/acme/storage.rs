//! The folder of what an authority has issued: account, certificates, and what failed. Several processes may share it.
use super::identifier::{CertificateId, identifier};
use super::schedule::{Validity, WAIT_MAX};
use crate::config::plan::{AcmePlan, Plan, certificate_file};
use crate::config::tls::{Identity, NewFile, load_stored};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, mkdirat, open, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Most bytes of a file here.
const FILE_BYTES_MAX: u64 = 1 << 20;

const ACCOUNT_FILE: &str = "account.json";

/// The folder of an authority.
#[derive(Debug, Clone)]
pub struct Storage(PathBuf);

/// A certificate that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    pub validity: Validity,
    /// What the authority calls it, if it can.
    pub id: Option<CertificateId>,
    /// When its file was written.
    pub kept_at: SystemTime,
}

impl Certificate {
    /// Whether it is the same one, perhaps in a file that was written again.
    pub fn is(&self, other: &Self) -> bool {
        (self.validity, &self.id) == (other.validity, &other.id)
    }
}

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
    /// When the next attempt may be made. A time further away than any wait was written by a clock that was ahead, and does
    /// not count.
    pub fn not_before(&self, now: SystemTime) -> SystemTime {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.not_before));
        time.filter(|time| *time <= now + WAIT_MAX)
            .unwrap_or(SystemTime::UNIX_EPOCH)
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
    let owner = owner.map(|account| (account.uid, account.gid));
    make_folders(&acme.folder, owner).map_err(|error| unusable(acme, &error))
}

/// Makes the folders that are missing. Whoever owns one could put a link into it: none is followed.
fn make_folders(folder: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    // The last one of a relative path is empty.
    let there = folder.ancestors().find(|one| one.exists());
    let missing = folder.strip_prefix(there.unwrap_or(Path::new("")));
    let there = there.unwrap_or(Path::new("."));
    let is_folder = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut parent = open(there, OFlags::PATH | is_folder, Mode::empty())?;
    for name in missing.map_err(io::Error::other)? {
        let made = mkdirat(&parent, name, Mode::RWXU);
        let is_new = made.is_ok();
        if let Err(error) = made
            && error != Errno::EXIST
        {
            return Err(error.into());
        }
        parent = openat(&parent, name, OFlags::NOFOLLOW | is_folder, Mode::empty())?;
        if let Some((user, group)) = owner.filter(|_| is_new) {
            fchown(&parent, Some(user), Some(group))?;
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
    // Others may be starting, too, also with this number, in containers of their own.
    let name = format!("writable-{:x}", super::random().to_bits());
    let tried = NewFile::write(storage.0.join(name), b"");
    let tried = tried.and_then(|file| std::fs::remove_file(file.written()));
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

    /// A name's certificate, if there is one that can be used.
    pub fn certificate(&self, name: &str) -> Option<Certificate> {
        let file = certificate_file(&self.0, name);
        let kept_at = file.metadata().and_then(|about| about.modified()).ok()?;
        let identity = load_stored(&file).ok()?;
        is_for(&identity, name).then(|| Certificate {
            validity: identity.validity,
            id: identity.key.cert.first().and_then(|der| identifier(der)),
            kept_at,
        })
    }

    /// Keeps a name's certificate and key in place of those before, if they can be used.
    ///
    /// # Errors
    /// They cannot be used or kept. Those before stay.
    pub fn keep_certificate(&self, name: &str, pem: &str) -> Result<Validity, String> {
        let failed = |error: io::Error| format!("cannot write {}: {error}", self.0.display());
        let new = NewFile::write(certificate_file(&self.0, name), pem.as_bytes());
        let new = new.map_err(failed)?;
        let identity = load_stored(new.written()).map_err(|problems| {
            let why: Vec<_> = problems.iter().map(ToString::to_string).collect();
            format!(
                "the authority sent what is no certificate: {}",
                why.join("; ")
            )
        })?;
        if !is_for(&identity, name) {
            return Err("the authority sent a certificate for other names".to_owned());
        }
        new.put().map_err(failed)?;
        Ok(identity.validity)
    }

    /// The account, as the library writes it, if there is one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn account(&self) -> io::Result<Option<Vec<u8>>> {
        match self.read(ACCOUNT_FILE) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where the account is.
    pub fn account_path(&self) -> PathBuf {
        self.0.join(ACCOUNT_FILE)
    }

    /// Keeps the account.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_account(&self, account: &[u8]) -> io::Result<()> {
        self.write(ACCOUNT_FILE, account)
    }

    /// What failed for a name.
    pub fn failures(&self, name: &str) -> Failures {
        let text = self.read(&failures_file(name)).ok();
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

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(self.0.join(name))?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        NewFile::write(self.0.join(name), bytes)?.put()
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
    fn a_clock_that_was_ahead_does_not_block() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let day = WAIT_MAX.as_secs();
        for (not_before, expected) in [
            (0, 0),
            (1_000_000 + day, 1_000_000 + day),
            (1_000_000 + day + 1, 0),
            (u64::MAX, 0),
        ] {
            let failures = Failures {
                not_before,
                ..Failures::default()
            };
            let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(expected);
            assert_eq!(failures.not_before(now), expected, "{not_before}");
        }
    }

    #[test]
    fn folders_are_made_but_not_through_links_in_them() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b/c");
        make_folders(&folder, None).unwrap();
        make_folders(&folder, None).unwrap();
        let rights = folder.metadata().unwrap().permissions();
        assert_eq!(rights.mode() & 0o777, 0o700);
        std::os::unix::fs::symlink(place.path().join("nowhere"), place.path().join("link"))
            .unwrap();
        assert!(make_folders(&place.path().join("link/d"), None).is_err());
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
