//! Indexing the files of earlier processes, in the background: requests are served meanwhile, and files that are not indexed yet are
//! not found.
use super::Disk;
use super::entry::{Entry, Response, Stage};
use super::folder::{CallError, Folder, PURGES};
use super::format::{Head, body_start};
use super::health::Operation;
use super::name::Name;
use crate::cache::index::Item;
use crate::cache::key::Key;
use crate::cache::purge::{Pattern, Purge};
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Purges that are remembered while files are indexed. With more, all files that are not indexed yet are removed.
const BANS_MAX: usize = 10_000;

/// Keys that are remembered because they were stored anew. With more, the same happens.
const TOUCHED_MAX: usize = 1_000_000;

/// Foreign files that the log names.
const NAMED_MAX: usize = 3;

/// What happens to files that are not indexed yet.
#[derive(Debug)]
pub(super) struct Indexing {
    bans: Vec<Ban>,
    /// Hashes of keys that were stored or removed since the start.
    touched: HashSet<u64>,
}

/// A purge of files that are not indexed yet.
#[derive(Debug)]
struct Ban {
    which: Pattern,
    how: Purge,
    /// It is about files with smaller serial numbers.
    before: u64,
}

impl Indexing {
    /// Begins with purges that an earlier process did not complete.
    pub(super) fn begin(purges: &[u8], first_serial: u64) -> Self {
        let mut indexing = Self {
            bans: Vec::new(),
            touched: HashSet::new(),
        };
        // An incomplete line was never confirmed to the purger.
        for line in purges.split_inclusive(|byte| *byte == b'\n') {
            if let Some(ban) = Ban::parse(line) {
                indexing.add(ban, first_serial);
            }
        }
        indexing
    }

    /// Remembers a purge; returns the line that tells the next process.
    pub(super) fn ban(&mut self, which: Pattern, how: Purge, serial: u64) -> Vec<u8> {
        let ban = Ban {
            which,
            how,
            before: serial,
        };
        let line = ban.line();
        self.add(ban, serial);
        line
    }

    /// Notes that an object was stored or removed under a key with this hash.
    pub(super) fn touch(&mut self, hash: u64) {
        if self.touched.len() < TOUCHED_MAX {
            self.touched.insert(hash);
        } else {
            self.give_up(u64::MAX);
        }
    }

    fn add(&mut self, ban: Ban, serial: u64) {
        if self.bans.len() < BANS_MAX {
            self.bans.push(ban);
        } else {
            self.give_up(serial);
        }
    }

    fn give_up(&mut self, before: u64) {
        self.bans.clear();
        self.bans.push(Ban {
            which: Pattern::All,
            how: Purge::Remove,
            before,
        });
    }

    /// How a file was purged, if it was.
    fn verdict(&self, entry: &Entry) -> Option<Purge> {
        if self.touched.contains(&entry.key().hash()) {
            return Some(Purge::Remove);
        }
        let mut verdict = None;
        for ban in &self.bans {
            if entry.name.serial < ban.before && entry.matches(&ban.which) {
                if ban.how == Purge::Remove {
                    return Some(Purge::Remove);
                }
                verdict = Some(Purge::Outdate);
            }
        }
        verdict
    }
}

impl Ban {
    /// `letter how number text .`, the text in hexadecimal digits. It begins with a line end, as the line before may be incomplete.
    fn line(&self) -> Vec<u8> {
        let (letter, text) = letter_and_text(&self.which);
        let how = match self.how {
            Purge::Remove => 'r',
            Purge::Outdate => 'o',
        };
        let mut line = format!("\n{} {how} {:016x} ", char::from(letter), self.before);
        for byte in text {
            let _ = write!(line, "{byte:02x}");
        }
        line.push_str(" .\n");
        line.into_bytes()
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
        let mut words = line.split(' ');
        let letter = words.next()?.bytes().next()?;
        let how = match words.next()? {
            "r" => Purge::Remove,
            "o" => Purge::Outdate,
            _ => return None,
        };
        let before = u64::from_str_radix(words.next()?, 16).ok()?;
        let digits = words.next()?;
        // An incomplete line has no end.
        words.next().filter(|end| *end == ".")?;
        let text: Option<Vec<u8>> = (0..digits.len() / 2)
            .map(|place| u8::from_str_radix(digits.get(2 * place..2 * place + 2)?, 16).ok())
            .collect();
        Some(Self {
            which: pattern(letter, &text?)?,
            how,
            before,
        })
    }
}

/// A pattern's letter in the list of purges, and its text.
fn letter_and_text(which: &Pattern) -> (u8, &[u8]) {
    match which {
        Pattern::Key(text) => (b'k', text),
        Pattern::Url(text) => (b'u', text),
        Pattern::UrlPrefix(text) => (b'U', text),
        Pattern::Tag(text) => (b't', text),
        Pattern::All => (b'a', b""),
    }
}

/// The reverse; `None`: there is no such pattern.
fn pattern(letter: u8, text: &[u8]) -> Option<Pattern> {
    Some(match letter {
        b'k' => Pattern::Key(text.into()),
        b'u' => Pattern::Url(text.into()),
        b'U' => Pattern::UrlPrefix(text.into()),
        b't' => Pattern::Tag(text.into()),
        b'a' => Pattern::All,
        _ => return None,
    })
}

/// What the walk through the folders has found.
#[derive(Default)]
struct Walk {
    foreign: Vec<String>,
    /// Some files could not be read or removed.
    has_gaps: bool,
}

