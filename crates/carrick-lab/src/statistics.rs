//! Statistics of repeated samples: means with confidence intervals.
