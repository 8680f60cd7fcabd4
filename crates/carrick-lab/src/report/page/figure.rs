//! One figure in the page: picture or table, the paper's word, the comparison, the numbers.

use maud::{Markup, PreEscaped, html};

use super::{badge, link, prose, table};
use crate::experiment::csv;
use crate::experiment::figure::{Comparison, Figure, FigureKind};
use crate::experiment::results::{Cell, ExperimentResults};
use crate::report::check::{self, Verdict};
use crate::report::draw;
use crate::report::plot::Look;
use crate::report::state::{self, State};
use crate::report::values::{self, Values};

pub(super) fn section(results: &ExperimentResults, figure: &Figure, anchor: &str) -> Markup {
    let values = values::of(results, figure);
    let state = state::of(&values);
    let label = |series: &String| results.series_labels.get(series).unwrap_or(series).clone();
    let missing = missing(figure, &values, &state);
    html! {
        section.figure id=(anchor) {
            h3 { (figure.number) ": " (figure.title) " " (badge(&state)) }
            @if let Some(against) = &figure.against {
                p.soft { "Shown is " (what_is_shown(against.how, &label(&against.series))) "." }
            }
            (drawing(results, figure, &values, &state))
            (list("missing", "Not drawn, or less than wanted", &missing))
            (list("missing", "To be known", &values.remarks))
            (list("claims", "The paper says", &figure.published.claims))
            (table::published(figure))
            (comparison(figure, &values))
            (table::numbers(results, figure, &values))
            (downloads(results, figure, anchor))
        }
    }
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
) -> Markup {
    if !state.has_values() {
        return html! { p.empty { (draw::reason(state)) } };
    }
    if figure.kind == FigureKind::Table {
        return table::whole(results, figure, values);
    }
    html! {
        figure {
            @for (class, look) in [("wide", Look::WIDE), ("slim", Look::SLIM)] {
                @if let Some(picture) = draw::picture(results, figure, values, look) {
                    div class=(class) { (PreEscaped(picture)) }
                }
            }
        }
    }
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

fn list(class: &str, heading: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            div class=(class) {
                h4 { (heading) }
                ul { @for item in items { li { (prose(item)) } } }
            }
        }
    }
}

fn comparison(figure: &Figure, values: &Values<'_>) -> Markup {
    let judged = check::judge(figure, values);
    let has_paper = !figure.published.claims.is_empty() || !figure.published.points.is_empty();
    let class = |verdict: &Verdict| match verdict {
        Verdict::Agree => "agree",
        Verdict::Differ => "differ",
        Verdict::Waits | Verdict::Unknown => "open",
    };
    html! {
        @if !judged.is_empty() {
            div.comparison {
                h4 { @if has_paper { "Ours and the paper’s" } @else { "What is expected" } }
                ul {
                    @for judged in judged {
                        li class=(class(&judged.verdict)) {
                            strong { (judged.verdict.word()) "." }
                            " " (prose(&judged.sentence))
                            @if !judged.evidence.is_empty() {
                                " " span.evidence { "(" (judged.evidence) ")" }
                            }
                        }
                    }
                }
            }
        } @else if has_paper {
            p.soft { "No point of this figure is compared by computation." }
        }
    }
}

fn downloads(results: &ExperimentResults, figure: &Figure, anchor: &str) -> Markup {
    let all = results.cells.iter();
    let cells: Vec<&Cell> = all.filter(|cell| values::belongs(figure, cell)).collect();
    let csv = csv::of(&cells);
    html! {
        @if !cells.is_empty() {
            p.downloads {
                "All samples of this figure, out of this page: "
                (link::save("CSV", &format!("{anchor}.csv"), "text/csv", &csv))
                // Results that were read from JSON can be written as JSON.
                @if let Ok(json) = serde_json::to_string(&cells) {
                    ", "
                    (link::save("JSON", &format!("{anchor}.json"), "application/json", &json))
                }
            }
        }
    }
}
