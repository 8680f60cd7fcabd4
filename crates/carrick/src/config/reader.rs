//! Reads tables of the file by the declaration of their keys, and reports whatever does not fit.
mod measures;

pub use measures::{Whole, integer};

use super::keys::Table;
use super::problem::Problems;
use super::setting::Setting;
use super::word::Word;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of the file with its place.
type Value<'t> = Spanned<DeValue<'t>>;

/// A table of the file.
#[derive(Debug, Clone)]
pub struct Section<'t> {
    table: Option<&'t DeTable<'t>>,
    declared: &'static Table,
    /// The file's, for advice on keys that are in the wrong place.
    root: &'static Table,
    span: Range<usize>,
}

impl<'t> Section<'t> {
    /// The file itself; keys that are not declared are reported.
    pub fn root(table: &'t DeTable<'t>, declared: &'static Table, problems: &mut Problems) -> Self {
        let section = Self {
            table: Some(table),
            declared,
            root: declared,
            span: 0..0,
        };
        section.report_unknown(problems);
        section
    }

    /// A table in which nothing is written, in the place of something that is written here.
    pub fn empty(declared: &'static Table, span: Range<usize>) -> Self {
        Self {
            table: None,
            declared,
            root: declared,
            span,
        }
    }

    /// Where the table begins: its header, or the whole of an inline table.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.table.is_none_or(|table| table.is_empty())
    }

    /// Where a key has its name and its value, if it is given.
    pub fn places(&self, key: &str) -> Option<(Range<usize>, Range<usize>)> {
        let (name, value) = self.table?.get_key_value(key)?;
        Some((name.span(), value.span()))
    }

    /// The value of a key as it stands.
    fn value(&self, key: &str) -> Option<&'t Value<'t>> {
        debug_assert!(
            self.declared.key(key).is_some(),
            "{key} is not declared in {}",
            self.declared.title
        );
        self.table?.get(key)
    }

    /// A table below this one; an absent one is an empty one.
    pub fn table(
        &self,
        key: &str,
        declared: &'static Table,
        problems: &mut Problems,
    ) -> Setting<Section<'t>> {
        match self.value(key) {
            None => Setting::Absent,
            Some(value) => match self.inner(value, declared, problems) {
                Some(section) => Setting::Given(Spanned::new(value.span(), section)),
                None => Setting::Wrong,
            },
        }
    }

    /// Tables with names of the user's choice, in the order of the file.
    pub fn named_tables(
        &self,
        key: &str,
        declared: &'static Table,
        problems: &mut Problems,
    ) -> Vec<(Spanned<String>, Section<'t>)> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let DeValue::Table(tables) = value.get_ref() else {
            problems
                .error(value.span(), format!("`{key}` is a group of tables"))
                .help(format!("write {} and its keys below", declared.title));
            return Vec::new();
        };
        let mut named: Vec<_> = tables
            .iter()
            .filter_map(|(name, value)| {
                let section = self.inner(value, declared, problems)?;
                Some((
                    Spanned::new(name.span(), name.get_ref().to_string()),
                    section,
                ))
            })
            .collect();
        named.sort_by_key(|(name, _)| name.span().start);
        named
    }

    /// Tables of a list, as `[[key]]` makes them; a list that is there and empty is reported.
    pub fn tables(
        &self,
        key: &str,
        declared: &'static Table,
        problems: &mut Problems,
    ) -> Vec<Section<'t>> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let DeValue::Array(items) = value.get_ref() else {
            problems
                .error(value.span(), format!("`{key}` is a list of tables"))
                .help(format!("write {}, with two brackets", declared.title));
            return Vec::new();
        };
        if items.is_empty() {
            problems
                .error(value.span(), format!("the list `{key}` is empty"))
                .help(format!("add {}", declared.title));
        }
        items
            .iter()
            .filter_map(|item| self.inner(item, declared, problems))
            .collect()
    }

    /// Tables that stand as values; a single one stands for a list of one. A list with something else in it is wrong.
    pub fn table_list(
        &self,
        key: &str,
        declared: &'static Table,
        problems: &mut Problems,
    ) -> Setting<Vec<Section<'t>>> {
        let Some(value) = self.value(key) else {
            return Setting::Absent;
        };
        let items = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        let count = items.len();
        let sections: Vec<_> = items
            .into_iter()
            .filter_map(|item| self.inner(item, declared, problems))
            .collect();
        if sections.len() < count {
            return Setting::Wrong;
        }
        Setting::Given(Spanned::new(value.span(), sections))
    }

    /// A string.
    pub fn text(&self, key: &str, problems: &mut Problems) -> Setting<String> {
        self.read(key, problems, "a string", |value| {
            value.as_str().map(ToOwned::to_owned)
        })
    }

    /// `true` or `false`.
    pub fn boolean(&self, key: &str, problems: &mut Problems) -> Setting<bool> {
        self.read(key, problems, "`true` or `false`", DeValue::as_bool)
    }

    /// A value that must be there.
    pub fn required<T>(
        &self,
        key: &str,
        value: Setting<T>,
        help: &str,
        problems: &mut Problems,
    ) -> Setting<T> {
        if value.is_absent() {
            let problem = problems.error(self.span(), format!("`{key}` is missing here"));
            if !help.is_empty() {
                problem.help(help);
            }
            return Setting::Wrong;
        }
        value
    }

    /// One string. A list is an understandable wish, so the message says what to do instead.
    pub fn one_text(&self, key: &str, problems: &mut Problems) -> Setting<String> {
        match self.value(key).map(|value| (value, value.get_ref())) {
            Some((value, DeValue::Array(_))) => {
                let message = format!("`{key}` is one string, not a list");
                problems
                    .error(value.span(), message)
                    .help("write one route for each; they may name the same upstream");
                Setting::Wrong
            }
            _ => self.text(key, problems),
        }
    }

    /// What one of the type's words means.
    pub fn word<T: Word>(&self, key: &str, problems: &mut Problems) -> Setting<T> {
        let text = match self.text(key, problems) {
            Setting::Given(text) => text,
            Setting::Absent => return Setting::Absent,
            Setting::Wrong => return Setting::Wrong,
        };
        if let Some(value) = T::meant_by(text.get_ref()) {
            return Setting::Given(Spanned::new(text.span(), value));
        }
        let problem = problems.error(
            text.span(),
            format!("`{key}` cannot be \"{}\"", text.get_ref()),
        );
        let quoted: Vec<_> = T::WORDS.iter().map(|word| format!("\"{word}\"")).collect();
        let all = quoted.join(", ");
        match nearest(text.get_ref(), T::WORDS) {
            Some(word) => problem.help(format!("did you mean \"{word}\"? It can be {all}")),
            None => problem.help(format!("it can be {all}")),
        };
        Setting::Wrong
    }

    /// Strings; a single one stands for a list of one. A list with something else in it is wrong.
    pub fn texts(&self, key: &str, problems: &mut Problems) -> Setting<Vec<Spanned<String>>> {
        let Some(value) = self.value(key) else {
            return Setting::Absent;
        };
        let items = match value.get_ref() {
            DeValue::String(text) => vec![Spanned::new(value.span(), text.to_string())],
            DeValue::Array(items) => {
                let mut texts = Vec::with_capacity(items.len());
                let mut is_right = true;
                for item in items.iter() {
                    match item.get_ref() {
                        DeValue::String(text) => {
                            texts.push(Spanned::new(item.span(), text.to_string()))
                        }
                        _ => {
                            is_right = false;
                            let _: Setting<()> =
                                wrong_kind(item, key, "a list of strings", problems);
                        }
                    }
                }
                if !is_right {
                    return Setting::Wrong;
                }
                texts
            }
            _ => return wrong_kind(value, key, "a string or a list of strings", problems),
        };
        Setting::Given(Spanned::new(value.span(), items))
    }

    /// Whatever is there, for forms that no other function reads.
    pub fn raw(&self, key: &str) -> Option<&'t Value<'t>> {
        self.value(key)
    }

    /// A table that stands as a value in this one.
    pub fn inner(
        &self,
        value: &'t Value<'t>,
        declared: &'static Table,
        problems: &mut Problems,
    ) -> Option<Self> {
        let DeValue::Table(table) = value.get_ref() else {
            problems
                .error(
                    value.span(),
                    format!("a table is required, not {}", kind(value.get_ref())),
                )
                .help(format!("write {}", declared.title));
            return None;
        };
        let section = Self {
            table: Some(table),
            declared,
            root: self.root,
            span: value.span(),
        };
        section.report_unknown(problems);
        Some(section)
    }

    fn read<T>(
        &self,
        key: &str,
        problems: &mut Problems,
        what: &str,
        read: impl FnOnce(&DeValue<'t>) -> Option<T>,
    ) -> Setting<T> {
        let Some(value) = self.value(key) else {
            return Setting::Absent;
        };
        match read(value.get_ref()) {
            Some(read) => Setting::Given(Spanned::new(value.span(), read)),
            None => wrong_kind(value, key, what, problems),
        }
    }

    fn report_unknown(&self, problems: &mut Problems) {
        let names: Vec<&str> = self.declared.keys.iter().map(|key| key.name).collect();
        for (name, _) in self.table.into_iter().flat_map(|table| table.iter()) {
            if self.declared.key(name.get_ref()).is_some() {
                continue;
            }
            let problem = problems.error(
                name.span(),
                format!(
                    "`{}` is not a key of {}",
                    name.get_ref(),
                    self.declared.title
                ),
            );
            problem.help(self.advice(name.get_ref(), &names));
        }
    }

    /// What to do about a key that the table has not.
    fn advice(&self, unknown: &str, names: &[&str]) -> String {
        /// A key that more tables have says nothing about where it was meant to be.
        const TABLES_MAX: usize = 3;
        if let Some(advice) = self.declared.advice(unknown) {
            return advice.to_owned();
        }
        let elsewhere = self.declared.elsewhere(self.root, unknown);
        let place = match *elsewhere {
            [] => None,
            [only] if only.title == self.root.title => Some(format!(
                "`{unknown}` is a table of its own, outside of {}",
                self.declared.title
            )),
            _ if elsewhere.len() > TABLES_MAX => None,
            _ => {
                let titles: Vec<_> = elsewhere.iter().map(|table| table.title).collect();
                Some(format!(
                    "it is a key of {}; write it there",
                    titles.join(" and of ")
                ))
            }
        };
        match (nearest(unknown, names), place) {
            (None, Some(place)) => place,
            (Some(near), None) => format!("did you mean `{near}`?"),
            (Some(near), Some(place)) => format!("did you mean `{near}`? Or {place}"),
            (None, None) => format!("its keys are {}", names.join(", ")),
        }
    }
}

/// The word that the user most likely meant, if one is near.
#[must_use]
pub fn nearest<'w>(wrong: &str, words: &[&'w str]) -> Option<&'w str> {
    const LIKENESS_MIN: f64 = 0.75;
    let wrong = wrong.to_ascii_lowercase().replace('-', "_");
    words
        .iter()
        .map(|word| (strsim::jaro_winkler(&wrong, &word.replace('-', "_")), *word))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, word)| word)
}

/// Reports a value of the wrong kind.
pub fn wrong_kind<T>(
    value: &Value<'_>,
    key: &str,
    what: &str,
    problems: &mut Problems,
) -> Setting<T> {
    problems.error(
        value.span(),
        format!("`{key}` must be {what}, not {}", kind(value.get_ref())),
    );
    Setting::Wrong
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "`true` or `false`",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
