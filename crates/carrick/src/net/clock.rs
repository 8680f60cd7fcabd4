//! The time of day as HTTP writes it, formatted once per second.
use carrick_logic::cache::UnixTime;
use std::cell::{Cell, RefCell};
use std::time::{SystemTime, UNIX_EPOCH};

/// A worker's clock.
#[derive(Debug, Default)]
pub struct Clock {
    second: Cell<u64>,
    text: RefCell<String>,
}

impl Clock {
    /// The present time, in seconds.
    #[must_use]
    pub fn now(&self) -> UnixTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        UnixTime(since.map_or(0, |since| since.as_secs()))
    }

    /// Calls `with` with the present time as an IMF-fixdate (RFC 9110 section 5.6.7).
    pub fn with_date<T>(&self, with: impl FnOnce(&str) -> T) -> T {
        let second = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        if self.second.replace(second) != second || self.text.borrow().is_empty() {
            let moment =
                jiff::Timestamp::from_second(second.try_into().unwrap_or(0)).unwrap_or_default();
            self.text
                .replace(moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
        }
        with(&self.text.borrow())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_the_fixed_form() {
        Clock::default().with_date(|date| {
            assert_eq!(date.len(), "Sun, 06 Nov 1994 08:49:37 GMT".len());
            assert!(
                date.ends_with(" GMT") && date.get(3..5) == Some(", "),
                "{date}"
            );
        });
    }
}
