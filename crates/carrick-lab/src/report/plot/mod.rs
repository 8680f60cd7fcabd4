//! Plots as SVG: lines with error bars, bars, and the box of a figure of which nothing was measured.

mod bars;
mod chart;
mod empty;
mod legend;
mod lines;
mod panel;

use std::fmt::Write as _;

pub use bars::{Bar, Bars, Group, Length};
pub use chart::{Chart, Dot, Horizontal, Line, Panel, Vertical};
pub use empty::empty;

use crate::report::svg::{self, style};

/// Narrower pictures are drawn for telephones: panels below each other, shorter legends.
const NARROW: f64 = 520.0;

/// How a picture is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// In pixels of its own; pages may scale it.
    pub width: f64,
    /// With its own paper, heading and style, for a file of its own.
    pub is_alone: bool,
}

impl Look {
    /// In a page, on a screen.
    pub const WIDE: Self = Self {
        width: 760.0,
        is_alone: false,
    };
    /// In a page, on a telephone.
    pub const SLIM: Self = Self {
        width: 350.0,
        is_alone: false,
    };
    /// As a file, for a README.
    pub const ALONE: Self = Self {
        width: 760.0,
        is_alone: true,
    };

    fn is_narrow(self) -> bool {
        self.width < NARROW
    }

    fn margin(self) -> f64 {
        if self.is_alone { 20.0 } else { 4.0 }
    }
}

/// What a picture is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    /// Read aloud, and written above a picture that stands alone.
    pub title: String,
    /// Below it: how it was measured.
    pub subtitle: String,
}

/// A picture being drawn from top to bottom.
struct Sheet {
    look: Look,
    heading: Heading,
    body: String,
    /// How far it is drawn.
    bottom: f64,
}

impl Sheet {
    fn new(look: Look, heading: &Heading) -> Self {
        let mut sheet = Self {
            look,
            heading: heading.clone(),
            body: String::new(),
            bottom: if look.is_alone { 14.0 } else { 2.0 },
        };
        if look.is_alone {
            // The letters of a title are a third wider than those of other text.
            let room = sheet.inner_width();
            sheet.paragraph("title", &heading.title, room / 1.3, 21.0);
            sheet.paragraph("soft", &heading.subtitle, room, 15.0);
            sheet.bottom += 10.0;
        }
        sheet
    }

    fn left(&self) -> f64 {
        self.look.margin()
    }

    fn right(&self) -> f64 {
        self.look.width - self.look.margin()
    }

    fn inner_width(&self) -> f64 {
        self.right() - self.left()
    }

    /// Text in as many lines as it needs.
    fn paragraph(&mut self, class: &str, content: &str, width: f64, line_height: f64) {
        for line in svg::wrap(content, width) {
            self.bottom += line_height;
            let (left, y) = (self.left(), self.bottom);
            svg::text(&mut self.body, class, left, y - 4.0, &line);
        }
    }

    fn finish(self) -> String {
        let width = self.look.width;
        let height = (self.bottom + if self.look.is_alone { 16.0 } else { 4.0 }).ceil();
        let title = svg::escape(&self.heading.title);
        let mut picture = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">"
        );
        if self.look.is_alone {
            // Writing to a string cannot fail.
            let _ = write!(
                picture,
                "<title>{title}</title><style>{}</style><rect class=\"paper\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>",
                style::alone()
            );
        }
        picture + "\n" + &self.body + "</svg>\n"
    }
}

#[cfg(test)]
mod tests;
