//! A line of `carrick top`, and its style.

/// The style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Normal.
    Plain,
    /// Column headings.
    Heading,
    /// Something is wrong.
    Alarm,
    /// Less important.
    Faint,
}

/// A line; each character of its text takes one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its style.
    pub style: Style,
    /// Its text.
    pub text: String,
}

/// Cuts a text that is too long, and marks the cut.
pub fn cut(text: &mut String, width: usize, is_utf8: bool) {
    // Every character takes one column: the text is ASCII, or written by carrick.
    if text.len() <= width || text.chars().count() <= width {
        return;
    }
    let kept = width.saturating_sub(1);
    let end = text
        .char_indices()
        .nth(kept)
        .map_or(text.len(), |(end, _)| end);
    text.truncate(end);
    if width > 0 {
        text.push(if is_utf8 { '\u{2026}' } else { '~' });
    }
}
