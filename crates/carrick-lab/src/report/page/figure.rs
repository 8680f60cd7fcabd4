//! One figure in the page: picture or table, the paper's word, the comparison, the numbers.

use std::fmt::Write as _;

use super::{badge, link, prose, table};
use crate::experiment::csv;
use crate::experiment::figure::{Comparison, Figure, FigureKind};
use crate::experiment::results::{Cell, ExperimentResults};
use crate::report::check::{self, Verdict};
use crate::report::draw;
use crate::report::plot::Look;
use crate::report::state::{self, State};
use crate::report::svg::escape;
use crate::report::values::{self, Values};

pub(super) fn section(results: &ExperimentResults, figure: &Figure, anchor: &str) -> String {
    let values = values::of(results, figure);
    let state = state::of(&values);
    let mut html = format!(
        "<section class=\"figure\" id=\"{anchor}\">\n<h3>{}: {} {}</h3>\n",
        escape(&figure.number),
        escape(&figure.title),
        badge(&state)
    );
    if let Some(against) = &figure.against {
        let series = results
            .series_labels
            .get(&against.series)
            .unwrap_or(&against.series);
        let _ = writeln!(
            html,
            "<p class=\"soft\">Shown is {}.</p>",
            escape(&what_is_shown(against.how, series))
        );
    }
    html += &drawing(results, figure, &values, &state);
    html += &list(
        "missing",
        "Not drawn, or less than wanted",
        &missing(figure, &values, &state),
    );
    html += &list("missing", "To be known", &values.remarks);
    html += &paper(figure);
    html += &comparison(figure, &values);
    html += &table::numbers(results, figure, &values);
    html += &downloads(results, figure, anchor);
    html + "</section>\n"
}

fn what_is_shown(how: Comparison, series: &str) -> String {
    match how {
        Comparison::Saving => format!("what is saved against {series}: {series} minus the line"),
        Comparison::SavingPercent => {
            format!("what is saved against {series}, in percent of {series}")
        }
        Comparison::Gain => {
            format!("the gain over {series}: the line minus {series}, divided by {series}")
        }
        Comparison::Ratio => format!("the line divided by {series}"),
    }
}

fn drawing(
    results: &ExperimentResults,
    figure: &Figure,
    values: &Values<'_>,
    state: &State,
) -> String {
    if !state.has_values() {
        return format!("<p class=\"empty\">{}</p>\n", escape(&draw::reason(state)));
    }
    if figure.kind == FigureKind::Table {
        return table::whole(results, figure, values);
    }
    let mut html = String::from("<figure>\n");
    for (class, look) in [("wide", Look::WIDE), ("slim", Look::SLIM)] {
        if let Some(picture) = draw::picture(results, figure, values, look) {
            let _ = writeln!(html, "<div class=\"{class}\">{picture}</div>");
        }
    }
    html + "</figure>\n"
}

/// Where nothing was even tried, the box says all.
fn missing(figure: &Figure, values: &Values<'_>, state: &State) -> Vec<String> {
    match state {
        State::Absent => Vec::new(),
        State::Waiting(_) | State::Failed(_) => {
            let sentences = state::missing(figure, values);
            if sentences.len() > 1 {
                sentences
            } else {
                Vec::new()
            }
        }
        State::Measured | State::Partly => state::missing(figure, values),
    }
}

fn list(class: &str, heading: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let mut html = format!(
        "<div class=\"{class}\"><h4>{}</h4>\n<ul>\n",
        escape(heading)
    );
    for item in items {
        let _ = writeln!(html, "<li>{}</li>", prose(item));
    }
    html + "</ul></div>\n"
}

fn paper(figure: &Figure) -> String {
    let mut html = list("claims", "The paper says", &figure.published.claims);
    html += &table::published(figure);
    html
}

fn comparison(figure: &Figure, values: &Values<'_>) -> String {
    let judged = check::judge(figure, values);
    let has_paper = !figure.published.claims.is_empty() || !figure.published.points.is_empty();
    if judged.is_empty() {
        return if has_paper {
            String::from(
                "<p class=\"soft\">No point of this figure is compared by computation.</p>\n",
            )
        } else {
            String::new()
        };
    }
    let heading = if has_paper {
        "Ours and the paper’s"
    } else {
        "What is expected"
    };
    let mut html = format!("<div class=\"comparison\"><h4>{heading}</h4>\n<ul>\n");
    for judged in judged {
        let class = match judged.verdict {
            Verdict::Agree => "agree",
            Verdict::Differ => "differ",
            Verdict::Waits | Verdict::Unknown => "open",
        };
        let _ = write!(
            html,
            "<li class=\"{class}\"><strong>{}.</strong> {}",
            judged.verdict.word(),
            prose(&judged.sentence)
        );
        if !judged.evidence.is_empty() {
            let _ = write!(
                html,
                " <span class=\"evidence\">({})</span>",
                escape(&judged.evidence)
            );
        }
        html += "</li>\n";
    }
    html + "</ul></div>\n"
}

fn downloads(results: &ExperimentResults, figure: &Figure, anchor: &str) -> String {
    let cells: Vec<&Cell> = results
        .cells
        .iter()
        .filter(|cell| values::belongs(figure, cell))
        .collect();
    if cells.is_empty() {
        return String::new();
    }
    let mut links = link::save(
        "CSV",
        &format!("{anchor}.csv"),
        "text/csv",
        &csv::of(&cells),
    );
    // Results that were read from JSON can be written as JSON.
    if let Ok(json) = serde_json::to_string(&cells) {
        links += ", ";
        links += &link::save("JSON", &format!("{anchor}.json"), "application/json", &json);
    }
    format!("<p class=\"downloads\">All samples of this figure, out of this page: {links}</p>\n")
}
