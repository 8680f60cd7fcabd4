//! What all pictures of the laboratory are drawn with: elements, numbers, scales, markers, colours.

pub mod marker;
pub mod number;
pub mod scale;
pub mod style;

use std::fmt::Write as _;

/// Text for XML and HTML, in elements and in attributes. Control characters, which XML does not allow, are left out.
#[must_use]
pub fn escape(content: &str) -> String {
    let mut escaped = String::with_capacity(content.len());
    for letter in content.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(letter),
            '\u{fffe}' | '\u{ffff}' => {}
            letter if letter.is_control() => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Where a text is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// At its beginning.
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

/// A line of text; `y` is its base line.
pub fn text(svg: &mut String, class: &str, x: f64, y: f64, content: &str) {
    anchored_text(svg, class, Anchor::Start, x, y, content);
}

/// A line of text that is held elsewhere than at its beginning.
pub fn anchored_text(svg: &mut String, class: &str, anchor: Anchor, x: f64, y: f64, content: &str) {
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        svg,
        "<text class=\"{class}\"{anchor} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        escape(content)
    );
}

/// A rectangle with corners that are a little round.
pub fn rectangle(svg: &mut String, class: &str, x: f64, y: f64, width: f64, height: f64) {
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"1.5\"/>"
    );
}

/// A straight line.
pub fn line(svg: &mut String, class: &str, x1: f64, y1: f64, x2: f64, y2: f64) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

/// A horizontal range, with caps.
pub fn whisker(svg: &mut String, from: f64, to: f64, y: f64) {
    let (top, bottom) = (y - 3.0, y + 3.0);
    let _ = writeln!(
        svg,
        "<path class=\"whisker\" d=\"M{from:.1} {top:.1}V{bottom:.1}M{from:.1} {y:.1}H{to:.1}M{to:.1} {top:.1}V{bottom:.1}\"/>"
    );
}

/// About how wide a text of 12 pixels is; the reader's font is not known here.
#[must_use]
pub fn text_width(content: &str) -> f64 {
    const LETTER_WIDTH: f64 = 7.0;
    content.chars().count() as f64 * LETTER_WIDTH
}

/// Breaks a text at spaces, so that no line is wider than `width`, unless a word is.
#[must_use]
pub fn wrap(content: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in content.split_whitespace() {
        match lines.last_mut() {
            Some(last) if text_width(last) + text_width(word) + text_width(" ") <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
