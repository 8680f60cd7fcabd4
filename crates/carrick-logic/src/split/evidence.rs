//! What was seen of one class of sizes of a pair: throughputs of split and of joined connections.
//!
//! Throughputs are compared as logarithms: they are products of many things, and a connection that took ten times as long must not be
//! outweighed by one that took a tenth.

use super::SAMPLES_MAX;

/// Throughputs of one kind of connection, as logarithms of bytes a second. Old samples fade; so their weights count, and the squares of
/// those, by which the mean's variance is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Samples {
    weight: f64,
    weight_squared: f64,
    mean: f64,
    /// Weighted squares of deviations from the mean.
    squares: f64,
}

impl Samples {
    pub(super) fn fade(&mut self, fading: f64) {
        self.weight *= fading;
        self.weight_squared *= fading * fading;
        self.squares *= fading;
    }

    /// One more (West 1979).
    pub(super) fn learn(&mut self, logarithm: f64) {
        if self.weight > SAMPLES_MAX - 1.0 {
            self.fade((SAMPLES_MAX - 1.0) / self.weight);
        }
        self.weight += 1.0;
        self.weight_squared += 1.0;
        let off = logarithm - self.mean;
        self.mean += off / self.weight;
        self.squares += off * (logarithm - self.mean);
    }

    /// As many equal samples would say as much (Kish's effective number).
    pub(super) fn count(&self) -> f64 {
        if self.weight_squared > 0.0 {
            // What has faded away altogether is no sample, however equal the weights are.
            (self.weight * self.weight / self.weight_squared).min(self.weight)
        } else {
            0.0
        }
    }

    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Squares of deviations, and how many of them there are freely.
    pub(super) fn spread(&self) -> (f64, f64) {
        (self.squares, (self.weight - 1.0).max(0.0))
    }
}

/// One class of sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Evidence {
    pub(super) split: Samples,
    pub(super) joined: Samples,
}

impl Evidence {
    pub(super) fn fade(&mut self, fading: f64) {
        self.split.fade(fading);
        self.joined.fade(fading);
    }

    /// The number that a difference of both means is as sure as: the harmonic one.
    pub(super) fn count(&self) -> f64 {
        let (split, joined) = (self.split.count(), self.joined.count());
        if split > 0.0 && joined > 0.0 {
            split * joined / (split + joined)
        } else {
            0.0
        }
    }

    /// The logarithm of 1 + GoS.
    pub(super) fn difference(&self) -> f64 {
        self.split.mean() - self.joined.mean()
    }

    /// Squares of deviations within both kinds, and how many of them there are freely.
    pub(super) fn spread(&self) -> (f64, f64) {
        let ((a, free_a), (b, free_b)) = (self.split.spread(), self.joined.spread());
        (a + b, free_a + free_b)
    }
}
