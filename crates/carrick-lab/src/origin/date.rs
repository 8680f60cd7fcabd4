//! The `Date` field, formatted once a second.

use std::cell::Cell;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Length of a date such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
const DATE_BYTES: usize = 29;

/// A second, and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    second: u64,
    text: [u8; DATE_BYTES],
}

thread_local! {
    static LATEST: Cell<Option<Date>> = const { Cell::new(None) };
}

impl Date {
    /// The date of a moment.
    #[must_use]
    pub fn of(moment: SystemTime) -> Self {
        let second = second_of(moment);
        let mut text = [b' '; DATE_BYTES];
        // It fits: all dates of this form are of one length, until the year 10000.
        let _ = write!(&mut text[..], "{}", httpdate::HttpDate::from(moment));
        Self { second, text }
    }

    /// The date of now, from this thread's memory if it is still right.
    #[must_use]
    pub fn now() -> Self {
        let moment = SystemTime::now();
        match LATEST.get() {
            Some(latest) if latest.second == second_of(moment) => latest,
            _ => {
                let date = Self::of(moment);
                LATEST.set(Some(date));
                date
            }
        }
    }

    /// As in the `Date` field.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

fn second_of(moment: SystemTime) -> u64 {
    moment
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
