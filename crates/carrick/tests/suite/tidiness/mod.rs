//! The repository itself: files say what they are for, the map is complete, documents are correct and reachable.
mod documents;
mod examples;
mod files;
mod imports;
mod markdown;

use std::path::{Path, PathBuf};

/// Directories with generated files.
const MADE: [&str; 7] = [
    "target",
    ".git",
    "corpus",
    "bench-results",
    "lab-results",
    "artifacts",
    "coverage",
];

/// The repository's root.
fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    crates
        .ancestors()
        .nth(2)
        .expect("the crate is two below the root")
        .to_owned()
}

/// A file of the repository.
struct Written {
    /// Relative to the root, with `/`.
    name: String,
    text: String,
}

impl Written {
    fn extension(&self) -> &str {
        Path::new(&self.name)
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or_default()
    }
}

/// All text files, sorted by name.
fn written() -> Vec<Written> {
    let mut files = Vec::new();
    collect(&root(), "", &mut files);
    files.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(files.len() > 100, "only {} files were found", files.len());
    files
}

fn collect(directory: &Path, prefix: &str, files: &mut Vec<Written>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() && !MADE.contains(&name.as_str()) {
            collect(&entry.path(), &format!("{prefix}{name}/"), files);
        } else if kind.is_file()
            && !MADE.contains(&name.as_str())
            // Files that are not text are samples of network traffic.
            && let Ok(text) = std::fs::read_to_string(entry.path())
        {
            files.push(Written {
                name: format!("{prefix}{name}"),
                text,
            });
        }
    }
}

/// All Markdown files.
fn documents() -> Vec<Written> {
    written()
        .into_iter()
        .filter(|file| file.extension() == "md")
        .collect()
}

/// Fails with all complaints, one per line.
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
