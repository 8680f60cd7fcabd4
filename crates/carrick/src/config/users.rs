//! The users of a forward listener: an htpasswd file, and checking passwords against it at a bounded cost.
//!
//! Good passwords are remembered for a while under a keyed hash, so that not each request costs a bcrypt. A name that is
//! not in the file costs what one of the file costs, so that the time of an answer does not tell names.
mod gate;
mod hash;
mod md5_crypt;

use super::problem::{Problem, Severity, Source};
use arc_swap::ArcSwapOption;
use carrick_logic::credentials::Credentials;
use gate::Gate;
use hash::PasswordHash;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;
use tokio::time::timeout;

/// Most bytes of a password file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Longer passwords are wrong without a look: SHA-crypt's cost grows with the length.
const PASSWORD_BYTES_MAX: usize = 512;
/// How long a good password is remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Longest wait for the computing of a hash; the client can ask again.
const TURN_TIME_MAX: Duration = Duration::from_secs(10);

/// Of HMAC-SHA256, as long as its block.
type Key = [u8; 64];
/// A keyed hash of a name and a password.
type Seal = [u8; 32];

/// The users of a password file.
pub struct Users {
    entries: Vec<UserEntry>,
    by_name: HashMap<String, usize>,
    key: Key,
    gate: Arc<Gate>,
    path: PathBuf,
    /// Hashes that were computed.
    #[cfg(test)]
    computed: Arc<std::sync::atomic::AtomicUsize>,
}

struct UserEntry {
    hash: Arc<PasswordHash>,
    verified: ArcSwapOption<Verified>,
}

/// A password that was found right.
struct Verified {
    seal: Seal,
    until: Instant,
}

/// Too many passwords wait to be checked, of all clients or of this one.
#[derive(Debug, PartialEq, Eq)]
pub struct Busy;

impl fmt::Debug for Users {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.by_name.keys().collect();
        names.sort();
        out.debug_struct("Users")
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

impl Users {
    /// Reads a password file: lines of `name:hash`, empty lines, and comments behind `#`. Hashes are bcrypt (`$2y$`), apr1 and MD5-crypt, SHA-crypt (`$5$`, `$6$`) and `{SHA}`.
    ///
    /// # Errors
    /// One problem for each line that is wrong, or one without a place if the file cannot be read or used at all.
    pub fn load(path: &Path) -> Result<Self, Vec<Problem>> {
        let text = read(path).map_err(|reason| {
            vec![whole(format!(
                "the password file {} cannot be read: {reason}",
                path.display()
            ))]
        })?;
        let mut users = Self::parse(&text, &path.display().to_string())?;
        path.clone_into(&mut users.path);
        Ok(users)
    }

