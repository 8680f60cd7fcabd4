//! Bars, side by side for each place of the axis. They lie, so that their names have room and no legend is needed.

use super::{Heading, Look, Sheet};
use crate::report::svg::scale::Scale;
use crate::report::svg::style::COLOURS;
use crate::report::svg::{self, Anchor, number};

const STEP: f64 = 20.0;
const HEIGHT: f64 = 13.0;
/// Room behind the longest bar for its value.
const VALUE_WIDTH: f64 = 70.0;

/// Groups of bars with one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What it is called.
    pub heading: Heading,
    /// The axis along which the bars lie, with its unit.
    pub label: String,
    /// Logarithmic, if the values allow.
    pub is_log: bool,
    /// A scale for each group, which has values of another kind.
    pub has_own_scales: bool,
    /// From top to bottom.
    pub groups: Vec<Group>,
}

/// The bars for one place of the figure's horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Above them.
    pub title: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Before it.
    pub label: String,
    /// Number of the colour.
    pub colour: usize,
    /// The paper's: hollow.
    pub is_published: bool,
    /// How long it is.
    pub length: Length,
}

/// How long a bar is.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    /// A value, with the half width of its confidence interval.
    Value(f64, Option<f64>),
    /// None: why.
    Nothing(String),
}

impl Bars {
    /// Draws it.
    #[must_use]
    pub fn to_svg(&self, look: Look) -> String {
        let mut sheet = Sheet::new(look, &self.heading);
        let share = if look.is_narrow() { 0.42 } else { 0.34 };
        let labels = self
            .groups
            .iter()
            .flat_map(|group| &group.bars)
            .map(|bar| &bar.label);
        let widest = labels
            .map(|label| svg::text_width(label))
            .fold(40.0, f64::max);
        let label_width = widest.min(sheet.inner_width() * share);
        let left = sheet.left() + label_width + 8.0;
        let width = (sheet.right() - left - VALUE_WIDTH).max(40.0);
        let wanted = (width / 80.0).clamp(2.0, 6.0);
        let room = sheet.inner_width();
        let label = if self.is_log {
            format!("{} (logarithmic)", self.label)
        } else {
            self.label.clone()
        };
        sheet.paragraph("soft", &label, room, 15.0);
        let common = self.scale(&self.groups);
        let mut bars = String::new();
        for (index, group) in self.groups.iter().enumerate() {
            let scale = match self.has_own_scales {
                true => &self.scale(std::slice::from_ref(group)),
                false => &common,
            };
            let base = left + scale.base() * width;
            let ticks = scale.ticks(wanted);
            if !group.title.is_empty() {
                sheet.bottom += 24.0;
                svg::text(
                    &mut bars,
                    "panel",
                    sheet.left(),
                    sheet.bottom - 5.0,
                    &group.title,
                );
            }
            let top = sheet.bottom;
            for bar in &group.bars {
                let lines = svg::wrap(&bar.label, label_width);
                bar.draw(&mut bars, left, sheet.bottom + 3.0, width, scale);
                for (index, line) in lines.iter().enumerate() {
                    if index > 0 {
                        sheet.bottom += 14.0;
                    }
                    svg::text(&mut bars, "", sheet.left(), sheet.bottom + 14.0, line);
                }
                sheet.bottom += STEP;
            }
            for tick in &ticks {
                let x = left + scale.place(tick.value) * width;
                svg::line(&mut sheet.body, "grid", x, top, x, sheet.bottom);
            }
            svg::line(&mut sheet.body, "axis", base, top, base, sheet.bottom);
            if self.has_own_scales || index + 1 == self.groups.len() {
                let bottom = sheet.bottom;
                for tick in &ticks {
                    let x = left + scale.place(tick.value) * width;
                    svg::anchored_text(
                        &mut sheet.body,
                        "soft",
                        Anchor::Middle,
                        x,
                        bottom + 15.0,
                        &tick.label,
                    );
                }
                sheet.bottom = bottom + 20.0;
            }
        }
        sheet.body += &bars;
        if self.has_intervals() {
            sheet.paragraph(
                "soft",
                "Whiskers: 90 % confidence intervals of the means.",
                room,
                16.0,
            );
        }
        sheet.finish()
    }

    fn has_intervals(&self) -> bool {
        let mut bars = self.groups.iter().flat_map(|group| &group.bars);
        bars.any(|bar| matches!(bar.length, Length::Value(_, Some(_))))
    }

    fn scale(&self, groups: &[Group]) -> Scale {
        let mut values = Vec::new();
        for bar in groups.iter().flat_map(|group| &group.bars) {
            if let Length::Value(value, half_width) = bar.length {
                let width = half_width.unwrap_or(0.0).min(value.abs());
                values.extend([value - width, value + width]);
            }
        }
        let log = if self.is_log {
            // The shortest bar has a length, too.
            let lowest = values.iter().copied().filter(|value| *value > 0.0);
            let below = lowest.fold(f64::INFINITY, f64::min) / 1.5;
            let with_room: Vec<f64> = values.iter().copied().chain([below]).collect();
            Scale::log(&with_room, true)
        } else {
            None
        };
        log.unwrap_or_else(|| {
            // The length of a bar means something only from zero.
            values.push(0.0);
            Scale::values(&values, 5.0)
        })
    }
}

impl Bar {
    fn draw(&self, body: &mut String, left: f64, top: f64, width: f64, scale: &Scale) {
        let base = left + scale.base() * width;
        let (value, half_width) = match &self.length {
            Length::Value(value, half_width) => (*value, *half_width),
            Length::Nothing(why) => {
                svg::text(body, "soft", base + 6.0, top + 11.0, why);
                return;
            }
        };
        let end = left + scale.place(value) * width;
        let class = if self.is_published {
            String::from("published-bar")
        } else {
            format!("f{}", self.colour % COLOURS)
        };
        let (from, to) = (base.min(end), base.max(end));
        svg::rectangle(body, &class, from, top, to - from, HEIGHT);
        let mut right = to;
        if let Some(half_width) = half_width.filter(|half_width| *half_width > 0.0) {
            let low = left + scale.place(value - half_width) * width;
            let high = left + scale.place(value + half_width) * width;
            if high - low > 1.5 {
                svg::whisker(body, low, high, top + HEIGHT / 2.0);
                right = right.max(high);
            }
        }
        svg::text(body, "", right + 6.0, top + 11.0, &number::short(value));
    }
}
