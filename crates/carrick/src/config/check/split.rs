//! Checks `handshake`, `split` and `control_group`.
use crate::config::file::{self, Answering, Job};
use crate::config::plan::{Handshake, RoutePlan, SplitPlan, Splitting};
use crate::config::problem::Problems;
use crate::config::section::Written;
use carrick_splice::Choice;
use std::ops::Range;

/// A splitter with these routes.
pub fn plan(written: &Written<file::Listener>, routes: Vec<RoutePlan>) -> SplitPlan {
    SplitPlan {
        routes,
        control_group: written.control_group,
    }
}

/// The engine of what is split so: nothing but the packet engine joins connections end to end.
pub fn engine(split: Splitting, engine: Choice) -> Choice {
    match split {
        Splitting::Never => Choice::Packet,
        Splitting::Adaptive | Splitting::Always => engine,
    }
}

/// Reports `split` at routes of listeners that do not split.
pub fn report_misplaced_on_routes(written: &Written<file::Listener>, problems: &mut Problems) {
    let spans = (written.routes.iter()).flat_map(|route| &route.keys_given);
    for (_, span) in spans.filter(|(key, _)| *key == "split") {
        problems
            .error(
                span.clone(),
                "only a splitter splits, so `split` is not possible",
            )
            .help("use `mode = \"split\"`, or remove it");
    }
}

/// When the handshake of the listener's clients is answered.
pub fn handshake(
    written: &Written<file::Listener>,
    job: Option<Job>,
    problems: &mut Problems,
) -> Handshake {
    // What means nothing at the far end of a link was said before.
    let named = written.handshake.given().filter(|_| job != Some(Job::Link));
    if let Some(word) = named
        && !written.is_transparent()
    {
        problems
            .error(
                word.span(),
                "`handshake` means nothing without `transparent`",
            )
            .help("add `transparent = true`, or remove it");
        return Handshake::AtOnce;
    }
    let unsure = unsure_place(written);
    match named.map(|word| (*word.get_ref(), word.span())) {
        Some((Answering::ServerFirst, span)) => {
            if let Some((key, place)) = unsure {
                problems
                    .error(span, "the server is not known before the client has been answered")
                    .with(place, format!("`{key}` decides where it goes"))
                    .help("write `handshake = \"at-once\"`, or have only routes to the original destination, and no link");
            }
            Handshake::ServerFirst { is_named: true }
        }
        None if job == Some(Job::Split) && written.is_transparent() && unsure.is_none() => {
            Handshake::ServerFirst { is_named: false }
        }
        _ => Handshake::AtOnce,
    }
}

/// What leads connections elsewhere than to their original destination, or wants to hear the client first.
fn unsure_place(written: &Written<file::Listener>) -> Option<(&'static str, Range<usize>)> {
    let of_listener = written.keys_given.iter().filter(|(key, _)| *key == "link");
    let of_routes = (written.routes.iter()).flat_map(|route| &route.keys_given);
    let mut given =
        of_listener.chain(of_routes.filter(|(key, _)| ["sni", "upstream", "link"].contains(key)));
    given.next().map(|(key, span)| (*key, span.clone()))
}
