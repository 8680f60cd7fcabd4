//! One panel of a chart: its axes, its grid, its lines.

use std::fmt::Write as _;

use super::chart::{Chart, Line, Panel, TICKS_WANTED};
use crate::report::svg::scale::Scale;
use crate::report::svg::style::COLOURS;
use crate::report::svg::{self, Anchor, marker};

/// Between the frame and the outermost points.
const INSET: f64 = 12.0;

/// Half of the width of an error bar's cap.
const CAP: f64 = 3.5;

/// Where a panel is drawn.
pub(super) struct Space {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    /// Of the frame alone.
    pub height: f64,
}

/// The frame in which points are.
struct Frame<'a> {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    x: &'a Scale,
    y: &'a Scale,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> f64 {
        let inset = INSET.min((self.right - self.left) / 8.0);
        self.left + inset + self.x.place(value) * (self.right - self.left - 2.0 * inset)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.place(value) * (self.bottom - self.top)
    }
}

impl Panel {
    /// Draws it, and returns where it ends.
    pub(super) fn draw(
        &self,
        body: &mut String,
        space: &Space,
        chart: &Chart,
        x: &Scale,
        y: &Scale,
    ) -> f64 {
        let mut top = space.top;
        if !self.title.is_empty() {
            for line in svg::wrap(&self.title, space.width) {
                top += 17.0;
                svg::text(body, "panel", space.left, top - 4.0, &line);
            }
        }
        let mut label = chart.y.label.clone();
        if let Some(low) = y.begins_above_zero(TICKS_WANTED) {
            let _ = write!(label, " (the axis begins at {low})");
        } else if chart.y.is_log
            && y.ticks(TICKS_WANTED)
                .first()
                .is_some_and(|tick| tick.value < 0.0)
        {
            label.push_str(" (not logarithmic: there are values below zero)");
        }
        for line in svg::wrap(&label, space.width) {
            top += 15.0;
            svg::text(body, "soft", space.left, top - 4.0, &line);
        }
        top += 8.0;
        let ticks = y.ticks(TICKS_WANTED);
        let tick_width = ticks
            .iter()
            .map(|tick| svg::text_width(&tick.label))
            .fold(0.0, f64::max);
        let frame = Frame {
            left: space.left + tick_width + 6.0,
            top,
            right: space.left + space.width,
            bottom: top + space.height,
            x,
            y,
        };
        for tick in &ticks {
            let at = frame.y(tick.value);
            svg::line(body, "grid", frame.left, at, frame.right, at);
            svg::anchored_text(
                body,
                "soft",
                Anchor::End,
                frame.left - 6.0,
                at + 4.0,
                &tick.label,
            );
        }
        if let Some(place) = y.break_place() {
            let at = frame.bottom - place * space.height;
            let _ = writeln!(
                body,
                "<path class=\"error axis\" d=\"M{:.1} {:.1}l8 -5M{:.1} {:.1}l8 -5\"/>",
                frame.left - 4.0,
                at + 4.5,
                frame.left - 4.0,
                at + 0.5
            );
        }
        let bottom = horizontal_axis(body, &frame, chart);
        svg::line(
            body,
            "axis",
            frame.left,
            frame.top,
            frame.left,
            frame.bottom,
        );
        // The paper's below ours.
        for line in self.lines.iter().filter(|line| line.is_published) {
            line.draw(body, &frame);
        }
        for line in self.lines.iter().filter(|line| !line.is_published) {
            line.draw(body, &frame);
        }
        bottom
    }
}

/// Draws it, and returns where its label ends.
fn horizontal_axis(body: &mut String, frame: &Frame<'_>, chart: &Chart) -> f64 {
    let is_zero_inside = frame.y.base() > 0.0 && frame.y.base() < 1.0;
    svg::line(
        body,
        "axis",
        frame.left,
        frame.bottom,
        frame.right,
        frame.bottom,
    );
    if is_zero_inside {
        svg::line(
            body,
            "axis",
            frame.left,
            frame.y(0.0),
            frame.right,
            frame.y(0.0),
        );
    }
    let width = frame.right - frame.left - 2.0 * INSET;
    let ticks = chart.x_ticks(frame.x, width);
    let room = width / (ticks.len() as f64).max(1.0);
    let mut lines_max = 1.0_f64;
    for (value, label) in &ticks {
        let x = frame.x(*value);
        svg::line(body, "axis", x, frame.bottom, x, frame.bottom + 4.0);
        let lines = if chart.x.words.is_empty() {
            vec![label.clone()]
        } else {
            svg::wrap(label, room - 4.0)
        };
        let mut y = frame.bottom + 17.0;
        for line in &lines {
            svg::anchored_text(body, "soft", Anchor::Middle, x, y, line);
            y += 13.0;
        }
        let count = lines.len() as f64;
        lines_max = lines_max.max(count);
    }
    let mut bottom = frame.bottom + 17.0 + 13.0 * (lines_max - 1.0);
    for line in svg::wrap(&chart.x.label, frame.right - frame.left) {
        bottom += 16.0;
        let middle = f64::midpoint(frame.left, frame.right);
        svg::anchored_text(body, "soft", Anchor::Middle, middle, bottom, &line);
    }
    bottom + 6.0
}

impl Line {
    pub(super) fn classes(&self) -> (String, String, String) {
        if self.is_published {
            return (
                String::from("published-line"),
                String::from("published-line"),
                String::from("published"),
            );
        }
        let colour = self.colour % COLOURS;
        (
            format!("line s{colour}"),
            format!("error s{colour}"),
            format!("mark f{colour}"),
        )
    }

    fn draw(&self, body: &mut String, frame: &Frame<'_>) {
        let (line, error, mark) = self.classes();
        let mut path = String::new();
        for (index, dot) in self.dots.iter().enumerate() {
            let command = if index == 0 || dot.is_after_gap {
                'M'
            } else {
                'L'
            };
            let _ = write!(path, "{command}{:.1} {:.1}", frame.x(dot.x), frame.y(dot.y));
        }
        if self.dots.len() > 1 {
            let dash = if self.is_published {
                String::new()
            } else {
                marker::dash(self.shape)
            };
            let _ = writeln!(body, "<path class=\"{line}\"{dash} d=\"{path}\"/>");
        }
        for dot in &self.dots {
            if let Some(width) = dot.half_width {
                error_bar(body, &error, frame, dot.x, dot.y - width, dot.y + width);
            }
        }
        for dot in &self.dots {
            marker::draw(
                body,
                &mark,
                self.shape,
                frame.x(dot.x),
                frame.y(dot.y),
                Some(&dot.tip),
            );
        }
    }
}

/// With a cap at each end, but none where the axis cuts it off.
fn error_bar(body: &mut String, class: &str, frame: &Frame<'_>, x: f64, low: f64, high: f64) {
    let x = frame.x(x);
    let (bottom, top) = (frame.y(low), frame.y(high));
    if (bottom - top).abs() < 1.0 {
        return;
    }
    let mut path = format!("M{x:.1} {bottom:.1}V{top:.1}");
    for end in [bottom, top] {
        if end > frame.top + 0.5 && end < frame.bottom - 0.5 {
            let _ = write!(path, "M{:.1} {end:.1}H{:.1}", x - CAP, x + CAP);
        }
    }
    let _ = writeln!(body, "<path class=\"{class}\" d=\"{path}\"/>");
}
