//! Configuration: shipped files, every key, every mistake, and the commands.
mod cache;
mod command;
mod documentation;
mod examples;
mod keys;
mod links;
mod meaning;
mod mistakes;
mod requests;
mod rows;
mod splitting;
mod torn;
mod transparent;

use carrick::config::problem::render;
use carrick::config::{self, Loaded, Rejected};
use std::path::{Path, PathBuf};

/// The directory of the shipped files.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config")
}

fn parse(text: &str) -> Result<Loaded, Rejected> {
    config::parse(text, "test.toml", &examples())
}

/// Parses a text that must be valid.
fn parse_right(text: &str) -> Loaded {
    parse(text).unwrap_or_else(|rejected| panic!("{}\n{text}", render(&rejected.problems, false)))
}

/// A plan as text, to compare two.
fn shown(loaded: &Loaded) -> String {
    format!("{:#?}", loaded.plan)
}
