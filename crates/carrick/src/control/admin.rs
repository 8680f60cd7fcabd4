//! The admin server: metrics, health, status. Reads what workers count; cannot make them wait.
