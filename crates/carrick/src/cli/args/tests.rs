//! The command line: its consistency, and how it is parsed.
use super::*;
use clap::CommandFactory;

#[test]
fn the_declaration_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn run_and_check_take_a_file() {
    for arguments in [
        ["carrick", "run", "-c", "x.toml"],
        ["carrick", "check", "--config", "x.toml"],
    ] {
        let config = match Cli::try_parse_from(arguments).map(|cli| cli.command) {
            Ok(Command::Run(run)) => run.config,
            Ok(Command::Check(check)) => check.config,
            other => panic!("{other:?}"),
        };
        assert_eq!(config, Some(PathBuf::from("x.toml")));
    }
    assert!(matches!(
        Cli::try_parse_from(["carrick", "run"]).map(|cli| cli.command),
        Ok(Command::Run(RunArgs { config: None, .. }))
    ));
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for arguments in [
        &["carrick"][..],
        &["carrick", "rum"],
        &["carrick", "run", "x.toml"],
        &["carrick", "run", "-c"],
    ] {
        let error = Cli::try_parse_from(arguments).expect_err("wrong usage");
        assert_eq!(error.exit_code(), i32::from(WRONG), "{arguments:?}");
    }
    for arguments in [["carrick", "--help"], ["carrick", "--version"]] {
        assert_eq!(
            Cli::try_parse_from(arguments)
                .expect_err("help")
                .exit_code(),
            i32::from(FINE)
        );
    }
}

#[test]
fn top_takes_a_time_and_a_number_of_reports() {
    let parse = |arguments: &[&str]| {
        let all = ["carrick", "top"].iter().chain(arguments);
        match Cli::try_parse_from(all).map(|cli| cli.command) {
            Ok(Command::Top(top)) => Ok(top),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    };
    let plain = parse(&[]).unwrap();
    assert_eq!(plain.interval, Duration::from_secs(1));
    assert_eq!(
        (plain.reports, plain.once, plain.sort),
        (None, false, Sort::Rate)
    );
    for (text, milliseconds) in [("2", 2000), ("0.5", 500), ("100ms", 100), ("1h", 3_600_000)] {
        let interval = parse(&["-i", text]).unwrap().interval;
        assert_eq!(interval, Duration::from_millis(milliseconds), "{text}");
    }
    for text in [
        "0", "0.05", "99ms", "2h", "-1", "NaN", "inf", "1e30", "fast",
    ] {
        parse(&[&format!("--interval={text}")]).expect_err(text);
    }
    assert_eq!(
        parse(&["-n", "3", "--sort", "down"]).unwrap().reports,
        Some(3)
    );
    parse(&["-n", "0"]).unwrap_err();
    parse(&["-n", "2", "--once"]).unwrap_err();
    parse(&["--sort", "size"]).unwrap_err();
}
