//! What a reader must know to judge and to repeat: machine, programs, seed, time.

use maud::{Markup, html};

use crate::experiment::results::ExperimentResults;
use crate::report::state;

/// A label and what is to be said.
pub(super) type Fact = (String, String);

/// Of one experiment.
pub(super) fn of(results: &ExperimentResults) -> Vec<Fact> {
    const KIB_PER_GIB: f64 = 1024.0 * 1024.0;
    let machine = &results.machine;
    let memory = machine.memory_kib as f64 / KIB_PER_GIB;
    let mut facts = vec![
        fact(
            "Processor",
            &format!("{}, {} cores", known(&machine.processor), machine.cores),
        ),
        fact("Memory", &format!("{memory:.1} GiB")),
        fact("Kernel", &format!("Linux {}", known(&machine.kernel))),
        fact("Mitigations", &machine.mitigations.join("; ")),
        fact("Congestion control", &results.congestion_control),
        fact("CPU meter", &results.meter),
        fact("Scale", &state::scale_words(results)),
        fact("Seed", &results.seed.to_string()),
        fact("Began", &moment(results.started_unix_seconds)),
        fact("Took", &duration(results.took_seconds)),
        fact("Load at the start", &machine.load_at_start),
    ];
    for (program, version) in &results.versions {
        facts.push(fact(program, version));
    }
    facts.retain(|(_, text)| !text.is_empty());
    facts
}

/// Those that are the same for all experiments, so that they are said once.
pub(super) fn common(results: &[ExperimentResults]) -> Vec<Fact> {
    let Some((first, others)) = results.split_first() else {
        return Vec::new();
    };
    let mut facts = of(first);
    for results in others {
        let theirs = of(results);
        facts.retain(|fact| theirs.contains(fact));
    }
    facts
}

/// As a list of labels and texts.
pub(super) fn list(facts: &[Fact]) -> Markup {
    html! {
        @if !facts.is_empty() {
            dl.facts {
                @for (label, text) in facts {
                    div { dt { (label) } dd { (text) } }
                }
            }
        }
    }
}

fn fact(label: &str, text: &str) -> Fact {
    (label.to_owned(), text.trim().to_owned())
}

fn known(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

fn moment(unix_seconds: u64) -> String {
    let moment = i64::try_from(unix_seconds)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    moment.map_or_else(
        || format!("{unix_seconds} seconds after the beginning of 1970"),
        |moment| moment.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

fn duration(seconds: f64) -> String {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 3600.0;
    match seconds {
        seconds if seconds >= HOUR => {
            format!(
                "{:.0} h {:.0} min",
                (seconds / HOUR).floor(),
                (seconds % HOUR / MINUTE).floor()
            )
        }
        seconds if seconds >= MINUTE => {
            format!(
                "{:.0} min {:.0} s",
                (seconds / MINUTE).floor(),
                (seconds % MINUTE).floor()
            )
        }
        seconds => format!("{seconds:.1} s"),
    }
}
