//! Times and lengths of time, and `HTTP-date` (RFC 9110 section 5.6.7).

/// A moment of the wall clock: seconds since 1970-01-01 00:00:00 UTC. Arithmetic never overflows and never goes below
/// zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixTime(pub u64);

/// The longest time that is reckoned with, about 68 years: what RFC 9111 section 1.2.2 has a cache take for any number
/// that is too large.
pub const SECONDS_MAX: u32 = 1 << 31;

impl UnixTime {
    /// Seconds from `earlier` to this moment; 0 if it is not earlier, at most [`SECONDS_MAX`].
    #[must_use]
    pub fn since(self, earlier: Self) -> u32 {
        let seconds = self.0.saturating_sub(earlier.0);
        u32::try_from(seconds).map_or(SECONDS_MAX, |seconds| seconds.min(SECONDS_MAX))
    }

    /// This many seconds later.
    #[must_use]
    pub fn plus(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(u64::from(seconds)))
    }

    /// Reads an `HTTP-date` in any of its three forms; `now` decides which century a year of two digits means.
    ///
    /// Letters in either case are taken, and so is a weekday that is not the date's. Everything else is as the grammar
    /// has it: no other zone than GMT, no missing or additional space, no missing digit. Dates before 1970 are
    /// 1970-01-01.
    #[must_use]
    pub fn parse_http_date(text: &[u8], now: Self) -> Option<Self> {
        let date = match text.len() {
            29 => imf_fixdate(text),
            24 => asctime(text),
            _ => rfc850(text, now),
        }?;
        date.to_unix()
    }

    /// Appends the moment as `IMF-fixdate`, such as `Sun, 06 Nov 1994 08:49:37 GMT`. Years beyond 9999 are written as
    /// the last second of 9999.
    pub fn write_http_date(self, out: &mut Vec<u8>) {
        let seconds = self.0.min(YEAR_9999_END);
        let (days, in_day) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil_from_days(days);
        // Day 0 was a Thursday, which is the fifth of the table.
        let weekday = WEEKDAYS[((days + 3) % 7) as usize];
        let month = MONTHS[(month - 1) as usize];
        let (hour, minute, second) = (in_day / 3600, in_day / 60 % 60, in_day % 60);
        // Writing to a Vec does not fail.
        let _ = std::io::Write::write_fmt(
            out,
            format_args!(
                "{}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT",
                &weekday[..3]
            ),
        );
    }
}

/// The last second that a date can be written for.
const YEAR_9999_END: u64 = 253_402_300_799;

const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A date as it is written.
struct Written {
    year: u64,
    month: u64,
    day: u64,
    clock: u64,
}

impl Written {
    fn to_unix(&self) -> Option<UnixTime> {
        if self.day == 0 || self.day > days_in_month(self.year, self.month) {
            return None;
        }
        let seconds = days_from_civil(self.year, self.month, self.day) * 86_400 + self.clock as i64;
        Some(UnixTime(u64::try_from(seconds).unwrap_or(0)))
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &[u8]) -> Option<Written> {
    let is_day = WEEKDAYS
        .iter()
        .any(|name| text[..3].eq_ignore_ascii_case(&name.as_bytes()[..3]));
    let fixed =
        is_day && &text[3..5] == b", " && text[7] == b' ' && text[11] == b' ' && text[16] == b' ';
    if !fixed || !text[25..].eq_ignore_ascii_case(b" GMT") {
        return None;
    }
    Some(Written {
        year: digits(&text[12..16])?,
        month: month(&text[8..11])?,
        day: digits(&text[5..7])?,
        clock: clock(&text[17..25])?,
    })
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`. A date that would be more than 50 years in the future is the last one in the past
/// with these digits.
fn rfc850(text: &[u8], now: UnixTime) -> Option<Written> {
    let comma = memchr::memchr(b',', text)?;
    let (weekday, rest) = text.split_at(comma);
    let is_day = WEEKDAYS
        .iter()
        .any(|name| weekday.eq_ignore_ascii_case(name.as_bytes()));
    if !is_day || rest.len() != 24 || &rest[..2] != b", " || rest[4] != b'-' || rest[8] != b'-' {
        return None;
    }
    if rest[11] != b' ' || !rest[20..].eq_ignore_ascii_case(b" GMT") {
        return None;
    }
    let this_year = civil_from_days(now.0.min(YEAR_9999_END) / 86_400).0;
    let century = this_year - this_year % 100;
    let year_in_century = digits(&rest[9..11])?;
    let mut year = century + year_in_century;
    if year > this_year + 50 {
        year -= 100;
    } else if year + 50 <= this_year {
        year += 100;
    }
    Some(Written {
        year,
        month: month(&rest[5..8])?,
        day: digits(&rest[2..4])?,
        clock: clock(&rest[12..20])?,
    })
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<Written> {
    let is_day = WEEKDAYS
        .iter()
        .any(|name| text[..3].eq_ignore_ascii_case(&name.as_bytes()[..3]));
    let fixed =
        is_day && text[3] == b' ' && text[7] == b' ' && text[10] == b' ' && text[19] == b' ';
    if !fixed {
        return None;
    }
    let day = if text[8] == b' ' {
        &text[9..10]
    } else {
        &text[8..10]
    };
    Some(Written {
        year: digits(&text[20..24])?,
        month: month(&text[4..7])?,
        day: digits(day)?,
        clock: clock(&text[11..19])?,
    })
}

/// `08:49:37` in seconds; a leap second counts as the one before it.
fn clock(text: &[u8]) -> Option<u64> {
    let (hour, minute, second) = (
        digits(&text[..2])?,
        digits(&text[3..5])?,
        digits(&text[6..8])?,
    );
    let is_right = text[2] == b':' && text[5] == b':' && hour < 24 && minute < 60 && second <= 60;
    is_right.then(|| hour * 3600 + minute * 60 + second.min(59))
}

fn month(text: &[u8]) -> Option<u64> {
    let place = MONTHS
        .iter()
        .position(|name| text.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(place as u64 + 1)
}

/// A few digits, and nothing else.
fn digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |number, &byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + u64::from(byte - b'0'))
    })
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 (Howard Hinnant's algorithm: years begin in March, so that the leap day is the last).
fn days_from_civil(year: u64, month: u64, day: u64) -> i64 {
    let year = year as i64 - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month as i64 + 9) % 12) + 2) / 5 + day as i64 - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a day since 1970-01-01, by the same author.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(719_468);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
