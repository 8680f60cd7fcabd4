//! A chart of horizontal bars as SVG: rows of panels, each with its own axis, whiskers and a target mark.

use crate::report::svg::number::short;
use crate::report::svg::scale::nice_step;
use crate::report::svg::{
    Anchor, anchored_text, escape, line, rectangle, text, text_width, whisker,
};

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
const LABEL_WIDTH: f64 = 140.0;
const PANEL_GAP: f64 = 28.0;
/// Room behind the longest bar for its value.
const VALUE_WIDTH: f64 = 62.0;
const HEADER_HEIGHT: f64 = 92.0;
const ROW_TITLE_HEIGHT: f64 = 44.0;
const BAR_STEP: f64 = 21.0;
const BAR_HEIGHT: f64 = 14.0;
const AXIS_HEIGHT: f64 = 34.0;
const GRID_LINES_WANTED: f64 = 4.0;

/// Colours with clearly different lightness, so that they stay apart in grey; every bar bears its name, besides.
const STYLE: &str = "\
svg{--paper:#fff;--ink:#1c2430;--soft:#5c6675;--grid:#e3e7ec;--carrick:#0b4f8a;--haproxy:#d98324;--nginx:#4f9d69;--squid:#a35d9c;--target:#c22f2f}\
@media(prefers-color-scheme:dark){svg{--paper:#14181f;--ink:#e8ecf2;--soft:#9aa5b4;--grid:#2b323d;--carrick:#6cb8f5;--haproxy:#c97a2a;--nginx:#3f8659;--squid:#9a5793;--target:#ff7b72}}\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:var(--ink)}\
.paper{fill:var(--paper)}.title{font-size:19px;font-weight:650}.row{font-size:14px;font-weight:600}.soft{fill:var(--soft);font-size:11px}\
.judged{font-weight:700}.grid{stroke:var(--grid)}.axis{stroke:var(--soft)}.whisker{stroke:var(--ink);stroke-width:1.2;fill:none}\
.target{stroke:var(--target);stroke-width:2.4}.halo{stroke:var(--paper);stroke-width:5}.failed{fill:var(--target);font-weight:700}\
.routed{fill:none;stroke:var(--soft);stroke-width:1.2;stroke-dasharray:4 3}\
.carrick{fill:var(--carrick)}.haproxy{fill:var(--haproxy)}.nginx{fill:var(--nginx)}.squid{fill:var(--squid)}";

/// A whole picture.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    pub subtitle: String,
    pub rows: Vec<Row>,
}

/// One line of panels that show the same bars by different figures.
#[derive(Clone, Debug)]
pub struct Row {
    pub title: String,
    pub panels: Vec<Panel>,
}

/// One axis.
#[derive(Clone, Debug)]
pub struct Panel {
    pub unit: String,
    pub bars: Vec<Bar>,
    /// Where the judged bar should at least, or at most, end.
    pub target: Option<f64>,
}

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    pub label: &'static str,
    /// The style's class.
    pub class: &'static str,
    /// The class's name in the legend.
    pub legend: &'static str,
    pub is_judged: bool,
    pub value: Value,
}

/// How long a bar is.
#[derive(Clone, Debug)]
pub enum Value {
    Failed,
    Measured { median: f64, min: f64, max: f64 },
}

impl Chart {
    /// Draws it.
    pub fn to_svg(&self) -> String {
        let height = HEADER_HEIGHT + self.rows.iter().map(Row::height).sum::<f64>() + MARGIN;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             role=\"img\"><title>{}</title><style>{STYLE}</style>\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n",
            escape(&self.title)
        );
        text(&mut svg, "title", MARGIN, 34.0, &self.title);
        text(&mut svg, "soft", MARGIN, 54.0, &self.subtitle);
        self.legend(&mut svg);
        let mut top = HEADER_HEIGHT;
        for row in &self.rows {
            row.draw(&mut svg, top);
            top += row.height();
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn legend(&self, svg: &mut String) {
        const TOP: f64 = 68.0;
        const SAMPLE_WIDTH: f64 = 22.0;
        const SAMPLE_HEIGHT: f64 = 11.0;
        let bars = || {
            self.rows
                .iter()
                .flat_map(|row| &row.panels)
                .flat_map(|panel| &panel.bars)
        };
        let mut left = MARGIN;
        let mut classes: Vec<(&str, &str)> = Vec::new();
        for bar in bars() {
            if !classes.contains(&(bar.class, bar.legend)) {
                classes.push((bar.class, bar.legend));
            }
        }
        for (class, legend) in classes {
            rectangle(svg, class, left, TOP, SAMPLE_WIDTH, SAMPLE_HEIGHT);
            text(svg, "", left + SAMPLE_WIDTH + 6.0, TOP + 10.0, legend);
            left += SAMPLE_WIDTH + 24.0 + text_width(legend);
        }
        whisker(svg, left, left + SAMPLE_WIDTH, TOP + SAMPLE_HEIGHT / 2.0);
        text(
            svg,
            "",
            left + SAMPLE_WIDTH + 6.0,
            TOP + 10.0,
            "lowest to highest run",
        );
        left += 172.0;
        if self
            .rows
            .iter()
            .flat_map(|row| &row.panels)
            .any(|panel| panel.target.is_some())
        {
            line(
                svg,
                "target",
                left + 4.0,
                TOP - 2.0,
                left + 4.0,
                TOP + SAMPLE_HEIGHT + 2.0,
            );
            text(svg, "", left + 12.0, TOP + 10.0, "target for carrick-auto");
        }
    }
}

impl Row {
    /// Peers that have a bar in any of the panels, in order.
    fn labels(&self) -> Vec<&Bar> {
        let mut labels: Vec<&Bar> = Vec::new();
        for panel in &self.panels {
            for bar in &panel.bars {
                if !labels.iter().any(|known| known.label == bar.label) {
                    labels.push(bar);
                }
            }
        }
        labels
    }

