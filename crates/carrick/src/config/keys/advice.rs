//! What to do about a key that a table has not: where it belongs, and what other programs call here.
use super::{CACHE, ROOT, TABLES, Table, cache};

impl Table {
    /// What to write in place of a key that there is not, if it is known what was meant.
    #[must_use]
    pub fn advice(&self, unknown: &str) -> Option<&'static str> {
        let advice: &[_] = if std::ptr::eq(self, &CACHE) {
            cache::ADVICE
        } else if std::ptr::eq(self, &ROOT) {
            ADVICE
        } else {
            &[]
        };
        let known = advice.iter().find(|(name, _)| *name == unknown);
        known.map(|(_, advice)| *advice)
    }

    /// The tables that have a key of this name: those inside of this one, or else any. Those that are values of keys count only
    /// where no others do, and inside of this one.
    #[must_use]
    pub fn elsewhere(&self, key: &str) -> Vec<&'static Table> {
        let mut others: Vec<&Table> = TABLES.to_vec();
        others.retain(|other| !std::ptr::eq(*other, self) && other.key(key).is_some());
        if others.iter().any(|other| self.holds(other)) {
            others.retain(|other| self.holds(other));
        } else {
            others.retain(|other| !other.is_inline());
        }
        if others.iter().any(|other| !other.is_inline()) {
            others.retain(|other| !other.is_inline());
        }
        others
    }

    /// Whether the other table stands inside of this one.
    fn holds(&self, other: &Table) -> bool {
        let (above, name) = match other.path().rsplit_once('.') {
            Some((above, "NAME")) => ("", above),
            Some((above, name)) => (above, name),
            None => ("", other.path()),
        };
        let is_root = std::ptr::eq(self, &ROOT);
        match above {
            "" => (is_root != other.is_inline()) && self.key(name).is_some(),
            above => above == self.path(),
        }
    }

    /// Whether it stands as the value of a key.
    fn is_inline(&self) -> bool {
        self.title.contains('=')
    }

    /// `listener.route` for `[[listener.route]]`, `parent` for `parent = { }`.
    fn path(&self) -> &'static str {
        let bare = self.title.trim_matches(['[', ']']);
        bare.split(" =").next().unwrap_or(bare)
    }
}

/// What the tables of other programs are here.
static ADVICE: &[(&str, &str)] = &[
    ("access_log", LOG_ADVICE),
    ("accesslog", LOG_ADVICE),
    ("logging", LOG_ADVICE),
    ("logs", LOG_ADVICE),
    (
        "error_log",
        "messages go to standard error; the environment variable CARRICK_LOG chooses which",
    ),
    ("server", UPSTREAM_ADVICE),
    ("servers", UPSTREAM_ADVICE),
    ("backend", UPSTREAM_ADVICE),
    ("backends", UPSTREAM_ADVICE),
    ("frontend", LISTENER_ADVICE),
    ("http", LISTENER_ADVICE),
    ("metrics", "`listen` of [admin] says where they are served"),
    ("stats", "`listen` of [admin] says where they are served"),
];

const LOG_ADVICE: &str =
    "did you mean [log]? `access` says where the access log goes, `format` how it looks";
const UPSTREAM_ADVICE: &str = "write [upstream.NAME] with `servers`, and name it in a route";
const LISTENER_ADVICE: &str = "write [[listener]] with `listen` and `mode`";
