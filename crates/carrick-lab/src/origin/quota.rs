//! How many requests a connection carries.

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::content::mix;

/// Largest `MAX` of `zipf:ALPHA:MAX`.
pub const ZIPF_MAX: u32 = 1_000_000;

/// How many requests a connection carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RequestsPerConnection {
    /// As many as there are.
    #[default]
    Unlimited,
    /// So many.
    Fixed(u32),
    /// Random with P(n) proportional to n^-alpha, for n from 1 to `max`.
    Zipf {
        /// The exponent.
        alpha: f64,
        /// The most.
        max: u32,
    },
}

/// Draws for connection after connection, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Quota {
    kind: RequestsPerConnection,
    /// For Zipf: the probability of at most 1, 2, 3, … requests.
    cumulative: Vec<f64>,
    state: u64,
}

/// Reads `N`, `zipf:ALPHA:MAX` or `unlimited`.
///
/// # Errors
/// When it is none of these, or a number is out of its limits.
pub fn parse(text: &str) -> Result<RequestsPerConnection> {
    let forms = "it is N, zipf:ALPHA:MAX or unlimited";
    let parts: Vec<&str> = text.split(':').collect();
    let quota = match parts[..] {
        ["unlimited"] => RequestsPerConnection::Unlimited,
        ["zipf", alpha, max] => RequestsPerConnection::Zipf {
            alpha: alpha
                .parse()
                .with_context(|| format!("`{alpha}` is no exponent: {forms}"))?,
            max: max
                .parse()
                .with_context(|| format!("`{max}` is no number of requests: {forms}"))?,
        },
        [number] => RequestsPerConnection::Fixed(
            number
                .parse()
                .with_context(|| format!("`{number}` is no number of requests: {forms}"))?,
        ),
        _ => anyhow::bail!("`{text}` is no number of requests: {forms}"),
    };
    check(&quota)?;
    Ok(quota)
}

/// Whether the numbers are within their limits.
///
/// # Errors
/// When they are not.
pub fn check(quota: &RequestsPerConnection) -> Result<()> {
    match *quota {
        RequestsPerConnection::Unlimited => {}
        RequestsPerConnection::Fixed(number) => {
            ensure!(
                number >= 1,
                "a connection carries at least 1 request, not 0"
            );
        }
        RequestsPerConnection::Zipf { alpha, max } => {
            ensure!(
                alpha.is_finite() && (0.0..=100.0).contains(&alpha),
                "the exponent of zipf:ALPHA:MAX is 0 to 100, not {alpha}"
            );
            ensure!(
                (1..=ZIPF_MAX).contains(&max),
                "the MAX of zipf:ALPHA:MAX is 1 to {ZIPF_MAX}, not {max}"
            );
        }
    }
    Ok(())
}

impl Quota {
    /// Checked by [`check`].
    #[must_use]
    pub fn new(kind: RequestsPerConnection, seed: u64) -> Self {
        let mut cumulative = Vec::new();
        if let RequestsPerConnection::Zipf { alpha, max } = kind {
            let mut sum = 0.0;
            cumulative.extend((1..=max).map(|number| {
                sum += f64::from(number).powf(-alpha);
                sum
            }));
            cumulative.iter_mut().for_each(|up_to| *up_to /= sum);
        }
        Self {
            kind,
            cumulative,
            state: mix(seed),
        }
    }

    /// For the next connection.
    pub fn draw(&mut self) -> u64 {
        match self.kind {
            RequestsPerConnection::Unlimited => u64::MAX,
            RequestsPerConnection::Fixed(number) => u64::from(number.max(1)),
            RequestsPerConnection::Zipf { max, .. } => {
                self.state = self.state.wrapping_add(1);
                // The upper 53 bits, which a double holds exactly: from 0 up to, not including, 1.
                let uniform = (mix(self.state) >> 11) as f64 / (1_u64 << 53) as f64;
                let below = self.cumulative.partition_point(|&up_to| up_to <= uniform);
                (below as u64 + 1).min(u64::from(max))
            }
        }
    }
}

#[cfg(test)]
mod tests;