    /// Where they were read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the text of a password file; `name` is for messages.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: &str, name: &str) -> Result<Self, Vec<Problem>> {
        let source = Arc::new(Source {
            name: name.to_owned(),
            text: text.to_owned(),
            is_secret: true,
        });
        let mut key: Key = [0; 64];
        getrandom::fill(&mut key).map_err(|error| {
            vec![whole(format!(
                "the kernel gives no random numbers: {error}"
            ))]
        })?;
        let mut users = Self {
            entries: Vec::new(),
            by_name: HashMap::new(),
            path: PathBuf::new(),
            key,
            gate: Gate::new(),
            #[cfg(test)]
            computed: Arc::default(),
        };
        let mut problems = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let span = start..start + line.trim_end().len();
            start += line.len();
            if let Err((message, help)) = users.add(line.trim()) {
                problems.push(at_line(&source, span, message, help));
            }
        }
        if problems.is_empty() && users.entries.is_empty() {
            problems.push(whole(format!(
                "the password file {name} has no users, so every client would be refused"
            )));
        }
        if problems.is_empty() {
            Ok(users)
        } else {
            Err(problems)
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Whether this is a user with this password, which a client at this address gave. Costs a password hash, computed on tokio's blocking
    /// threads and not more than a few at a time, unless the same was found right in the last ten minutes.
    ///
    /// # Errors
    /// Too many passwords wait to be checked.
    pub async fn verify(&self, credentials: &Credentials, client: IpAddr) -> Result<bool, Busy> {
        let seal = self.seal(credentials);
        let known = self
            .by_name
            .get(&credentials.user)
            .and_then(|index| self.entries.get(*index));
        if known.is_some_and(|entry| entry.remembers(&seal, Instant::now())) {
            return Ok(true);
        }
        if credentials.password.len() > PASSWORD_BYTES_MAX {
            return Ok(false);
        }
        let Some(entry) = known.or_else(|| self.decoy(&credentials.user)) else {
            return Ok(false);
        };
        let place = self.gate.enter(client).ok_or(Busy)?;
        let permit = timeout(TURN_TIME_MAX, place.permit()).await;
        let permit = permit.ok().flatten().ok_or(Busy)?;
        // Several connections of one client often come with the same password at the same time.
        if known.is_some_and(|entry| entry.remembers(&seal, Instant::now())) {
            return Ok(true);
        }
        let hash = Arc::clone(&entry.hash);
        let password = credentials.password.clone();
        #[cfg(test)]
        let computed = Arc::clone(&self.computed);
        let computation = tokio::task::spawn_blocking(move || {
            // Held by the computation, which goes on when the client has gone.
            let _permit = permit;
            #[cfg(test)]
            computed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            hash.is_of(password.as_bytes())
        });
        let is_right = computation.await.unwrap_or(false) && known.is_some();
        if is_right {
            entry.remember(seal, Instant::now());
        }
        Ok(is_right)
    }

    fn add(&mut self, line: &str) -> Result<(), (String, &'static str)> {
        const FORM: &str = "a line is `name:hash`, as `htpasswd -B` writes it";
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (name, hash) = line
            .split_once(':')
            .ok_or(("this line has no colon".to_owned(), FORM))?;
        if name.is_empty() || name.trim() != name {
            return Err((
                "the name is missing, or has spaces around it".to_owned(),
                FORM,
            ));
        }
        if self.by_name.contains_key(name) {
            return Err((
                format!("the user \"{name}\" is in the file twice"),
                "remove one of the lines",
            ));
        }
        let hash = PasswordHash::parse(hash).map_err(|(reason, help)| {
            (format!("the password hash of \"{name}\" {reason}"), help)
        })?;
        self.by_name.insert(name.to_owned(), self.entries.len());
        self.entries.push(UserEntry {
            hash: Arc::new(hash),
            verified: ArcSwapOption::empty(),
        });
        Ok(())
    }

    /// The entry whose cost a name that is not in the file has: whatever the password, the same one, as for a name that is.
    fn decoy(&self, user: &str) -> Option<&UserEntry> {
        let seal = self.seal(&Credentials {
            user: user.to_owned(),
            password: String::new(),
        });
        let (number, _) = seal.split_first_chunk::<8>()?;
        let index = u64::from_le_bytes(*number).checked_rem(self.entries.len() as u64)?;
        self.entries.get(usize::try_from(index).ok()?)
    }

    fn seal(&self, credentials: &Credentials) -> Seal {
        let mut mac = Hmac::<Sha256>::new(&self.key.into());
        mac.update(&(credentials.user.len() as u64).to_le_bytes());
        mac.update(credentials.user.as_bytes());
        mac.update(credentials.password.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

impl UserEntry {
    fn remembers(&self, seal: &Seal, now: Instant) -> bool {
        self.verified
            .load()
            .as_ref()
            .is_some_and(|verified| now < verified.until && bool::from(verified.seal.ct_eq(seal)))
    }

    fn remember(&self, seal: Seal, now: Instant) {
        self.verified.store(Some(Arc::new(Verified {
            seal,
            until: now + REMEMBERED,
        })));
    }
}

fn whole(message: String) -> Problem {
    let mut problem = Problem::new(Severity::Error, message);
    problem.help("make one with `htpasswd -c -B FILE NAME`; a relative path is relative to the configuration file");
    problem
}

fn at_line(source: &Arc<Source>, span: Range<usize>, message: String, help: &str) -> Problem {
    let mut problem = Problem::new(Severity::Error, message);
    problem.at(source, span).help(help);
    problem
}

fn read(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let bytes = file
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    if bytes as u64 > FILE_BYTES_MAX {
        return Err(format!("it is longer than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
