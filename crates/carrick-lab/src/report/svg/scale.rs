//! From values to places on an axis, and the ticks of the axis.

use crate::report::svg::number;

/// Where the values above zero begin on a logarithmic axis that must show zero as well.
const ABOVE_ZERO: f64 = 0.09;

/// From so many times the lowest value on, logarithmic axes begin and end at powers of ten.
const DECADES_ROUNDED: f64 = 300.0;

/// More are never drawn, whatever the values are.
const TICKS_MAX: usize = 50;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    kind: Kind,
    /// Between ticks, where the ends were rounded to it.
    step: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Linear,
    Log,
    /// Logarithmic, with a place of its own for zero.
    LogWithZero,
}

/// A tick.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The value.
    pub value: f64,
    /// As it is written.
    pub label: String,
}

/// Steps of 1, 2, 2.5 or 5 times a power of ten, of which `wanted` or fewer make up the range. Zero for no range.
#[must_use]
pub fn nice_step(range: f64, wanted: f64) -> f64 {
    if range <= 0.0 || !range.is_finite() {
        return 0.0;
    }
    let rough = range / wanted;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(rough)
}

impl Scale {
    /// For values that have their meaning from zero, such as a time: zero is in it, unless all values are close together.
    /// Both ends are ticks.
    #[must_use]
    pub fn values(values: &[f64], ticks_wanted: f64) -> Self {
        const CLOSE: f64 = 0.7;
        let (low, high) = range(values);
        let is_close = |near: f64, far: f64| near > CLOSE * far && far > near * (1.0 + 1e-12);
        let (low, high) = match (low, high) {
            (low, high) if low > 0.0 && is_close(low, high) => (low, high),
            (low, high) if high < 0.0 && is_close(-high, -low) => (low, high),
            (0.0, 0.0) => (0.0, 1.0),
            (low, high) => (low.min(0.0), high.max(0.0)),
        };
        let step = nice_step(high - low, ticks_wanted);
        Self {
            low: (low / step + 1e-9).floor() * step,
            high: (high / step - 1e-9).ceil() * step,
            kind: Kind::Linear,
            step: Some(step),
        }
    }

    /// For what was varied: from the first to the last value, and from zero if that is near.
    #[must_use]
    pub fn varied(values: &[f64]) -> Self {
        const NEAR: f64 = 0.25;
        let (low, high) = range(values);
        let low = if low > 0.0 && low <= NEAR * high {
            0.0
        } else {
            low
        };
        let (low, high) = if low < high {
            (low, high)
        } else {
            (low - 1.0, high + 1.0)
        };
        Self {
            low,
            high,
            kind: Kind::Linear,
            step: None,
        }
    }

    /// The lowest value as its tick has it, if the axis is linear and does not begin at zero though all its values are above it.
    #[must_use]
    pub fn begins_above_zero(&self, wanted: f64) -> Option<String> {
        let first = self.ticks(wanted).into_iter().next();
        first
            .filter(|_| self.kind == Kind::Linear && self.low > 0.0)
            .map(|tick| tick.label)
    }

    /// Logarithmic; zero gets a place of its own. `None` with negative values, or with none above zero.
    #[must_use]
    pub fn log(values: &[f64], is_rounded: bool) -> Option<Self> {
        let finite = || values.iter().copied().filter(is_usable);
        if finite().any(|value| value < 0.0) {
            return None;
        }
        let positive: Vec<f64> = finite().filter(|value| *value > 0.0).collect();
        if positive.is_empty() {
            return None;
        }
        let (mut low, mut high) = range(&positive);
        if is_rounded {
            (low, high) = if high / low > DECADES_ROUNDED {
                (
                    10_f64.powf((low.log10() + 1e-9).floor()),
                    10_f64.powf((high.log10() - 1e-9).ceil()),
                )
            } else {
                (round_down(low), round_up(high))
            };
        }
        if high <= low * (1.0 + 1e-9) {
            (low, high) = (low / 2.0, high * 2.0);
        }
        let has_zero = finite().any(|value| value == 0.0);
        let kind = if has_zero {
            Kind::LogWithZero
        } else {
            Kind::Log
        };
        Some(Self {
            low,
            high,
            kind,
            step: None,
        })
    }

