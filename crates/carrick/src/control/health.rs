//! Active health checks: asks every server of an upstream in turn whether it serves, and marks those that do not.
