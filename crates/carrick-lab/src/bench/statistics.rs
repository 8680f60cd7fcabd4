//! Medians and spreads of repeated runs.

use serde::Serialize;

/// Of one cell's runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The middle run, or the mean of the two in the middle.
    pub median: f64,
    /// The lowest run.
    pub min: f64,
    /// The highest run.
    pub max: f64,
    /// How many runs.
    pub runs: usize,
}

impl Summary {
    /// `None` without values; values that are not numbers are left out.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values
            .iter()
            .copied()
            .filter(|value| value.is_finite())
            .collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self {
            median,
            min,
            max,
            runs: sorted.len(),
        })
    }

    /// The wider of the two distances from the median, as a share of it.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 {
            0.0
        } else {
            (self.max - self.median).max(self.median - self.min) / self.median
        }
    }
}

#[cfg(test)]
mod tests;
