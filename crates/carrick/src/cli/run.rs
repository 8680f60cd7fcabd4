//! `carrick run`: reports problems of the configuration or the system, and how the run ended.
use super::check::report;
use crate::cli::args::{FAILED, FINE, RunArgs, WRONG};
use crate::run::{RunError, run as run_program};
use crate::telemetry::messages;
use std::process::ExitCode;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Runs the proxy until a signal ends it.
#[must_use]
pub fn run(arguments: &RunArgs) -> ExitCode {
    start_messages();
    match run_program(arguments.source()) {
        Ok(()) => ExitCode::from(FINE),
        Err(RunError::Configuration(rejected)) => {
            report(&rejected.problems);
            ExitCode::from(WRONG)
        }
        Err(error @ RunError::System(_)) => {
            messages::tell(&format!("carrick: {error}\n"));
            ExitCode::from(FAILED)
        }
    }
}

/// The environment variable that selects messages.
const VARIABLE: &str = "CARRICK_LOG";

/// Sends the program's messages to standard error.
fn start_messages() {
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    let (filter, trouble) = match filter(&wanted) {
        Ok(filter) => (filter, None),
        Err(why) => (usual(), Some(why)),
    };
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    // Without standard error there is nobody to tell.
    let messages = messages::standard_error().map(|messages| {
        tracing_subscriber::fmt::layer()
            .with_writer(move || messages)
            .with_ansi(is_terminal)
            .with_target(false)
    });
    tracing_subscriber::registry()
        .with(messages)
        .with(filter)
        .init();
    if let Some(why) = trouble {
        tracing::warn!(
            "ignoring {VARIABLE}: {why}; use error, warn, info, debug, trace or off, or a list such as carrick=debug,info"
        );
    }
}

/// The default level.
const LEVEL: LevelFilter = LevelFilter::INFO;

/// What is logged without the variable. The library of HTTP/2 warns of each frame that a client should not have sent.
fn usual() -> Targets {
    Targets::new()
        .with_default(LEVEL)
        .with_target("h2", LevelFilter::ERROR)
}

/// Parses a list of levels, with or without parts of the program.
fn filter(wanted: &str) -> Result<Targets, String> {
    if wanted.is_empty() {
        return Ok(usual());
    }
    // A single word that is not a level would be taken for a part of the program, and hide everything else.
    let mut words = wanted.split(',').filter(|part| !part.contains('='));
    let wrong = words.find(|word| word.trim().parse::<LevelFilter>().is_err());
    if let Some(word) = wrong {
        return Err(format!("{word:?} is not a level"));
    }
    wanted
        .parse()
        .map_err(|error: tracing_subscriber::filter::ParseError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn a_wrong_level_does_not_silence_the_log() {
        for right in [
            "",
            "info",
            "DEBUG",
            "off",
            "carrick=debug,info",
            "info,carrick_splice=trace",
        ] {
            assert!(filter(right).is_ok(), "{right}");
        }
        for wrong in ["debgu", "carrick", "info,carick", "carrick=loud"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn clients_cannot_make_the_library_of_http2_warn_unless_that_is_wanted() {
        for (wanted, warns) in [("", false), ("info", true)] {
            let filter = filter(wanted).expect("levels");
            let is_logged = filter.would_enable("h2::proto", &tracing::Level::WARN);
            assert_eq!(is_logged, warns, "{wanted}");
        }
    }
}
