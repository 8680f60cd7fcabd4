//! A table of routes: what of a listener's routes the kernel can judge, and why not the rest.

use super::encode::{self, Draft, Kind};
use super::{COOKIE_BYTES_MAX, COOKIES_MAX, ROUTES_MAX, TEXT_BYTES_MAX, TEXTS_MAX};

/// A route, as far as the kernel could judge it. All conditions must hold; a request is for the first route that takes it.
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
    /// None that the kernel judges, such as an IPv6 address.
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
            head_bytes_max: super::HEAD_BYTES_MAX,
            fields_max: usize::MAX,
            passes_forwarded: false,
            sample_every: 1,
        }
    }
}

/// Why the requests of a route cannot be judged in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotInKernel {
    /// It has a condition that the kernel knows nothing of.
    #[error("the kernel does not look at header values")]
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
        "the kernel judges the first {ROUTES_MAX} routes of a listener, or one fewer where there are more"
    )]
    Place,
}

/// A listener's routes, as the kernel has them.
#[derive(Debug, Clone)]
pub struct RequestTable {
    pub(super) draft: Draft,
    left_out: Vec<(usize, NotInKernel)>,
}

impl RequestTable {
    /// Makes the table of these routes. Whatever the kernel cannot judge makes a route the process's, and what would come to it
    /// never comes to a later one instead.
    #[must_use]
    pub fn new(routes: &[Route], settings: Settings) -> RequestTable {
        let mut table = RequestTable {
            draft: Draft::new(settings),
            left_out: Vec::new(),
        };
        // Where there are more, one bit stands for all the others.
        let judged = if routes.len() > ROUTES_MAX {
            ROUTES_MAX - 1
        } else {
            routes.len()
        };
        for (number, route) in routes.iter().enumerate() {
            if number >= judged {
                table.left_out.push((number, NotInKernel::Place));
                continue;
            }
            let added = add(&mut table.draft, 1 << number, route);
            if let Err(why) = added {
                table.left_out.push((number, why));
            } else if route.in_kernel {
                table.draft.in_kernel |= 1 << number;
            }
            table.draft.upstreams[number] = route.upstream;
        }
        if routes.len() > judged {
            table.draft.add_route(1 << judged);
        }
        table
    }

    /// The routes that the kernel cannot judge, by their place, and why. What they take is up to the process, whether they were to be
    /// in the kernel or not.
    #[must_use]
    pub fn left_out(&self) -> &[(usize, NotInKernel)] {
        &self.left_out
    }

    /// Whether there is anything to judge.
    #[must_use]
    pub fn is_useful(&self) -> bool {
        self.draft.in_kernel != 0
    }
}

/// Adds a route with all conditions that can be judged; of those that cannot, it says why.
fn add(draft: &mut Draft, bit: u32, route: &Route) -> Result<(), NotInKernel> {
    draft.add_route(bit);
    draft.add_methods(bit, &route.methods);
    draft.add_cgi(bit, route.cgi);
    let outcomes = [
        match &route.path {
            Some(path) if !path.is_empty() => {
                draft.add_texts(bit, encode::Part::Path, vec![(Kind::Path, path.clone())])
            }
            _ => Ok(()),
        },
        if route.extensions.is_empty() {
            Ok(())
        } else {
            // Nothing has the empty extension.
            let given = route.extensions.iter().filter(|text| !text.is_empty());
            let texts = given.map(|text| (Kind::Extension, format!(".{text}")));
            draft.add_texts(bit, encode::Part::Extension, texts.collect())
        },
        match hosts(&route.host) {
            Some(texts) => draft.add_texts(bit, encode::Part::Host, texts),
            None => Ok(()),
        },
        match &route.cookie {
            Some(cookie) => draft.add_cookie(bit, cookie),
            None => Ok(()),
        },
        if route.has_more {
            Err(NotInKernel::More)
        } else {
            Ok(())
        },
    ];
    outcomes.into_iter().collect()
}

/// What a host may be; `None`: anything.
fn hosts(host: &Host) -> Option<Vec<(Kind, String)>> {
    let below = |name: &str| (Kind::HostBelow, format!(".{name}"));
    Some(match host {
        Host::Any => return None,
        Host::Is(name) => vec![(Kind::Host, name.clone())],
        Host::Below(name) => vec![below(name)],
        Host::IsOrBelow(name) => vec![(Kind::Host, name.clone()), below(name)],
        Host::Other => Vec::new(),
    })
}
