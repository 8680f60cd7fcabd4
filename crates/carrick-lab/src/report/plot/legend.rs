//! The legend below a chart: samples of line and marker with their names, in as many rows as they need.

use super::Sheet;
use super::chart::Line;
use crate::report::svg::{self, marker};

const SAMPLE_WIDTH: f64 = 30.0;
const ROW_HEIGHT: f64 = 19.0;
/// Between the sample and its name, and between entries.
const GAP: f64 = 7.0;

/// One entry.
#[derive(PartialEq)]
pub(super) struct Entry<'a> {
    label: &'a str,
    shape: usize,
    classes: (String, String, String),
    is_published: bool,
}

impl<'a> Entry<'a> {
    pub(super) fn of(line: &'a Line) -> Self {
        Self {
            label: &line.label,
            shape: line.shape,
            classes: line.classes(),
            is_published: line.is_published,
        }
    }
}

/// Draws it at the bottom of the sheet.
pub(super) fn draw(sheet: &mut Sheet, entries: &[Entry<'_>]) {
    let (first, right) = (sheet.left(), sheet.right());
    let mut left = first;
    sheet.bottom += ROW_HEIGHT;
    for entry in entries {
        let room = right - first - SAMPLE_WIDTH - GAP;
        let lines = svg::wrap(entry.label, room);
        let widest = lines
            .iter()
            .map(|line| svg::text_width(line))
            .fold(0.0, f64::max);
        let width = SAMPLE_WIDTH + GAP + widest;
        if left > first && left + width > right {
            left = first;
            sheet.bottom += ROW_HEIGHT;
        }
        let y = sheet.bottom - 8.0;
        let (line, _, mark) = &entry.classes;
        let dash = if entry.is_published {
            String::new()
        } else {
            marker::dash(entry.shape)
        };
        let end = left + SAMPLE_WIDTH;
        sheet.body += &format!("<path class=\"{line}\"{dash} d=\"M{left:.1} {y:.1}H{end:.1}\"/>\n");
        marker::draw(
            &mut sheet.body,
            mark,
            entry.shape,
            left + SAMPLE_WIDTH / 2.0,
            y,
            None,
        );
        for (index, text) in lines.iter().enumerate() {
            if index > 0 {
                sheet.bottom += 15.0;
            }
            svg::text(&mut sheet.body, "", end + GAP, sheet.bottom - 4.0, text);
        }
        left += width + 2.0 * GAP;
    }
}
