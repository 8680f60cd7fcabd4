//! A route as the kernel may classify by it, and why it cannot.

use super::{COOKIE_BYTES_MAX, COOKIES_MAX, HEAD_BYTES_MAX, ROUTES_MAX, TEXT_BYTES_MAX, TEXTS_MAX};

/// A route, as far as the kernel could classify it. All conditions must hold; a request is for the first route that takes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Route {
    /// The host that a request is for.
    pub host: Host,
    /// What the path begins with, byte for byte; `None`: anything.
    pub path: Option<String>,
    /// What follows a dot at the end of the path's last segment, its parameters (`;`) left out: any of these, in small or capital letters.
    /// Empty: anything.
    pub extensions: Vec<String>,
    /// A cookie that must be there, or must not.
    pub cookie: Option<Cookie>,
    /// Any of these methods, byte for byte. Empty: any.
    pub methods: Vec<String>,
    /// A path with `/cgi-bin/`, or a query; `Some(false)`: neither.
    pub cgi: Option<bool>,
    /// It has a condition that the kernel knows nothing of. What meets the others is up to the process.
    pub has_more: bool,
    /// Whose servers it leads to: a number of the caller's, which the kernel hands back.
    pub upstream: u32,
    /// Whether its requests are to be forwarded unseen. If not, they are up to the process.
    pub in_kernel: bool,
}

/// A condition on the host: names in small letters, without final dot; IPv4 addresses in their usual form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Host {
    /// Any.
    #[default]
    Any,
    /// This one.
    Is(String),
    /// What is below this name.
    Below(String),
    /// This name, and what is below.
    IsOrBelow(String),
    /// None that the kernel classifies, such as an IPv6 address.
    Other,
}

/// A condition on a cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie {
    /// Its name, compared exactly.
    pub name: String,
    /// Whether it must be there, or must not.
    pub is_present: bool,
}

/// What holds for all routes of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Longer heads are up to the process, in bytes.
    pub head_bytes_max: usize,
    /// Heads with more field lines are, too.
    pub fields_max: usize,
    /// Whether `Forwarded` and `X-Forwarded-…` that the client has sent go on as they are. Otherwise requests with them are up to the process.
    pub passes_forwarded: bool,
    /// Each so many requests one is told; 0: none.
    pub sample_every: u32,
}

impl Default for Settings {
    /// No limits but those of the kernel; fields about the client are up to the process; each request is told.
    fn default() -> Settings {
        Settings {
            head_bytes_max: HEAD_BYTES_MAX,
            fields_max: usize::MAX,
            passes_forwarded: false,
            sample_every: 1,
        }
    }
}

/// Why the requests of a route cannot be classified in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotInKernel {
    /// It has a condition that the kernel knows nothing of.
    #[error("the kernel does not compare header values")]
    More,
    /// A path, extension or host name is too long.
    #[error(
        "the kernel compares at most {TEXT_BYTES_MAX} bytes of a path, an extension or a host name, and this one is longer"
    )]
    Long,
    /// There are too many of them.
    #[error("the kernel compares at most {TEXTS_MAX} different paths, extensions and host names")]
    Texts,
    /// The name of a cookie is too long, or none that the kernel can find.
    #[error(
        "the kernel looks for cookies whose name is one word of at most {COOKIE_BYTES_MAX} bytes"
    )]
    Cookie,
    /// There are too many of them.
    #[error("the kernel looks for at most {COOKIES_MAX} different cookies")]
    Cookies,
    /// There are too many routes before it.
    #[error(
        "the kernel classifies the first {ROUTES_MAX} routes of a listener, or one fewer where there are more"
    )]
    Place,
}
