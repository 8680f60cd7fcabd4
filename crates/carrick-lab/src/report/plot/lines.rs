//! Lines over an axis, with error bars: one panel, or several where there are too many lines for one.

use super::chart::Chart;
use super::legend::{self, Entry};
use super::{Look, Sheet};

/// Between panels.
const GAP: f64 = 26.0;

impl Chart {
    /// Draws it.
    #[must_use]
    pub fn to_svg(&self, look: Look) -> String {
        let mut sheet = Sheet::new(look, &self.heading);
        let columns = if self.panels.len() == 1 || look.is_narrow() {
            1
        } else {
            2
        };
        let width = (sheet.inner_width() - GAP * (f64::from(columns) - 1.0)) / f64::from(columns);
        let height = match (columns, look.is_narrow()) {
            (1, false) => 300.0,
            (_, true) => 220.0,
            (_, false) => 210.0,
        };
        let horizontal = self.horizontal();
        let common = self.vertical(self.panels.iter().filter(|panel| !panel.has_own_scale));
        let columns = if columns == 1 { 1 } else { 2 };
        for row in self.panels.chunks(columns) {
            let mut bottom = sheet.bottom;
            let mut left = sheet.left();
            for panel in row {
                let scale = match panel.has_own_scale {
                    true => &self.vertical(std::iter::once(panel)),
                    false => &common,
                };
                let space = super::panel::Space {
                    left,
                    top: sheet.bottom,
                    width,
                    height,
                };
                let end = panel.draw(&mut sheet.body, &space, self, &horizontal, scale);
                bottom = bottom.max(end);
                left += width + GAP;
            }
            sheet.bottom = bottom + 8.0;
        }
        self.legend(&mut sheet);
        sheet.finish()
    }

    fn legend(&self, sheet: &mut Sheet) {
        let mut entries: Vec<Entry<'_>> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            let entry = Entry::of(line);
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        // A single line needs no legend where the heading says it all, but the reader cannot know that.
        legend::draw(sheet, &entries);
        if self
            .panels
            .iter()
            .flat_map(|panel| &panel.lines)
            .flat_map(|line| &line.dots)
            .any(|dot| dot.half_width.is_some())
        {
            let width = sheet.inner_width();
            sheet.paragraph(
                "soft",
                "Error bars: 90 % confidence intervals of the means.",
                width,
                16.0,
            );
        }
    }
}
