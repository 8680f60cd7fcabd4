//! The laboratory of carrick: test bed, benchmarks.
