//! The page: one file of HTML that is also XML, with its style and pictures in it, without scripts.

mod facts;
mod figure;
mod link;
mod table;

use std::fmt::Write as _;

use crate::experiment::results::{ExperimentResults, Scale};
use crate::report::state;
use crate::report::svg::{escape, style};
use crate::report::values;

/// Of the page; the figures have theirs in `svg/style.rs`.
const STYLE: &str = include_str!("style.css");

/// Nothing may be loaded, whatever is in the page: no script, no picture, no font.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Draws the whole page; `names` are the experiments' names for anchors and for the files beside the page.
#[must_use]
pub fn render(results: &[ExperimentResults], names: &[String]) -> String {
    let common = facts::common(results);
    let mut html = head();
    html += "<body>\n<header class=\"top\">\n<h1>The laboratory’s report</h1>\n<p>Figures and tables of papers on web proxies and TCP \
             splicing, measured again on this machine, with what the papers published beside them. Filled marks and solid bars were \
             measured here; hollow grey ones are the papers’. Nothing is drawn that was not measured.</p>\n";
    html += &warnings(results);
    html += &facts::list(&common);
    html += "</header>\n";
    html += &contents(results, names);
    html += "<main>\n";
    let is_mixed = results.iter().any(|one| one.scale == Scale::Full);
    for (one, name) in results.iter().zip(names) {
        html += &experiment(one, name, &common, is_mixed);
    }
    html += "</main>\n</body>\n</html>\n";
    html
}

fn head() -> String {
    format!(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>The laboratory’s report</title>\n\
         <style>:root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}{}\n{STYLE}</style>\n</head>\n",
        style::LIGHT,
        style::DARK,
        style::CLASSES
    )
}

/// What is true of the whole report and must not be overlooked.
fn warnings(results: &[ExperimentResults]) -> String {
    let quick = results
        .iter()
        .filter(|results| results.scale == Scale::Quick)
        .count();
    let which = if quick == results.len() {
        "This is"
    } else {
        "Some of the experiments below are"
    };
    if quick == 0 {
        return String::new();
    }
    warning(
        "Quick",
        &format!(
            "{which} a look, not a result: few points, few and short samples. With --full, as much is measured as in the papers."
        ),
    )
}

fn warning(word: &str, text: &str) -> String {
    format!(
        "<p class=\"warning\"><strong>{}.</strong> {}</p>\n",
        escape(word),
        escape(text)
    )
}

/// Text for a reader: what stands between backticks is code.
fn prose(text: &str) -> String {
    let mut parts = text.split('`');
    let mut html = escape(parts.next().unwrap_or_default());
    while let Some(code) = parts.next() {
        match parts.next() {
            Some(rest) => {
                let _ = write!(html, "<code>{}</code>{}", escape(code), escape(rest));
            }
            // A backtick alone.
            None => {
                let _ = write!(html, "`{}", escape(code));
            }
        }
    }
    html
}

fn contents(results: &[ExperimentResults], names: &[String]) -> String {
    let mut html = String::from("<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n");
    for (results, name) in results.iter().zip(names) {
        let _ = writeln!(
            html,
            "<h3><a href=\"#{name}\">{}</a></h3>\n<ul class=\"contents\">",
            escape(&results.title)
        );
        for (figure, anchor) in results.figures.iter().zip(anchors(results, name)) {
            let state = state::of(&values::of(results, figure));
            let _ = writeln!(
                html,
                "<li><a href=\"#{anchor}\">{}: {}</a> {}</li>",
                escape(&figure.number),
                escape(&figure.title),
                badge(&state)
            );
        }
        if results.figures.is_empty() {
            html += "<li>no figures</li>\n";
        }
        html += "</ul>\n";
    }
    html + "</nav>\n"
}

fn badge(state: &state::State) -> String {
    format!(
        "<span class=\"badge {}\">{}</span>",
        state.class(),
        escape(&state.words())
    )
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
) -> String {
    let mut html = format!(
        "<section class=\"experiment\" id=\"{name}\">\n<h2>{}</h2>\n",
        escape(&results.title)
    );
    if !results.paper.is_empty() {
        let _ = writeln!(
            html,
            "<p class=\"paper-name\">{}</p>",
            escape(&results.paper)
        );
    }
    for paragraph in results
        .about
        .split("\n\n")
        .filter(|text| !text.trim().is_empty())
    {
        let _ = writeln!(html, "<p>{}</p>", prose(paragraph.trim()));
    }
    if let Some(why) = &results.ended_early {
        html += &warning(
            "Ended early",
            &format!("{why}. What is missing was not measured."),
        );
    }
    if let Some(why) = state::noise(results) {
        html += &warning("Noisy", &format!("{why}."));
    }
    if is_mixed && results.scale == Scale::Quick {
        html += &warning("Quick", "A look, not a result.");
    }
    for note in &results.notes {
        let _ = writeln!(html, "<p class=\"note\">Note: {}</p>", prose(note));
    }
    let _ = writeln!(
        html,
        "<p class=\"command\">Repeat it: <code>{}</code></p>",
        escape(&results.command)
    );
    let own: Vec<facts::Fact> = facts::of(results)
        .into_iter()
        .filter(|fact| !common.contains(fact))
        .collect();
    html += &facts::list(&own);
    let _ = writeln!(
        html,
        "<p class=\"downloads\">All of it, in files beside this page: <a href=\"data/{name}.csv\">samples (CSV)</a>, \
         <a href=\"data/{name}.json\">results (JSON)</a></p>"
    );
    for (figure, anchor) in results.figures.iter().zip(anchors(results, name)) {
        html += &figure::section(results, figure, &anchor);
    }
    html + "</section>\n"
}

#[cfg(test)]
mod tests;
