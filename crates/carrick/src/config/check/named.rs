//! Tables of the file that other places name: finding what is meant, and what nobody names.
use crate::config::problem::Problems;
use crate::config::reader::nearest;
use std::cell::RefCell;
use std::collections::BTreeSet;
use toml::Spanned;

/// What is named in such tables, as messages say it.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// "upstream"
    pub what: &'static str,
    /// The table in which each has one of its own: "upstream" of `[upstream.NAME]`.
    pub table: &'static str,
    /// What has to be in it, as `` " with its `servers`" ``; or nothing.
    pub wanted: &'static str,
    /// What becomes of one that nobody names, before its name: "nothing uses the upstream".
    pub unused: &'static str,
    /// What to do about it.
    pub use_it: &'static str,
}

/// The tables of one kind, and which of them are used.
#[derive(Debug)]
pub struct Named<'f> {
    words: Words,
    /// In the order of the file.
    names: Vec<&'f Spanned<String>>,
    used: RefCell<BTreeSet<usize>>,
}

impl<'f> Named<'f> {
    /// None is used yet.
    pub fn new(words: Words, names: impl Iterator<Item = &'f Spanned<String>>) -> Self {
        Self {
            words,
            names: names.collect(),
            used: RefCell::default(),
        }
    }

    /// The index of one that is named; it is used from now on. Reports that there is none.
    pub fn find(&self, name: &Spanned<String>, problems: &mut Problems) -> Option<usize> {
        let found = self.find_quietly(name.get_ref());
        if found.is_none() {
            let message = format!("there is no {} \"{}\"", self.words.what, name.get_ref());
            let help = self.meant(name.get_ref());
            problems.error(name.span(), message).help(help);
        }
        found
    }

    /// The same, where somebody else reports that there is none.
    pub fn find_quietly(&self, name: &str) -> Option<usize> {
        let index = self.names.iter().position(|one| one.get_ref() == name)?;
        self.used.borrow_mut().insert(index);
        Some(index)
    }

    /// What to do about a name that none has.
    pub fn meant(&self, name: &str) -> String {
        let names: Vec<&str> = self
            .names
            .iter()
            .map(|name| name.as_ref().as_str())
            .collect();
        let Words { table, wanted, .. } = self.words;
        match nearest(name, &names) {
            Some(near) => format!("did you mean \"{near}\"? Or add [{table}.{name}]{wanted}"),
            None => format!("add [{table}.{name}]{wanted}"),
        }
    }

    /// Warns of those that nobody names.
    pub fn report_unused(&self, problems: &mut Problems) {
        let used = self.used.borrow();
        let unused = (self.names.iter().enumerate()).filter(|(index, _)| !used.contains(index));
        for (_, name) in unused {
            let message = format!("{} \"{}\"", self.words.unused, name.get_ref());
            problems
                .warning(name.span(), message)
                .help(self.words.use_it);
        }
    }
}
