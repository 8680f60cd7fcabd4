//! PEM files: their blocks, each with its place, so that a message can name the line.
use crate::config::problem::{Problem, Severity, Source};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Most bytes of such a file; a list of all authorities of the Web has a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a block begins with.
const BEGIN: &str = "-----BEGIN ";

/// A file that was read.
#[derive(Debug)]
pub struct PemFile {
    source: Arc<Source>,
}

/// From a BEGIN line to its END line, or to whatever is there instead.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'f> {
    /// Such as `CERTIFICATE`.
    pub label: &'f str,
    /// With both lines.
    pub text: &'f str,
    /// Where it is in the file.
    pub span: Range<usize>,
}

impl PemFile {
    /// Reads a file; `what` is for messages, such as "certificate".
    ///
    /// # Errors
    /// It cannot be read, or has no block at all.
    pub fn read(path: &Path, what: &str) -> Result<Self, Box<Problem>> {
        let bytes = read(path, what)?;
        let text = String::from_utf8(bytes)
            .ok()
            .filter(|text| text.contains(BEGIN));
        let Some(text) = text else {
            let message = format!("the {what} file {} is not a PEM file", path.display());
            return Err(whole(
                message,
                "it has no line \"-----BEGIN …-----\"; `openssl x509 -inform DER`, `openssl pkey -inform DER` and `openssl pkcs12` convert other forms",
            ));
        };
        Ok(Self::of(text, path.display().to_string()))
    }

    /// A file with this text.
    pub fn of(text: String, name: String) -> Self {
        let source = Arc::new(Source {
            name,
            text,
            is_secret: true,
        });
        Self { source }
    }

    /// Its name for messages.
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// Its blocks.
    pub fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let text = self.source.text.as_str();
        let starts: Vec<usize> = text
            .match_indices(BEGIN)
            .map(|(at, _)| at)
            .filter(|at| *at == 0 || text[..*at].ends_with('\n'))
            .collect();
        let ends = starts.clone().into_iter().skip(1).chain([text.len()]);
        starts.into_iter().zip(ends).map(move |(start, next)| {
            let text = &text[start..next];
            let label = text[BEGIN.len()..]
                .split("-----")
                .next()
                .unwrap_or_default();
            let end = format!("-----END {label}-----");
            let length = text.find(&end).map_or(text.len(), |at| at + end.len());
            Block {
                label,
                text: &text[..length],
                span: start..start + length,
            }
        })
    }

    /// A problem at a place of it.
    pub fn problem(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        help: &str,
    ) -> Box<Problem> {
        let mut problem = Problem::new(Severity::Error, message);
        problem.at(&self.source, span).help(help);
        Box::new(problem)
    }
}

/// A problem with a file as a whole.
pub fn whole(message: impl Into<String>, help: &str) -> Box<Problem> {
    let mut problem = Problem::new(Severity::Error, message);
    problem.help(help);
    Box::new(problem)
}

/// Reads any file of at most a megabyte.
///
/// # Errors
/// It cannot be read, or is longer.
pub fn read(path: &Path, what: &str) -> Result<Vec<u8>, Box<Problem>> {
    read_at_most(path, what, FILE_BYTES_MAX)
}

/// Reads any file of at most so many bytes.
///
/// # Errors
/// It cannot be read, or is longer.
pub fn read_at_most(path: &Path, what: &str, bytes_max: u64) -> Result<Vec<u8>, Box<Problem>> {
    let mut bytes = Vec::new();
    let result =
        std::fs::File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes));
    let reason = match result {
        Ok(_) if bytes.len() as u64 <= bytes_max => return Ok(bytes),
        Ok(_) => format!("it is longer than {bytes_max} bytes"),
        Err(error) => error.to_string(),
    };
    Err(whole(
        format!(
            "the {what} file {} cannot be read: {reason}",
            path.display()
        ),
        "a relative path is relative to the configuration file; carrick's user must be able to read it, also after a reload",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Vec<(String, String, usize)> {
        let file = PemFile::of(text.to_owned(), "test.pem".to_owned());
        let found = file.blocks().map(|block| {
            let problem = file.problem(block.span.clone(), "wrong", "right");
            let (line, _) = problem.line_and_column().unwrap();
            (block.label.to_owned(), block.text.to_owned(), line)
        });
        found.collect()
    }

    #[test]
    fn blocks_have_labels_and_lines() {
        let text = "subject=x\n-----BEGIN A-----\nAAAA\n-----END A-----\n\n-----BEGIN B C-----\r\nBBBB\r\n-----END B C-----\r\nrest";
        let expected = [
            ("A", "-----BEGIN A-----\nAAAA\n-----END A-----", 2),
            ("B C", "-----BEGIN B C-----\r\nBBBB\r\n-----END B C-----", 6),
        ];
        let expected =
            expected.map(|(label, text, line)| (label.to_owned(), text.to_owned(), line));
        assert_eq!(blocks(text), expected);
    }

    #[test]
    fn a_block_without_an_end_ends_before_the_next_one() {
        let text = "-----BEGIN A-----\nAAAA\n-----BEGIN B-----\nBBBB\n-----END B-----\n";
        let found = blocks(text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].1, "-----BEGIN A-----\nAAAA\n");
        assert!(blocks("nothing -----BEGIN A-----").is_empty());
    }
}
