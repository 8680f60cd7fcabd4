//! Checks `[link.NAME]`, which link a listener or a route has, and listeners at the far end of one.
use super::named::{Named, Words};
use super::tcp_profile::Profiles;
use crate::config::file;
use crate::config::plan::LinkPlan;
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use crate::config::values;
use std::sync::Arc;

const WORDS: Words = Words {
    what: "link",
    table: "link",
    wanted: " with its `peer`",
    unused: "nothing goes through the link",
    use_it: "name it as `link` of a listener or a route, or remove it",
};

/// The links, and which of them are used.
pub struct Links<'f>(Named<'f>);

/// Checks the links; the result has the same order, with `None` for those that cannot be used.
pub fn check<'f>(
    written: &'f [Written<file::Link>],
    tcp_profiles: &Profiles<'_>,
    problems: &mut Problems,
) -> (Links<'f>, Vec<Option<Arc<LinkPlan>>>) {
    let plans = written
        .iter()
        .map(|link| plan(link, tcp_profiles, problems).map(Arc::new))
        .collect();
    let names = written.iter().map(|link| &link.name);
    (Links(Named::new(WORDS, names)), plans)
}

impl Links<'_> {
    /// The index of the link that is named; it is used from now on. `Some(None)`: none is wanted. `None`: nothing is said, or it is wrong.
    #[expect(
        clippy::option_option,
        reason = "nothing said, none wanted, and a link are three answers"
    )]
    pub fn of(&self, name: &Setting<String>, problems: &mut Problems) -> Option<Option<usize>> {
        let name = name.given()?;
        if name.get_ref().is_empty() {
            return Some(None);
        }
        self.0.find(name, problems).map(Some)
    }

    /// Warns of links that nothing names.
    pub fn report_unused(&self, problems: &mut Problems) {
        self.0.report_unused(problems);
    }
}

fn plan(
    written: &Written<file::Link>,
    tcp_profiles: &Profiles<'_>,
    problems: &mut Problems,
) -> Option<LinkPlan> {
    if let Err(help) = values::plain_name(written.name.get_ref()) {
        problems
            .error(written.name.span(), "this is not a name for a link")
            .help(help);
    }
    if let Some(span) = written.key("preconnect")
        && written.preconnect > written.connections
    {
        problems
            .error(
                span,
                "more connections would be opened in advance than are kept",
            )
            .help(format!(
                "`connections` is {}; make `preconnect` smaller, or it larger",
                written.connections
            ));
    }
    let tcp_profile = tcp_profiles.find(&written.profile, problems);
    let peer = super::server_address(&written.peer, None, problems);
    Some(LinkPlan {
        name: written.name.get_ref().clone(),
        peer: peer.given()?.get_ref().clone(),
        connections: written.connections,
        preconnect: written.preconnect.min(written.connections),
        tcp_profile,
        fallback: written.fallback,
    })
}

/// A listener at the far end of a link connects to wherever it is told to: somebody has to be named who may do that.
pub fn report_open_door(written: &Written<file::Listener>, problems: &mut Problems) {
    if written.allow.is_absent() {
        problems
            .error(
                written.span.clone(),
                "everybody could go anywhere through this end of a link",
            )
            .help("add `allow = [\"192.0.2.1\"]` with the address of the carrick at the other end");
    }
}
