//! A line of what `carrick top` shows, and how it looks.

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// As it is.
    Plain,
    /// The names of columns.
    Heading,
    /// Something is wrong.
    Alarm,
    /// What is worth less attention.
    Faint,
}

/// A line; of its text each character takes one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How it looks.
    pub look: Look,
    /// What it says.
    pub text: String,
}

/// Cuts what is too long, so that one sees it.
pub fn cut(text: &mut String, width: usize, is_utf8: bool) {
    // Every character takes one column: what is shown is ASCII, or was written here.
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
