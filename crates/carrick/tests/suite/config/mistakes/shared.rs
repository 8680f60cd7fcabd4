//! Mistakes about the shared cache, with the feature `shared-cache`.
use super::Mistake;
use super::Severity::Error;

pub const MISTAKES: &[Mistake] = &[
    (
        "§[cache]\nshared = { prefix = \"a\" }",
        Error,
        "{ prefix = \"a\" }",
        "`servers` is missing",
        "where the Redis or Valkey is",
    ),
    (
        "§[cache]\nshared = { servers = [\"10.0.0.1\", \"10.0.0.2\"] }",
        Error,
        "[\"10.0.0.1\", \"10.0.0.2\"]",
        "one server is required",
        "`cluster = true`",
    ),
    (
        "§[cache]\nshared = { servers = \"redis://10.0.0.1:6379\" }",
        Error,
        "\"redis://10.0.0.1:6379\"",
        "not a server's address",
        "write \"10.0.0.1:6379\"",
    ),
    (
        "§[cache]\nshared = { servers = \"10.0.0.1\", prefix = \"{a}\" }",
        Error,
        "\"{a}\"",
        "cannot be a prefix",
        "up to 64 letters",
    ),
    (
        "§[cache]\nshared = { servers = \"10.0.0.1\", user = \"a\" }",
        Error,
        "\"a\"",
        "no effect without `password_file`",
        "add `password_file`",
    ),
    (
        "§[cache]\nshared = { servers = \"10.0.0.1\", password_file = \"not-there\" }",
        Error,
        "\"not-there\"",
        "the password cannot be read",
        "into the first line",
    ),
];
