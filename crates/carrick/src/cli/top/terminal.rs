//! The terminal: set up, drawn on, and restored, however `carrick top` ends.
use super::line::{Line, Style};
use super::page::Room;
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{cursor, queue};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Whether it is set up, so that a panic or a drop restores it exactly once.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The size of a terminal that does not report one.
const SIZE_DEFAULT: (u16, u16) = (80, 24);

/// The terminal, set up for drawing.
pub struct Terminal {
    has_colours: bool,
}

impl Terminal {
    /// Sets it up: raw mode, alternate screen, no cursor. A panic restores it before printing.
    ///
    /// # Errors
    /// There is no terminal, or it refuses.
    pub fn take() -> io::Result<Self> {
        static HOOKED: AtomicBool = AtomicBool::new(false);
        if !HOOKED.swap(true, SeqCst) {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |what| {
                give_back();
                before(what);
            }));
        }
        let terminal = Self {
            has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        terminal.enter()?;
        Ok(terminal)
    }

    /// Sets it up again, after it was restored or used by another program.
    ///
    /// # Errors
    /// It refuses.
    pub fn enter(&self) -> io::Result<()> {
        IS_TAKEN.store(true, SeqCst);
        // crossterm remembers the previous mode correctly only the first time.
        disable_raw_mode()?;
        enable_raw_mode()?;
        let mut bytes = Vec::new();
        queue!(
            bytes,
            EnterAlternateScreen,
            DisableLineWrap,
            cursor::Hide,
            Clear(ClearType::All)
        )?;
        write(&bytes)
    }

    /// Restores it for a while.
    pub fn leave(&self) {
        give_back();
    }

    /// Its current size.
    pub fn room(&self) -> Room {
        let (width, height) = size().unwrap_or(SIZE_DEFAULT);
        // Some terminals do not know their size, and report zero.
        let or =
            |number: u16, default: u16| usize::from(if number == 0 { default } else { number });
        Room {
            width: or(width, SIZE_DEFAULT.0),
            height: or(height, SIZE_DEFAULT.1),
            tunnels_max: usize::MAX,
        }
    }

    /// Shows a page for this size. Does nothing if the terminal was restored.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&self, page: &[Line], room: Room) -> io::Result<()> {
        if !IS_TAKEN.load(SeqCst) {
            return Ok(());
        }
        write(&drawn(page, room, self.has_colours)?)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Whether there is a terminal that can be drawn on.
pub fn is_there() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether characters beyond ASCII can be shown (POSIX, 8.2: `LC_ALL`, else `LC_CTYPE`, else `LANG`).
pub fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable);
    let locale = set.into_iter().find(|value| !value.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

fn give_back() {
    if !IS_TAKEN.swap(false, SeqCst) {
        return;
    }
    let mut bytes = Vec::new();
    // Into memory, which cannot fail; if the terminal is gone there is nothing to restore.
    let _ = queue!(
        bytes,
        EndSynchronizedUpdate,
        ResetColor,
        SetAttribute(Attribute::Reset),
        EnableLineWrap,
        cursor::Show,
        LeaveAlternateScreen
    );
    let _ = write(&bytes);
    let _ = disable_raw_mode();
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// The bytes that draw a page.
fn drawn(page: &[Line], room: Room, has_colours: bool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    queue!(bytes, BeginSynchronizedUpdate)?;
    for (row, line) in (0..).zip(page.iter().take(room.height)) {
        queue!(bytes, cursor::MoveTo(0, row))?;
        match line.style {
            Style::Plain => {}
            Style::Heading => queue!(bytes, SetAttribute(Attribute::Bold))?,
            Style::Alarm => queue!(bytes, SetAttribute(Attribute::Reverse))?,
            Style::Faint => queue!(bytes, SetAttribute(Attribute::Dim))?,
        }
        let colour = match line.style {
            Style::Heading => Some(Color::Cyan),
            Style::Alarm => Some(Color::Red),
            Style::Plain | Style::Faint => None,
        };
        if let Some(colour) = colour.filter(|_| has_colours) {
            queue!(bytes, SetForegroundColor(colour))?;
        }
        // Also resets colours, if any.
        queue!(bytes, Print(&line.text), SetAttribute(Attribute::Reset))?;
        // After the last column the cursor may still be on it, and would clear it.
        if line.text.chars().count() < room.width {
            queue!(bytes, Clear(ClearType::UntilNewLine))?;
        }
    }
    if page.len() < room.height {
        let below = u16::try_from(page.len()).unwrap_or(u16::MAX);
        queue!(
            bytes,
            cursor::MoveTo(0, below),
            Clear(ClearType::FromCursorDown)
        )?;
    }
    queue!(bytes, EndSynchronizedUpdate)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
