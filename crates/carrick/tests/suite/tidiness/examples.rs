//! Examples in documents are correct: configurations, commands, make targets, names of metrics and keys.
use super::markdown::{blocks, code};
use super::{assert_none, documents, root};
use carrick::cli::args::Cli;
use carrick::config;
use carrick::config::problem::{Severity, render};
use carrick::config::tables;
use carrick::telemetry::METRICS;
use clap::Parser;
use clap::error::ErrorKind;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The directory of the examples' `users.htpasswd`.
const EXAMPLES: &str = "config";

/// Suffixes that Prometheus appends to metric names.
const SUFFIXES: [&str; 5] = ["_total", "_info", "_bucket", "_sum", "_count"];

#[test]
fn configurations_in_documents_are_right() {
    let mut complaints = Vec::new();
    let mut whole = 0;
    for document in documents() {
        for block in blocks(&document.text)
            .iter()
            .filter(|block| block.language == "toml")
        {
            let place = format!("{}:{}", document.name, block.line);
            if !block.text.contains("[[listener]]") {
                // A part of a configuration: it must at least be TOML.
                if let Err(error) = block.text.parse::<toml::Table>() {
                    complaints.push(format!("{place}: {error}"));
                }
                continue;
            }
            whole += 1;
            let problems = match config::parse(&block.text, &place, &root().join(EXAMPLES)) {
                Ok(loaded) => loaded.problems,
                Err(rejected) => rejected.problems,
            };
            if problems
                .iter()
                .any(|problem| problem.severity != Severity::Note)
            {
                complaints.push(format!("{place}:\n{}", render(&problems, false)));
            }
        }
    }
    assert_none(&complaints);
    assert!(
        whole >= 10,
        "only {whole} complete configurations were found"
    );
}

#[test]
fn commands_in_documents_exist() {
    let mut complaints = Vec::new();
    let mut checked = 0;
    for document in documents() {
        for (line, code) in code(&document.text) {
            for command in commands(&code, "carrick") {
                checked += 1;
                let words = command.iter().map(|word| word.trim_matches(['[', ']']));
                if let Err(error) = Cli::try_parse_from(words)
                    && error.exit_code() != 0
                    // A command that has subcommands may be mentioned without one.
                    && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                {
                    complaints.push(format!(
                        "{}:{line}: {}: {error}",
                        document.name,
                        command.join(" ")
                    ));
                }
            }
        }
    }
    assert_none(&complaints);
    assert!(checked >= 10, "only {checked} commands were found");
}

#[test]
fn targets_of_make_in_documents_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("the Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(target, _)| target)
        .collect();
    let mut complaints = Vec::new();
    for document in documents() {
        for (line, code) in code(&document.text) {
            for command in commands(&code, "make") {
                // Targets come first; then variables, whose values may contain spaces.
                let words = command
                    .iter()
                    .skip(1)
                    .take_while(|word| !word.contains('='));
                for target in words
                    .filter(|word| !word.starts_with('-'))
                    .filter(|target| !targets.contains(target.as_str()))
                {
                    complaints.push(format!(
                        "{}:{line}: there is no `make {target}`",
                        document.name
                    ));
                }
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn metrics_in_documents_exist() {
    let programs = bpf_programs();
    let mut complaints = Vec::new();
    for document in documents() {
        for (line, code) in code(&document.text) {
            let is_of_name = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '_');
            let names = code.split(|letter| !is_of_name(letter));
            for name in names.filter(|name| {
                name.strip_prefix("carrick_")
                    .is_some_and(|rest| !rest.is_empty())
            }) {
                let exists = METRICS.iter().any(|metric| {
                    let rest = name.strip_prefix(metric.name);
                    rest.is_some_and(|rest| rest.is_empty() || SUFFIXES.contains(&rest))
                });
                // `carrick_lab` and the like are names of crates, `carrick_rules_in` and the like of BPF programs.
                let is_crate = root().join("crates").join(name.replace('_', "-")).exists();
                if !exists && !is_crate && !programs.contains(&format!("int {name}(")) {
                    complaints.push(format!(
                        "{}:{line}: there is no metric {name}",
                        document.name
                    ));
                }
            }
        }
    }
    assert_none(&complaints);
}

/// The text of all BPF programs.
fn bpf_programs() -> String {
    let list = |folder: PathBuf| {
        let files = std::fs::read_dir(folder).expect("a folder of BPF programs");
        files.map(|file| file.expect("a file").path())
    };
    ["carrick-splice", "carrick-packet-rules"]
        .into_iter()
        .flat_map(|name| list(root().join("crates").join(name).join("bpf")))
        .flat_map(list)
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .map(|path| std::fs::read_to_string(path).expect("a program"))
        .collect()
}

#[test]
fn keys_in_documents_exist() {
    let mut complaints = Vec::new();
    for document in documents() {
        for (line, code) in code(&document.text) {
            let Some((table, key)) = code.split_once('.') else {
                continue;
            };
            let title = format!("[{table}]");
            let Some(table) = tables().into_iter().find(|table| table.title == title) else {
                continue;
            };
            if table.key(key).is_none() {
                complaints.push(format!(
                    "{}:{line}: {title} has no key {key}",
                    document.name
                ));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn documents_name_the_version_of_rust_that_is_needed() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .expect("a version");
    let wanted = format!("Rust {}", version.trim_matches('"'));
    for name in ["README.md", "docs/start.md"] {
        let text = std::fs::read_to_string(root().join(name)).expect("the document");
        assert!(text.contains(&wanted), "{name} does not say {wanted}");
    }
}

/// The calls of `program` in a line of shell, as words; up to a comment, a pipe or the next command.
fn commands(code: &str, program: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut current: Option<Vec<String>> = None;
    let mut is_first = true;
    for word in code
        .split_whitespace()
        .take_while(|word| !word.starts_with('#'))
    {
        let ends = matches!(word, "&&" | "||" | "|" | ";" | ">" | "<" | "…");
        if ends {
            commands.extend(current.take());
            is_first = true;
        } else if let Some(words) = &mut current {
            words.push(word.trim_end_matches(';').to_owned());
        } else if is_first && (word == program || word.ends_with(&format!("/{program}"))) {
            current = Some(vec![word.to_owned()]);
        } else {
            // Words before a command: `sudo`, variables.
            is_first = word == "sudo" || word.contains('=') || word == "$";
        }
    }
    commands.extend(current);
    // The bare name is the program, not a call of it; a word that begins with a capital or a digit is not a subcommand.
    commands.retain(|words| {
        words.get(1).is_some_and(|word| {
            word.starts_with(|first: char| {
                first.is_ascii_lowercase() || first == '-' || first == '['
            })
        })
    });
    commands
}

#[test]
fn commands_are_found() {
    let found = commands(
        "sudo carrick check -c a.toml && target/release/carrick run  # starts",
        "carrick",
    );
    assert_eq!(
        found,
        [
            vec!["carrick", "check", "-c", "a.toml"],
            vec!["target/release/carrick", "run"]
        ]
    );
    assert!(commands("systemctl reload carrick", "carrick").is_empty());
    assert!(commands("carrick 0.1.0 is ready", "carrick").is_empty());
    assert_eq!(
        commands("make bench BENCH=--quick", "make"),
        [vec!["make", "bench", "BENCH=--quick"]]
    );
}
