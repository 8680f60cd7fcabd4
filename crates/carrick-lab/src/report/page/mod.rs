//! The page: one file of HTML that is also XML, with its style and pictures in it, without scripts.

mod facts;
mod figure;
mod link;
mod table;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::experiment::results::{ExperimentResults, Scale};
use crate::report::state;
use crate::report::svg::style;
use crate::report::values;

/// Of the page; the figures have theirs in `svg/style.rs`.
const STYLE: &str = include_str!("style.css");

/// Nothing may be loaded, whatever is in the page: no script, no picture, no font.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Draws the whole page; `names` are the experiments' names for anchors and for the files beside the page.
#[must_use]
pub fn render(results: &[ExperimentResults], names: &[String]) -> String {
    let common = facts::common(results);
    let is_mixed = results.iter().any(|one| one.scale == Scale::Full);
    let page = html! {
        (DOCTYPE)
        html xmlns="http://www.w3.org/1999/xhtml" lang="en" {
            (head())
            body {
                header.top {
                    h1 { "The laboratory’s report" }
                    p {
                        "Figures and tables of papers on web proxies and TCP splicing, measured again on this machine, with what the \
                         papers published beside them. Filled marks and solid bars were measured here; hollow grey ones are the \
                         papers’. Nothing is drawn that was not measured."
                    }
                    (warnings(results))
                    (facts::list(&common))
                }
                (contents(results, names))
                main {
                    @for (one, name) in results.iter().zip(names) {
                        (experiment(one, name, &common, is_mixed))
                    }
                }
            }
        }
    };
    // XML allows no others.
    let is_allowed = |letter: &char| {
        matches!(letter, '\n' | '\t')
            || !(letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}'))
    };
    page.into_string().chars().filter(is_allowed).collect()
}

/// In XML, elements without content are closed, too.
fn head() -> Markup {
    PreEscaped(format!(
        "<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>The laboratory’s report</title>\n\
         <style>:root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}{}\n{STYLE}</style>\n</head>\n",
        style::LIGHT,
        style::DARK,
        style::CLASSES
    ))
}

/// What is true of the whole report and must not be overlooked.
fn warnings(results: &[ExperimentResults]) -> Markup {
    let is_quick = |results: &&ExperimentResults| results.scale == Scale::Quick;
    let quick = results.iter().filter(is_quick).count();
    let which = if quick == results.len() {
        "This is"
    } else {
        "Some of the experiments below are"
    };
    let text = format!(
        "{which} a look, not a result: few points, few and short samples. With --full, as much is measured as in the papers."
    );
    html! {
        @if quick > 0 { (warning("Quick", &text)) }
    }
}

fn warning(word: &str, text: &str) -> Markup {
    html! {
        p.warning { strong { (word) "." } " " (text) }
    }
}

/// Text for a reader: what stands between backticks is code.
fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    html! {
        @for (index, part) in parts.iter().enumerate() {
            @if index % 2 == 0 {
                (part)
            } @else if index + 1 == parts.len() {
                // A backtick alone.
                "`" (part)
            } @else {
                code { (part) }
            }
        }
    }
}

fn contents(results: &[ExperimentResults], names: &[String]) -> Markup {
    html! {
        nav aria-label="Contents" {
            h2 { "Contents" }
            @for (results, name) in results.iter().zip(names) {
                h3 { a href=(format!("#{name}")) { (results.title) } }
                ul.contents {
                    @for (figure, anchor) in results.figures.iter().zip(anchors(results, name)) {
                        li {
                            a href=(format!("#{anchor}")) { (figure.number) ": " (figure.title) }
                            " "
                            (badge(&state::of(&values::of(results, figure))))
                        }
                    }
                    @if results.figures.is_empty() { li { "no figures" } }
                }
            }
        }
    }
}

fn badge(state: &state::State) -> Markup {
    html! {
        span class=(format!("badge {}", state.class())) { (state.words()) }
    }
}

/// One for each figure, each different.
fn anchors(results: &ExperimentResults, name: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for figure in &results.figures {
        let mut anchor = format!("{name}-{}", super::file_name(&figure.id));
        while anchors.contains(&anchor) {
            anchor.push_str("-again");
        }
        anchors.push(anchor);
    }
    anchors
}

fn experiment(
    results: &ExperimentResults,
    name: &str,
    common: &[facts::Fact],
    is_mixed: bool,
) -> Markup {
    let mut own = facts::of(results);
    own.retain(|fact| !common.contains(fact));
    let paragraphs = results.about.split("\n\n").map(str::trim);
    html! {
        section.experiment id=(name) {
            h2 { (results.title) }
            @if !results.paper.is_empty() { p.paper-name { (results.paper) } }
            @for paragraph in paragraphs.filter(|text| !text.is_empty()) {
                p { (prose(paragraph)) }
            }
            @if let Some(why) = &results.ended_early {
                (warning("Ended early", &format!("{why}. What is missing was not measured.")))
            }
            @if let Some(why) = state::noise(results) { (warning("Noisy", &format!("{why}."))) }
            @if is_mixed && results.scale == Scale::Quick {
                (warning("Quick", "A look, not a result."))
            }
            @for note in &results.notes { p.note { "Note: " (prose(note)) } }
            p.command { "Repeat it: " code { (results.command) } }
            (facts::list(&own))
            p.downloads {
                "All of it, in files beside this page: "
                a href=(format!("data/{name}.csv")) { "samples (CSV)" }
                ", "
                a href=(format!("data/{name}.json")) { "results (JSON)" }
            }
            @for (figure, anchor) in results.figures.iter().zip(anchors(results, name)) {
                (figure::section(results, figure, &anchor))
            }
        }
    }
}

#[cfg(test)]
mod tests;
