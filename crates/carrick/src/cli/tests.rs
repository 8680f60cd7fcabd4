//! The command line's own consistency, and what its words mean.
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
        Ok(Command::Run(RunArgs { config: None }))
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
