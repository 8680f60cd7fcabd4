//! Tests of a shard.
