//! Numbers as people read them: in ticks, beside bars, in tables.

/// Between the thousands.
const THIN_SPACE: char = '\u{202f}';

/// Three digits at least; thousands as k, millions as M, milliards as G.
#[must_use]
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return String::from("?");
    }
    if value < 0.0 {
        return format!("−{}", short(-value));
    }
    let (scaled, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let text = match scaled {
        0.0 => return String::from("0"),
        scaled if scaled >= 100.0 => format!("{scaled:.0}"),
        scaled if scaled >= 10.0 => format!("{scaled:.1}"),
        scaled if scaled >= 0.1 => format!("{scaled:.2}"),
        scaled if scaled >= 1e-4 => {
            let decimals = decimals_of(scaled, 2);
            format!("{scaled:.decimals$}")
        }
        scaled => format!("{scaled:.1e}"),
    };
    format!("{}{unit}", without_zeros(&text))
}

/// A number on an axis whose ticks are `step` apart and whose largest is `largest`: all of them with the same unit and decimals.
#[must_use]
pub fn tick(value: f64, step: f64, largest: f64) -> String {
    let step = step.abs();
    let (divisor, unit) = [(1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        // The unit must not hide the step: 10,000.1 is better than 10.0001k.
        .find(|(divisor, _)| largest.abs() >= 10.0 * divisor && step >= divisor / 100.0)
        .unwrap_or((1.0, ""));
    let step = step / divisor;
    let decimals = (0..=9)
        .find(|decimals| {
            let scaled = step * 10_f64.powi(*decimals);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1e-300) && scaled >= 0.5
        })
        .unwrap_or(9)
        .unsigned_abs() as usize;
    let value = value / divisor;
    if value.abs() < step * 1e-6 {
        return String::from("0");
    }
    format!("{}{unit}", plain(value, decimals))
}

/// A mean with the half width of its confidence interval, as exact as the interval allows.
#[must_use]
pub fn with_half_width(value: f64, half_width: Option<f64>) -> String {
    match half_width.filter(|width| width.is_finite() && *width > 0.0) {
        Some(width) => {
            let decimals = decimals_of(width, 2);
            format!("{} ± {}", plain(value, decimals), plain(width, decimals))
        }
        None => exact(value),
    }
}

/// Four significant digits, and all those before the point.
#[must_use]
pub fn exact(value: f64) -> String {
    if value == 0.0 {
        return String::from("0");
    }
    let text = plain(value, decimals_of(value, 4));
    if text.contains('.') {
        without_zeros(&text).to_owned()
    } else {
        text
    }
}

/// Decimals that show so many significant digits.
fn decimals_of(value: f64, digits: u32) -> usize {
    const DECIMALS_MAX: f64 = 9.0;
    let before = value.abs().log10().floor() + 1.0;
    (f64::from(digits) - before).clamp(0.0, DECIMALS_MAX) as usize
}

/// With a thin space between thousands, and a minus sign that is as wide as a digit.
fn plain(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return String::from("?");
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let is_zero = text.chars().all(|letter| matches!(letter, '0' | '.'));
    let mut grouped = String::from(if value < 0.0 && !is_zero { "−" } else { "" });
    for (index, digit) in whole.chars().enumerate() {
        // Four digits are still read at a glance.
        if index > 0 && whole.len() > 4 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(THIN_SPACE);
        }
        grouped.push(digit);
    }
    grouped + rest
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') && !digits.contains('e') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests;
