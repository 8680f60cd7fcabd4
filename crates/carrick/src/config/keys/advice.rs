//! What to do about a key that a table has not: where it belongs, and what other programs call here.
use super::Table;

impl Table {
    /// What to write in place of a key that there is not, if it is known what was meant.
    #[must_use]
    pub fn advice(&self, unknown: &str) -> Option<&'static str> {
        let mut known = self.advice.iter();
        let (_, advice) = known.find(|(name, _)| *name == unknown)?;
        Some(advice)
    }

    /// The tables of `root` that have a key of this name: those inside of this one, or else any. Those that are values of keys count
    /// only where no others do, and inside of this one.
    #[must_use]
    pub fn elsewhere(&self, root: &'static Self, key: &str) -> Vec<&'static Self> {
        let mut others = root.all();
        others.retain(|other| other.title != self.title && other.key(key).is_some());
        if others.iter().any(|other| self.holds(other, root)) {
            others.retain(|other| self.holds(other, root));
        } else {
            others.retain(|other| !other.is_inline());
        }
        if others.iter().any(|other| !other.is_inline()) {
            others.retain(|other| !other.is_inline());
        }
        others
    }

    /// Whether the other table stands inside of this one.
    fn holds(&self, other: &Self, root: &Self) -> bool {
        let (above, name) = match other.path().rsplit_once('.') {
            Some((above, "NAME")) => ("", above),
            Some((above, name)) => (above, name),
            None => ("", other.path()),
        };
        let is_root = self.title == root.title;
        match above {
            "" => (is_root != other.is_inline()) && self.key(name).is_some(),
            above => above == self.path(),
        }
    }

    /// Whether it stands as the value of a key.
    pub(super) fn is_inline(&self) -> bool {
        self.title.contains('=')
    }

    /// `listener.route` for `[[listener.route]]`, `parent` for `parent = { }`.
    fn path(&self) -> &'static str {
        let bare = self.title.trim_matches(['[', ']']);
        bare.split(" =").next().unwrap_or(bare)
    }
}
