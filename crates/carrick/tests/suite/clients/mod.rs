//! Real programs as clients.
