//! Checks what a listener says of those who send requests: which of their fields go on.
use super::networks::networks;
use crate::config::file;
use crate::config::plan::TrustedProxies;
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use crate::config::values;
use carrick_logic::http1::{Forwarded, OddNames, StatedIn, is_plain_name};

/// Who is believed what he says of clients; `None` if one of the networks is wrong.
pub fn trusted(
    written: &Written<file::Listener>,
    problems: &mut Problems,
) -> Option<TrustedProxies> {
    let stated_in = match (written.trusted_field.given(), written.forwarded.given()) {
        (Some(field), _) => *field.get_ref(),
        (None, Some(form)) if *form.get_ref() == Forwarded::Standard => StatedIn::Forwarded,
        (None, _) => StatedIn::XForwardedFor,
    };
    let list = match &written.trusted_proxies {
        Setting::Wrong => return None,
        Setting::Absent => {
            if let Some(word) = written.trusted_field.given() {
                problems
                    .warning(word.span(), "no proxy is trusted")
                    .help("add `trusted_proxies` with the networks of the proxies before this one, or remove it");
            }
            return Some(TrustedProxies::default());
        }
        Setting::Given(list) => list,
    };
    if list.get_ref().is_empty() {
        problems
            .error(list.span(), "an empty `trusted_proxies` trusts no proxy")
            .help(
                "leave it out to trust none, or name the networks of the proxies before this one",
            );
        return None;
    }
    let networks = networks(list.get_ref(), problems)?;
    let everybody =
        |text: &str| values::network(text).is_ok_and(|network| network.prefix_len() == 0);
    if let Some(text) = list.get_ref().iter().find(|text| everybody(text.get_ref())) {
        problems
            .warning(
                text.span(),
                "everybody is believed, and every client can say that it is another one",
            )
            .help("name the networks of the proxies before this one only");
    }
    Some(TrustedProxies {
        networks,
        stated_in,
    })
}

/// What becomes of fields whose names are odd. A route that asks for one is never taken where they are gone before.
pub fn odd_names(written: &Written<file::Listener>, problems: &mut Problems) -> OddNames {
    let policy = written.underscores;
    if policy == OddNames::Pass {
        return policy;
    }
    for header in written
        .routes
        .iter()
        .filter_map(|route| route.header.given())
    {
        if let Some(name) = header.get_ref().field.given()
            && !is_plain_name(name.get_ref().as_bytes())
        {
            problems
                .warning(
                    name.span(),
                    "this route can never match: headers with such names are removed",
                )
                .help("add `underscores = \"pass\"` to the listener, if no server takes `_` for `-`; or use a name of letters, digits and hyphens");
        }
    }
    policy
}
