//! Why a request is up to the process (`enum request_up`).

/// Why the kernel leaves a request to the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UpToProcess {
    /// There is no such table, or another one has taken its place.
    Table,
    /// It is longer than the kernel or the configuration allows, or too short for a request.
    Length,
    /// The packet is not one whole head: it is a part of one, or has more than one, or a body.
    Part,
    /// Its method is not GET, HEAD, OPTIONS or DELETE.
    Method,
    /// Its target is not a path, or has a byte that does not belong there.
    Target,
    /// It is not of HTTP/1.1, or its first line is not in the usual form.
    Version,
    /// A field line is not in the usual form.
    Field,
    /// It has too many field lines: more than the configuration allows, or than about 90. Where cookies matter, each counts as one.
    Fields,
    /// A field of it means something to a proxy, such as `Connection` or `Content-Length`.
    Meaning,
    /// It has no host, two, or one that is not a name or IPv4 address.
    Host,
    /// It has spaces in unusual places, where cookies matter.
    Cookie,
    /// No route takes it.
    NoRoute,
    /// The first route that takes it, or may, is the process's.
    Route,
}

impl UpToProcess {
    /// All of them, in the order of their numbers, which begin with 1.
    pub const ALL: [UpToProcess; 13] = [
        UpToProcess::Table,
        UpToProcess::Length,
        UpToProcess::Part,
        UpToProcess::Method,
        UpToProcess::Target,
        UpToProcess::Version,
        UpToProcess::Field,
        UpToProcess::Fields,
        UpToProcess::Meaning,
        UpToProcess::Host,
        UpToProcess::Cookie,
        UpToProcess::NoRoute,
        UpToProcess::Route,
    ];

    /// A short stable word for metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            UpToProcess::Table => "table",
            UpToProcess::Length => "length",
            UpToProcess::Part => "part",
            UpToProcess::Method => "method",
            UpToProcess::Target => "target",
            UpToProcess::Version => "version",
            UpToProcess::Field => "field",
            UpToProcess::Fields => "fields",
            UpToProcess::Meaning => "meaning",
            UpToProcess::Host => "host",
            UpToProcess::Cookie => "cookie",
            UpToProcess::NoRoute => "no_route",
            UpToProcess::Route => "route",
        }
    }

    /// The reason with this number.
    pub(super) fn of(number: u32) -> Option<UpToProcess> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        UpToProcess::ALL.get(place).copied()
    }
}
