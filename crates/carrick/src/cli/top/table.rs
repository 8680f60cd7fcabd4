//! Text tables with columns of fixed width.
use super::line::{Line, Style, cut};

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name.
    pub heading: String,
    /// In characters.
    pub width: usize,
    is_left: bool,
}

impl Column {
    /// Left-aligned, for words.
    pub fn left(heading: impl Into<String>, width: usize) -> Self {
        Self {
            heading: heading.into(),
            width,
            is_left: true,
        }
    }

    /// Right-aligned, for numbers.
    pub fn right(heading: impl Into<String>, width: usize) -> Self {
        Self {
            is_left: false,
            ..Self::left(heading, width)
        }
    }
}

/// Rows below their headings.
#[derive(Debug, Clone)]
pub struct Table {
    /// From left to right.
    pub columns: Vec<Column>,
    /// A cell for each column; missing cells at the end are empty.
    pub rows: Vec<Vec<String>>,
    /// Rows that were already omitted.
    pub more: usize,
}

impl Table {
    /// The heading, as wide as there is room, and the first rows. The heading ends with the number of omitted rows.
    pub fn lines(&self, width: usize, is_utf8: bool, rows_max: usize) -> Vec<Line> {
        let headings: Vec<&str> = (self.columns.iter())
            .map(|column| &*column.heading)
            .collect();
        let mut heading = self.row(&headings, is_utf8);
        let hidden = self.more + self.rows.len().saturating_sub(rows_max);
        if hidden > 0 {
            let suffix = format!("  +{hidden}");
            let room = width.saturating_sub(suffix.len());
            if heading.chars().count() > room {
                heading = heading.chars().take(room).collect();
            }
            heading.push_str(&suffix);
        }
        let rows = self.rows.iter().take(rows_max).map(|row| {
            let cells: Vec<&str> = row.iter().map(|cell| &**cell).collect();
            (Style::Plain, self.row(&cells, is_utf8))
        });
        let lines = std::iter::once((Style::Heading, heading)).chain(rows);
        lines
            .map(|(style, mut text)| {
                cut(&mut text, width, is_utf8);
                Line { style, text }
            })
            .collect()
    }

    fn row(&self, cells: &[&str], is_utf8: bool) -> String {
        let mut text = String::new();
        for (column, cell) in self.columns.iter().zip(cells) {
            let mut cell = (*cell).to_owned();
            cut(&mut cell, column.width, is_utf8);
            let padding = " ".repeat(column.width - cell.chars().count());
            if !text.is_empty() {
                text.push(' ');
            }
            if column.is_left {
                text.push_str(&cell);
                text.push_str(&padding);
            } else {
                text.push_str(&padding);
                text.push_str(&cell);
            }
        }
        text.truncate(text.trim_end().len());
        text
    }
}