    #[expect(clippy::cast_precision_loss, reason = "a handful of bars")]
    fn bars_height(&self) -> f64 {
        self.labels().len() as f64 * BAR_STEP
    }

    fn height(&self) -> f64 {
        ROW_TITLE_HEIGHT + self.bars_height() + AXIS_HEIGHT
    }

    #[expect(clippy::cast_precision_loss, reason = "a handful of panels and bars")]
    fn draw(&self, svg: &mut String, top: f64) {
        text(svg, "row", MARGIN, top + 18.0, &self.title);
        let labels = self.labels();
        let bars_top = top + ROW_TITLE_HEIGHT;
        for (index, bar) in labels.iter().enumerate() {
            let class = if bar.is_judged { "judged" } else { "" };
            text(
                svg,
                class,
                MARGIN,
                bars_top + index as f64 * BAR_STEP + 12.0,
                bar.label,
            );
        }
        let count = self.panels.len() as f64;
        let room = WIDTH - 2.0 * MARGIN - LABEL_WIDTH - PANEL_GAP * (count - 1.0).max(0.0);
        let width = room / count.max(1.0);
        for (index, panel) in self.panels.iter().enumerate() {
            let left = MARGIN + LABEL_WIDTH + index as f64 * (width + PANEL_GAP);
            let frame = Frame {
                left,
                top: bars_top,
                width: width - VALUE_WIDTH,
                height: self.bars_height(),
            };
            panel.draw(svg, &frame, &labels);
        }
    }
}

struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Panel {
    fn largest(&self) -> f64 {
        self.bars
            .iter()
            .map(|bar| match bar.value {
                Value::Measured { max, .. } => max,
                Value::Failed => 0.0,
            })
            .chain(self.target)
            .fold(0.0, f64::max)
    }

    #[expect(clippy::cast_precision_loss, reason = "a handful of bars")]
    fn draw(&self, svg: &mut String, frame: &Frame, labels: &[&Bar]) {
        let largest = self.largest();
        let scale = if largest > 0.0 {
            frame.width / largest
        } else {
            0.0
        };
        text(svg, "soft", frame.left, frame.top - 8.0, &self.unit);
        let step = nice_step(largest, GRID_LINES_WANTED);
        let mut tick = 0.0;
        while tick <= largest && step > 0.0 {
            let x = frame.left + tick * scale;
            let bottom = frame.top + frame.height;
            line(
                svg,
                if tick == 0.0 { "axis" } else { "grid" },
                x,
                frame.top - 2.0,
                x,
                bottom,
            );
            anchored_text(svg, "soft", Anchor::Middle, x, bottom + 14.0, &short(tick));
            tick += step;
        }
        for (index, label) in labels.iter().enumerate() {
            let Some(bar) = self.bars.iter().find(|bar| bar.label == label.label) else {
                continue;
            };
            let top = frame.top + index as f64 * BAR_STEP + 1.0;
            let target = self
                .target
                .filter(|_| bar.is_judged)
                .map(|target| frame.left + target * scale);
            bar.draw(svg, frame.left, top, scale, target);
        }
    }
}

impl Bar {
    fn draw(&self, svg: &mut String, left: f64, top: f64, scale: f64, target: Option<f64>) {
        const TEXT_GAP: f64 = 6.0;
        let middle = top + BAR_HEIGHT / 2.0;
        let Value::Measured { median, min, max } = self.value else {
            text(svg, "failed", left + TEXT_GAP, top + 11.0, "failed");
            return;
        };
        rectangle(svg, self.class, left, top, median * scale, BAR_HEIGHT);
        if max > min {
            whisker(svg, left + min * scale, left + max * scale, middle);
        }
        let value = short(median);
        let mut text_left = left + max.max(median) * scale + TEXT_GAP;
        if let Some(x) = target {
            let (from, to) = (top - 3.0, top + BAR_HEIGHT + 3.0);
            line(svg, "halo", x, from, x, to);
            line(svg, "target", x, from, x, to);
            // The value stands behind the mark where the two would overlap.
            if (text_left - TEXT_GAP..text_left + text_width(&value) + TEXT_GAP).contains(&x) {
                text_left = x + TEXT_GAP;
            }
        }
        text(
            svg,
            if self.is_judged { "judged" } else { "" },
            text_left,
            top + 11.5,
            &value,
        );
    }
}

#[cfg(test)]
mod tests;
