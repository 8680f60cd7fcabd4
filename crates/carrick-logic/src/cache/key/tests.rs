//! Keys: the same for the same resource, different for all others.
