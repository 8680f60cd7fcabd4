//! Checks `peers` of `[cache]`: the other caches that are asked.
use crate::config::file;
use crate::config::plan::{CachePeersPlan, ServerAddress};
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use toml::Spanned;

/// The port of a member when none is given.
const PORT: u16 = 3128;

/// Most members: each is looked at for every request that is not answered from the store.
const MEMBERS_MAX: usize = 64;

/// The plan; `None`: there is something wrong.
pub(super) fn check(
    written: &Written<file::CachePeers>,
    problems: &mut Problems,
) -> Option<CachePeersPlan> {
    let Some(list) = written.members.given() else {
        if written.members.is_absent() {
            problems
                .error(written.span.clone(), "`members` is missing here")
                .help("write all caches that share the URLs, such as `members = [\"10.0.0.1:3128\", \"10.0.0.2:3128\"]`");
        }
        return None;
    };
    let members = members(list, problems);
    let own = match &written.own {
        Setting::Given(own) => Some(place(own, members.as_deref(), problems)?),
        Setting::Absent => None,
        Setting::Wrong => return None,
    };
    let members = members?;
    if own.is_some() && members.len() == 1 {
        problems
            .warning(list.span(), "there is no peer to ask")
            .help("add the other members, or remove `peers`");
    }
    Some(CachePeersPlan {
        members,
        own,
        connect: written.connect,
        answer: written.answer,
    })
}

fn members(
    list: &Spanned<Vec<Spanned<String>>>,
    problems: &mut Problems,
) -> Option<Vec<ServerAddress>> {
    let written = list.get_ref();
    if written.is_empty() || written.len() > MEMBERS_MAX {
        problems
            .error(
                list.span(),
                format!("`members` is a list of 1 to {MEMBERS_MAX} caches"),
            )
            .help("leave `peers` out to ask none");
        return None;
    }
    let mut members = Vec::with_capacity(written.len());
    for text in written {
        let address = super::server_address(&Setting::Given(text.clone()), Some(PORT), problems);
        let Some(address) = address.given().map(Spanned::get_ref) else {
            continue;
        };
        if members.contains(address) {
            problems
                .error(text.span(), "this member is in the list already")
                .help("each is written once: all have an equal share");
            continue;
        }
        members.push(address.clone());
    }
    (members.len() == written.len()).then_some(members)
}

/// The place of `self` in the list; of a wrong list it is not known.
fn place(
    own: &Spanned<String>,
    members: Option<&[ServerAddress]>,
    problems: &mut Problems,
) -> Option<usize> {
    let address = super::server_address(&Setting::Given(own.clone()), Some(PORT), problems);
    let address = address.given()?.get_ref();
    let place = members?.iter().position(|member| member == address);
    if place.is_none() {
        problems
            .error(own.span(), "this is none of `members`")
            .help(
                "write it as it stands there; or leave `self` out, if this carrick is none of them",
            );
    }
    place
}
