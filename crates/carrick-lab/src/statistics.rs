//! Statistics of repeated samples: means with confidence intervals by Student's t, medians with their spread.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The mean of some samples, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The arithmetic mean, in the samples' unit.
    pub mean: f64,
    /// The standard deviation of the samples (with `samples - 1` below the fraction), in their unit; 0 for one sample.
    pub deviation: f64,
    /// How many there were.
    pub samples: usize,
    /// The true mean lies within `mean ± half_width` with the probability that was asked for, if the samples are independent
    /// and about normally distributed. `None` for one sample, which says nothing of its error.
    pub half_width: Option<f64>,
}

/// The median of some samples, and how far they are apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The middle sample, or the mean of the two in the middle.
    pub median: f64,
    /// The lowest sample.
    pub min: f64,
    /// The highest sample.
    pub max: f64,
    /// How many there were.
    pub samples: usize,
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
            samples: sorted.len(),
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

/// The mean of `values` and its confidence interval at `level`, such as 0.95. Values that are not finite are left out; `None`
/// without any others, or with a level that is not between 0 and 1.
///
/// The half width is `t(1 - (1 - level)/2, n - 1) * deviation / sqrt(n)` (Student, "The probable error of a mean", 1908).
#[must_use]
pub fn mean_with_confidence(values: &[f64], level: f64) -> Option<Mean> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let samples = finite().count();
    if samples == 0 {
        return None;
    }
    let count = samples as f64;
    let mean = finite().sum::<f64>() / count;
    if samples == 1 {
        return Some(Mean {
            mean,
            deviation: 0.0,
            samples,
            half_width: None,
        });
    }
    // In two passes: the difference of two large sums would lose the digits that matter.
    let squares: f64 = finite().map(|value| (value - mean) * (value - mean)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    Some(Mean {
        mean,
        deviation,
        samples,
        half_width: quantile_of_t(f64::midpoint(level, 1.0), samples - 1)
            .map(|quantile| quantile * deviation / count.sqrt()),
    })
}

/// The quantile of Student's t at `probability` (between 0 and 1) with so many degrees of freedom; `None` with none.
#[must_use]
pub fn quantile_of_t(probability: f64, freedom: usize) -> Option<f64> {
    if freedom == 0 || !(probability > 0.0 && probability < 1.0) {
        return None;
    }
    StudentsT::new(0.0, 1.0, freedom as f64)
        .ok()
        .map(|distribution| distribution.inverse_cdf(probability))
}

#[cfg(test)]
mod tests;
