//! A listener's routes as the kernel classifies by them.

use super::ROUTES_MAX;
use super::encode::{self, Draft, Kind};
use super::route::{Host, NotInKernel, Route, Settings};

/// A listener's routes, as the kernel has them.
#[derive(Debug, Clone)]
pub struct RequestTable {
    pub(super) draft: Draft,
    left_out: Vec<(usize, NotInKernel)>,
}

impl RequestTable {
    /// Makes the table of these routes. Whatever the kernel cannot classify makes a route the process's, and what would come to it
    /// never comes to a later one instead.
    #[must_use]
    pub fn new(routes: &[Route], settings: Settings) -> RequestTable {
        let mut table = RequestTable {
            draft: Draft::new(settings),
            left_out: Vec::new(),
        };
        // Where there are more, one bit stands for all the others.
        let classified = if routes.len() > ROUTES_MAX {
            ROUTES_MAX - 1
        } else {
            routes.len()
        };
        for (number, route) in routes.iter().enumerate() {
            if number >= classified {
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
        if routes.len() > classified {
            table.draft.add_route(1 << classified);
        }
        table
    }

    /// The routes that the kernel cannot classify, by their place, and why. What they take is up to the process, whether they were to be
    /// in the kernel or not.
    #[must_use]
    pub fn left_out(&self) -> &[(usize, NotInKernel)] {
        &self.left_out
    }

    /// Whether there is anything to classify.
    #[must_use]
    pub fn is_useful(&self) -> bool {
        self.draft.in_kernel != 0
    }
}

/// Adds a route with all conditions that can be classified; of those that cannot, it says why.
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
