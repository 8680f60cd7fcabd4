//! What is drawn as lines over an axis: panels of lines of points, and the scales that they have in common.

use super::Heading;
use crate::report::svg::scale::Scale;
use crate::report::svg::{self};

/// About so many ticks on the vertical axis.
pub(super) const TICKS_WANTED: f64 = 5.0;

/// Lines over an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it is called.
    pub heading: Heading,
    /// The horizontal axis, of all panels.
    pub x: Horizontal,
    /// The vertical axis.
    pub y: Vertical,
    /// The panels.
    pub panels: Vec<Panel>,
}

/// A horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Horizontal {
    /// With its unit.
    pub label: String,
    /// Logarithmic, if the values allow.
    pub is_log: bool,
    /// Names of the places 0, 1, 2, … instead of numbers; empty: numbers.
    pub words: Vec<String>,
}

/// A vertical axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vertical {
    /// With its unit.
    pub label: String,
    /// Logarithmic, if the values allow.
    pub is_log: bool,
}

/// A part of a chart with axes of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Above it; empty: none.
    pub title: String,
    /// Its own vertical scale, not the one that it has in common with others.
    pub has_own_scale: bool,
    /// What is drawn.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// In the legend.
    pub label: String,
    /// Number of the colour.
    pub colour: usize,
    /// Number of marker and dashes.
    pub shape: usize,
    /// The paper's: hollow and dotted.
    pub is_published: bool,
    /// From left to right.
    pub dots: Vec<Dot>,
}

/// One point.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    /// On the horizontal axis; the number of the word, if it has words.
    pub x: f64,
    /// On the vertical axis.
    pub y: f64,
    /// Of the error bar.
    pub half_width: Option<f64>,
    /// Shown when pointed at.
    pub tip: String,
    /// The place before it was not measured: no line leads here.
    pub is_after_gap: bool,
}

impl Chart {
    pub(super) fn horizontal(&self) -> Scale {
        let values: Vec<f64> = if self.x.words.is_empty() {
            let lines = self.panels.iter().flat_map(|panel| &panel.lines);
            lines.flat_map(|line| &line.dots).map(|dot| dot.x).collect()
        } else {
            // Half a place before the first and behind the last.
            vec![-0.5, self.x.words.len() as f64 - 0.5]
        };
        let log = if self.x.is_log {
            Scale::log(&values, false)
        } else {
            None
        };
        log.unwrap_or_else(|| Scale::varied(&values))
    }

    pub(super) fn vertical<'p>(&self, panels: impl Iterator<Item = &'p Panel>) -> Scale {
        let lines: Vec<&Line> = panels.flat_map(|panel| &panel.lines).collect();
        let dots = || lines.iter().flat_map(|line| &line.dots);
        let mut values: Vec<f64> = dots().map(|dot| dot.y).collect();
        let log = if self.y.is_log {
            Scale::log(&values, true)
        } else {
            None
        };
        if let Some(scale) = log {
            return scale;
        }
        // An interval that is wider than everything else must not flatten the rest: it is cut off, and is in the table.
        let largest = values
            .iter()
            .fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        for dot in dots() {
            if let Some(width) = dot.half_width {
                let width = width.min(largest * 0.5);
                // Noise does not make what cannot be negative so.
                let low = dot.y - width;
                values.push(if lowest >= 0.0 { low.max(0.0) } else { low });
                values.push(dot.y + width);
            }
        }
        Scale::values(&values, TICKS_WANTED)
    }

    /// Ticks of the horizontal axis: at the measured values, where they have room, else at round ones.
    pub(super) fn x_ticks(&self, scale: &Scale, width: f64) -> Vec<(f64, String)> {
        if !self.x.words.is_empty() {
            let places = self.x.words.iter().enumerate();
            return places
                .map(|(index, word)| (index as f64, word.clone()))
                .collect();
        }
        let mut values: Vec<f64> = Vec::new();
        for dot in self
            .panels
            .iter()
            .flat_map(|panel| &panel.lines)
            .filter(|line| !line.is_published)
            .flat_map(|line| &line.dots)
        {
            values.push(dot.x);
        }
        values.sort_by(f64::total_cmp);
        values.dedup();
        let measured: Vec<(f64, String)> = values
            .into_iter()
            .map(|value| (value, svg::number::short(value)))
            .collect();
        if !measured.is_empty() && fits(&measured, scale, width) {
            return measured;
        }
        let mut wanted = (width / 70.0).clamp(2.0, 8.0);
        loop {
            let ticks: Vec<(f64, String)> = scale
                .ticks(wanted)
                .into_iter()
                .map(|tick| (tick.value, tick.label))
                .collect();
            if wanted <= 2.0 || fits(&ticks, scale, width) {
                return ticks;
            }
            wanted -= 1.0;
        }
    }
}

/// Whether the labels do not touch.
fn fits(ticks: &[(f64, String)], scale: &Scale, width: f64) -> bool {
    ticks.windows(2).all(|pair| {
        let [(one, one_label), (other, other_label)] = pair else {
            return true;
        };
        let room = (scale.place(*other) - scale.place(*one)) * width;
        let wide = f64::midpoint(svg::text_width(one_label), svg::text_width(other_label));
        room >= wide + 5.0
    })
}
