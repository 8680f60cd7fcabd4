//! The access log of a test: JSON lines in the order in which they were written.
use super::carrick::ACCESS_LOG;
use super::{Carrick, wait_for};
use serde_json::Value;

/// One line.
#[derive(Debug, Clone)]
pub struct Line(pub Value);

impl Line {
    /// A field as text; empty if it is null.
    pub fn text(&self, key: &str) -> &str {
        self.value(key).as_str().unwrap_or_default()
    }

    /// A field as a number.
    pub fn number(&self, key: &str) -> u64 {
        self.value(key)
            .as_u64()
            .unwrap_or_else(|| panic!("{key} is not a number in {self:?}"))
    }

    /// A field.
    pub fn value(&self, key: &str) -> &Value {
        self.0
            .get(key)
            .unwrap_or_else(|| panic!("{key} is missing in {self:?}"))
    }

    /// The status.
    pub fn status(&self) -> u64 {
        self.number("status")
    }
}

impl Carrick {
    /// Waits until the log has at least `count` lines; returns all of them.
    pub fn access_log(&self, count: usize) -> Vec<Line> {
        let path = self.directory().join(ACCESS_LOG);
        wait_for(&format!("{count} lines of access log"), || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<Line> = text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
                .map(|line| {
                    Line(
                        serde_json::from_str(line)
                            .unwrap_or_else(|error| panic!("{error}: {line}")),
                    )
                })
                .collect();
            (lines.len() >= count).then_some(lines)
        })
    }
}