    /// The place of a value: 0 at the beginning, 1 at the end; what is beyond is held there.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
        let on_log = |value: f64| (value / self.low).ln() / (self.high / self.low).ln();
        let place = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log if value <= 0.0 => 0.0,
            Kind::Log => on_log(value),
            Kind::LogWithZero if value <= 0.0 => 0.0,
            Kind::LogWithZero => ABOVE_ZERO + on_log(value).max(0.0) * (1.0 - ABOVE_ZERO),
        };
        if place.is_finite() {
            place.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// Where bars stand: zero, or the end of the axis that is nearest to it.
    #[must_use]
    pub fn base(&self) -> f64 {
        self.place(0.0)
    }

    /// Where a logarithmic axis is broken, between zero and the lowest value above it.
    #[must_use]
    pub fn break_place(&self) -> Option<f64> {
        (self.kind == Kind::LogWithZero).then_some(ABOVE_ZERO / 2.0)
    }

    /// About as many ticks as wanted, at round values.
    #[must_use]
    pub fn ticks(&self, wanted: f64) -> Vec<Tick> {
        match self.kind {
            Kind::Linear => self.linear_ticks(wanted),
            Kind::Log => self.log_ticks(wanted),
            Kind::LogWithZero => {
                let zero = Tick {
                    value: 0.0,
                    label: String::from("0"),
                };
                std::iter::once(zero)
                    .chain(self.log_ticks(wanted))
                    .collect()
            }
        }
    }

    fn linear_ticks(&self, wanted: f64) -> Vec<Tick> {
        let range = self.high - self.low;
        let step = self
            .step
            .filter(|step| range / step <= wanted * 1.5)
            .unwrap_or_else(|| nice_step(range, wanted));
        let first = (self.low / step - 1e-6).ceil();
        let largest = self.low.abs().max(self.high.abs());
        (0_u32..)
            .take(TICKS_MAX)
            .map(|index| (first + f64::from(index)) * step)
            .take_while(|value| *value <= self.high + step * 1e-6)
            .map(|value| Tick {
                value,
                label: number::tick(value, step, largest),
            })
            .collect()
    }

    /// Powers of ten; with 2 and 5 times them where there are few; as on a linear axis where there is no power of ten.
    fn log_ticks(&self, wanted: f64) -> Vec<Tick> {
        let decades = (self.high / self.low).log10();
        if decades < 0.7 {
            let linear = Self {
                kind: Kind::Linear,
                ..self.clone()
            };
            return linear.linear_ticks(wanted);
        }
        let factors: &[f64] = match decades {
            decades if decades * 3.0 <= wanted + 1.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        // Powers of ten take little room.
        let every = (decades / (wanted + 3.0)).ceil().max(1.0);
        let first = self.low.log10().floor();
        let mut ticks = Vec::new();
        let mut exponent = first;
        // Even from the smallest number to the largest there are not more than some dozens.
        while exponent <= self.high.log10() + 1e-9 && ticks.len() < TICKS_MAX {
            for factor in factors {
                let value = factor * 10_f64.powf(exponent);
                if value >= self.low * (1.0 - 1e-9) && value <= self.high * (1.0 + 1e-9) {
                    ticks.push(Tick {
                        value,
                        label: number::short(value),
                    });
                }
            }
            exponent += every;
        }
        ticks
    }
}

/// Neither infinite nor so large that a computer loses it on the way to the paper.
fn is_usable(value: &f64) -> bool {
    const LARGEST: f64 = 1e300;
    value.abs() < LARGEST
}

/// The lowest and the highest; 0 and 0 without any.
fn range(values: &[f64]) -> (f64, f64) {
    let finite = || values.iter().copied().filter(is_usable);
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    if low <= high { (low, high) } else { (0.0, 0.0) }
}

/// 1, 2 or 5 times a power of ten, at most the value.
fn round_down(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [5.0, 2.0, 1.0]
        .into_iter()
        .find(|factor| factor * power <= value * (1.0 + 1e-9));
    factor.map_or(value, |factor| factor * power)
}

/// 1, 2 or 5 times a power of ten, at least the value.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= value * (1.0 - 1e-9));
    factor.map_or(value, |factor| factor * power)
}

#[cfg(test)]
mod tests;