impl Disk {
    /// Reads the heads of all files. Called by a thread of its own.
    pub(super) fn index_all(self: &Arc<Self>) {
        let begun = Instant::now();
        let mut walk = Walk::default();
        if let Err(error) = self.folder.remove_unfinished() {
            self.health.note(Operation::Removing, &error);
        }
        self.walk_folder(None, &mut walk);
        for number in Name::folders() {
            self.walk_folder(Some(number), &mut walk);
        }
        {
            let mut indexing = self.indexing();
            *indexing = None;
            self.is_indexed.store(true, Ordering::Release);
        }
        self.look_for_room();
        self.tell_of_walk(&walk, begun);
        // The next process may be able to read what this one could not.
        if !walk.has_gaps
            && let Err(error) = self.folder.remove_text(PURGES)
        {
            self.health.note(Operation::Removing, &error);
        }
    }

    fn walk_folder(self: &Arc<Self>, number: Option<u8>, walk: &mut Walk) {
        let names = match self.folder.list(number) {
            Ok(names) => names,
            Err(error) => {
                self.health.note(Operation::Reading, &error);
                walk.has_gaps = true;
                return;
            }
        };
        for text in names {
            let Some(name) = number.and_then(|number| Name::parse(&text, number)) else {
                self.counters.foreign.fetch_add(1, Ordering::Relaxed);
                if walk.foreign.len() < NAMED_MAX {
                    let folder = number.map_or_else(String::new, |number| format!("{number:02x}/"));
                    walk.foreign.push(format!("{folder}{text}"));
                }
                continue;
            };
            // This process's files are indexed.
            if name.serial >= self.folder.first_serial() {
                continue;
            }
            self.counters.found.fetch_add(1, Ordering::Relaxed);
            match self.index_file(name) {
                Ok(true) => {}
                Ok(false) => {
                    self.counters.swept.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = self.folder.remove(&name) {
                        self.health.note(Operation::Removing, &error);
                        walk.has_gaps = true;
                    }
                }
                Err(error) => {
                    self.health.note(Operation::Reading, &error);
                    walk.has_gaps = true;
                }
            }
        }
    }

    /// Indexes a file; `false`: it must be removed.
    fn index_file(self: &Arc<Self>, name: Name) -> Result<bool, CallError> {
        let Some(head) = read_head(&self.folder, &name)? else {
            return Ok(false);
        };
        let response = Response {
            key: Key::of(&self.seed, &head.key),
            variant: &head.variant,
            meta: head.meta.clone(),
            fields: &head.fields,
            origin: head.origin,
            body_bytes: head.body_bytes,
        };
        if !response.is_worth_storing() {
            return Ok(false);
        }
        let entry = Arc::new(Entry::new(&response, name, Stage::There));
        if entry.body_bytes > self.ledger.object_bytes_max() || !self.take(entry.charged_bytes()) {
            return Ok(false);
        }
        // A purge adds itself here before it looks through the index: either it is seen here, or it finds the entry.
        let indexing = self.indexing();
        let verdict = indexing
            .as_ref()
            .and_then(|indexing| indexing.verdict(&entry));
        if verdict == Some(Purge::Remove) || !self.put_if_newest(&entry) {
            self.give_back(entry.charged_bytes());
            return Ok(false);
        }
        drop(indexing);
        if verdict == Some(Purge::Outdate) {
            // At once, as the list of purges is removed when all files are indexed.
            self.outdate_here(&entry);
        }
        Ok(true)
    }

    fn put_if_newest(&self, entry: &Arc<Entry>) -> bool {
        let mut shard = self.index.lock(entry.key().hash());
        let has_newer =
            shard.find(entry.key()).iter().flatten().any(|held| {
                held.variant() == entry.variant() && held.name.serial > entry.name.serial
            });
        if has_newer {
            return false;
        }
        let left = shard.put(Arc::clone(entry));
        drop(shard);
        for left in left.into_iter().flatten() {
            self.let_go(&left, None);
        }
        true
    }

    fn tell_of_walk(&self, walk: &Walk, begun: Instant) {
        let stats = self.stats();
        tracing::info!(
            "indexed the cache's disk {} in {:.1} s: {} objects; {} files were removed",
            self.folder.path().display(),
            begun.elapsed().as_secs_f64(),
            stats.objects,
            stats.swept
        );
        if stats.foreign > 0 {
            tracing::warn!(
                "{} files in {} are not carrick's; they stay, and do not count towards its size: {}{}",
                stats.foreign,
                self.folder.path().display(),
                walk.foreign.join(", "),
                if stats.foreign > walk.foreign.len() as u64 {
                    ", …"
                } else {
                    ""
                }
            );
        }
    }
}

/// The head of a file; `None`: the file is not whole, as far as the head and the length tell.
fn read_head(folder: &Folder, name: &Name) -> Result<Option<Head>, CallError> {
    let file = match folder.open_file(name) {
        // It was just removed.
        Err(error) if error.errno == rustix::io::Errno::NOENT => return Ok(None),
        other => other?,
    };
    let start = body_start(name.class);
    let mut bytes = vec![0; usize::try_from(start).unwrap_or(0)];
    let read = folder.read_at(&file, name, &mut bytes, 0)?;
    let Some(head) = Head::newest(bytes.get(..read).unwrap_or_default(), name.class) else {
        return Ok(None);
    };
    let file_bytes = folder.status_of(&file, name)?.bytes;
    let is_whole = start.checked_add(head.body_bytes) == Some(file_bytes) && name.is_of(&head.key);
    Ok(is_whole.then_some(head))
}
