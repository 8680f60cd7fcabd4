//! Short forms of numbers and times.
use std::time::Duration;

/// Bytes, in steps of 1024 as everywhere in carrick: `0`, `1023`, `1.5K`, `10.0M`, `999M`. At most six columns.
pub fn bytes(count: f64) -> String {
    scaled(count, 1024.0, &["K", "M", "G", "T", "P", "E"])
}

/// A rate: `0`, `0.5`, `12.0`, `999`, `1.5k`. At most six columns.
pub fn count(count: f64) -> String {
    if count > 0.0 && count < 99.95 {
        return format!("{count:.1}");
    }
    scaled(count, 1000.0, &["k", "M", "G", "T", "P", "E"])
}

fn scaled(mut count: f64, step: f64, units: &[&str]) -> String {
    let mut shown = "";
    // A value that would be rounded up to a step belongs to the next unit.
    for unit in units {
        if count < step - 0.5 {
            break;
        }
        count /= step;
        shown = unit;
    }
    if shown.is_empty() || count >= 99.95 {
        format!("{count:.0}{shown}")
    } else {
        format!("{count:.1}{shown}")
    }
}

/// A share, 0 to 1.
pub fn percent(part: f64) -> String {
    format!("{:.1}%", part * 100.0)
}

/// `0s` to `59s`, `1m00`, `1h00`, `1d00h`. At most six columns, for 270 years.
pub fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (minutes, hours, days) {
        (0, _, _) => format!("{seconds}s"),
        (_, 0, _) => format!("{minutes}m{:02}", seconds % 60),
        (_, _, 0) => format!("{hours}h{:02}", minutes % 60),
        (_, _, 1..100) => format!("{days}d{:02}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// Microseconds: `800us`, `1.5ms`, `2.0s`.
pub fn microseconds(time: u64) -> String {
    match time {
        0..1000 => format!("{time}us"),
        1000..1_000_000 => format!("{:.1}ms", time as f64 / 1e3),
        _ => format!("{:.1}s", time as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests;
