//! Tables in text: columns as wide as their fields.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// A table without lines for a terminal; the first of the lines is its head. So many columns from the left are of words, all others of numbers.
#[must_use]
pub fn plain(lines: &[Vec<String>], words: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for line in lines {
        let fields = line.iter().enumerate();
        table.add_row(fields.map(|(column, field)| {
            Cell::new(field).set_alignment(if column < words {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            })
        }));
    }
    table.trim_fmt() + "\n"
}

/// A table in Markdown; the first of the lines is its head.
#[must_use]
pub fn markdown(lines: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let mut lines = lines.iter();
    if let Some(head) = lines.next() {
        table.set_header(head);
    }
    table.add_rows(lines);
    table.to_string() + "\n"
}

#[cfg(test)]
mod tests;
