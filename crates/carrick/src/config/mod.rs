//! The configuration, in three steps: `file` as it is written, `check` for what does not go together, `plan` as it is used.
//!
//! Invariant: nothing here speaks to another machine or looks up the name of a host; files and the machine's users, interfaces,
//! memory and cores are read when the configuration is loaded, and not again.
mod built_in;
mod check;
pub mod file;
pub mod in_kernel;
pub mod keys;
mod kinds;
pub mod plan;
pub mod problem;
mod reader;
pub mod section;
mod setting;
pub mod site;
pub mod summary;
pub mod tls;
pub mod users;
pub mod values;
pub mod word;

pub use reader::nearest;

use file::File;
use keys::Table;
use plan::Plan;
use problem::{Problem, Problems, Severity, Source};
use reader::Section;
use section::{Keys, Written};
use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use toml::de::DeTable;

/// Most bytes of a configuration file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A configuration that can be used.
#[derive(Debug)]
pub struct Loaded {
    /// What to do.
    pub plan: Plan,
    /// Warnings and notes, in the order of the file.
    pub problems: Vec<Problem>,
}

/// Why a configuration cannot be used: at least one error, and all warnings and notes.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// In the order of the file.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Rejected {
    /// One line for each error, for logs; `problem::render` shows more.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self
            .problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error);
        for (index, problem) in errors.enumerate() {
            write!(out, "{}{problem}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejected {}

/// All tables of the file with their keys, in the order of the documentation.
#[must_use]
pub fn tables() -> Vec<&'static Table> {
    File::TABLE.all()
}

/// The reference of all keys, in Markdown: all tables, each below its title.
#[must_use]
pub fn reference() -> String {
    let mut text = String::new();
    for table in tables() {
        let _ = write!(text, "## `{}`\n\n{}\n", table.title, table.markdown());
    }
    text
}

/// Loads a configuration file, or the built-in configuration if there is none. Reads files; blocks.
///
/// # Errors
/// With everything that is wrong, if carrick cannot run with it.
pub fn load(path: Option<&Path>) -> Result<Loaded, Rejected> {
    let Some(path) = path else {
        return Ok(Loaded {
            plan: Plan::built_in(),
            problems: Vec::new(),
        });
    };
    let text = read(path).map_err(|reason| {
        let message = format!("{} cannot be read: {reason}", path.display());
        let help = match reason.kind() {
            io::ErrorKind::PermissionDenied => "let this user read the file and enter its folders, such as by `chown root:carrick` and `chmod 640`, or run carrick as another user",
            io::ErrorKind::InvalidData => "save it in UTF-8, as TOML demands",
            _ => "name a configuration file in TOML; without -c carrick runs as a forward proxy on 127.0.0.1:3128",
        };
        let mut problem = Problem::new(Severity::Error, message);
        problem.help(help);
        Rejected { problems: vec![problem] }
    })?;
    let directory = path.parent().unwrap_or(Path::new(""));
    parse(&text, &path.display().to_string(), directory)
}

/// Makes a plan from the text of a configuration file; relative paths in it are relative to `directory`.
///
/// # Errors
/// With everything that is wrong, if carrick cannot run with it.
pub fn parse(text: &str, name: &str, directory: &Path) -> Result<Loaded, Rejected> {
    let source = Arc::new(Source {
        name: name.to_owned(),
        text: text.to_owned(),
        is_secret: false,
    });
    let mut problems = Problems::new(source);
    let (document, mistakes) = DeTable::parse_recoverable(text);
    for mistake in &mistakes {
        report_syntax(mistake, text, &mut problems);
    }
    // What the parser made of wrong syntax would be checked wrongly.
    let plan = if mistakes.is_empty() {
        let root = Section::root(document.get_ref(), File::TABLE, &mut problems);
        let file = Written::of(&root, &mut problems);
        check::check(&file, directory, &mut problems)
    } else {
        None
    };
    let problems = problems.into_sorted();
    match plan {
        Some(plan) => Ok(Loaded { plan, problems }),
        None => Err(Rejected { problems }),
    }
}

fn report_syntax(mistake: &toml::de::Error, text: &str, problems: &mut Problems) {
    let span = mistake.span().unwrap_or(0..0);
    let message = mistake.message().lines().next().unwrap_or_default();
    let problem = problems.error(span.clone(), format!("this is not TOML: {message}"));
    let written = text.get(span).unwrap_or_default();
    if message.contains("must be quoted") && !written.contains(['"', '\'', '\n']) {
        problem.help(format!("write \"{}\"", written.trim()));
    }
}

fn read(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    if file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)? as u64 > FILE_BYTES_MAX {
        let error = format!("it is longer than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::other(error));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let error = format!("line {line} is not UTF-8");
        io::Error::new(io::ErrorKind::InvalidData, error)
    })
}
