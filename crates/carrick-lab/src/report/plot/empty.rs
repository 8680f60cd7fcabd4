//! The box of a figure of which nothing was measured: it says why, and nothing is drawn.

use super::{Heading, Look, Sheet};
use crate::report::svg;

/// Draws it.
#[must_use]
pub fn empty(heading: &Heading, reason: &str, look: Look) -> String {
    const HEIGHT: f64 = 110.0;
    let mut sheet = Sheet::new(look, heading);
    let (left, top, width) = (sheet.left(), sheet.bottom, sheet.inner_width());
    svg::rectangle(&mut sheet.body, "box", left, top, width, HEIGHT);
    let lines = svg::wrap(reason, width - 40.0);
    let mut y = top + HEIGHT / 2.0 + 4.0 - (lines.len() as f64 - 1.0) * 8.0;
    for line in &lines {
        let middle = left + width / 2.0;
        svg::anchored_text(
            &mut sheet.body,
            "soft",
            svg::Anchor::Middle,
            middle,
            y,
            line,
        );
        y += 16.0;
    }
    sheet.bottom = top + HEIGHT;
    sheet.finish()
}
